// What a user's tests do with the installed package, whichever way they load it: `packages` are its entries.
const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { reports } = require('../published-reports.json')

module.exports = function defineTests({ sluice, local, confidential, vaults }) {
  const { createClient, decodeReport, isStreamsError, verifyReport } = sluice
  let engine
  let client
  let feeds

  function connectionOf({ endpoint, wsEndpoint, apiKey, userSecret }) {
    return { endpoint, wsEndpoint, apiKey, userSecret }
  }

  beforeAll(async () => {
    engine = await local.startDataEngine({ intervalMs: 200 })
    feeds = engine.feeds.slice(0, 2)
    client = createClient(connectionOf(engine))
  })

  afterAll(async () => {
    await client?.close()
    await engine?.close()
  })

  test('requests reports', async () => {
    const latest = await client.getLatestReport(feeds[0])
    expect(latest.feedID).toBe(feeds[0])
    expect(typeof latest.decoded.price).toBe('bigint')
    const at = latest.observationsTimestamp
    expect((await client.getReportByTimestamp(feeds[0], at)).observationsTimestamp).toBe(at)
    const page = await client.getReportsPage(feeds[0], at - 5, 3)
    expect(page.map(({ feedID }) => feedID)).toContain(feeds[0])
    const bulk = await client.getReportsBulk(feeds, at)
    expect(bulk.map(({ feedID }) => feedID).sort()).toEqual([...feeds].sort())
    expect((await client.listFeeds()).map(({ feedID }) => feedID)).toEqual(
      expect.arrayContaining(feeds),
    )
  })

  test('rejects with typed errors', async () => {
    const stranger = createClient({ ...connectionOf(engine), userSecret: 'wrong' })
    const error = await stranger.getLatestReport(feeds[0]).catch(thrown => thrown)
    expect(error).toBeInstanceOf(sluice.AuthenticationError)
    expect(error).toBeInstanceOf(Error)
    expect(isStreamsError(error, 'AUTHENTICATION')).toBe(true)
    await stranger.close()
    await expect(client.getLatestReport('0x12')).rejects.toThrow(sluice.ValidationError)
    const controller = new AbortController()
    const waiting = client.getLatestReport(feeds[0], { signal: controller.signal })
    controller.abort()
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' })
  })

  test('hands the reports of a stream to handlers', async () => {
    const stream = client.createStream(feeds)
    const arrived = new Promise((resolve, reject) => {
      stream.on('report', resolve)
      stream.on('error', reject)
    })
    await stream.connect()
    const report = await arrived
    expect(feeds).toContain(report.feedID)
    expect(report.decoded.version).toBe('V3')
    await stream.close()
  })

  test('loops over the reports of a stream', async () => {
    const stream = client.createStream(feeds)
    const seen = []
    for await (const report of stream) {
      seen.push(report.feedID)
      if (seen.length === 3) break
    }
    expect(feeds).toEqual(expect.arrayContaining(seen))
    await stream.close()
  })

  test('decodes published reports', () => {
    for (const { fullReport, feedID, version, decoded } of reports) {
      const actual = decodeReport(fullReport, feedID)
      expect(actual.version).toBe(version)
      for (const [name, value] of Object.entries(decoded)) expect(String(actual[name])).toBe(value)
    }
  })

  test('verifies reports, alone and in the threads of a client', async () => {
    const { network: signers } = engine
    const { fullReport } = await client.getLatestReport(feeds[0])
    const verified = await verifyReport(fullReport, { signers, feedID: feeds[0] })
    expect(verified.signers.length).toBeGreaterThan(signers.f)
    for (const engineName of ['noble', 'auto'])
      await expect(
        verifyReport(fullReport, {
          signers: { ...signers, signers: signers.signers.map(fake) },
          curveLibrary: engineName,
        }),
      ).rejects.toThrow(sluice.ReportVerificationError)
    const verifying = createClient({
      ...connectionOf(engine),
      verify: { signers, curveLibrary: 'noble', workers: 1 },
    })
    expect((await verifying.getLatestReport(feeds[0])).feedID).toBe(feeds[0])
    await verifying.close()
  })

  if (confidential === undefined) return
  test('keeps a secret in the thread of an enclave, and in an enclave elsewhere', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-consumer-'))
    const vault = await vaults.createVault(join(folder, 'vault'))
    await vault.put({ key: 'token' }, 'of-the-consumer', { policy: 'anywhere' })
    const api = await local.startHTTPSServer({
      handler: (request, response) => void response.end(request.headers.authorization),
    })
    const [keys, caller] = [confidential.createKeys(), confidential.createKeys()]
    const server = await confidential.startEnclaveServer({
      vault: vault.directory,
      secretKey: keys.secretKey,
      callers: { [caller.publicKey]: vault.owner },
      network: { loopback: true },
    })
    const { url, publicKey: enclavePublicKey } = server
    const runtimes = [
      confidential.createLocalRuntime({ vault }),
      confidential.createRemoteRuntime({
        url,
        enclavePublicKey,
        callerSecretKey: caller.secretKey,
      }),
    ]
    try {
      for (const runtime of runtimes) {
        const request = {
          url: api.url,
          method: 'GET',
          multiHeaders: { Authorization: { values: ['{{.token}}'] } },
          customRootCaCertPem: api.ca,
          timeout: '10s',
        }
        const response = await new confidential.ConfidentialHTTPClient().sendRequestAsync(runtime, {
          vaultDonSecrets: [{ key: 'token' }],
          request,
        })
        expect(confidential.text(response)).toBe('of-the-consumer')
      }
    } finally {
      for (const runtime of runtimes) await runtime.close()
      await server.close()
      await api.close()
      rmSync(folder, { recursive: true })
    }
  })
}

function fake(address) {
  return `0x${[...address.slice(2)].reverse().join('')}`
}
