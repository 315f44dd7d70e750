import { beforeEach, describe, expect, test } from '@jest/globals'
import { type Config, createClient, type Stream, type StreamOptions } from '../../../index.js'
import type { Report } from '../../../report/report.js'
import { closeAfterEach, failOnUnhandled } from '../../support/closing.js'
import { hurry } from '../../support/hurry.js'
import { memoryCursors } from '../../support/memory-cursors.js'
import { feedID, type Service, startService } from '../../support/service/service.js'
import { pause, until } from '../../support/waiting.js'

const feed = feedID(3)
const other = feedID(3, 2)
const closers = closeAfterEach()
failOnUnhandled()

let service: Service
/** Three minutes ago: times before the present, however slow the test is. */
let past: number
beforeEach(async () => {
  service = await startService({ feeds: [feed, other], signatures: 'dummy' })
  closers.push(() => service.close())
  past = Math.floor(Date.now() / 1000) - 400
})

const timeOf = ({ observationsTimestamp }: Report) => observationsTimestamp - past
const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)

/** A stream, and what came of it: the time of each report, and whether it was the newest. */
async function open(config: Partial<Config> = {}, options: StreamOptions = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    retryDelay: 20,
    ...config,
  } as Config)
  closers.push(() => client.close())
  const stream = client.createStream(feed, {
    reconnectInterval: 200,
    maxReconnectAttempts: 50,
    ...options,
  })
  const came: [number, boolean | undefined][] = []
  const gaps: object[] = []
  stream.on('report', report => void came.push([timeOf(report), report.isNewest]))
  stream.on('gap', gap => void gaps.push(gap))
  stream.on('error', () => undefined)
  await stream.connect()
  return { client, stream, came, gaps }
}

const publish = (times: readonly number[]) =>
  times.forEach(time => void service.publish(feed, { observed: past + time }))
const store = (times: readonly number[]) =>
  times.forEach(time => void service.store(feed, { observed: past + time }))

/** The service is away; meanwhile it stores reports of these times. */
async function outage(stream: Stream, times: readonly number[]): Promise<void> {
  await service.stop()
  await until(() => stream.getMetrics().activeConnections === 0)
  store(times)
  await service.start()
  await until(() => stream.getMetrics().activeConnections === 1)
}

const pages = () => service.requestsTo('/api/v1/reports/page').length
const lateOf = (stream: Stream) => {
  const { outOfOrder, origins } = stream.getMetrics()
  return [outOfOrder, Object.values(origins)[0]?.outOfOrder]
}

describe('a report says whether it is the newest of its feed', () => {
  test('after an outage, when the missing ones are fetched after a newer one', async () => {
    const { stream, came } = await open()
    publish([1, 2])
    await until(() => came.length === 2)
    await outage(stream, range(3, 12))
    publish([13])
    await until(() => came.length === 13)
    publish([14])
    await until(() => came.length === 14)
    expect(came).toEqual([
      [1, true],
      [2, true],
      [13, true],
      ...range(3, 12).map(time => [time, false]),
      [14, true],
    ])
    // What is fetched is of no connection.
    expect(lateOf(stream)).toEqual([10, 0])
    publish([-1])
    await until(() => came.length === 15)
    expect(lateOf(stream)).toEqual([11, 1])
    expect(timeOf(stream.latest(feed) as Report)).toBe(14)
  })

  test('and in sorted order each is', async () => {
    const { stream, came } = await open({ continuity: { order: 'sorted' } })
    publish([1, 2])
    await until(() => came.length === 2)
    await outage(stream, range(3, 6))
    publish([7])
    await until(() => came.length === 7)
    expect(came).toEqual(range(1, 7).map(time => [time, true]))
    expect(lateOf(stream)).toEqual([0, 0])
  })

  test('but not one from the future, which makes no other one old', async () => {
    const { stream, came } = await open({ continuity: { maxBackfill: 0 } })
    publish([1, 4000, 2, 4001, 3])
    await until(() => came.length === 5)
    expect(came).toEqual([
      [1, true],
      [4000, false],
      [2, true],
      [4001, false],
      [3, true],
    ])
    expect(stream.getMetrics().outOfOrder).toBe(0)
    expect(timeOf(stream.latest(feed) as Report)).toBe(3)
  })

  test('and not the one that the present turns out not to have reached', async () => {
    let ahead = 3_600_000
    const wrong = await startService({ feeds: [feed], now: () => Date.now() + ahead })
    closers.push(() => wrong.close())
    const { apiKey, userSecret, endpoint, wsEndpoint } = wrong
    const { client, stream, came } = await open({ apiKey, userSecret, endpoint, wsEndpoint })
    const send = (time: number) => void wrong.publish(feed, { observed: past + time })
    await client.listFeeds()
    send(2000)
    await until(() => came.length === 1)
    expect(came).toEqual([[2000, true]])
    ahead = 0
    await client.listFeeds()
    expect(stream.getMetrics().clockOffsetMs).toBe(0)
    expect(stream.latest(feed)).toBeUndefined()
    send(1)
    await until(() => came.length === 2)
    expect(came[1]).toEqual([1, true])
    expect(stream.getMetrics().outOfOrder).toBe(0)
  })

  test('as was known when it was put into the queue', async () => {
    const { stream } = await open()
    stream.removeAllListeners('report')
    publish([1, 3])
    await until(() => stream.getMetrics().queued === 2)
    expect(timeOf(stream.latest(feed) as Report)).toBe(3)
    const reports = [await stream.read(), await stream.read()]
    expect(reports.map(report => [timeOf(report), report.isNewest])).toEqual([
      [1, true],
      [3, true],
    ])
  })

  test('and nothing of that where it was asked for', async () => {
    const { client } = await open()
    store([1])
    const report = await client.getLatestReport(feed)
    expect(report.isNewest).toBeUndefined()
    expect(report.toJSON()).not.toHaveProperty('isNewest')
  })
})

