import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { createClient, defaultPreset, type StreamOptions } from '../../../index.js'
import { type Candle, type CandlesOptions, candles } from '../../../plugins/candles/index.js'
import { memoryCursors } from '../../support/memory-cursors.js'
import { feedID, type Service, startService } from '../../support/service/service.js'
import { pause, until } from '../../support/waiting.js'

let feeds = 0
let feed = ''
let service: Service
const all = Array.from({ length: 20 }, (_, index) => feedID(3, 40 + index, { milliseconds: true }))
const closers: (() => Promise<void>)[] = []
beforeAll(async () => {
  service = await startService({ feeds: all, signatures: 'dummy' })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  await until(() => service.open === 0)
})
afterAll(() => service.close())

/** Each test has a feed of its own. */
function open(options: Partial<CandlesOptions> = {}, streamOptions: StreamOptions = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const bars = candles({ intervals: ['1s'], ...options })
  const plugins = [bars, ...defaultPreset({ apiKey, userSecret, retryDelay: 5 })]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const stream = client.createStream(feed, { queue: 0, ...streamOptions })
  const issued: Candle[] = []
  stream.on('candle', candle => void issued.push(candle))
  return { bars, client, stream, issued }
}

/** The beginning of a second that is about to end. */
const second = (): number => Math.floor(Date.now() / 1000) * 1000

function publish(from: number, to: number, price: bigint, how: 'publish' | 'store' = 'publish') {
  service[how](feed, { validFrom: from, observed: to, fields: { price } })
}

describe('candles of a stream', () => {
  test('are issued with the report that ends the interval, and are complete', async () => {
    feed = all[feeds++] as string
    const { stream, issued, bars } = open({ warmUp: 0 })
    await stream.connect()
    const start = second()
    publish(start - 100, start - 1, 1n)
    publish(start, start + 499, -3n)
    publish(start + 500, start + 999, 5n)
    await until(() => issued.length === 1)
    expect(issued).toEqual([
      {
        feedID: feed,
        interval: '1s',
        start,
        end: start + 999,
        open: -3n,
        high: 5n,
        low: -3n,
        close: 5n,
        twap: 1n,
        count: 2,
        complete: true,
        missing: [],
        signedLater: 0,
        revision: 2,
      },
    ])
    expect(bars.of(feed, '1s')).toBe(issued[0])
    expect(bars.of(feed, '1m')).toBeUndefined()
  })

  test('say what they miss once they are over, and are issued again when it comes late', async () => {
    feed = all[feeds++] as string
    const { stream, issued } = open({ warmUp: 0, closeAfter: 0 })
    await stream.connect()
    const start = second() - 1000
    publish(start, start + 299, 1n)
    publish(start + 400, start + 999, 2n)
    await until(() => issued.length === 1)
    expect(issued[0]).toMatchObject({
      complete: false,
      missing: [{ from: start + 300, to: start + 399 }],
      count: 2,
      revision: 2,
    })
    // The service stores it late. The stream asks for it, since its successor names it.
    publish(start + 300, start + 399, 9n, 'store')
    await until(() => issued.length === 2)
    expect(issued[1]).toMatchObject({
      complete: true,
      missing: [],
      high: 9n,
      count: 3,
      revision: 3,
    })
  })

  test('begin with the interval: what it lacks is fetched', async () => {
    feed = all[feeds++] as string
    const start = Math.floor(Date.now() / 5000) * 5000 - 5000
    for (let at = 0; at < 1000; at += 100)
      publish(start + at, start + at + 99, BigInt(at + 1), 'store')
    const { stream, issued } = open({ intervals: ['1s', '5s'] })
    await stream.connect()
    publish(start + 1000, start + 1099, 7n)
    publish(start + 1100, start + 1999, 8n)
    await until(() => issued.some(candle => candle.start === start))
    const [own, before] = [start + 1000, start].map(time =>
      issued.find(candle => candle.interval === '1s' && candle.start === time),
    )
    expect(own).toMatchObject({ complete: true, count: 2 })
    expect(before).toMatchObject({ complete: true, count: 10 })
  })

  test('of the interval in which a stream ended are issued by the next', async () => {
    feed = all[feeds++] as string
    const cursors = memoryCursors()
    const start = second() - 3000
    const first = open(
      { intervals: ['1s', '10s'], closeAfter: 60_000 },
      { cursors, saveInterval: 0 },
    )
    await first.stream.connect()
    publish(start, start + 399, 1n)
    publish(start + 400, start + 499, 2n)
    await until(() => cursors.saved[feed] === start + 499)
    await first.client.close()
    publish(start + 500, start + 899, 3n, 'store')
    const next = open({ intervals: ['1s', '10s'], closeAfter: 60_000 }, { cursors })
    await next.stream.connect()
    publish(start + 900, start + 999, 4n)
    await until(() => next.issued.length === 1)
    expect(next.issued).toMatchObject([
      { start, open: 1n, close: 4n, count: 4, complete: true, revision: 4 },
    ])
  })

  test('are iterated for all streams of a client, until it is closed', async () => {
    feed = all[feeds++] as string
    const { stream, bars, client } = open({ warmUp: 0 })
    await stream.connect()
    const looped: number[] = []
    const ended = (async () => {
      for await (const candle of bars) looped.push(candle.start)
    })()
    const start = second() - 2000
    publish(start, start + 999, 1n)
    publish(start + 1000, start + 1999, 1n)
    await until(() => looped.length === 2)
    expect(looped).toEqual([start, start + 1000])
    await client.close()
    await ended
  })

  test('leave a loop with break', async () => {
    feed = all[feeds++] as string
    const { stream, bars } = open({ warmUp: 0 })
    await stream.connect()
    const start = second() - 2000
    const first = bars[Symbol.asyncIterator]()
    const next = first.next()
    publish(start, start + 999, 1n)
    expect((await next).value).toMatchObject({ start })
    expect(await first.return?.()).toEqual({ done: true, value: undefined })
    expect(await first.next()).toEqual({ done: true, value: undefined })
  })

  test('are none for a version without a price, and the log says so once', async () => {
    const { apiKey, userSecret, wsEndpoint, endpoint } = service
    feed = all[feeds++] as string
    const warnings: string[] = []
    const bars = candles({ intervals: ['1s'], field: 'midpoint', warmUp: 0 })
    const logging = { logger: { warn: (line: string) => void warnings.push(line) } }
    const plugins = [bars, ...defaultPreset({ apiKey, userSecret, logging })]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    closers.push(() => client.close())
    const stream = client.createStream(feed)
    let count = 0
    stream.on('report', () => void count++)
    await stream.connect()
    for (let index = 0; index < 3; index++) service.publish(feed)
    await until(() => count === 3)
    await pause(10)
    expect(warnings.filter(line => line.includes('has no candles'))).toEqual([
      `feed ${feed} has no candles: its field midpoint must be a bigint, not undefined`,
    ])
  })

  test.each([
    [{}, /intervals must be a list of intervals, such as \['1m', '1h'\], not undefined/],
    [{ intervals: ['1m'], closeAfter: -1 }, /closeAfter must be/],
    [{ intervals: ['1m'], warmup: 0 }, /unknown option 'warmup' of candles; did you mean 'warmUp'/],
  ])('check their options: %j', (options, message) => {
    expect(() => candles(options as never)).toThrow(message)
  })
})
