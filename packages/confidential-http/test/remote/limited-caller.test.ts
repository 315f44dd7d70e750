import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type HTTPSServer, startHTTPSServer } from '@sluice/engine'
import { pause } from '@sluice/test-support/waiting.js'
import {
  ConfidentialHTTPClient,
  createKeys,
  createRemoteRuntime,
  type EnclaveServer,
  startEnclaveServer,
} from '../../index.js'
import { createVault } from '../../vault/create-vault.js'

const [keys, busy, quiet] = [createKeys(), createKeys(), createKeys()]
const client = new ConfidentialHTTPClient()
let folder: string
let api: HTTPSServer
let server: EnclaveServer
let asked = 0
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-limited-'))
  const vault = await createVault(join(folder, 'vault'), { holders: 1 })
  api = await startHTTPSServer({
    handler(_request, response) {
      asked++
      response.end('ok')
    },
  })
  server = await startEnclaveServer({
    vault: vault.directory,
    secretKey: keys.secretKey,
    callers: { [busy.publicKey]: vault.owner, [quiet.publicKey]: vault.owner },
    network: { loopback: true },
    callerLimits: { requestsPerSecond: 2 },
  })
})
afterAll(async () => {
  await server.close()
  await api.close()
  rmSync(folder, { recursive: true, force: true })
})

test('a caller at its limit is told which it is and when to ask again, and others are served', async () => {
  const runtimes = [busy, quiet].map(({ secretKey }) =>
    createRemoteRuntime({
      url: server.url,
      enclavePublicKey: keys.publicKey,
      callerSecretKey: secretKey,
    }),
  )
  const request = { url: api.url, method: 'GET', customRootCaCertPem: api.ca }
  const [ofBusy, ofQuiet] = runtimes.map(
    runtime => () => client.sendRequestAsync(runtime, { request }).catch(thrown => thrown),
  ) as [() => Promise<unknown>, () => Promise<unknown>]
  try {
    const outcomes = await Promise.all(Array.from({ length: 8 }, ofBusy))
    const served = outcomes.filter(each => (each as { statusCode?: number }).statusCode === 200)
    const limited = outcomes.filter(each => !served.includes(each))
    expect(served.length).toBeGreaterThanOrEqual(2)
    expect(served.length).toBeLessThan(6)
    expect(asked).toBe(served.length)
    for (const error of limited)
      expect(error).toMatchObject({
        name: 'EnclaveError',
        code: 'RATE_LIMIT',
        isRetryable: true,
        mayHaveBeenSent: false,
        retryAfter: expect.any(Number),
        message: expect.stringMatching(
          /^this caller has reached its limit of 2 requests a second: ask again in \d+ ms$/,
        ),
      })
    expect(await ofQuiet()).toMatchObject({ statusCode: 200 })
    await pause(Math.max(...limited.map(each => (each as { retryAfter: number }).retryAfter)))
    expect(await ofBusy()).toMatchObject({ statusCode: 200 })
  } finally {
    await Promise.all(runtimes.map(each => each.close()))
  }
})
