import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { longTest } from '@sluice/test-support/long.js'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import { ConfidentialHTTPClient, type Runtime, text } from '../../index.js'
import { createVault } from '../../vault/create-vault.js'
import { failing, inputOf, localRuntime, plainInputOf, remoteRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

let world: World
let runtime: Runtime
const folder = mkdtempSync(join(tmpdir(), 'sluice-blocking-'))
const client = new ConfidentialHTTPClient()
const send = (path: string, timeout?: string) =>
  client.sendRequest(runtime, inputOf(world, path, timeout))
const sendAsync = (path: string, timeout?: string) =>
  client.sendRequestAsync(runtime, inputOf(world, path, timeout))
/** The same without a secret: with less to do for the enclave, the timeout can be short. */
const sendPlain = (path: string, timeout: string) =>
  client.sendRequest(runtime, plainInputOf(world, path, timeout))
const sendPlainAsync = (path: string, timeout: string) =>
  client.sendRequestAsync(runtime, plainInputOf(world, path, timeout))

beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterAll(async () => {
  await world.close()
  rmSync(folder, { recursive: true })
})

/** Whatever has gone wrong: one second after the timeout the caller has its answer, and the next request works. */
function expectInTime(ms: number, timeout: number): void {
  expect(ms).toBeLessThan(timeout + 1000)
}

describe.each([
  ['a local runtime', localRuntime],
  ['a remote runtime', remoteRuntime],
])('%s', (_name, createRuntime) => {
  beforeAll(() => {
    runtime = createRuntime(world)
  })
  afterAll(() => runtime.close())

  test('answers a blocking request, its thread still starting', () => {
    const begin = performance.now()
    const response = send('/').result()
    // It wakes when the answer comes, and not when the time is up.
    expect(performance.now() - begin).toBeLessThan(9000)
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
    const input = inputOf(world, path, '10s', request)
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

  test.each(['/hang', '/trickle'])(
    'answers 504 in time where the external server does %s',
    path => {
      send('/').result()
      const begin = performance.now()
      const response = send(path, '400ms').result()
      expectInTime(performance.now() - begin, 400)
      expect([response.statusCode, text(response)]).toEqual([504, 'upstream request timed out'])
      expect(send('/').result().statusCode).toBe(200)
    },
  )

  test('a response that came in time is there for those who ask late', async () => {
    send('/').result()
    const one = sendPlain('/', '500ms')
    const other = sendPlainAsync('/', '500ms')
    // Nothing is heard meanwhile: the event loop stands still until well after the time is up.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500)
    expect((await other).statusCode).toBe(200)
    expect(one.result().statusCode).toBe(200)
  })

  test('a timeout longer than timers can be is refused by the enclave, and nothing else', async () => {
    expect(await failureOf(sendAsync('/', '3000000s'))).toMatchObject({ code: 'LIMIT' })
  })
})

describe('a local runtime whose enclave fails', () => {
  afterEach(() => runtime.close())

  longTest.each([
    [
      'ends',
      '/exit',
      /thread ended: exit code 3; the next request starts another; the request may/,
    ],
    ['is in a loop', '/spin', /thread did not answer within 1200 ms and was ended; the next/],
    [
      'needs too much memory',
      '/memory',
      /thread (ended: \w*Error ERR_WORKER_OUT_OF_MEMORY|did not answer within)/,
    ],
    ['throws in a timer', '/throw-later', /thread ended: nobody caught an error, Error; the next/],
    ['rejects unseen', '/reject-later', /thread ended: nobody caught an error, Error; the next/],
    ['throws', '/throw', /inside the enclave, and the reason repeats a secret$/],
    ['answers what no message can hold', '/function', /^the enclave failed inside, with/],
  ])('where it %s, says so in time and starts another', async (_name, path, message) => {
    runtime = localRuntime(world, { memoryMb: 32 })
    send('/').result()
    const waiting = sendAsync('/hold')
    // From one that can't say that it ends nothing is heard until the time is up.
    const hangs = path === '/spin' || path === '/memory'
    const timeout = hangs ? 500 : 5000
    const input = (hangs ? plainInputOf : inputOf)(world, path, `${timeout}ms`)
    const sent = client.sendRequest(runtime, input)
    const { error, ms } = failing(sent.result)
    expectInTime(ms, timeout)
    expect(error).toMatchObject({ name: 'EnclaveError', code: 'ENCLAVE' })
    expect(error.message).toMatch(message)
    expect(failing(sent.result).error).toBe(error)
    expect(send('/').result().statusCode).toBe(200)
    world.release()
    // What else was under way in a thread that ended fails with it, for the same reason.
    if (error.message.includes('thread')) expect(await failureOf(waiting)).toBe(error)
    else expect((await waiting).statusCode).toBe(200)

    const begin = performance.now()
    const second = await failureOf(client.sendRequestAsync(runtime, input))
    expectInTime(performance.now() - begin, timeout)
    expect(second).toMatchObject({ name: 'EnclaveError', code: 'ENCLAVE' })
    expect((await sendAsync('/')).statusCode).toBe(200)
  })

  test.each([
    ['no vault', 'missing', { name: 'VaultError', message: expect.stringContaining('vault.json') }],
    [
      'a broken vault',
      'broken',
      { name: 'VaultError', message: expect.stringMatching(/vault\.json/) },
    ],
  ])('with %s says so to every request, until there is one', async (_name, place, expected) => {
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
  })

  longTest.each([
    ['does not exist', undefined, /^stack could not be loaded: ERR_MODULE_NOT_FOUND$/],
    ['throws', 'throw new RangeError("my words")', /^stack could not be loaded: RangeError$/],
    ['exports nothing', '', /^stack must be a module whose default export is a function$/],
    ['throws when asked for plugins', 'export default () => { throw 1 }', /with Error$/],
    ['ends the thread', 'process.exit(5)', /thread ended: exit code 5/],
  ])('with a stack that %s says so', async (name, program, message) => {
    const file = join(folder, `${name.replaceAll(' ', '-')}.mjs`)
    if (program !== undefined) writeFileSync(file, program)
    runtime = localRuntime(world, { stack: pathToFileURL(file) })
    expect(failing(send('/').result).error.message).toMatch(message)
    expect((await failureOf(sendAsync('/'))).message).toMatch(message)
  })

  longTest('gives a thread that is slow to start more time than the request has', async () => {
    const file = join(folder, 'slow.mjs')
    writeFileSync(
      file,
      `export { default } from ${JSON.stringify(pathToFileURL(join(__dirname, '../support/faulty-stack.cjs')).href)}
       const end = performance.now() + 1500
       while (performance.now() < end);`,
    )
    runtime = localRuntime(world, { stack: pathToFileURL(file) })
    const { error, ms } = failing(send('/late', '100ms').result)
    expectInTime(ms, 100)
    expect(error.message).toMatch(
      /still starting after 800 ms: ask again, or allow the request more/,
    )
    expect((await sendAsync('/')).statusCode).toBe(200)
    // What was given up is not done afterwards.
    expect(world.hits.filter(({ path }) => path === '/late')).toEqual([])
  })

  test('a thread that died while nobody looked is replaced', () => {
    runtime = localRuntime(world)
    send('/').result()
    send('/exit')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
    expect(send('/').result().statusCode).toBe(200)
  })

  test('may be closed by the logger it logs to while a request blocks', async () => {
    const logger = { warn: () => void runtime.close() }
    runtime = localRuntime(world, { logging: { logger } })
    expect(failing(send('/throw').result).error).toMatchObject({ code: 'CLOSED' })
  })
})

describe('a remote runtime whose enclave fails', () => {
  afterEach(() => runtime.close())

  /** A process of its own is not needed: what stands still is only the thread that asks. */
  async function startFake(program: string): Promise<string> {
    const { Worker } = await import('node:worker_threads')
    const worker = new Worker(
      `const { createServer } = require('node:net')
       const server = createServer(socket => { socket.on('error', () => {}); ${program} })
       server.listen(0, '127.0.0.1', () => require('node:worker_threads').parentPort.postMessage(server.address().port))`,
      { eval: true },
    )
    worker.unref()
    const port = await new Promise(resolve => worker.once('message', resolve))
    return `http://127.0.0.1:${port}`
  }

  const head = 'HTTP/1.1 200 OK\\r\\nContent-Length: 1000\\r\\n\\r\\n'
  longTest.each([
    ['never answers', '', /did not answer in time/],
    ['closes', `socket.on('data', () => socket.destroy())`, /could not be reached/],
    ['answers garbage', `socket.on('data', () => socket.end('garbage'))`, /could not be reached/],
    [
      'answers what is not sealed',
      `socket.on('data', () => socket.end('${head}' + 'x'.repeat(1000)))`,
      /not of the enclave with the pinned key/,
    ],
    [
      'answers byte by byte',
      `socket.write('${head}'); setInterval(() => socket.write('x'), 50)`,
      /did not answer in time/,
    ],
    [
      'answers without end',
      `socket.write('HTTP/1.1 200 OK\\r\\n\\r\\n'); const pour = () => { while (socket.write('x'.repeat(65536))); socket.once('drain', pour) }; pour()`,
      /is invalid|gave an invalid answer|did not answer in time/,
    ],
    [
      'sends elsewhere',
      `socket.on('data', () => socket.end('HTTP/1.1 307 x\\r\\nLocation: /x\\r\\nContent-Length: 0\\r\\n\\r\\n'))`,
      /answered 307/,
    ],
  ])('where it %s, says so in time', async (_name, program, message) => {
    runtime = remoteRuntime(world, { url: await startFake(program) })
    const { error: cold } = failing(send('/', '2s').result)
    expect(cold.message).toMatch(message)
    const { error, ms } = failing(send('/', '1s').result)
    expectInTime(ms, 1000)
    expect(error).toMatchObject({ name: 'EnclaveError', code: 'ENCLAVE' })
    expect(error.message).toMatch(message)
    expect((await failureOf(sendAsync('/', '1s'))).message).toMatch(message)
  })

  test('where it stands still, says so in time, and asks it again once it goes on', async () => {
    runtime = remoteRuntime(world)
    send('/').result()
    world.process.kill('SIGSTOP')
    const { error, ms } = failing(send('/', '500ms').result)
    world.process.kill('SIGCONT')
    expectInTime(ms, 500)
    expect(error.message).toMatch(/did not answer in time; the request may have been carried out$/)
    expect(send('/').result().statusCode).toBe(200)
  })

  test('where it is killed, says so at once, and finds the one that takes its place', async () => {
    const short = await startWorld({ apiKey: 'another secret' })
    runtime = remoteRuntime(short)
    expect(client.sendRequest(runtime, inputOf(short, '/')).result().statusCode).toBe(200)
    const held = client.sendRequest(runtime, inputOf(short, '/hold'))
    const heldToo = client.sendRequestAsync(runtime, inputOf(short, '/hold'))
    await until(() => short.hits.filter(({ path }) => path === '/hold').length === 2)
    short.process.kill('SIGKILL')
    // It had begun with both.
    const lost = /^the connection to the enclave at .*; the request may have been carried out$/
    for (const error of [failing(held.result).error, await failureOf(heldToo)]) {
      expect(error).toMatchObject({ mayHaveBeenSent: true })
      expect(error.message).toMatch(lost)
    }
    const { error } = failing(send('/').result)
    expect(error).toMatchObject({ mayHaveBeenSent: false })
    expect(error.message).toMatch(/could not be reached.*ECONNREFUSED/)
    await short.close()
  })
})

function callOf(path: string, timeout?: string) {
  return {
    capabilityId: 'confidential-http@1.0.0-alpha',
    method: 'SendRequest',
    payload: inputOf(world, path, timeout),
  }
}
