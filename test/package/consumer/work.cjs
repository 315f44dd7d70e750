// What a program does with the installed package, whichever way it loads it: `load` is import or require.
const assert = require('node:assert/strict')
const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const manifests = [
  require('sluice/package.json'),
  require('@sluice/engine/package.json'),
  require('@sluice/confidential-http/package.json'),
  require('@sluice/nats/package.json'),
]
const { reports } = require('./published-reports.json')

/** Entries that stand for a package which their user installs. */
const peers = {
  'sluice/plugins/opentelemetry': '@opentelemetry/api',
  'sluice/plugins/prometheus': 'prom-client',
  '@sluice/engine/jest': 'jest-environment-node',
}
/** What a test runner loads: it takes the default export. */
const ofRunners = ['@sluice/engine/vitest']
const entries = manifests
  .flatMap(({ name, exports }) =>
    Object.keys(exports)
      .filter(entry => entry !== './package.json')
      .map(entry => name + entry.slice(1)),
  )
  .filter(entry => !(entry in peers))

/** Every entry loads, and holds something; one whose package is not there says which. */
async function loadAll(load) {
  for (const entry of entries) {
    const names = Object.keys(await load(entry))
    const isProgram = entry.endsWith('/verify/thread')
    assert.equal(names.length > 0, !isProgram, `${entry} has ${names.length} exports`)
    assert.equal(names.includes('default'), ofRunners.includes(entry), `${entry}: default export`)
  }
  for (const [entry, name] of Object.entries(peers))
    await assert.rejects(async () => load(entry), {
      code: /^(ERR_)?MODULE_NOT_FOUND$/,
      message: new RegExp(`'${name}'`),
    })
  await assert.rejects(async () => load('sluice/client/errors.js'), {
    code: 'ERR_PACKAGE_PATH_NOT_EXPORTED',
  })
}

async function decodeAll(load) {
  const { decodeReport } = await load('sluice')
  const { createDecodeReport } = await load('sluice/client')
  const { v3 } = await load('sluice/plugins/decoders')
  const { v4 } = await load('sluice/plugins/decoders')
  assert.ok(reports.length > 0)
  for (const decode of [decodeReport, createDecodeReport([v3, v4])]) {
    for (const { fullReport, feedID, version, decoded } of reports) {
      const actual = decode(fullReport, feedID)
      assert.equal(actual.version, version)
      for (const [name, value] of Object.entries(decoded))
        assert.equal(String(actual[name]), value, name)
    }
  }
}

/** A request and a stream, on real sockets. */
async function talk(load) {
  const { createClient, isStreamsError } = await load('sluice')
  const { startDataEngine } = await load('@sluice/engine')
  const engine = await startDataEngine({ intervalMs: 50 })
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  const feedID = engine.feeds.find(id => id.startsWith('0x0003'))
  const client = createClient({ endpoint, wsEndpoint, apiKey, userSecret })
  try {
    const latest = await client.getLatestReport(feedID)
    assert.equal(latest.feedID, feedID)
    assert.equal(typeof latest.decoded.price, 'bigint')

    const stream = client.createStream([feedID])
    const arrived = new Promise((resolve, reject) => {
      stream.on('report', resolve)
      stream.on('error', reject)
    })
    await stream.connect()
    const report = await arrived
    assert.equal(report.feedID, feedID)
    assert.equal(report.decoded.version, 'V3')
    await stream.close()

    const stranger = createClient({ endpoint, wsEndpoint, apiKey, userSecret: 'wrong' })
    await assert.rejects(stranger.listFeeds(), error => isStreamsError(error, 'AUTHENTICATION'))
    await stranger.close()
  } finally {
    await client.close()
    await engine.close()
  }
}

/** A confidential request, through a thread and through a server, each way of waiting for it. */
async function talkInConfidence(load) {
  const { startHTTPSServer } = await load('@sluice/engine')
  const { createVault } = await load('@sluice/confidential-http/vault')
  const confidential = await load('@sluice/confidential-http')
  const { ConfidentialHTTPClient, createKeys, text } = confidential
  const folder = mkdtempSync(join(tmpdir(), 'sluice-consumer-'))
  const vault = await createVault(join(folder, 'vault'))
  await vault.put({ key: 'token' }, 'of-the-consumer', { policy: 'anywhere' })
  const api = await startHTTPSServer({
    handler: (request, response) =>
      void response.end(request.headers.authorization === 'of-the-consumer' ? 'right' : 'wrong'),
  })
  const keys = createKeys()
  const caller = createKeys()
  const server = await confidential.startEnclaveServer({
    vault: vault.directory,
    secretKey: keys.secretKey,
    callers: { [caller.publicKey]: vault.owner },
    network: { loopback: true },
  })
  const { url, publicKey: enclavePublicKey } = server
  const runtimes = [
    confidential.createLocalRuntime({ vault }),
    confidential.createRemoteRuntime({ url, enclavePublicKey, callerSecretKey: caller.secretKey }),
  ]
  try {
    for (const runtime of runtimes) {
      const response = await new ConfidentialHTTPClient().sendRequestAsync(runtime, {
        vaultDonSecrets: [{ key: 'token' }],
        request: {
          url: api.url,
          method: 'GET',
          multiHeaders: { Authorization: { values: ['{{.token}}'] } },
          customRootCaCertPem: api.ca,
          timeout: '10s',
        },
      })
      assert.equal(text(response), 'right')
    }
    const blocked = { request: { url: 'http://127.0.0.1/', method: 'GET', timeout: '10s' } }
    const reply = new ConfidentialHTTPClient().sendRequest(runtimes[0], blocked)
    assert.equal(reply.result().statusCode, 400)
    assert.equal(reply.result(), reply.result())
  } finally {
    for (const runtime of runtimes) await runtime.close()
    await server.close()
    await api.close()
    rmSync(folder, { recursive: true })
  }
}

exports.entries = entries
exports.talk = talk
exports.work = async function work(load) {
  await loadAll(load)
  await decodeAll(load)
  await talk(load)
  await talkInConfidence(load)
}
