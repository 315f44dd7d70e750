import { connect } from 'node:net'
import { createClient } from '@chainlink/data-streams-sdk'
import { afterEach, expect, jest, test } from '@jest/globals'
import {
  type DataEngine,
  type DataEngineOptions,
  type EngineOrigin,
  type PublishedReport,
  startDataEngine,
} from '../../local/index.js'
import {
  type Frame,
  type OpenStream,
  openStream,
  refusedStream,
  send,
  signedHeaders,
  sleep,
  until,
} from '../support/local/signed.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const path = `/api/v1/ws?feedIDs=${ethUsd}`

const open: OpenStream[] = []
afterEach(() => {
  for (const { socket } of open.splice(0)) socket.terminate()
})

const quiet = (options: DataEngineOptions = {}) =>
  startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 0, origins: 2, ...options })

const count = (kind: string) =>
  process.getActiveResourcesInfo().filter(name => name.startsWith(kind)).length

/** The sockets and servers that other files have left in this process. */
let foreign = count('TCP')

/** Waits until no more than they are left. */
async function untilAlone(): Promise<void> {
  await until(() => count('TCP') <= foreign)
  foreign = count('TCP')
}

/** Where an origin is dialled directly. */
const direct = ({ apiKey, userSecret }: DataEngine, { wsEndpoint }: EngineOrigin) => ({
  apiKey,
  userSecret,
  wsEndpoint,
})

/** A stream through the front door. */
async function through(engine: DataEngine, id?: string): Promise<OpenStream> {
  const stream = await openStream(engine, path, { headers: { 'X-Cll-Origin': id } })
  open.push(stream)
  return stream
}

async function directly(engine: DataEngine, origin: EngineOrigin): Promise<OpenStream> {
  const stream = await openStream(direct(engine, origin), path)
  open.push(stream)
  return stream
}

const pair = ({ origins }: DataEngine) => origins as unknown as [EngineOrigin, EngineOrigin]
const connections = ({ origins }: DataEngine) => origins.map(origin => origin.connections)
const timeOf = (frame: Frame): number => frame.json.report.observationsTimestamp
const publish = (engine: DataEngine, count: number) =>
  Array.from({ length: count }, () => engine.publish(ethUsd))
const times = (reports: readonly PublishedReport[]) =>
  reports.map(report => report.observationsTimestamp)
const listedBy = async (engine: DataEngine) => {
  const { headers } = await send(engine, '/', { method: 'HEAD' })
  return headers['x-cll-available-origins']
}

/** What has come once a frame that no switch holds up has come too. */
async function settled(engine: DataEngine, stream: OpenStream): Promise<Frame[]> {
  const mark = `mark ${stream.frames.length}`
  engine.send(mark)
  await until(() => stream.frames.at(-1)?.text === mark)
  return stream.frames.filter(({ json }) => json !== undefined)
}

