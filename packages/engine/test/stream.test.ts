import { request } from 'node:http'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, type PublishedReport, startDataEngine } from '../index.js'
import { openStream, refusedStream, signedHeaders, until } from './support/signed.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const inMs = `0x1003${'5a'.repeat(30)}`
const forbidden = `0x0003${'5b'.repeat(30)}`
const unknown = `0x0003${'5c'.repeat(30)}`
const path = `/api/v1/ws?feedIDs=${ethUsd}`

let engine: DataEngine
beforeAll(async () => {
  engine = await startDataEngine({
    feeds: [ethUsd, inMs, { feedID: forbidden, entitled: false }],
    intervalMs: 0,
    history: 2,
    origins: 2,
  })
})
afterAll(() => engine.close())

const envelope = ({
  feedID,
  validFromTimestamp,
  observationsTimestamp,
  fullReport,
}: PublishedReport) => ({
  feedID,
  validFromTimestamp,
  observationsTimestamp,
  fullReport,
})

test.each(['/api/v1/ws', '/api/v2/ws'])(
  'a stream at %s has the reports of its feeds, as binary frames of JSON',
  async at => {
    const both = await openStream(
      engine,
      `${at}?feedIDs=0x${ethUsd.slice(2).toUpperCase()}%2C${inMs}`,
    )
    const one = await openStream(engine, `${at}?feedIDs=${ethUsd},${ethUsd}`)
    const reports = [engine.publish(ethUsd), engine.publish(inMs), engine.publish(ethUsd)]
    await both.received(3)
    await one.received(2)
    expect(both.frames.map(frame => frame.json)).toEqual(
      reports.map(report => ({ report: envelope(report) })),
    )
    expect(one.frames.map(frame => frame.json.report.feedID)).toEqual([ethUsd, ethUsd])
    expect([...both.frames, ...one.frames].every(frame => frame.isBinary)).toBe(true)
    both.socket.close()
    one.socket.terminate()
    await until(() => engine.connections === 0)
  },
)

test('a report that is not streamed reaches REST alone', async () => {
  const stream = await openStream(engine, path)
  const missed = engine.publish(ethUsd, {}, { streamed: false })
  const next = engine.publish(ethUsd)
  const [frame] = await stream.received(1)
  expect(frame?.json.report.observationsTimestamp).toBe(next.observationsTimestamp)
  expect(next.validFromTimestamp).toBe(missed.observationsTimestamp + 1)
  stream.socket.terminate()
})

test('connections are counted, and the answer to the upgrade has date and origins', async () => {
  await until(() => engine.connections === 0)
  const streams = await Promise.all([1, 2, 3].map(() => openStream(engine, path)))
  expect(engine.connections).toBe(3)
  expect(streams[0]?.headers['x-cll-available-origins']).toBe('{001,002}')
  expect(Math.abs(Date.parse(streams[0]?.headers.date ?? '') - Date.now())).toBeLessThan(600_000)
  for (const { socket } of streams) socket.close()
  await Promise.all(streams.map(stream => stream.closed))
  await until(() => engine.connections === 0)
})

test('the origin of an upgrade is logged, and one that does not exist is accepted', async () => {
  const streams = [
    await openStream(engine, path, { headers: { 'X-Cll-Origin': '002' } }),
    await openStream(engine, path, { headers: { 'X-Cll-Origin': '777' } }),
    await openStream(engine, path),
  ]
  expect(
    engine
      .requests()
      .slice(-3)
      .map(({ method, path, origin, status }) => [method, path, origin, status]),
  ).toEqual([
    ['GET', path, '002', 101],
    ['GET', path, '777', 101],
    ['GET', path, undefined, 101],
  ])
  for (const { socket } of streams) socket.terminate()
})

test('pings are answered', async () => {
  const { socket } = await openStream(engine, path)
  const pong = new Promise<string>(resolve => socket.once('pong', data => resolve(data.toString())))
  socket.ping('are you there')
  expect(await pong).toBe('are you there')
  socket.terminate()
})

