import { connect, createServer } from 'node:net'
import { expect, test } from '@jest/globals'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '../index.js'
import { openStream, refusedStream, send, sleep, until } from './support/signed.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const other = `0x0003${'5a'.repeat(30)}`
const path = `/api/v1/ws?feedIDs=${ethUsd}`

const quiet = (options: DataEngineOptions = {}) =>
  startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 1, ...options })

const statusOf = async (engine: DataEngine, path = '/api/v1/feeds') =>
  (await send(engine, path)).status

test('a failure answers the next request, once, before anything else is checked', async () => {
  await using engine = await quiet()
  engine.fail({ status: 503 })
  const reply = await send(engine, '/nowhere', { headers: { Authorization: undefined } })
  expect(reply.status).toBe(503)
  expect(reply.json.message).toContain('503')
  expect(reply.headers['x-cll-available-origins']).toBe('{001}')
  expect(reply.headers.date).toBeDefined()
  expect(await statusOf(engine)).toBe(200)
  expect(engine.requests().map(({ status }) => status)).toEqual([503, 200])
})

test('a failure answers as often as it says, for its paths and its method alone, until it is called off', async () => {
  await using engine = await quiet()
  engine.fail({ status: 500, times: 2, path: '/api/v1/reports' })
  const callOff = engine.fail({ status: 502, times: Number.POSITIVE_INFINITY, method: 'HEAD' })
  const latest = `/api/v1/reports/latest?feedID=${ethUsd}`
  expect(await statusOf(engine)).toBe(200)
  expect([
    await statusOf(engine, latest),
    await statusOf(engine, latest),
    await statusOf(engine, latest),
  ]).toEqual([500, 500, 200])
  const head = async () => (await send(engine, '/', { method: 'HEAD' })).status
  expect([await head(), await head()]).toEqual([502, 502])
  callOff()
  expect(await head()).toBe(200)
})

test.each([
  ['<html><body>Bad gateway</body></html>', 'text/html'],
  ['', 'application/json'],
  ['{}', 'application/json'],
  ['{"report":', 'text/plain'],
])('a failure has the body it was given: %j', async (body, type) => {
  await using engine = await quiet()
  engine.fail({
    status: 200,
    body,
    headers: type === 'application/json' ? {} : { 'Content-Type': type },
  })
  const reply = await send(engine, '/api/v1/feeds')
  expect(reply.status).toBe(200)
  expect(reply.text).toBe(body)
  expect(reply.headers['content-type']).toBe(type)
  expect(reply.headers['content-length']).toBe(String(body.length))
})

test('a failure has its Retry-After and its headers, which win over those of the engine', async () => {
  await using engine = await quiet()
  engine.fail({ status: 429, retryAfter: 7 })
  expect((await send(engine, '/api/v1/feeds')).headers['retry-after']).toBe('7')
  engine.fail({
    status: 429,
    retryAfter: 'soon',
    headers: { 'X-Cll-Available-Origins': '{a,b}', Date: 'never' },
  })
  const { headers } = await send(engine, '/api/v1/feeds')
  expect([headers['retry-after'], headers['x-cll-available-origins'], headers.date]).toEqual([
    'soon',
    '{a,b}',
    'never',
  ])
})

test('a failure can take its time', async () => {
  await using engine = await quiet({ clock: 'manual' })
  engine.fail({ status: 500, delayMs: 500 })
  const slow = send(engine, '/api/v1/feeds', { at: engine.now() })
  await until(() => engine.requests().length === 1)
  expect((await send(engine, '/api/v1/feeds', { at: engine.now() })).status).toBe(200)
  await engine.advance(499)
  expect(engine.requests()[0]?.status).toBeUndefined()
  await engine.advance(1)
  expect((await slow).status).toBe(500)
})

test('a failure answers an upgrade, also with success', async () => {
  await using engine = await quiet()
  engine.fail({ status: 403, body: '<h1>no</h1>', path: '/api/v1/ws' })
  expect(await statusOf(engine)).toBe(200)
  const refused = await refusedStream(engine, path)
  expect([refused.status, refused.text]).toEqual([403, '<h1>no</h1>'])
  engine.fail({ status: 200 })
  expect((await refusedStream(engine, path)).status).toBe(200)
  const stream = await openStream(engine, path)
  expect(
    engine
      .requests()
      .slice(1)
      .map(({ status }) => status),
  ).toEqual([403, 200, 101])
  stream.socket.terminate()
})

