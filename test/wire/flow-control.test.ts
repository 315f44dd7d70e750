import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { WebSocketServer } from 'ws'
import { type Connect, connectSocket, type Socket } from '../../client/transport/socket.js'
import { createClient, type StreamOptions } from '../../index.js'
import { closeAfterEach } from '../support/closing.js'
import { failureOf, pause, until } from '../support/waiting.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const closers = closeAfterEach()

async function open(options: StreamOptions, config: object = {}) {
  const engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, ...config })
  closers.push(engine.close, client.close)
  const stream = client.createStream(ethUsd, options)
  const types: string[] = []
  stream.on('status', ({ type }) => void types.push(type))
  return { engine, stream, types }
}

/** Connections through ws, of which some methods are left out or counted. */
function connecting(change: (socket: Socket) => Socket): Connect {
  return async (target, events) => change(await connectSocket(target, events))
}

test('the other side of a paused connection still gets pongs and pings', async () => {
  const { engine, stream } = await open({ queue: 1, pingInterval: 50 })
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  closers.push(() => server.close())
  await new Promise(resolve => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  const { apiKey, userSecret, endpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint: `ws://127.0.0.1:${port}`,
  })
  closers.push(client.close)
  const held = client.createStream(ethUsd, { queue: 1, pingInterval: 50 })
  let signs = { pings: 0, pongs: 0 }
  server.on('connection', socket => {
    socket.on('ping', () => signs.pings++)
    socket.on('pong', () => signs.pongs++)
    for (const { feedID, fullReport, validFromTimestamp, observationsTimestamp } of engine.ledger())
      socket.send(
        JSON.stringify({
          report: { feedID, fullReport, validFromTimestamp, observationsTimestamp },
        }),
      )
  })
  for (let count = 0; count < 3; count++) engine.publish(ethUsd)
  let isHeld = false
  held.on('status', ({ type }) => {
    if (type === 'backpressure') isHeld = true
  })
  await held.read()
  await until(() => isHeld)
  await pause(50)
  signs = { pings: 0, pongs: 0 }
  await until(() => signs.pongs > 3)
  // What it would have to say to them it could not send.
  expect(signs.pings).toBe(0)
  // Once it flows again the other side's pings are read and answered, and nothing is sent unasked.
  await held.read()
  await held.read()
  await pause(50)
  signs = { pings: 0, pongs: 0 }
  await until(() => signs.pings > 2)
  expect(signs.pongs).toBe(0)
  for (const socket of server.clients) socket.terminate()
  await stream.close()
})

test('a peer whose answers do not come, but whose reports do, is not asked without end', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', autoPong: false })
  closers.push(() => server.close())
  await new Promise(resolve => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  const { engine } = await open({})
  const { apiKey, userSecret, endpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint: `ws://127.0.0.1:${port}`,
  })
  closers.push(client.close)
  const signs = { pings: 0, pongs: 0 }
  server.on('connection', socket => {
    socket.on('ping', () => signs.pings++)
    socket.on('pong', () => signs.pongs++)
    const timer = setInterval(() => {
      const { feedID, fullReport, validFromTimestamp, observationsTimestamp } =
        engine.publish(ethUsd)
      const report = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
      socket.send(JSON.stringify({ report }))
    }, 20)
    socket.on('close', () => clearInterval(timer))
  })
  const stream = client.createStream(ethUsd, { pingInterval: 20, missedPings: 30 })
  await stream.connect()
  await until(() => signs.pongs > 5)
  // A service built on ws hangs up at sixty.
  expect(signs.pings).toBeLessThan(30)
  for (const socket of server.clients) socket.pong()
  const { pings } = signs
  await until(() => signs.pings > pings)
  expect(stream.getMetrics()).toMatchObject({ activeConnections: 1, fullReconnects: 0 })
  await stream.close()
})