describe('stream.latest', () => {
  test('has no report at first, and none of another feed', async () => {
    const { stream } = await open()
    expect(stream.latest(feed.toUpperCase().replace('0X', '0x'))).toBeUndefined()
    expect(() => stream.latest(other)).toThrow(/feedID must be of the stream/)
    expect(() => stream.latest('ETH/USD')).toThrow(/feedID must be 0x and 64/)
    await stream.subscribe(other)
    expect(stream.latest(other)).toBeUndefined()
    await stream.unsubscribe(other)
    expect(() => stream.latest(other)).toThrow(/not subscribed to/)
  })
})

describe('a stream that wants the newest alone', () => {
  const newest: Partial<Config> = { continuity: { order: 'newest' } }

  test('fetches nothing where a newer one comes by itself', async () => {
    hurry()
    const { stream, came, gaps } = await open(newest)
    publish([1, 2])
    await until(() => came.length === 2)
    await outage(stream, range(3, 12))
    publish([13])
    await until(() => came.length === 3)
    await pause(2500)
    expect(came.map(([time]) => time)).toEqual([1, 2, 13])
    expect([pages(), gaps]).toEqual([0, []])
    for (const time of [12, 11]) service.send(feed, { observed: past + time })
    await until(() => stream.getMetrics().superseded === 2)
    const { accepted, outOfOrder, totalReceived } = stream.getMetrics()
    expect({ accepted, outOfOrder, totalReceived }).toEqual({
      accepted: 3,
      outOfOrder: 0,
      totalReceived: 5,
    })
  })

  test('fetches the newest where none comes, of many in two requests, and moves its cursor', async () => {
    hurry()
    const cursors = memoryCursors()
    const { stream, came, gaps } = await open(newest, { cursors })
    publish([1, 2])
    await until(() => came.length === 2)
    await outage(stream, range(3, 350))
    await until(() => came.length === 3)
    expect(came.at(-1)).toEqual([350, true])
    expect(pages()).toBeLessThanOrEqual(3)
    expect(stream.getMetrics()).toMatchObject({ backfilled: 1, outOfOrder: 0, superseded: 0 })
    publish([4000])
    await until(() => stream.getMetrics().superseded === 1)
    await stream.close()
    expect([gaps, cursors.saved[feed]]).toEqual([[], past + 350])
  })

  test('resumes from its cursor with the newest', async () => {
    hurry()
    const cursors = memoryCursors()
    cursors.saved = { [feed]: past }
    store(range(1, 50))
    const { came, gaps } = await open(newest, { cursors })
    await until(() => came.length === 1)
    expect(came).toEqual([[50, true]])
    expect([pages(), gaps]).toEqual([1, []])
  })

  test('takes the newest of a feed that went stale', async () => {
    const { came } = await open(newest, { staleAfter: 400 })
    publish([1])
    await until(() => came.length === 1)
    store(range(2, 9))
    await until(() => came.length === 2)
    expect(came[1]).toEqual([9, true])
  })
})
