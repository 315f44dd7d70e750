import { describe, expect, test } from '@jest/globals'
import { knownFeeds, type Report } from 'sluice'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { Board, Journal } from '../../monitor/board.js'
import { FeedRecord } from '../../monitor/feed-record.js'
import { digitsFor, FeedTable } from '../../monitor/feed-table.js'
import { Ages, countPlugins } from '../../monitor/measured-client.js'
import type { FeedState, Message, OriginRow } from '../../monitor/messages.js'
import { scaleOf } from '../../monitor/page/scale.js'
import { Series } from '../../monitor/series.js'
import { type Condition, verdictOf } from '../../monitor/verdict.js'

const read = (text: string): Message => JSON.parse(text)
const row = (index: number, reports: number) =>
  ({ index, state: 'live', reports, gaps: 0 }) as const

describe('the board', () => {
  test('gives everything once, then the latest of what has changed', () => {
    const board = new Board()
    board.put('feeds', 0, row(0, 1))
    board.put('feeds', 1, row(1, 1))
    const { seq, ...all } = read(board.since(0, 7))
    expect(all).toEqual({ now: 7, feeds: [row(0, 1), row(1, 1)] })
    board.put('feeds', 0, row(0, 1))
    expect(board.seq).toBe(seq)
    for (const reports of [2, 3, 4]) board.put('feeds', 1, row(1, reports))
    expect(read(board.since(seq, 8)).feeds).toEqual([row(1, 4)])
    expect(read(board.since(board.seq, 9))).toEqual({ seq: board.seq, now: 9 })
    board.remove('feeds', 1)
    expect(read(board.since(0, 9)).feeds).toEqual([row(0, 1)])
  })
})

describe('the journal', () => {
  test('remembers 200 events, and counts the same event again', () => {
    const board = new Board()
    let now = 0
    const journal = new Journal(board, () => now)
    for (let count = 0; count < 10_000; count++) journal.add('bad', 'gap', `feed ${count}`)
    expect(read(board.since(0, 0)).events?.map(({ text }) => text)).toEqual(
      Array.from({ length: 200 }, (_, index) => `feed ${9800 + index}`),
    )
    for (let count = 0; count < 50; count++) {
      now += 100
      journal.add('warning', 'error', 'the same')
    }
    const last = read(board.since(0, 0)).events?.at(-1)
    expect(last).toMatchObject({ text: 'the same', times: 50, at: now })
    now += 20_000
    journal.add('warning', 'error', 'the same')
    expect(read(board.since(0, 0)).events?.at(-1)).toMatchObject({ times: 1, at: now })
  })

  test('has its events by their times, an event that repeats among the newest', () => {
    const board = new Board()
    let now = 0
    const journal = new Journal(board, () => now)
    for (const text of ['one', 'other', 'one', 'third', 'other']) {
      now += 1000
      journal.add('bad', 'gap', text)
    }
    const events = read(board.since(0, 0)).events?.map(({ at, text, times }) => [at, text, times])
    expect(events).toEqual([
      [3000, 'one', 2],
      [4000, 'third', 1],
      [5000, 'other', 2],
    ])
  })

  test('shortens texts of the network, and replaces what is no character', () => {
    const board = new Board()
    new Journal(board, Date.now).add('bad', 'error', `\u001b[31m\u202e${'x'.repeat(100_000)}`)
    const [event] = read(board.since(0, 0)).events ?? []
    expect(event?.text).toBe(`?[31m?${'x'.repeat(294)}`)
  })
})

test('ages are those of a minute: counts of bars, the median and the 99th of a hundred', () => {
  const ages = new Ages()
  expect(ages.read(0)).toEqual({ bounds: expect.anything(), counts: Array(13).fill(0) })
  ages.add(999_999, 0)
  for (let age = 1; age <= 100; age++) ages.add(age, 60_001)
  const { bounds, counts, p50, p95, p99 } = ages.read(60_001)
  expect([p50, p95, p99]).toEqual([50, 95, 99])
  expect(counts.reduce((sum, count) => sum + count)).toBe(100)
  expect(bounds.map((bound, bar) => [bound, counts[bar]]).slice(0, 6)).toEqual([
    [5, 5],
    [10, 5],
    [20, 10],
    [50, 30],
    [100, 50],
    [200, 0],
  ])
  for (let count = 0; count < 20_000; count++) ages.add(70_000, 60_002)
  const many = ages.read(60_002)
  expect(many.counts.at(-1)).toBe(8192)
})