test.each([true, false])('compression is the choice of the client: %s', async perMessageDeflate => {
  const stream = await openStream(engine, path, {}, { perMessageDeflate })
  expect(stream.socket.extensions).toBe(perMessageDeflate ? 'permessage-deflate' : '')
  const report = engine.publish(ethUsd)
  const [frame] = await stream.received(1)
  expect(frame?.json).toEqual({ report: envelope(report) })
  stream.socket.terminate()
})

test.each([
  [400, 'header Authorization is missing', path, { headers: { Authorization: undefined } }],
  [400, 'parameter feedIDs is missing', '/api/v1/ws', {}],
  [400, 'parameter feedIDs is malformed', '/api/v1/ws?feedIDs=0x0003', {}],
  [401, 'unauthorized', path, { at: 1_000 }],
  [401, 'unauthorized', path, { headers: { 'X-Authorization-Signature-SHA256': 'ab'.repeat(32) } }],
  [401, 'unauthorized', `/api/v1/ws?feedIDs=${ethUsd},${forbidden}`, {}],
  [401, 'unauthorized', `/api/v1/ws?feedIDs=${unknown}`, {}],
  [404, 'no stream at this path', `/api/v3/ws?feedIDs=${ethUsd}`, {}],
])('an upgrade is refused with %i (%s) as plain HTTP', async (status, message, at, changes) => {
  const reply = await refusedStream(engine, at, changes)
  expect(reply.status).toBe(status)
  expect(reply.json.message).toContain(message)
  expect(reply.headers['x-cll-available-origins']).toBe('{001,002}')
  expect(reply.headers.date).toBeDefined()
})

test('an upgrade that is no WebSocket handshake is refused with 400', async () => {
  const { hostname, port } = new URL(engine.endpoint)
  const headers = { ...signedHeaders(engine, path), Connection: 'Upgrade', Upgrade: 'websocket' }
  const status = await new Promise((resolve, reject) => {
    const outgoing = request({ hostname, port, path, headers, agent: false }, response => {
      response.resume()
      resolve(response.statusCode)
    })
    outgoing.on('error', reject)
    outgoing.end()
  })
  expect(status).toBe(400)
  expect(engine.requests().at(-1)?.status).toBe(400)
})

test('the rate limit is for upgrades too', async () => {
  await using other = await startDataEngine({
    feeds: [ethUsd],
    intervalMs: 0,
    history: 0,
    rateLimit: 1,
  })
  const stream = await openStream(other, path)
  const { status, headers } = await refusedStream(other, path)
  expect(status).toBe(429)
  expect(headers['retry-after']).toBe('1')
  stream.socket.terminate()
})

test('a client that talks is listened to no further than a few kilobytes', async () => {
  const stream = await openStream(engine, path)
  stream.socket.send('subscribe please')
  stream.socket.send('x'.repeat(100_000))
  expect(await stream.closed).toBe(1009)
})

test('a client that does not read is disconnected before it takes much memory', async () => {
  await using other = await startDataEngine({
    feeds: [ethUsd],
    intervalMs: 0,
    history: 0,
    maxBufferedBytes: 100_000,
  })
  const { hostname, port } = new URL(other.endpoint)
  const reader = await openStream(other, path)
  const lines = Object.entries({
    ...signedHeaders(other, path),
    Host: hostname,
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': Buffer.alloc(16).toString('base64'),
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  const lazy = connect(Number(port), hostname)
  lazy.on('error', () => {})
  lazy.write(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  await until(() => other.connections === 2)
  lazy.pause()
  let sent = 0
  while (other.connections === 2) {
    expect(other.send('x'.repeat(1_000_000))).toBe(2)
    sent++
    await reader.received(sent)
    expect(sent).toBeLessThan(60)
  }
  other.publish(ethUsd)
  await reader.received(sent + 1)
  expect(other.connections).toBe(1)
  lazy.destroy()
  reader.socket.terminate()
})
