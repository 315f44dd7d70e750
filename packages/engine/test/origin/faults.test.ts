import { expect, test } from '@jest/globals'
import type { PublishedReport } from '../../index.js'
import {
  connections,
  direct,
  directly,
  ethUsd,
  pair,
  path,
  publish,
  quiet,
  settled,
  through,
  timeOf,
  times,
} from '../support/origins.js'
import { refusedStream, send } from '../support/signed.js'

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
  expect(one.upgrades).toBe(7)
  expect(() => one.refuse(101)).toThrow('refuse: status must be at least 200, not 101')
  expect(() => one.refuse(500, 0)).toThrow('refuse: times must be at least 1, not 0')
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
    expect(() => one.delay(ms)).toThrow('delay: ms must be')
  }
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
      expect(() => one[name](rate)).toThrow(`${name}: rate must be`)
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
  expect(() => one.reorder(-1)).toThrow('reorder: depth must be at least 0, not -1')
  expect(() => one.reorder(1.5)).toThrow('reorder: depth must be a whole number, not 1.5')
})

test('an origin lags by a number of reports of each feed, until the lag ends', async () => {
  const other = `0x0003${'5a'.repeat(30)}`
  await using engine = await quiet({ feeds: [ethUsd, other] })
  const [one] = pair(engine)
  one.lag(3)
  const before = publish(engine, 2)
  const slow = await through(engine, '001')
  const quick = await through(engine, '002')
  engine.publish(other)
  const after = publish(engine, 4)
  const all = times([...before, ...after])
  expect((await settled(engine, slow)).map(timeOf)).toEqual(all.slice(0, 3))
  expect((await settled(engine, quick)).map(timeOf)).toEqual(times(after))
  one.lag(0)
  // Three reports more, and the two marks of before.
  const frames = await slow.received(8)
  expect(frames.filter(({ json }) => json !== undefined).map(timeOf)).toEqual(all)
  expect(() => one.lag(0.5)).toThrow('lag: reports must be a whole number, not 0.5')
})

test('an origin is mute on the streams that it has, which still answer pings, and not on later ones', async () => {
  await using engine = await quiet()
  const [one] = pair(engine)
  const stream = await through(engine, '001')
  one.mute(true)
  const [first] = publish(engine, 1) as [PublishedReport]
  const later = await through(engine, '001')
  const [second] = publish(engine, 1) as [PublishedReport]
  expect((await settled(engine, later)).map(timeOf)).toEqual(times([second]))
  const pong = new Promise(resolve => stream.socket.once('pong', resolve))
  stream.socket.ping()
  await pong
  expect(stream.frames).toEqual([])
  expect(engine.deliveries(first)).toEqual([])
  one.mute(false)
  const [third] = publish(engine, 1) as [PublishedReport]
  expect((await settled(engine, stream)).map(timeOf)).toEqual(times([third]))
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