test.each([
  [104_250.11, 2],
  [-37.63, 4],
  [1, 4],
  [0.1873, 6],
  [0.00001, 8],
  [0, 8],
])('a price of %d has %i digits behind the point', (price, digits) => {
  expect(digitsFor(price)).toBe(digits)
})

describe('the table of feeds', () => {
  const feedID = knownFeeds.mainnet['ETH/USD'].feedID
  const reportOf = (observationsTimestamp: number, price: bigint) =>
    ({ feedID, observationsTimestamp, decoded: { feedID, price } }) as Report<DecodedReport>

  test('shows the newest report, and counts those that come after it', () => {
    const board = new Board()
    const table = new FeedTable(board, [{ feedID, name: 'ETH/USD', decimals: 8 }])
    table.take(reportOf(10, 385_142_120_000n), 1000)
    table.take(reportOf(9, 1n), 1001)
    table.write()
    const shown = { index: 0, state: 'live', price: '3851.42', seenAt: 1001, reports: 2, gaps: 0 }
    expect(read(board.since(0, 0)).feeds).toEqual([shown])
    expect(table.prices()).toEqual([3851.421])
  })

  test('shows a report that cannot be decoded as one without a price', () => {
    const board = new Board()
    const table = new FeedTable(board, [{ feedID }])
    const decoded = { ...reportOf(1, 1n), decoded: undefined }
    table.take(decoded as never, 1000)
    table.take({ ...decoded, feedID: 'another' } as never, 1000)
    table.write()
    expect(read(board.since(0, 0)).feeds).toEqual([
      { index: 0, state: 'live', seenAt: 1000, reports: 1, gaps: 0 },
    ])
  })
})

const origin = (open: number, connections = 1, name = '001'): OriginRow => ({
  ...{ name, host: 'host:443', status: open === connections ? 'connected' : 'reconnecting' },
  ...{ open, connections, received: 0, first: 0, outOfOrder: 0, reconnects: 0 },
  ...(open === connections ? {} : { awaySince: 7000, reason: 'it was closed' }),
})
const feeds = (states: Partial<Record<FeedState, number>>) => ({
  live: 0,
  stale: 0,
  waiting: 0,
  refused: 0,
  ...states,
})
const none = { count: 0, since: undefined, last: '' }
const well: Condition = {
  states: feeds({ live: 500 }),
  origins: [origin(1), origin(1)],
  gaps: none,
  conflicts: none,
  wasOpen: true,
  retiring: [],
}

