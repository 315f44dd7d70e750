import { createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { inForm } from '@sluice/test-support/tier.js'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import type { EnclaveError, EnclavePlugin } from 'sluice/plugins/confidential-http'
import {
  ConfidentialHTTPClient,
  confidentialPreset,
  createEnclave,
  type Runtime,
} from '../index.js'
import { openVault } from '../vault/open-vault.js'
import { startRelay } from './support/relay.js'
import { inputOf, localRuntime, remoteRuntime } from './support/sending.js'
import { startWorld, type World } from './support/world.js'

const client = new ConfidentialHTTPClient()
const pem = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
const WORDS = 'the request may have been carried out'
let world: World
let runtime: Runtime
beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterAll(() => world.close())

const send = (path: string, timeout?: string, request = {}) =>
  client.sendRequestAsync(runtime, inputOf(world, path, timeout, request))
const hitsOf = (path: string) => world.hits.filter(hit => hit.path === path)

/** Fails where field and words don't say the same. */
function expectSent(error: Error & { mayHaveBeenSent?: unknown }, mayHaveBeenSent: boolean): void {
  expect(error).toMatchObject({ mayHaveBeenSent })
  for (const text of [error.message, String(error.stack)])
    expect(text.includes(WORDS)).toBe(mayHaveBeenSent)
}

const kinds = [
  ['a remote runtime', remoteRuntime],
  ['a local runtime', localRuntime],
] as const
describe.each(kinds.slice(0, inForm(1, 2)))('%s says', (_name, createRuntime) => {
  beforeAll(() => {
    runtime = createRuntime(world)
  })

  test('of what was refused, or failed, before anything was sent that nothing was', async () => {
    const input = inputOf(world, '/before')
    const failing = (...given: Parameters<typeof send>) => failureOf(send(...given))
    const failures = [
      [failing('/before', '99s'), 'LIMIT'],
      [failing('/before', '80s', { bodyString: '{{.unknown}}' }), 'TEMPLATE'],
      [
        failureOf(
          client.sendRequestAsync(runtime, { ...input, vaultDonSecrets: [{ key: 'missing' }] }),
        ),
        'VAULT',
      ],
      [failing('/before', '80s', { customRootCaCertPem: btoa(pem) }), 'VALIDATION'],
      [failing('/throw-before'), 'ENCLAVE'],
    ] as const
    for (const [failed, code] of failures) {
      const error = await failed
      expect(error).toMatchObject({ code })
      expectSent(error, false)
    }
    expect(hitsOf('/before')).toEqual([])
  })

  test.each([
    ['/redirect', 'UPSTREAM_ANSWER'],
    ['/throw-after', 'ENCLAVE'],
  ])(
    'of what failed after it was sent, by %s, that it may have been carried out',
    async (path, code) => {
      const error = await failureOf(send(path))
      expect(error).toMatchObject({ code })
      expectSent(error, true)
      await until(() => hitsOf(path).length > 0)
    },
  )

  test('of a server whose certificate does not verify that it was sent nothing', async () => {
    const error = await failureOf(send('/untrusted', '80s', { customRootCaCertPem: undefined }))
    expect(error).toMatchObject({ code: 'UPSTREAM_TLS' })
    expectSent(error, false)
    expect(hitsOf('/untrusted')).toEqual([])
  })

  test('of what is under way when it is closed that it may have been carried out, of all later that it was not', async () => {
    world.hits.length = 0
    const pending = send('/hang')
    await until(() => hitsOf('/hang').length > 0)
    const closed = runtime.close()
    expectSent(await failureOf(pending), true)
    expectSent(await failureOf(send('/')), false)
    await closed
  })
})

describe('a local runtime says', () => {
  afterEach(() => runtime.close())

  test('of what was under way in a thread that ended that it may have been carried out', async () => {
    runtime = localRuntime(world)
    expectSent(await failureOf(send('/exit')), true)
  })

  test('of a vault that is not there that nothing was sent', async () => {
    runtime = localRuntime(world, { vault: '/nowhere' })
    expectSent(await failureOf(send('/')), false)
  })
})

describe('a remote runtime says', () => {
  afterEach(() => runtime.close())

  test('of what was carried out, its connection dropped on both tries, that it may have been', async () => {
    await using relay = await startRelay(world.enclaveURL, async ({ path, forward }) => {
      const answer = await forward()
      return path === '/v2/requests' ? undefined : answer
    })
    runtime = remoteRuntime(world, { url: relay.url })
    const error = await failureOf(send('/dropped'))
    expectSent(error, true)
    expect(error.message).toMatch(/^the connection to the enclave at .* failed: /)
    expect(relay.taken.filter(({ path }) => path === '/v2/requests')).toHaveLength(2)
    expect(hitsOf('/dropped')).toHaveLength(1)
  })

  test('of what was carried out at the first try, and refused at the second, that it may have been', async () => {
    await using relay = await startRelay(world.enclaveURL, async ({ path, forward }) => {
      const answer = await forward()
      return path === '/v2/requests' && relay.taken.length === 2 ? undefined : answer
    })
    runtime = remoteRuntime(world, { url: relay.url })
    const error = await failureOf(send('/twice'))
    expectSent(error, true)
    expect(error.message).toMatch(/was lost before its answer came/)
    expect(hitsOf('/twice')).toHaveLength(1)
  })

  test('of an enclave that is not there, or does not answer, that nothing was sent', async () => {
    runtime = remoteRuntime(world, { url: 'http://127.0.0.1:1' })
    const refused = await failureOf(send('/'))
    expectSent(refused, false)
    expect(refused.message).toMatch(/could not be reached/)
    await runtime.close()

    // What is not read is not seen to end.
    const mute = createServer(socket => socket.resume())
    await new Promise<void>(resolve => mute.listen(0, '127.0.0.1', resolve))
    const { port } = mute.address() as { port: number }
    runtime = remoteRuntime(world, { url: `http://127.0.0.1:${port}` })
    let late: Error
    do {
      late = await failureOf(send('/', '500ms'))
      expectSent(late, false)
      // On a slow machine the time is up before the thread has asked.
    } while (/was still starting|before it could begin/.test(late.message))
    expect(late.message).toMatch(/did not answer in time when asked for its boot key: nothing was/)
    await runtime.close()
    await new Promise(resolve => mute.close(resolve))
  })

  test('of a refusal that anybody could have made that it may have been carried out', async () => {
    await using relay = await startRelay(world.enclaveURL, async ({ path, forward }) =>
      path === '/v2/requests' ? { status: 503, body: Buffer.from('x') } : forward(),
    )
    runtime = remoteRuntime(world, { url: relay.url })
    expectSent(await failureOf(send('/refused')), true)
  })
})

const network = { loopback: true }
const limits = { maxTimeout: 90_000 }

test('an enclave of one’s own says the same, of each request for itself', async () => {
  const vault = await openVault(world.vault)
  const enclave = createEnclave({ plugins: confidentialPreset({ vault, network, limits }) })
  const { owner } = vault
  world.hits.length = 0
  const before = failureOf(enclave.send(inputOf(world, '/', '99s'), { owner }))
  const amid = failureOf(enclave.send(inputOf(world, '/hang'), { owner }))
  expectSent(await before, false)
  await until(() => hitsOf('/hang').length > 0)
  enclave.close()
  expectSent(await amid, true)
  const after: Partial<EnclaveError> = await failureOf(enclave.send(inputOf(world, '/'), { owner }))
  expectSent(after as EnclaveError, false)
})

test('an enclave whose plugin makes a call of its own knows nothing for certain', async () => {
  const vault = await openVault(world.vault)
  const remake: EnclavePlugin = {
    name: 'remake',
    attempt: next => call => {
      const { onConnected, ...others } = call
      return next(others)
    },
  }
  const plugins = [...confidentialPreset({ vault, network, limits }), remake]
  const enclave = createEnclave({ plugins })
  const { owner } = vault
  expectSent(await failureOf(enclave.send(inputOf(world, '/redirect'), { owner })), true)
  enclave.close()
})
