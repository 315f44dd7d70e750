// Two callers of one enclave, one of whom is hostile in eleven ways, one after the other. Of the other, no request may fail, and the
// median may take at most twice as long as in quiet.
//   node packages/confidential-http/test/hostile/run.mjs [WAY …] [--seconds N]
import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ConfidentialHTTPClient, createKeys, createRemoteRuntime } from '@sluice/confidential-http'
import { createVault } from '@sluice/confidential-http/vault'
import { createCertificateAuthority, startHTTPSServer } from '@sluice/engine'

const ways = {
  dns: 'names whose server never answers',
  chunks: 'answers in chunks of one byte',
  records: 'answers in TLS records of one byte',
  slow: 'answers that come byte by byte',
  bomb: 'answers that inflate to 200 MB',
  redirect: 'redirects',
  sizes: 'requests and answers as large as they may be',
  templates: 'two thousand placeholders a request',
  plain: 'as many quick requests as it can send',
  impatient: 'the same, at once again after each refusal',
  strangers: 'messages of nobody, each on a connection of its own',
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '10' },
    'at-once': { type: 'string', default: '64' },
  },
})
const seconds = Number(values.seconds)
/** How long the other is measured in quiet before and after each way, in milliseconds. */
const quietMs = Math.min(10, seconds / 2) * 1000
const median = list => [...list].sort((one, other) => one - other)[Math.floor(list.length / 2)]
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

const started = []
function start(file, message) {
  const child = fork(new URL(file, import.meta.url), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  started.push(child)
  if (message !== undefined) child.send(message)
  return child
}
const hear = child => new Promise(resolve => child.once('message', resolve))

const folder = mkdtempSync(join(tmpdir(), 'hostile-'))
try {
  const vault = await createVault(join(folder, 'vault'))
  await vault.put({ key: 'apiKey' }, 'the-secret', { policy: 'anywhere' })
  const [enclaveKeys, own, hostile] = [createKeys(), createKeys(), createKeys()]
  const { ca, issue } = await createCertificateAuthority()
  const good = await startHTTPSServer()
  const upstream = start('./upstream.mjs', issue({ hosts: ['localhost'] }))
  const { port, dns } = await hear(upstream)
  const enclave = start('./enclave.mjs', {
    secretKey: enclaveKeys.secretKey,
    callers: { [own.publicKey]: vault.owner, [hostile.publicKey]: '22'.repeat(20) },
    vault: join(folder, 'vault'),
    dns: `127.0.0.1:${dns}`,
  })
  const { url } = await hear(enclave)
  const runtimeOf = callerSecretKey => ({
    url,
    enclavePublicKey: enclaveKeys.publicKey,
    callerSecretKey,
  })
  const runtime = createRemoteRuntime(runtimeOf(own.secretKey))
  const client = new ConfidentialHTTPClient()
  const input = {
    vaultDonSecrets: [{ key: 'apiKey' }],
    request: {
      ...{ url: good.url, method: 'GET', customRootCaCertPem: good.ca, timeout: '9s' },
      multiHeaders: { Authorization: { values: ['Bearer {{.apiKey}}'] } },
    },
  }

  /** Makes a request after the other for so long. */
  async function measure(ms) {
    const times = []
    const failures = []
    for (const end = performance.now() + ms; performance.now() < end; await pause(20)) {
      const begun = performance.now()
      try {
        const { statusCode } = await client.sendRequestAsync(runtime, input)
        if (statusCode !== 200) failures.push(String(statusCode))
      } catch (error) {
        failures.push(`${error.code} ${error.message}`)
      }
      times.push(performance.now() - begun)
    }
    return { p50: median(times), most: Math.max(...times), count: times.length, failures }
  }

  await measure(2000)
  let isRed = false
  for (const way of positionals.length > 0 ? positionals : Object.keys(ways)) {
    const quiet = await measure(quietMs)
    const attacker = start('./attacker.mjs', {
      ...{ way, ca, api: `https://localhost:${port}/`, atOnce: Number(values['at-once']) },
      runtime: runtimeOf(hostile.secretKey),
    })
    await pause(1500)
    const attacked = await measure(seconds * 1000)
    attacker.send('end')
    const outcomes = await hear(attacker)
    attacker.kill()
    const again = await measure(quietMs)
    const ratio = attacked.p50 / Math.min(quiet.p50, again.p50)
    const isBad = attacked.failures.length > 0 || ratio > 2
    isRed ||= isBad
    console.log(
      `${isBad ? 'BAD ' : 'ok  '} ${way.padEnd(10)} p50 ${attacked.p50.toFixed(1)} ms, quiet ${quiet.p50.toFixed(1)} and ${again.p50.toFixed(1)} ms: ${ratio.toFixed(2)} times; longest ${attacked.most.toFixed(0)} ms; ${attacked.failures.length} of ${attacked.count} failed${attacked.failures.length > 0 ? `, such as ${attacked.failures[0]}` : ''}; the hostile one: ${JSON.stringify(outcomes)}`,
    )
  }
  process.exitCode = isRed ? 1 : 0
} finally {
  for (const child of started) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
}
process.exit()
