import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { until } from '@sluice/test-support/waiting.js'
import { ConfidentialHTTPClient, type Runtime } from '../../index.js'
import { inputOf, remoteRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

const client = new ConfidentialHTTPClient()
let world: World
let runtime: Runtime | undefined
const held: Socket[] = []
/** What comes of a connection that says nothing, and of one that does not end its head. */
let idle: Ended
let endless: Ended
/** Theirs alone: of a full server, the oldest connection of the busiest address is closed. */
const apart = '127.0.1.1'
beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
  idle = hold(apart)
  endless = hold(apart, 'POST /v2/requests HTTP/1.1\r\nHost: x\r\n')
  const drip = setInterval(() => endless.socket.write('x: y\r\n'), 300)
  endless.socket.on('close', () => clearInterval(drip))
})
afterEach(async () => {
  for (const socket of held.splice(0)) socket.destroy()
  await runtime?.close()
})
afterAll(() => world.close())

interface Ended {
  readonly socket: Socket
  readonly lasted: Promise<number>
}

function hold(localAddress: string, words = ''): Ended {
  const begin = performance.now()
  const port = Number(new URL(world.enclaveURL).port)
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket.on('error', () => undefined)
  if (words !== '') socket.write(words)
  // Without it the end is not noticed.
  socket.resume()
  return {
    socket,
    lasted: new Promise(resolve => socket.on('close', () => resolve(performance.now() - begin))),
  }
}

async function holdMany(count: number, addresses: readonly string[]): Promise<void> {
  let connected = 0
  for (let index = 0; index < count; index++) {
    const { socket } = hold(addresses[index % addresses.length] as string)
    held.push(socket)
    socket.on('connect', () => connected++)
  }
  await until(() => connected === count)
}

async function isServed(): Promise<void> {
  const response = await client.sendRequestAsync(runtime as Runtime, inputOf(world, '/'))
  expect(response.statusCode).toBe(200)
}

const others = Array.from({ length: 20 }, (_, index) => `127.0.0.${index + 2}`)

describe('a caller is served', () => {
  test.each([
    ['its own address', ['127.0.0.1']],
    ['twenty other addresses', others],
  ])('while 1,100 idle connections are held from %s', async (_name, addresses) => {
    await holdMany(1100, addresses)
    runtime = remoteRuntime(world)
    await isServed()
    await holdMany(200, addresses)
    await isServed()
  })
})

describe('a connection is closed', () => {
  test('where its first byte, or the end of a head, does not come within five seconds', async () => {
    for (const { lasted } of [idle, endless]) expect(await lasted).toBeGreaterThanOrEqual(5000)
  })
})