test('a failure that makes no sense is an error', async () => {
  await using engine = await quiet()
  expect(() => engine.fail({ status: 101 })).toThrow('fail: status must be at least 200, not 101')
  expect(() => engine.fail({ status: 500, times: 0 })).toThrow(
    'fail: times must be at least 1, not 0',
  )
  expect(() => engine.fail({ status: 500, delayMs: -1 })).toThrow(
    'fail: delayMs must be at least 0, not -1',
  )
  expect(() => engine.fail({ status: 500, headers: { 'X-A': 'a\r\nb' } })).toThrow()
  expect(await statusOf(engine)).toBe(200)
})

test.each([
  [1000, 1000],
  [1001, 1001],
  [1005, 1005],
  [1006, 1006],
  [1008, 1008],
  [1013, 1013],
  [4401, 4401],
])('disconnect(%i) closes every stream with that code', async (code, seen) => {
  await using engine = await quiet()
  const streams = await Promise.all([openStream(engine, path), openStream(engine, path)])
  expect(engine.disconnect(code)).toBe(2)
  expect(await Promise.all(streams.map(stream => stream.closed))).toEqual([seen, seen])
  await until(() => engine.connections === 0)
  expect(engine.disconnect(code)).toBe(0)
})

test('disconnect without a code resets the connection', async () => {
  await using engine = await quiet()
  const stream = await openStream(engine, path)
  engine.disconnect()
  expect((await stream.broken).code).toBe('ECONNRESET')
  expect(await stream.closed).toBe(1006)
})

test('a close code that no frame can carry is an error', async () => {
  await using engine = await quiet()
  for (const code of [999, 1004, 1015, 2000, 5000, 1000.5]) {
    expect(() => engine.disconnect(code)).toThrow(`got ${code}`)
  }
})

test('a raw frame goes out as it is, as text or as bytes, to all or to the subscribers of a feed', async () => {
  await using engine = await quiet({ feeds: [ethUsd, other] })
  const one = await openStream(engine, path)
  const two = await openStream(engine, `/api/v1/ws?feedIDs=${other}`)
  expect(engine.send('{"report":')).toBe(2)
  expect(
    engine.send(Uint8Array.of(0x66, 0x6f, 0x6f), ethUsd.toUpperCase().replace('0X', '0x')),
  ).toBe(1)
  expect(engine.send('x', `0x0003${'00'.repeat(30)}`)).toBe(0)
  engine.publish(other)
  await one.received(2)
  await two.received(2)
  expect(one.frames.map(({ text, isBinary }) => [text, isBinary])).toEqual([
    ['{"report":', false],
    ['foo', true],
  ])
  expect(two.frames.map(({ json }) => json?.report.feedID)).toEqual([undefined, other])
  one.socket.terminate()
  two.socket.terminate()
})

test('in a blackhole nothing is answered and nothing closes, and afterwards everything comes', async () => {
  await using engine = await quiet()
  const stream = await openStream(engine, path)
  const leaving = await openStream(engine, path)
  let pongs = 0
  stream.socket.on('pong', () => pongs++)
  engine.blackhole(true)
  const settled: string[] = []
  const note = (name: string) => () => void settled.push(name)
  const request = send(engine, '/api/v1/feeds').finally(note('request'))
  const upgrade = openStream(engine, path).finally(note('upgrade'))
  stream.socket.ping()
  const reports = [engine.publish(ethUsd), engine.publish(ethUsd)]
  await until(() => engine.requests().length === 4)
  await sleep(150)
  expect(settled).toEqual([])
  expect([pongs, stream.frames.length, engine.connections]).toEqual([0, 0, 2])
  expect(stream.socket.readyState).toBe(stream.socket.OPEN)
  leaving.socket.close()
  await sleep(50)
  expect(engine.connections).toBe(2)
  engine.blackhole(false)
  expect(await leaving.closed).toBe(1005)
  expect((await request).status).toBe(200)
  const late = await upgrade
  await stream.received(2)
  await until(() => pongs === 1)
  expect(stream.frames.map(({ json }) => json.report.observationsTimestamp)).toEqual(
    reports.map(report => report.observationsTimestamp),
  )
  expect(engine.connections).toBe(2)
  for (const { socket } of [stream, late]) socket.terminate()
})