test('a peer that died while it was paused is noticed once it flows again', async () => {
  const options = { queue: 2, pingInterval: 100, missedPings: 3, reconnectInterval: 200 }
  const { engine, stream, types } = await open(options)
  const reading = stream.read()
  await until(() => engine.connections === 1)
  for (let count = 0; count < 3; count++) engine.publish(ethUsd)
  await reading
  await until(() => types.includes('backpressure'))
  engine.blackhole(true)
  await pause(500)
  expect(types).not.toContain('disconnected')
  const flowsAgain = performance.now()
  await stream.read()
  await until(() => types.includes('disconnected'))
  // It had its full time to answer.
  expect(performance.now() - flowsAgain).toBeGreaterThan(250)
  engine.blackhole(false)
})

test('a connection that can not be paused carries on, and the stream ends when twice as many reports wait', async () => {
  const connect = connecting(({ pause: _, resume: _too, ...others }) => others)
  const { engine, stream } = await open({ queue: 10 }, { connect })
  const reading = stream.read()
  await until(() => engine.connections === 1)
  for (let count = 0; count < 21; count++) engine.publish(ethUsd)
  await reading
  await until(() => stream.getMetrics().accepted === 21)
  await pause(50)
  expect(engine.connections).toBe(1)
  engine.publish(ethUsd)
  expect(await failureOf(stream.closed)).toMatchObject({ code: 'OVERFLOW' })
  let count = 1
  for await (const _ of { [Symbol.asyncIterator]: () => stream[Symbol.asyncIterator]() }) {
    if (++count === 21) break
  }
  expect(count).toBe(21)
  expect(stream.getMetrics()).toMatchObject({ accepted: 22, dropped: 1, gaps: 1 })
})

test('all connections are paused at once when the queue is full, and resumed at once when it is half empty', async () => {
  const calls: string[] = []
  const connect = connecting(socket => ({
    ...socket,
    pause() {
      calls.push('pause')
      socket.pause?.()
    },
    resume() {
      calls.push('resume')
      socket.resume?.()
    },
  }))
  const { engine, stream } = await open({ queue: 4 }, { connect })
  const reading = stream.read()
  await until(() => engine.connections === 1)
  for (let count = 0; count < 5; count++) engine.publish(ethUsd)
  await reading
  await until(() => calls.length > 0)
  expect(calls).toEqual(['pause'])
  await stream.read()
  expect(calls).toEqual(['pause'])
  await stream.read()
  expect(calls).toEqual(['pause', 'resume'])
  await stream.read()
  expect(calls).toHaveLength(2)
})

test('a connection that yields continues in the next tick, unless it is paused', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  closers.push(() => server.close())
  await new Promise(resolve => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  const message = 'x'.repeat(16_384)
  server.on('connection', peer => {
    for (let count = 0; count < 500; count++) peer.send(message)
  })
  let received = 0
  let onMessage = (): void => {}
  const target = {
    url: `ws://127.0.0.1:${port}`,
    headers: new Headers(),
    compression: false,
    maxMessageBytes: 1e6,
  }
  const nothing = () => undefined
  const socket = await connectSocket(target, {
    opened: nothing,
    message() {
      received++
      onMessage()
    },
    alive: nothing,
    refused: nothing,
    ended: nothing,
  })
  closers.push(() => socket.terminate())
  onMessage = () => {
    socket.rest?.()
    socket.rest?.()
    if (received === 100) socket.pause?.()
  }
  await until(() => received >= 100)
  await pause(100)
  const before = received
  // What was read in one go, before the pause.
  expect(before).toBeLessThan(200)
  await pause(100)
  expect(received).toBe(before)
  socket.rest?.()
  socket.resume?.()
  await until(() => received === 500)
})

test('a connection that ends as soon as it is told to leaves nothing behind', async () => {
  const { engine } = await open({})
  let terminated = 0
  const connect: Connect = async (_target, events) => {
    setImmediate(events.opened)
    return {
      ping: () => undefined,
      close: () => events.ended(1000, undefined),
      terminate: () => void terminated++,
    }
  }
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, connect })
  await client.createStream(ethUsd).connect()
  await client.close()
  await pause(1000)
  expect(terminated).toBe(0)
})
