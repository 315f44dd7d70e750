import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { until } from '@sluice/test-support/waiting.js'
import { ConfidentialHTTPClient, type Runtime } from '../../index.js'
import { networkOf } from '../../remote/http-server.js'
import { inputOf, remoteRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

const client = new ConfidentialHTTPClient()
let world: World
let runtime: Runtime | undefined
const held: Socket[] = []
beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterEach(async () => {
  for (const socket of held.splice(0)) socket.destroy()
  await runtime?.close()
})
afterAll(() => world.close())

interface Held {
  readonly socket: Socket
  readonly closed: Promise<unknown>
}

function hold(localAddress: string): Held {
  const port = Number(new URL(world.enclaveURL).port)
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket.on('error', () => undefined)
  // Without it the end is not noticed.
  socket.resume()
  return { socket, closed: new Promise(resolve => socket.on('close', resolve)) }
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
  const addresses = ['127.0.0.1', ...others]

  test('while 1,100 idle connections are held from its own address and twenty others', async () => {
    await holdMany(1100, addresses)
    runtime = remoteRuntime(world)
    await isServed()
    await holdMany(200, addresses)
    await isServed()
  })

  test('on the connection that has brought its requests, however many come after it', async () => {
    runtime = remoteRuntime(world)
    const running = client.sendRequestAsync(runtime, inputOf(world, '/hold'))
    await until(() => world.hits.some(({ path }) => path === '/hold'))
    await holdMany(1100, addresses)
    world.release()
    expect((await running).statusCode).toBe(200)
  })
})

describe('a connection is closed', () => {
  test('where its address has more than 256: the oldest that brought nothing', async () => {
    const first = hold('127.0.0.5')
    held.push(first.socket)
    await holdMany(255, ['127.0.0.5'])
    expect(first.socket.destroyed).toBe(false)
    await holdMany(1, ['127.0.0.5'])
    await first.closed
    expect(held.filter(socket => !socket.destroyed)).toHaveLength(256)
  })
})

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::6', '2001:db8:1:2'],
  ['2001:db8::6', '2001:db8:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['::1', '0:0:0:0'],
  ['::', '0:0:0:0'],
  [undefined, ''],
])('the network of %s is %s', (address, network) => {
  expect(networkOf(address)).toBe(network)
})