test('a stream that would miss frames by a long blackhole is closed at its end', async () => {
  await using engine = await quiet({ maxBufferedBytes: 10_000 })
  const stream = await openStream(engine, path, {}, { perMessageDeflate: false })
  engine.blackhole(true)
  for (let i = 0; i < 20; i++) engine.send('x'.repeat(1_000))
  await sleep(20)
  expect(engine.connections).toBe(1)
  engine.blackhole(false)
  expect(await stream.closed).toBe(1006)
})

test('a request whose client has left during a blackhole is forgotten', async () => {
  await using engine = await quiet()
  engine.blackhole(true)
  const { hostname, port } = new URL(engine.endpoint)
  const socket = connect(Number(port), hostname, () =>
    socket.write('GET /api/v1/feeds HTTP/1.1\r\nHost: x\r\n\r\n'),
  )
  await until(() => engine.requests().length === 1)
  socket.destroy()
  await sleep(20)
  engine.blackhole(false)
  await sleep(20)
  expect(engine.requests()[0]?.status).toBeUndefined()
  expect(await statusOf(engine)).toBe(200)
})

test('a stopped engine refuses connections, publishes on, and comes back on its port with all it had', async () => {
  await using engine = await quiet({ intervalMs: 20, runAhead: true })
  const stream = await openStream(engine, path)
  await engine.stop()
  await engine.stop()
  expect(await stream.closed).toBe(1006)
  expect(engine.connections).toBe(0)
  await expect(send(engine, '/api/v1/feeds')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  const count = engine.ledger().length
  await until(() => engine.ledger().length > count + 2)
  await Promise.all([engine.start(), engine.start()])
  const { json } = await send(
    engine,
    `/api/v1/reports/page?feedID=${ethUsd}&startTimestamp=0&limit=1000`,
  )
  expect(json.reports.length).toBeGreaterThan(count + 2)
  const again = await openStream(engine, path)
  await again.received(1)
  again.socket.terminate()
})

test('an engine comes back on its port when somebody else has it for a while', async () => {
  await using engine = await quiet()
  await engine.stop()
  const squatter = createServer()
  await new Promise<void>(resolve =>
    squatter.listen(Number(new URL(engine.endpoint).port), '127.0.0.1', resolve),
  )
  const start = engine.start()
  await sleep(120)
  squatter.close()
  await start
  expect(await statusOf(engine)).toBe(200)
})

test('a port that is taken from the beginning is an error at once', async () => {
  await using engine = await quiet()
  const port = Number(new URL(engine.endpoint).port)
  await expect(quiet({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
})

test('close ends, whatever is going on, and leaves no timer', async () => {
  const timers = () => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length
  const before = timers()
  const engine = await quiet({ intervalMs: 5, runAhead: true, keepAlive: true })
  const stream = await openStream(engine, path)
  engine.fail({ status: 500, delayMs: 60_000 })
  const delayed = send(engine, '/api/v1/feeds')
  await until(() => engine.requests().length === 2)
  engine.blackhole(true)
  const held = send(engine, '/api/v1/feeds')
  const outcomes = Promise.allSettled([delayed, held])
  await until(() => engine.requests().length === 3)
  await engine.close()
  expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await stream.closed).toBe(1006)
  await until(() => timers() <= before)
})

test('close ends an engine that is waiting for its port', async () => {
  const engine = await quiet()
  await engine.stop()
  const squatter = createServer()
  await new Promise<void>(resolve =>
    squatter.listen(Number(new URL(engine.endpoint).port), '127.0.0.1', resolve),
  )
  const start = engine.start()
  await sleep(20)
  await engine.close()
  await start
  squatter.close()
  await expect(send(engine, '/api/v1/feeds')).rejects.toMatchObject({
    code: expect.stringMatching(/ECONN/),
  })
})
