// What a runtime says of an enclave that fails, in each way.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { ConfidentialHTTPClient, type Runtime } from '../../index.js'
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

beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterAll(async () => {
  await world.close()
  rmSync(folder, { recursive: true })
})

describe('a local runtime whose enclave fails', () => {
  afterEach(() => runtime.close())

  test.each([
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
    const timeout = hangs ? 500 : 60_000
    const input = (hangs ? plainInputOf : inputOf)(world, path, `${timeout}ms`)
    const sent = client.sendRequest(runtime, input)
    const { error } = failing(sent.result)
    expect(error).toMatchObject({ name: 'EnclaveError', code: 'ENCLAVE' })
    expect(error.message).toMatch(message)
    expect(failing(sent.result).error).toBe(error)
    expect(send('/').result().statusCode).toBe(200)
    world.release()
    // Other requests in a thread that ends fail for the same reason.
    if (error.message.includes('thread')) expect(await failureOf(waiting)).toBe(error)
    else expect((await waiting).statusCode).toBe(200)

    const second = await failureOf(client.sendRequestAsync(runtime, input))
    expect(second).toMatchObject({ name: 'EnclaveError', code: 'ENCLAVE' })
    expect((await sendAsync('/')).statusCode).toBe(200)
  })

  test.each([
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
  test.each([
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
    const { error } = failing(send('/', '1s').result)
    expect(error).toMatchObject({ name: 'EnclaveError', code: 'ENCLAVE' })
    expect(error.message).toMatch(message)
    expect((await failureOf(sendAsync('/', '1s'))).message).toMatch(message)
  })
})