describe('the verdict', () => {
  const away = '7000 origin 001 at host:443 is away: it was closed'

  test.each<[Partial<Condition>, string, string, string, readonly string[]]>([
    [{}, 'ok', 'All is well', '500 feeds, all live · 2 of 2 origins · no gaps', []],
    [
      {
        states: feeds({ live: 498, stale: 2 }),
        stale: { names: ['A/USD', 'B/USD'], since: 5 },
      },
      'degraded',
      'Needs attention',
      '498 of 500 feeds live, 2 stale · 2 of 2 origins · no gaps',
      ['5 no report of A/USD, B/USD'],
    ],
    [
      { origins: [origin(1), origin(0)] },
      'degraded',
      'Needs attention',
      '500 feeds, all live · 1 of 2 origins · no gaps',
      [away],
    ],
    [
      { origins: [origin(5, 5), origin(4, 5, 'host:443')] },
      'degraded',
      'Needs attention',
      '500 feeds, all live · 1 of 2 origins · no gaps',
      ['7000 host:443 has 4 of 5 connections: it was closed'],
    ],
    [
      {
        gaps: { count: 1, since: 8, last: 'A/USD' },
        conflicts: { count: 2, since: 9, last: 'B/USD, from origin 001 and origin 002' },
      },
      'degraded',
      'Needs attention',
      '500 feeds, all live · 2 of 2 origins · 1 gap in 5 minutes · 2 conflicts in 5 minutes',
      [
        '9 2 conflicts, the last: B/USD, from origin 001 and origin 002',
        '8 1 gap, the last: A/USD',
      ],
    ],
    [
      {
        states: feeds({ live: 1, refused: 5 }),
        refused: { names: ['A', 'B', 'C', 'D', 'E'], since: 6 },
      },
      'degraded',
      'Needs attention',
      '1 of 6 feeds live, 5 refused · 2 of 2 origins · no gaps',
      ['6 A, B, C and 2 more may not be read'],
    ],
    [
      { behindSince: 4 },
      'degraded',
      'Needs attention',
      '500 feeds, all live · 2 of 2 origins · no gaps · verification is behind',
      ['4 reports wait too long to be verified'],
    ],
    [
      { origins: [origin(0)] },
      'down',
      'No connection to the service',
      '500 feeds, all live · 0 of 1 origin · no gaps',
      [away],
    ],
    [
      { origins: [origin(0)], wasOpen: false, states: feeds({ waiting: 1 }) },
      'starting',
      'Connecting',
      '0 of 1 feed live, 1 waiting · 0 of 1 origin · no gaps',
      [away],
    ],
    [
      { states: feeds({ live: 1, waiting: 1 }) },
      'starting',
      'Waiting for first reports',
      '1 of 2 feeds live, 1 waiting · 2 of 2 origins · no gaps',
      [],
    ],
    [
      { retiring: [new Date('2027-02-01'), new Date('2027-01-01')] },
      'ok',
      'All is well',
      '500 feeds, all live · 2 of 2 origins · no gaps · 2 feeds retire, the first on 2027-01-01',
      [],
    ],
    [
      { ended: { why: 'unauthorised', at: 3 } },
      'down',
      'The stream has ended: unauthorised',
      '500 feeds, all live · 2 of 2 origins · no gaps',
      ['3 the stream has ended: unauthorised'],
    ],
  ])('of %j is %s', (change, level, headline, facts, needs) => {
    const verdict = verdictOf({ ...well, ...change })
    expect({
      ...verdict,
      facts: verdict.facts.join(' · '),
      needs: verdict.needs.map(({ text, since }) => `${since} ${text}`),
    }).toEqual({ level, headline, facts, needs })
  })

  test('lists eight needs at most, and counts the others', () => {
    const origins = Array.from({ length: 12 }, (_, index) => origin(0, 1, String(index)))
    const { needs } = verdictOf({ ...well, origins })
    expect(needs).toHaveLength(8)
    expect(needs[7]).toEqual({ text: '5 more need attention', since: 7000 })
  })
})

describe('the scale of a chart', () => {
  const steady = Array.from({ length: 100 }, (_, index) => 10 + (index % 3))

  test('is that of most values, and knows the greatest', () => {
    const values = [...steady.slice(0, 50), null, 1000, 900, ...steady.slice(50)]
    expect(scaleOf(values)).toEqual({ top: 18, most: { value: 1000, index: 51 } })
  })

  test('cuts nothing where there is no spike, few values are known, or most are 0', () => {
    expect(scaleOf(steady).top).toBe(12)
    expect(scaleOf([1, 1, 1, 1, 100]).top).toBe(100)
    expect(scaleOf([...steady.map(() => 0), 5]).top).toBe(5)
    expect(scaleOf([null, null])).toEqual({ top: 1, most: undefined })
    expect(scaleOf([0, 0]).top).toBeGreaterThan(0)
  })

  test('shows a level that lasts whole', () => {
    const values = [...steady, ...Array.from({ length: 20 }, () => 50)]
    expect(scaleOf(values).top).toBe(50)
  })
})

describe('a series', () => {
  const known = (values: readonly (number | null)[]) => values.filter(value => value !== null)
  const hour = 3_600_000

  test('keeps the least and the greatest value of each bucket, in every range', () => {
    const series = new Series()
    const start = 1_800_000_000_000
    for (let second = 0; second < 6 * 3600; second++)
      series.add(second === 9000 ? 1e6 : second === 15_000 ? -1e6 : 50, start + second * 1000)
    const { low, high, mean, from, widthMs } = series.read('6h', start + 6 * hour - 1)
    expect([low.length, from, widthMs]).toEqual([120, start, 180_000])
    expect([Math.max(...known(high)), Math.min(...known(low))]).toEqual([1e6, -1e6])
    expect(high.indexOf(1e6)).toBe(50)
    expect(mean[0]).toBe(50)
    expect(known(series.read('5m', start + 6 * hour - 1).high)).toEqual(Array(120).fill(50))
  })

  test('forgets what is older than its range, and leaves empty what got nothing', () => {
    const series = new Series()
    series.add(1, 0)
    series.add(2, 299_000)
    expect(known(series.read('5m', 299_999).mean)).toEqual([1, 2])
    expect(known(series.read('5m', 302_500).mean)).toEqual([2])
    series.add(3, 10 * hour)
    expect(known(series.read('6h', 10 * hour).mean)).toEqual([3])
    // Behind its range, and behind its newest bucket.
    series.add(4, 0)
    series.add(5, 10 * hour - 10_000)
    expect(known(series.read('5m', 10 * hour).mean)).toEqual([5, 3])
    expect(known(series.read('5m', 20 * hour).mean)).toEqual([])
  })

  test('marks each bucket of a span', () => {
    const series = new Series()
    series.addSpan(1, 10_000, 20_000)
    series.addSpan(1, -100 * hour, -99 * hour)
    expect(known(series.read('5m', 299_999).mean)).toHaveLength(5)
    expect(known(series.read('6h', 299_999).mean)).toHaveLength(1)
  })
})

