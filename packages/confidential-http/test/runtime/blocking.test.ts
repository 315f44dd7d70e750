import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { inForm } from '@sluice/test-support/tier.js'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import { ConfidentialHTTPClient, type Runtime, text } from '../../index.js'
import { createVault } from '../../vault/create-vault.js'
import { failing, inputOf, localRuntime, remoteRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

let world: World
let runtime: Runtime
const folder = mkdtempSync(join(tmpdir(), 'sluice-blocking-'))
const client = new ConfidentialHTTPClient()
const send = (path: string, timeout?: string) =>
  client.sendRequest(runtime, inputOf(world, path, timeout))
const sendAsync = (path: string, timeout?: string) =>
  client.sendRequestAsync(runtime, inputOf(world, path, timeout))

beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterAll(async () => {
  await world.close()
  rmSync(folder, { recursive: true })
})

/**
 * Asks until the answer is that of the enclave: on a machine without time for it, a thread that does not answer counts as
 * dead, and the next request starts another.
 */
function answerOf<Value>(ask: () => Value): Value {
  for (;;)
    try {
      return ask()
    } catch (error) {
      if (
        !/(was ended|was still starting|enclave did not answer within)/.test(
          (error as Error).message,
        )
      )
        throw error
    }
}

/** That a local runtime answers a blocking request is also in `workflow.test.ts`. */
const runtimes = [
  ['a remote runtime', remoteRuntime],
  ['a local runtime', localRuntime],
] as const
describe.each(runtimes.slice(0, inForm(1, 2)))('%s', (_name, createRuntime) => {
  beforeAll(() => {
    runtime = createRuntime(world)
  })
  afterAll(() => runtime.close())

  test('answers a blocking request, its thread still starting', () => {
    // It wakes when the answer comes, and not when the time is up: that would be after more than a minute.
    const response = send('/').result()
    expect(response.statusCode).toBe(200)
    expect(text(response)).toBe('an answer of the external server')
    expect(response.multiHeaders['X-Answered']).toMatchObject({ values: ['yes'] })
  })

  test.each([
    ['no body', { method: 'GET', bodyString: undefined }, ''],
    ['a body of bytes', { bodyString: undefined, bodyBytes: btoa('{{.apiKey}}') }, '{{.apiKey}}'],
    ['an empty body', { bodyString: '' }, ''],
  ])('sends %s', (_name, request, body) => {
    const path = `/${randomUUID()}`
    const input = inputOf(world, path, undefined, request)
    expect(client.sendRequest(runtime, input).result().statusCode).toBe(200)
    return until(() => world.hits.some(hit => hit.path === path && hit.body === body))
  })

  test('gives the same outcome however often and in whatever way it is asked', async () => {
    const good = runtime.callCapability(callOf('/'))
    const later = good.resultAsync()
    const now = good.result()
    expect(good.result()).toBe(now)
    expect(await later).toBe(now)
    expect(await good.resultAsync()).toBe(now)

    const bad = runtime.callCapability(callOf('/', '100s'))
    const { error } = failing(bad.result)
    expect(error).toMatchObject({ code: 'LIMIT' })
    expect(failing(bad.result).error).toBe(error)
    expect(await failureOf(bad.resultAsync())).toBe(error)
    expect(failing(bad.result).error).toBe(error)
  })

  test('carries blocking and non-blocking requests at once, none mistaken for another', async () => {
    world.hits.length = 0
    const paths = () =>
      world.hits.map(({ path }) => path).filter(path => /^\/(\d|hold)$/.test(path))
    const held = sendAsync('/hold')
    const blocking = ['/1', '/2', '/3'].map(path => send(path))
    const others = ['/4', '/5'].map(path => sendAsync(path))
    expect(blocking.reverse().map(each => each.result().statusCode)).toEqual([200, 200, 200])
    expect((await Promise.all(others)).map(({ statusCode }) => statusCode)).toEqual([200, 200])
    world.release()
    expect((await held).statusCode).toBe(200)
    await until(() => paths().length === 6)
    expect(paths().sort().join(' ')).toBe('/1 /2 /3 /4 /5 /hold')
  })

  test.each(['/hang', '/trickle'].slice(0, inForm(1, 2)))(
    'answers 504 in time where the external server does %s',
    path => {
      send('/').result()
      const response = answerOf(() => send(path, '400ms').result())
      expect([response.statusCode, text(response)]).toEqual([504, 'upstream request timed out'])
      expect(send('/').result().statusCode).toBe(200)
    },
  )

  test('a timeout longer than timers can be is refused by the enclave, and nothing else', async () => {
    expect(await failureOf(sendAsync('/', '3000000s'))).toMatchObject({ code: 'LIMIT' })
  })
})

describe('a local runtime whose enclave fails', () => {
  afterEach(() => runtime.close())

  const message = expect.stringContaining('vault.json')
  const vaults = [
    ['a broken vault', 'broken', { name: 'VaultError', message }],
    ['no vault', 'missing', { name: 'VaultError', message }],
  ] as const
  test.each(vaults.slice(0, inForm(1, 2)))(
    'with %s says so to every request, until there is one',
    async (_name, place, expected) => {
      const vault = join(folder, place)
      if (place === 'broken') {
        await createVault(vault)
        writeFileSync(join(vault, 'vault.json'), '{"threshold":')
      }
      runtime = localRuntime(world, { vault })
      expect(failing(send('/').result).error).toMatchObject(expected)
      expect(await failureOf(sendAsync('/'))).toMatchObject(expected)
      rmSync(vault, { recursive: true, force: true })
      await (await createVault(vault)).put({ key: 'apiKey' }, 'value', { policy: 'anywhere' })
      expect(send('/').result().statusCode).toBe(200)
    },
  )

  test('may be closed by the logger it logs to while a request blocks', async () => {
    const logger = { warn: () => void runtime.close() }
    runtime = localRuntime(world, { logging: { logger } })
    expect(failing(send('/throw').result).error).toMatchObject({ code: 'CLOSED' })
  })
})

describe('a remote runtime whose enclave fails', () => {
  afterEach(() => runtime.close())

  test('where it stands still, says so in time, and asks it again once it goes on', async () => {
    runtime = remoteRuntime(world)
    send('/').result()
    world.process.kill('SIGSTOP')
    const { error } = failing(() => answerOf(() => send('/', '500ms').result()))
    world.process.kill('SIGCONT')
    // A thread that was ended meanwhile had to ask for the boot key anew.
    expect(error.message).toMatch(
      /did not answer in time(; the request may have been carried out$| when asked for its boot key)/,
    )
    expect(send('/').result().statusCode).toBe(200)
  })

  // The last test of this file: it kills the world.
  test('where it is killed, says so at once', async () => {
    runtime = remoteRuntime(world)
    expect(send('/').result().statusCode).toBe(200)
    world.hits.length = 0
    const held = send('/hold')
    const heldToo = sendAsync('/hold')
    await until(() => world.hits.filter(({ path }) => path === '/hold').length === 2)
    world.process.kill('SIGKILL')
    // It had begun with both.
    const lost = /^the connection to the enclave at .*; the request may have been carried out$/
    for (const error of [failing(held.result).error, await failureOf(heldToo)]) {
      expect(error).toMatchObject({ mayHaveBeenSent: true })
      expect(error.message).toMatch(lost)
    }
    const { error } = failing(send('/').result)
    expect(error).toMatchObject({ mayHaveBeenSent: false })
    expect(error.message).toMatch(/could not be reached.*ECONNREFUSED/)
  })
})

function callOf(path: string, timeout?: string) {
  return {
    capabilityId: 'confidential-http@1.0.0-alpha',
    method: 'SendRequest',
    payload: inputOf(world, path, timeout),
  }
}