test('an upgrade goes to the origin that its header names, and without one to each in turn', async () => {
  await using engine = await quiet({ origins: 3 })
  await through(engine, '002')
  expect(connections(engine)).toEqual([0, 1, 0])
  await through(engine, '003')
  await through(engine, '003')
  expect(connections(engine)).toEqual([0, 1, 2])
  for (let i = 0; i < 3; i++) await through(engine)
  expect(connections(engine)).toEqual([1, 2, 3])
  expect(engine.origins.map(({ dials }) => dials)).toEqual([1, 2, 3])
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

test('each origin has a port of its own, where it can be dialled directly', async () => {
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
  expect([one.dials, two.dials]).toEqual([1, 2])
})

test('a single origin is the engine itself', async () => {
  await using engine = await quiet({ origins: 1 })
  const [only] = pair(engine)
  expect(engine.origins).toHaveLength(1)
  expect([only.id, only.wsEndpoint]).toEqual(['001', engine.wsEndpoint])
  const stream = await through(engine, '777')
  expect([only.connections, only.dials]).toEqual([1, 1])
  only.refuse(503)
  expect((await refusedStream(engine, path)).status).toBe(503)
  expect((await send(engine, '/api/v1/feeds')).status).toBe(200)
  only.refuse(undefined)
  await only.kill()
  expect((await stream.broken).code).toBe('ECONNRESET')
  await expect(send(engine, '/api/v1/feeds')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await only.restart()
  await through(engine)
  expect(only.dials).toBe(3)
})

test('a killed origin resets its connections and refuses others, while the rest goes on', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  const killed = [await directly(engine, one), await through(engine, '001')]
  const alive = [await directly(engine, two), await through(engine, '002')]
  await one.kill()
  for (const { broken, closed } of killed) {
    expect((await broken).code).toBe('ECONNRESET')
    expect(await closed).toBe(1006)
  }
  await expect(directly(engine, one)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  expect(one.dials).toBe(2)
  const refused = await refusedStream(engine, path, { headers: { 'X-Cll-Origin': '001' } })
  expect([refused.status, refused.headers['content-type']]).toEqual([502, 'text/html'])
  expect(refused.headers['x-cll-available-origins']).toBe('{001,002}')
  expect(one.dials).toBe(3)
  expect(engine.requests().at(-1)).toMatchObject({ origin: '001', status: 502 })
  expect((await send(engine, '/api/v1/feeds')).status).toBe(200)
  await through(engine)
  await through(engine)
  expect(connections(engine)).toEqual([0, 4])
  const report = engine.publish(ethUsd)
  for (const stream of alive) {
    await stream.received(1)
    expect(stream.frames.map(timeOf)).toEqual([report.observationsTimestamp])
  }
})

test('a restarted origin is back on its port', async () => {
  await using engine = await quiet()
  const [one] = pair(engine)
  const { wsEndpoint } = one
  await one.kill()
  await one.kill()
  await Promise.all([one.restart(), one.restart()])
  expect(one.wsEndpoint).toBe(wsEndpoint)
  const streams = [await directly(engine, one), await through(engine, '001')]
  expect(connections(engine)).toEqual([2, 0])
  engine.publish(ethUsd)
  for (const stream of streams) await stream.received(1)
  void one.kill()
  await one.restart()
  await directly(engine, one)
})

test('upgrades for a dead origin go to a live one when they are rerouted', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  await one.kill()
  engine.reroute(true)
  await through(engine, '001')
  expect(connections(engine)).toEqual([0, 1])
  expect([one.dials, two.dials]).toEqual([1, 1])
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

test.each(['directly', 'through the front door'])(
  'a blackholed origin is silent, dialled %s, and the others are not',
  async how => {
    await using engine = await quiet()
    const [one, two] = pair(engine)
    const dial = () => (how === 'directly' ? directly(engine, one) : through(engine, '001'))
    const stream = await dial()
    const other = await through(engine, '002')
    let pongs = 0
    stream.socket.on('pong', () => pongs++)
    one.blackhole(true)
    let isOpen = false
    const late = dial().finally(() => {
      isOpen = true
    })
    stream.socket.ping()
    const reports = publish(engine, 2)
    await other.received(2)
    await until(() => one.dials === 2)
    await sleep(100)
    expect([isOpen, pongs, stream.frames.length, one.connections]).toEqual([false, 0, 0, 1])
    expect(engine.deliveries(reports[0] as PublishedReport)).toMatchObject([{ origin: two.id }])
    engine.blackhole(true)
    one.blackhole(false)
    await sleep(50)
    expect([isOpen, stream.frames.length]).toEqual([false, 0])
    one.blackhole(true)
    engine.blackhole(false)
    await sleep(50)
    expect([isOpen, stream.frames.length]).toEqual([false, 0])
    one.blackhole(false)
    await late
    await stream.received(2)
    await until(() => pongs === 1)
    expect(stream.frames.map(timeOf)).toEqual(times(reports))
    expect(engine.deliveries(reports[0] as PublishedReport).map(({ origin }) => origin)).toEqual([
      '002',
      '001',
    ])
  },
)

test('a report held back in a blackhole whose stream then dies was not delivered', async () => {
  await using engine = await quiet()
  const [one] = pair(engine)
  await directly(engine, one)
  one.blackhole(true)
  const report = engine.publish(ethUsd)
  await one.kill()
  one.blackhole(false)
  await one.restart()
  expect(engine.deliveries(report)).toEqual([])
})

test('an origin refuses upgrades, some or all, and no requests', async () => {
  await using engine = await quiet()
  const [one] = pair(engine)
  const refusal = async () => {
    const reply = await refusedStream(engine, path, { headers: { 'X-Cll-Origin': '001' } })
    return reply.status
  }
  one.refuse(429, 2)
  await through(engine, '002')
  expect((await send(engine, '/api/v1/feeds')).status).toBe(200)
  expect([await refusal(), (await refusedStream(direct(engine, one), path)).status]).toEqual([
    429, 429,
  ])
  await through(engine, '001')
  one.refuse(503)
  expect([await refusal(), await refusal(), await refusal()]).toEqual([503, 503, 503])
  expect(connections(engine)).toEqual([1, 1])
  one.refuse(undefined)
  await through(engine, '001')
  expect(one.dials).toBe(7)
  expect(() => one.refuse(101)).toThrow('refuse: status is 200 to 599, got 101')
  expect(() => one.refuse(500, 0)).toThrow('refuse: times is 1 or more, got 0')
})

test('an origin with a delay sends later, in order, until the delay ends', async () => {
  await using engine = await quiet()
  const [one] = pair(engine)
  const slow = await through(engine, '001')
  const quick = await through(engine, '002')
  one.delay(200)
  const start = performance.now()
  const reports = publish(engine, 3)
  await slow.received(3)
  expect(performance.now() - start).toBeGreaterThanOrEqual(200)
  expect(slow.frames.map(timeOf)).toEqual(times(reports))
  one.delay(60_000)
  reports.push(...publish(engine, 2))
  await quick.received(5)
  expect(slow.frames).toHaveLength(3)
  one.delay(0)
  reports.push(...publish(engine, 1))
  await slow.received(6)
  expect(slow.frames.map(timeOf)).toEqual(times(reports))
  for (const ms of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(() => one.delay(ms)).toThrow(`got ${ms}`)
  }
})

test('what a killed origin had delayed or held back is lost', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  for (const origin of [one, two]) await through(engine, origin.id)
  one.delay(20)
  two.reorder(5)
  const lost = engine.publish(ethUsd)
  await Promise.all([one.kill(), two.kill()])
  const meanwhile = engine.publish(ethUsd)
  await Promise.all([one.restart(), two.restart()])
  const streams = [await through(engine, '001'), await through(engine, '002')]
  const report = engine.publish(ethUsd)
  two.reorder(0)
  for (const stream of streams) {
    await stream.received(1)
    await sleep(40)
    expect(stream.frames.map(timeOf)).toEqual([report.observationsTimestamp])
  }
  expect([lost, meanwhile].map(engine.deliveries)).toEqual([[], []])
})

test('an origin drops the share of reports it is told, the same for the same seed', async () => {
  const patterns: boolean[][] = []
  for (const seed of [1, 1, 2]) {
    await using engine = await quiet({ seed })
    const [one, two] = pair(engine)
    const both = [await through(engine, '001'), await through(engine, '002')]
    one.drop(0.3)
    two.drop(0.3)
    const reports = publish(engine, 100)
    for (const stream of both) {
      const seen = new Set((await settled(engine, stream)).map(timeOf))
      patterns.push(times(reports).map(time => seen.has(time)))
      expect(seen.size).toBeGreaterThan(50)
      expect(seen.size).toBeLessThan(90)
    }
  }
  const [first, second, again, secondAgain, other] = patterns
  expect(again).toEqual(first)
  expect(secondAgain).toEqual(second)
  expect(second).not.toEqual(first)
  expect(other).not.toEqual(first)
})

test('an origin drops the reports a function picks, or none', async () => {
  await using engine = await quiet()
  const [one] = pair(engine)
  const stream = await through(engine, '001')
  one.drop(({ seqNr }) => seqNr % 2 === 0)
  const reports = publish(engine, 4)
  one.drop(1)
  publish(engine, 2)
  one.drop(0)
  const last = publish(engine, 1)
  const frames = await settled(engine, stream)
  expect(frames.map(timeOf)).toEqual(times([reports[0], reports[2], last[0]] as PublishedReport[]))
  expect(reports.map(report => engine.deliveries(report).length)).toEqual([1, 0, 1, 0])
  for (const rate of [-0.1, 1.1, Number.NaN]) {
    for (const name of ['drop', 'duplicate', 'corrupt'] as const) {
      expect(() => one[name](rate)).toThrow(`${name}: a rate is 0 to 1, got ${rate}`)
    }
  }
})

test('an origin sends reports twice', async () => {
  await using engine = await quiet()
  const [one] = pair(engine)
  const stream = await through(engine, '001')
  const other = await through(engine, '002')
  one.duplicate(1)
  const [first] = publish(engine, 1) as [PublishedReport]
  one.duplicate(0.5)
  publish(engine, 60)
  one.duplicate(0)
  publish(engine, 1)
  const seen = (await settled(engine, stream)).map(timeOf)
  expect(seen.slice(0, 2)).toEqual([first.observationsTimestamp, first.observationsTimestamp])
  expect(seen).toEqual([...seen].sort((a, b) => a - b))
  expect(new Set(seen).size).toBe(62)
  expect(seen.length).toBeGreaterThan(62 + 15)
  expect(seen.length).toBeLessThan(62 + 45)
  expect(await settled(engine, other)).toHaveLength(62)
  expect(engine.deliveries(first).map(({ origin }) => origin)).toEqual(['001', '001', '002'])
})

test.each([1, 4, 20])('an origin reorders reports within a depth of %i', async depth => {
  await using engine = await quiet()
  const [one] = pair(engine)
  const stream = await through(engine, '001')
  const other = await through(engine, '002')
  one.reorder(depth)
  const sent = times(publish(engine, 100))
  expect(await settled(engine, stream)).toHaveLength(100 - depth)
  one.reorder(0)
  sent.push(...times(publish(engine, 1)))
  const seen = (await settled(engine, stream)).map(timeOf)
  expect(seen).not.toEqual(sent)
  expect([...seen].sort((a, b) => a - b)).toEqual(sent)
  const shifts = seen.map((time, i) => Math.abs(sent.indexOf(time) - i))
  expect(Math.max(...shifts)).toBeLessThanOrEqual(depth)
  expect(Math.max(...shifts)).toBeGreaterThan(depth / 2)
  const others = (await settled(engine, other)).map(timeOf)
  expect(others).toEqual(sent)
  expect(() => one.reorder(-1)).toThrow('got -1')
  expect(() => one.reorder(1.5)).toThrow('got 1.5')
})

test('an origin corrupts bytes of frames, which stay frames', async () => {
  await using engine = await quiet()
  const [one] = pair(engine)
  const stream = await through(engine, '001')
  const bytes: Buffer[] = []
  stream.socket.on('message', data => bytes.push(data as Buffer))
  const other = await through(engine, '002')
  one.corrupt(1)
  const corrupt = publish(engine, 10)
  one.corrupt(0)
  const whole = engine.publish(ethUsd)
  await stream.received(11)
  await other.received(11)
  for (const [i, { text }] of other.frames.entries()) {
    const original = Buffer.from(text)
    const sent = bytes[i] as Buffer
    expect(sent).toHaveLength(original.length)
    const changed = [...original].filter((byte, at) => byte !== sent[at]).length
    if (i === 10) expect(changed).toBe(0)
    else expect(changed >= 1 && changed <= 4).toBe(true)
  }
  expect(other.frames.map(timeOf)).toEqual(times([...corrupt, whole]))
  const origins = (report: PublishedReport) => engine.deliveries(report).map(({ origin }) => origin)
  expect(origins(corrupt[0] as PublishedReport)).toEqual(['002'])
  expect(origins(whole)).toEqual(['001', '002'])
})

test('an origin disconnects its own streams, by a close code or a reset', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  const streams = [await directly(engine, one), await through(engine, '001')]
  const other = await through(engine, '002')
  expect(one.disconnect(1012)).toBe(2)
  expect(await Promise.all(streams.map(({ closed }) => closed))).toEqual([1012, 1012])
  expect(connections(engine)).toEqual([0, 1])
  expect(two.disconnect()).toBe(1)
  expect((await other.broken).code).toBe('ECONNRESET')
  const again = await through(engine, '001')
  expect(one.disconnect(1006)).toBe(1)
  expect(await again.closed).toBe(1006)
  expect(() => one.disconnect(999)).toThrow('got 999')
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

test('an origin that leaves is no longer listed, and keeps its streams', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  expect(await listedBy(engine)).toBe('{001,002}')
  const stream = await through(engine, '001')
  one.leave()
  expect(await listedBy(engine)).toBe('{002}')
  expect(stream.socket.readyState).toBe(stream.socket.OPEN)
  const named = await through(engine, '001')
  expect(named.headers['x-cll-available-origins']).toBe('{002}')
  await through(engine)
  await through(engine)
  expect(connections(engine)).toEqual([2, 2])
  engine.publish(ethUsd)
  await stream.received(1)
  two.leave()
  const { headers } = await send(engine, '/api/v1/feeds')
  expect(headers['x-cll-available-origins']).toBe('{}')
  await through(engine)
  one.join()
  two.join()
  expect(await listedBy(engine)).toBe('{001,002}')
})

test('stop and start take all origins away and bring them back on their ports, but for killed ones', async () => {
  await using engine = await quiet({ origins: 3 })
  const [one, two, three] = engine.origins as [EngineOrigin, EngineOrigin, EngineOrigin]
  const endpoints = () => [engine, one, two, three].map(({ wsEndpoint }) => wsEndpoint)
  const before = endpoints()
  const streams = [await directly(engine, one), await through(engine, '002')]
  await engine.stop()
  for (const { closed } of streams) expect(await closed).toBe(1006)
  await expect(through(engine)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await expect(directly(engine, one)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await two.kill()
  await three.kill()
  await three.restart()
  await expect(directly(engine, three)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await engine.start()
  expect(endpoints()).toEqual(before)
  for (const origin of [one, three]) await directly(engine, origin)
  await through(engine, '003')
  await expect(directly(engine, two)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await two.restart()
  await directly(engine, two)
})

test('what the engine does, it does at all origins', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  const streams = [await through(engine, '001'), await directly(engine, two)]
  expect(engine.connections).toBe(2)
  expect(engine.send('hello', ethUsd)).toBe(2)
  expect(engine.send('hello')).toBe(2)
  for (const stream of streams) await stream.received(2)
  engine.fail({ status: 503, times: 3, path: '/api' })
  const statuses = [
    (await refusedStream(engine, path)).status,
    (await refusedStream(direct(engine, one), path)).status,
    (await send(engine, '/api/v1/feeds')).status,
    (await send(engine, '/api/v1/feeds')).status,
  ]
  expect(statuses).toEqual([503, 503, 503, 200])
  expect(engine.requests().map(({ status }) => status)).toEqual([101, 101, ...statuses])
  expect(engine.disconnect(4000)).toBe(2)
  expect(await Promise.all(streams.map(({ closed }) => closed))).toEqual([4000, 4000])
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

test('deliveries are what streams have received, whatever the switches do', async () => {
  await using engine = await quiet({ origins: 3 })
  const [one, two, three] = engine.origins as [EngineOrigin, EngineOrigin, EngineOrigin]
  const before = engine.publish(ethUsd)
  const streams = [
    await through(engine, '001'),
    await directly(engine, one),
    await through(engine, '002'),
    await through(engine, '003'),
  ]
  one.drop(0.4)
  one.duplicate(0.3)
  two.drop(0.4)
  two.reorder(3)
  three.corrupt(0.3)
  const reports = publish(engine, 60)
  const missed = engine.publish(ethUsd, {}, { streamed: false })
  for (const stream of streams) await settled(engine, stream)
  streams[3]?.socket.terminate()
  await until(() => three.connections === 0)
  reports.push(...publish(engine, 10))
  two.reorder(0)
  for (const stream of streams.slice(0, 3)) await settled(engine, stream)
  expect(engine.deliveries(before)).toEqual([])
  expect(engine.deliveries(missed)).toEqual([])
  const text = ({
    feedID,
    fullReport,
    validFromTimestamp,
    observationsTimestamp,
  }: PublishedReport) =>
    JSON.stringify({ report: { feedID, fullReport, validFromTimestamp, observationsTimestamp } })
  for (const report of reports) {
    const deliveries = engine.deliveries(report)
    for (const [i, id] of ['001', '001', '002', '003'].entries()) {
      const mine = deliveries.filter(({ stream }) => stream === i + 1)
      const seen = streams[i]?.frames.filter(frame => frame.text === text(report))
      expect(mine).toHaveLength(seen?.length ?? 0)
      for (const { origin, at } of mine) {
        expect(origin).toBe(id)
        expect(at).toBeGreaterThanOrEqual(report.publishedAt)
        expect(at).toBeLessThanOrEqual(Date.now())
      }
    }
  }
  const alive = reports.filter(report => engine.deliveries(report).length > 0)
  expect(alive.length).toBeGreaterThan(40)
})

test('one frame is made of a report, however many get it', async () => {
  await using engine = await quiet({ origins: 4, compression: false })
  const streams: OpenStream[] = []
  for (const { id } of engine.origins) {
    streams.push(await through(engine, id), await through(engine, id))
  }
  expect(streams[0]?.socket.extensions).toBe('')
  const stringify = jest.spyOn(JSON, 'stringify')
  try {
    engine.publish(ethUsd)
    expect(stringify).toHaveBeenCalledTimes(1)
  } finally {
    stringify.mockRestore()
  }
  for (const stream of streams) await stream.received(1)
})

// The state an engine is in when it is closed.
const states: [string, (engine: DataEngine) => unknown][] = [
  ['as it started', () => {}],
  ['stopped', engine => engine.stop()],
  ['stopping', engine => void engine.stop()],
  ['killed', engine => engine.origins[0]?.kill()],
  [
    'being killed and restarted',
    engine => {
      void engine.origins[0]?.kill()
      void engine.origins[0]?.restart()
    },
  ],
  ['blackholed', engine => engine.blackhole(true)],
  ['with an origin blackholed', engine => engine.origins[0]?.blackhole(true)],
  ['delayed', engine => engine.origins[0]?.delay(60_000)],
  ['reordering', engine => engine.origins[0]?.reorder(10)],
  ['refusing', engine => engine.origins[0]?.refuse(503)],
  ['failing late', engine => void engine.fail({ status: 500, delayMs: 60_000, times: 9 })],
  ['disconnecting', engine => engine.origins[0]?.disconnect()],
]
test.each(states)('close ends within a second and leaves nothing open: %s', async (_, prepare) => {
  await untilAlone()
  const timers = count('Timeout')
  const engine = await quiet({ intervalMs: 5, runAhead: true })
  const [one] = pair(engine)
  const streams = [await directly(engine, one), await through(engine, '001')]
  await prepare(engine)
  const dialled = Promise.allSettled([directly(engine, one), through(engine, '001')])
  publish(engine, 3)
  await sleep(20)
  const start = performance.now()
  await engine.close()
  expect(performance.now() - start).toBeLessThan(1_000)
  await Promise.all(streams.map(({ closed }) => closed))
  await dialled
  await until(() => count('TCP') <= foreign && count('Timeout') <= timers)
  await expect(one.restart()).rejects.toThrow('the data engine is closed')
  await expect(directly(engine, one)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test('an engine that finds its port taken leaves no origin behind', async () => {
  await untilAlone()
  const before = count('TCPServerWrap')
  await using engine = await quiet({ origins: 1 })
  expect(count('TCPServerWrap')).toBe(before + 1)
  const port = Number(new URL(engine.endpoint).port)
  await expect(quiet({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  await until(() => count('TCPServerWrap') === before + 1)
})

test.each(['found by HEAD', 'given as a list'])(
  'the official client streams from two origins %s, and from the other when one dies',
  async how => {
    await using engine = await quiet()
    const { apiKey, userSecret, endpoint, origins } = engine
    const wsEndpoint =
      how === 'found by HEAD'
        ? engine.wsEndpoint
        : origins.map(origin => origin.wsEndpoint).join(',')
    const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, haMode: true })
    const stream = client.createStream([ethUsd])
    const seen: number[] = []
    stream.on('error', () => {})
    stream.on('report', report => seen.push(report.observationsTimestamp))
    await stream.connect()
    expect(connections(engine)).toEqual([1, 1])
    const heads = engine.requests().filter(({ method }) => method === 'HEAD')
    expect(heads).toHaveLength(how === 'found by HEAD' ? 1 : 0)
    const reports = publish(engine, 1)
    await until(() => seen.length === 1)
    await origins[0]?.kill()
    reports.push(...publish(engine, 3))
    await until(() => seen.length === 4)
    expect(seen).toEqual(times(reports))
    expect(connections(engine)).toEqual([0, 1])
    await stream.close()
  },
)