describe('the record of a feed', () => {
  const feedID = knownFeeds.mainnet['ETH/USD'].feedID
  const reportOf = (observationsTimestamp: number) =>
    ({ feedID, observationsTimestamp, origin: 'wss://host#001', source: 'live' }) as never
  const e18 = 10n ** 18n

  test('has exact prices, the spread, and the change of each range', () => {
    const record = new FeedRecord(18)
    const start = 1_800_000_000
    const take = (second: number, price: bigint, bid?: bigint, ask?: bigint) => {
      const at = (start + second) * 1000
      const quote = bid === undefined || ask === undefined ? { price } : { price, bid, ask }
      record.take(reportOf(start + second), quote, at + 250, at + 250)
    }
    take(0, 100n * e18)
    take(3600, 200n * e18)
    take(3605, 150n * e18 + 1n, 150n * e18 - 1n, 150n * e18 + 3n)
    const { quote, changes, reports, ages } = record.read('5m', (start + 3606) * 1000)
    expect(quote).toEqual({
      price: '150.000000000000000001',
      bid: '149.999999999999999999',
      ask: '150.000000000000000003',
      spread: '0.000000000000000004',
      spreadBps: 0,
    })
    const fresh = { since: (start + 3600) * 1000, by: '-49.999999999999999999', bps: -2500 }
    expect(changes).toEqual([
      { range: '5m', ...fresh },
      { range: '15m', ...fresh },
      { range: '1h', ...fresh },
      { range: '6h', since: start * 1000, by: '50.000000000000000001', bps: 5000 },
    ])
    expect(reports.map(({ price }) => price)).toEqual(['150.000000000000000001', '200', '100'])
    expect(ages.high.filter(age => age !== null)).toEqual([250, 250])
  })

  test('does not grow with its reports, and a report of the future changes no price', () => {
    const record = new FeedRecord(18)
    for (let second = 0; second < 1000; second++) {
      const now = 1_800_000_000_000 + second * 1000
      record.take(reportOf(1_800_000_000 + second), { price: e18 }, now, now)
      record.addGap({ feedID, from: 1, to: 2, cause: 'upstream' }, now)
    }
    record.take(reportOf(1_900_000_000), { price: 9n * e18 }, 1_800_001_000_000, 1_800_001_000_000)
    const { quote, reports, gaps } = record.read('1h', 1_800_001_000_000)
    expect([quote?.price, reports.length, gaps.length]).toEqual(['1', 20, 20])
  })
})

test('counters stand on either side of a plugin, and change nothing of it', async () => {
  const log: string[] = []
  const { plugins, counts } = countPlugins([
    {
      name: 'every-other',
      report: next => {
        let count = 0
        return report => {
          if (++count % 2 === 1) next(report)
        }
      },
    },
    {
      name: 'failing',
      attempt: () => () => Promise.reject(new Error('no')),
      events: ['quiet'],
    },
    { name: 'plain', setup: () => undefined },
  ])
  expect(plugins.map(({ name, events }) => [name, events])).toEqual([
    ['every-other', undefined],
    ['failing', ['quiet']],
    ['plain', undefined],
  ])
  const [first, second] = plugins as [(typeof plugins)[number], (typeof plugins)[number]]
  const scope = { kind: 'stream' } as never
  const sink = first.report?.(() => log.push('report'), scope)
  for (let count = 0; count < 5; count++) sink?.({} as never)
  await expect(second.attempt?.(() => new Promise(() => undefined))({} as never)).rejects.toThrow(
    'no',
  )
  expect(log).toHaveLength(3)
  expect(Object.fromEntries(counts)).toEqual({
    'every-other': { reports: { in: 5, out: 3 }, calls: undefined },
    failing: { reports: undefined, calls: { made: 1, failed: 1 } },
    plain: { reports: undefined, calls: undefined },
  })
})
