import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import { type HTTPSServer, startHTTPSServer } from '@sluice/engine'
import { failureOf } from '@sluice/test-support/waiting.js'
import {
  type AuditHead,
  type AuditRecord,
  ConfidentialHTTPClient,
  createKeys,
  createRemoteRuntime,
  type EnclaveServer,
  type EnclaveServerOptions,
  type Runtime,
  startEnclaveServer,
  verifyAudit,
} from '../../index.js'
import { createVault } from '../../vault/create-vault.js'
import type { Vault } from '../../vault/vault.js'

const SECRET = 'sk-live-audited-x9q7'
const client = new ConfidentialHTTPClient()
const keys = createKeys()
const [caller, quiet] = [createKeys(), createKeys()]
let folder: string
let vault: Vault
let api: HTTPSServer
let server: EnclaveServer
let records: AuditRecord[] = []
let heads: AuditHead[] = []
/** The runtime of each caller. */
const runtimes = new Map<string, Runtime>()

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-audited-'))
  vault = await createVault(join(folder, 'vault'), { holders: 1 })
  await vault.put({ key: 'apiKey' }, SECRET, { policy: 'anywhere' })
  api = await startHTTPSServer({
    handler: (request, response) => void request.resume().on('end', () => response.end(SECRET)),
  })
})
afterEach(async () => {
  await Promise.all([...runtimes.values()].map(each => each.close()))
  runtimes.clear()
  await server.close()
})
afterAll(async () => {
  await api.close()
  rmSync(folder, { recursive: true, force: true })
})

const file = (): string => join(folder, 'audit.jsonl')

async function start(options: Partial<EnclaveServerOptions> = {}): Promise<void> {
  records = []
  heads = []
  server = await startEnclaveServer({
    vault: vault.directory,
    secretKey: keys.secretKey,
    callers: { [caller.publicKey]: vault.owner, [quiet.publicKey]: vault.owner },
    network: { loopback: true },
    limits: { maxTimeout: 90_000 },
    audit: {
      file: file(),
      onRecord(line, head) {
        records.push(JSON.parse(line))
        heads.push(head)
      },
    },
    ...options,
  })
}

async function ask(callerSecretKey = caller.secretKey, key = 'apiKey'): Promise<number> {
  const runtime =
    runtimes.get(callerSecretKey) ??
    createRemoteRuntime({
      url: server.url,
      enclavePublicKey: keys.publicKey,
      callerSecretKey,
      defaultTimeout: 90_000,
    })
  runtimes.set(callerSecretKey, runtime)
  const { statusCode } = await client.sendRequestAsync(runtime, {
    vaultDonSecrets: [{ key }],
    request: {
      url: `${api.url}/path?q=${SECRET}`,
      method: 'POST',
      bodyString: `{{.${key}}}`,
      customRootCaCertPem: api.ca,
      templatePublicValues: { x: SECRET },
    },
  })
  return statusCode
}

test('an enclave records the requests of its callers, names and no values, and nothing of strangers', async () => {
  await start()
  expect(await ask()).toBe(200)
  expect((await failureOf(ask(caller.secretKey, 'unknown'))).code).toBe('VAULT')
  await failureOf(ask(createKeys().secretKey))
  await server.close()
  expect(records.map(({ type }) => type)).toEqual([
    ...['start', 'request', 'answer', 'request', 'answer', 'stop'],
  ])
  expect(records[1]).toMatchObject({
    caller: caller.publicKey,
    owner: vault.owner,
    secrets: ['main/apiKey'],
    method: 'POST',
    host: new URL(api.url).host,
  })
  expect(records[2]).toMatchObject({ request: 2, status: 200, sent: true, bytes: SECRET.length })
  expect(records[3]).toMatchObject({ secrets: ['main/unknown'] })
  expect(records[4]).toMatchObject({ request: 4, code: 'VAULT', sent: false })
  const text = readFileSync(file(), 'utf8')
  for (const word of [SECRET, caller.secretKey, keys.secretKey, '/path']) {
    expect(text).not.toContain(word)
    expect(text).not.toContain(Buffer.from(word).toString('base64').slice(0, -4))
  }
  const verified = await verifyAudit(file(), { head: heads.at(-1) as AuditHead })
  expect(verified).toMatchObject({ unanswered: [], isStopped: true })
})

test('an enclave that can not record makes no request, whatever its stack', async () => {
  // An enclave that does not start leaves its log free.
  await expect(start({ vault: join(folder, 'none') })).rejects.toThrow('is not a vault')
  const lines: string[] = []
  await start({
    log: { warn: line => void lines.push(line) },
    stack: new URL('faulty-stack.cjs', `file://${join(__dirname, '../support')}/`).href,
    audit: {
      file: file(),
      onRecord(line) {
        if (JSON.parse(line).type === 'request') throw new Error('the collector is away')
      },
    },
  })
  const error = await failureOf(ask())
  expect(error).toMatchObject({ name: 'EnclaveError', code: 'AUDIT', mayHaveBeenSent: false })
  expect(error.message).toBe('the request can not be recorded')
  expect(lines.join()).toMatch(/onRecord failed for record \d+$/)
})

test('a caller at its limit is told which it is and when to ask again, others are served, and it is recorded', async () => {
  await start({ callerLimits: { requestsPerSecond: 0.001 } })
  const outcomes = await Promise.all(Array.from({ length: 6 }, () => ask().catch(error => error)))
  const refused = outcomes.filter(each => each !== 200)
  expect(refused).toHaveLength(5)
  for (const error of refused)
    expect(error).toMatchObject({
      name: 'EnclaveError',
      code: 'RATE_LIMIT',
      isRetryable: true,
      mayHaveBeenSent: false,
      retryAfter: expect.any(Number),
      message: expect.stringMatching(
        /^this caller has reached its limit of 0\.001 requests a second: ask again in \d+ ms$/,
      ),
    })
  expect(await ask(quiet.secretKey)).toBe(200)
  expect(records.filter(({ type }) => type === 'request')).toHaveLength(2)
  await server.close()
  const limited = records.filter(({ type }) => type === 'refused')
  // Many of them together.
  expect(limited.length).toBeLessThan(refused.length)
  for (const each of limited)
    expect(each).toMatchObject({ caller: caller.publicKey, code: 'RATE_LIMIT' })
  expect(limited.reduce((sum, { count }) => sum + Number(count), 0)).toBe(refused.length)
})
