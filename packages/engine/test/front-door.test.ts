import { connect } from 'node:net'
import { expect, test } from '@jest/globals'
import {
  connections,
  direct,
  directly,
  ethUsd,
  pair,
  path,
  quiet,
  through,
  timeOf,
} from './support/origins.js'
import { refusedStream, send, signedHeaders, sleep, until } from './support/signed.js'

test('an upgrade goes to the origin that its header names, and without one to each in turn', async () => {
  await using engine = await quiet({ origins: 3 })
  await through(engine, '002')
  expect(connections(engine)).toEqual([0, 1, 0])
  await through(engine, '003')
  await through(engine, '003')
  expect(connections(engine)).toEqual([0, 1, 2])
  for (let i = 0; i < 3; i++) await through(engine)
  expect(connections(engine)).toEqual([1, 2, 3])
  expect(engine.origins.map(({ upgrades }) => upgrades)).toEqual([1, 2, 3])
  await through(engine, '777')
  expect(engine.connections).toBe(7)
  expect(engine.requests().map(({ origin, status, stream }) => [origin, status, stream])).toEqual([
    ['002', 101, 1],
    ['003', 101, 2],
    ['003', 101, 3],
    [undefined, 101, 4],
    [undefined, 101, 5],
    [undefined, 101, 6],
    ['777', 101, 7],
  ])
})

test('each origin has a port of its own, which accepts connections directly', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  expect(engine.origins.map(({ id }) => id)).toEqual(['001', '002'])
  const ports = [engine, one, two].map(({ wsEndpoint }) => new URL(wsEndpoint).port)
  expect(new Set(ports).size).toBe(3)
  const streams = [await directly(engine, two), await directly(engine, two)]
  expect(connections(engine)).toEqual([0, 2])
  const report = engine.publish(ethUsd)
  for (const stream of streams) {
    await stream.received(1)
    expect(stream.frames.map(timeOf)).toEqual([report.observationsTimestamp])
  }
  const refused = await refusedStream(direct(engine, one), path, { at: 1_000 })
  expect(refused.status).toBe(401)
  expect([one.upgrades, two.upgrades]).toEqual([1, 2])
})

test('a single origin is the engine itself', async () => {
  await using engine = await quiet({ origins: 1 })
  const [only] = pair(engine)
  expect(engine.origins).toHaveLength(1)
  expect([only.id, only.wsEndpoint]).toEqual(['001', engine.wsEndpoint])
  const stream = await through(engine, '777')
  expect([only.connections, only.upgrades]).toEqual([1, 1])
  only.refuse(503)
  expect((await refusedStream(engine, path)).status).toBe(503)
  expect((await send(engine, '/api/v1/feeds')).status).toBe(200)
  only.refuse(undefined)
  await only.kill()
  expect((await stream.broken).code).toBe('ECONNRESET')
  await expect(send(engine, '/api/v1/feeds')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await only.restart()
  await through(engine)
  expect(only.upgrades).toBe(3)
})

test('upgrades for a dead origin go to a live one when they are rerouted', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  await one.kill()
  engine.reroute(true)
  await through(engine, '001')
  expect(connections(engine)).toEqual([0, 1])
  expect([one.upgrades, two.upgrades]).toEqual([1, 1])
  engine.reroute(false)
  const named = { headers: { 'X-Cll-Origin': '001' } }
  expect((await refusedStream(engine, path, named)).status).toBe(502)
  engine.reroute(true)
  await two.kill()
  expect((await refusedStream(engine, path, named)).status).toBe(502)
  expect((await refusedStream(engine, path)).status).toBe(502)
})

test('an upgrade for a dead origin meets failures and blackholes of the engine first', async () => {
  await using engine = await quiet()
  await engine.origins[0]?.kill()
  const named = { headers: { 'X-Cll-Origin': '001' } }
  engine.fail({ status: 418 })
  expect((await refusedStream(engine, path, named)).status).toBe(418)
  engine.blackhole(true)
  let status: number | undefined
  const refused = refusedStream(engine, path, named).then(reply => {
    status = reply.status
  })
  await sleep(100)
  expect(status).toBeUndefined()
  engine.blackhole(false)
  await refused
  expect(status).toBe(502)
})

test('a client that resets or ends its connection is gone from the origin behind the front door', async () => {
  await using engine = await quiet()
  const streams = [await through(engine, '001'), await through(engine, '001')]
  expect(engine.connections).toBe(2)
  streams[0]?.socket.close(1000)
  expect(await streams[0]?.closed).toBe(1000)
  await until(() => engine.connections === 1)
  streams[1]?.socket.terminate()
  await until(() => engine.connections === 0)
})

test('the front door reads no more from an origin than its client takes', async () => {
  await using engine = await quiet({ maxBufferedBytes: 100_000 })
  const { hostname, port } = new URL(engine.endpoint)
  const lines = Object.entries({
    ...signedHeaders(engine, path),
    Host: hostname,
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': Buffer.alloc(16).toString('base64'),
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  const lazy = connect(Number(port), hostname)
  lazy.on('error', () => {})
  lazy.write(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  await until(() => engine.connections === 1)
  lazy.pause()
  for (let sent = 0; engine.connections === 1; sent++) {
    engine.send('x'.repeat(1_000_000))
    await sleep(5)
    expect(sent).toBeLessThan(60)
  }
  lazy.destroy()
})
