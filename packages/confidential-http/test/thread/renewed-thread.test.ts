import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { inForm } from '@sluice/test-support/tier.js'
import { pause, until } from '@sluice/test-support/waiting.js'
import {
  ConfidentialHTTPClient,
  createKeys,
  createLocalRuntime,
  createRemoteRuntime,
  getHeader,
  type RenewAfter,
  type Runtime,
  startEnclaveServer,
} from '../../index.js'
import { inputOf, localRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

const stack = pathToFileURL(join(__dirname, '../support/thread-stack.cjs')).href
const client = new ConfidentialHTTPClient()
let world: World
beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterAll(() => world.close())

interface Started {
  readonly runtime: Runtime
  close(): Promise<void>
}

function startLocal(renewAfter: RenewAfter): Started {
  const runtime = localRuntime(world, { stack, renewAfter })
  return { runtime, close: () => runtime.close() }
}

async function startServer(renewAfter: RenewAfter): Promise<Started> {
  const [key, caller] = [createKeys(), createKeys()]
  const server = await startEnclaveServer({
    vault: world.vault,
    secretKey: key.secretKey,
    callers: { [caller.publicKey]: world.owner },
    network: { loopback: true },
    limits: { maxTimeout: 90_000 },
    stack,
    renewAfter,
  })
  const runtime = createRemoteRuntime({
    url: server.url,
    enclavePublicKey: key.publicKey,
    callerSecretKey: caller.secretKey,
    defaultTimeout: 90_000,
  })
  async function close(): Promise<void> {
    await runtime.close()
    await server.close()
  }
  return { runtime, close }
}

const places: readonly [string, (renewAfter: RenewAfter) => Started | Promise<Started>][] = [
  ['an enclave server', startServer],
  ['a local runtime', startLocal],
]

describe.each(places.slice(0, inForm(1, 2)))('the thread of %s', (_name, start) => {
  let started: Started
  const ask = async (path = '/'): Promise<string | undefined> =>
    getHeader(await client.sendRequestAsync(started.runtime, inputOf(world, path)), 'x-thread')

  test('is replaced after so many requests: those in flight finish, and none is lost or made twice', async () => {
    started = await start({ requests: 5 })
    world.hits.length = 0
    const held = ask('/hold')
    await until(() => world.hits.length === 1)
    const first = await ask()
    const threads = new Set<string | undefined>()
    let asked = 0
    while (threads.size < 2) {
      const together = await Promise.all(Array.from({ length: 4 }, () => ask()))
      asked += together.length
      for (const thread of together) if (thread !== first) threads.add(thread)
      // The next thread starts meanwhile.
      await pause(20)
    }
    world.release()
    expect(await held).toBe(first)
    await until(() => world.hits.length >= asked + 2)
    expect(world.hits).toHaveLength(asked + 2)
    await started.close()
  })
})

test('the thread of a local runtime is replaced after a quiet while', async () => {
  const { runtime, close } = startLocal({ quietMs: 1 })
  const ask = () => client.sendRequestAsync(runtime, inputOf(world, '/'))
  const first = getHeader(await ask(), 'x-thread')
  // The next one is started meanwhile, and takes over once it is ready.
  while (getHeader(await ask(), 'x-thread') === first) await pause(20)
  await close()
})

test('names the field and the rule of a wrong option', async () => {
  const vault = world.vault
  for (const [renewAfter, message] of [
    [{ requests: 0 }, 'renewAfter.requests must be'],
    [{ requests: 1.5 }, 'renewAfter.requests must be'],
    [{ quietMs: -1 }, 'renewAfter.quietMs must be'],
    [{ quiet: 1 }, "unknown option 'quiet' of renewAfter"],
  ] as [RenewAfter, string][]) {
    expect(() => createLocalRuntime({ vault, renewAfter })).toThrow(message)
    const { secretKey, publicKey } = createKeys()
    const callers = { [publicKey]: world.owner }
    await expect(startEnclaveServer({ vault, secretKey, callers, renewAfter })).rejects.toThrow(
      message,
    )
  }
})
