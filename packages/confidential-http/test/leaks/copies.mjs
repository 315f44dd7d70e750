// Counts the copies of a secret that can be read in the memory of an enclave's process, for `npm run leaks -- copies`, and for
// ten requests `npm run leaks`. More than the bounds allow are a failure.
import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, release, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ConfidentialHTTPClient, createKeys, createRemoteRuntime } from '@sluice/confidential-http'
import { createVault } from '@sluice/confidential-http/vault'
import { startHTTPSServer } from '@sluice/engine'
import { CopyCounter } from './memory.mjs'

/** The quiet while after which the thread is replaced, in milliseconds: a minute by default, and here a few seconds. */
const QUIET_MS = Number(process.env.QUIET_MS ?? 4000)
/** How long a replacement may take on a slow machine. */
const PATIENCE_MS = 20_000
/** The most copies that may be left after the quiet while. A few pieces lie in memory that only Node and OpenSSL write to. */
const maxLeft = requests => (requests > 10 ? 24 : 8)
/**
 * The most copies of ten requests before that. Basic authentication holds the secret in two forms:
 * up to 85 copies were counted, and 90 with three places of wiping left out. What `maxLeft` counts
 * tells these two apart, so this bound only stops growth.
 */
const mostOfTen = way => (way === 'basicAuth' ? 120 : 80)

const policy = 'anywhere'
const AES_KEY = 'san_marino_aes_gcm_encryption_key'

/** The ways in which a request uses the secret. The last one has the API repeat it, and the answer encrypted. */
const ways = {
  header: { multiHeaders: { 'x-api-key': { values: ['{{.apiKey}}'] } } },
  body: { method: 'POST', bodyString: '{"key":{{json .apiKey}}}' },
  basicAuth: { multiHeaders: { authorization: { values: ['Basic {{basicAuth .user .apiKey}}'] } } },
  encryptOutput: {
    path: '/echo',
    multiHeaders: { 'x-api-key': { values: ['{{.apiKey}}'] } },
    encryptOutput: true,
  },
}

function inputOf(way, { url, ca }) {
  const { path = '/', ...request } = ways[way]
  return {
    vaultDonSecrets: [
      { key: 'apiKey' },
      ...(way === 'basicAuth' ? [{ key: 'user' }] : []),
      ...(way === 'encryptOutput' ? [{ key: AES_KEY }] : []),
    ],
    request: {
      url: `${url}${path}`,
      method: 'GET',
      timeout: '10s',
      customRootCaCertPem: btoa(ca),
      ...request,
    },
  }
}

/** Starts an enclave in a process of its own. */
async function startEnclave(kind, vault) {
  const [key, caller] = [createKeys(), createKeys()]
  const options = {
    vault: vault.directory,
    network: { loopback: true },
    renewAfter: { quietMs: QUIET_MS },
    ...(kind === 'local'
      ? {}
      : { secretKey: key.secretKey, callers: { [caller.publicKey]: vault.owner } }),
  }
  const child = fork(fileURLToPath(new URL('./copies-process.mjs', import.meta.url)), {
    execArgv: [],
    env: { PATH: process.env.PATH, ENCLAVE: JSON.stringify({ kind, options }) },
  })
  const said = () =>
    Promise.race([
      once(child, 'message').then(([message]) => message),
      once(child, 'exit').then(([code]) => {
        throw new Error(`the process of the enclave ended with ${code}`)
      }),
    ])
  const { url } = await said()
  const client = new ConfidentialHTTPClient()
  const remote =
    kind === 'local'
      ? undefined
      : createRemoteRuntime({
          url,
          enclavePublicKey: key.publicKey,
          callerSecretKey: caller.secretKey,
        })
  return {
    pid: child.pid,
    async send(inputs) {
      if (remote === undefined) {
        const done = said()
        child.send({ inputs })
        await done
      } else for (const input of inputs) await client.sendRequestAsync(remote, input)
    },
    async close() {
      await remote?.close()
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}

/** Counts again until the thread was replaced: the count falls once its memory is gone. */
async function countLater(counter, pid, most) {
  await pause(QUIET_MS)
  const end = performance.now() + PATIENCE_MS
  for (;;) {
    const left = counter.count(pid)
    if (left.length <= most || performance.now() > end) return left
    await pause(1000)
  }
}

function describe(copies) {
  const byForm = new Map()
  for (const { form } of copies) byForm.set(form, (byForm.get(form) ?? 0) + 1)
  return [...byForm].map(([form, count]) => `${count} ${form}`).join(', ')
}

/** Counts copies for each kind of enclave, way and number of requests. Returns rows of a table. */
export async function countCopies({ counts, kinds = ['server', 'local'] }) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-copies-'))
  const vault = await createVault(join(folder, 'vault'))
  const upstream = await startHTTPSServer({
    handler(request, response) {
      request.resume()
      request.on('end', () =>
        response.end(request.url === '/echo' ? request.headers['x-api-key'] : '{"ok":true}'),
      )
    },
  })
  await vault.put({ key: 'user' }, 'someone', { policy })
  await vault.put({ key: AES_KEY }, randomBytes(32).toString('hex'), { policy })
  const rows = []
  try {
    for (const kind of kinds)
      for (const way of Object.keys(ways))
        for (const requests of counts) {
          // As long as an API key is.
          const secret = randomBytes(60).toString('base64').replace(/\W/g, '').slice(0, 40)
          await vault.put({ key: 'apiKey' }, secret, { policy })
          const counter = new CopyCounter(secret)
          const enclave = await startEnclave(kind, vault)
          try {
            await enclave.send(Array(requests).fill(inputOf(way, upstream)))
            const now = counter.count(enclave.pid)
            const later = await countLater(counter, enclave.pid, maxLeft(requests))
            const isBad =
              later.length > maxLeft(requests) || (requests === 10 && now.length > mostOfTen(way))
            rows.push({
              enclave: kind,
              way,
              requests,
              copies: now.length,
              forms: describe(now),
              'after a quiet while': later.length,
              verdict: isBad ? 'FAIL' : 'ok',
            })
            const { copies, 'after a quiet while': left } = rows.at(-1)
            console.log(`${kind}, ${way}, ${requests} requests: ${copies} copies, then ${left}`)
          } finally {
            await enclave.close()
          }
        }
  } finally {
    await upstream.close()
    rmSync(folder, { recursive: true, force: true })
  }
  return rows
}

/** The machine that the figures are of. */
export function machine() {
  const [{ model } = {}] = cpus()
  return `Node ${process.version}, ${process.platform} ${release()}, ${cpus().length} cores (${model})`
}

/** Counts, prints, and returns the number of rows above the bounds. */
export async function reportCopies(options) {
  const rows = await countCopies(options)
  console.table(rows)
  console.log(`${machine()}; a quiet while of ${QUIET_MS} ms`)
  return rows.filter(({ verdict }) => verdict === 'FAIL').length
}
