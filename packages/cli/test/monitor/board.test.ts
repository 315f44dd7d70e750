import { describe, expect, test } from '@jest/globals'
import { knownFeeds, type Report } from 'sluice'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { Board, Journal } from '../../monitor/board.js'
import { digitsFor, FeedTable } from '../../monitor/feed-table.js'
import { Ages, countPlugins } from '../../monitor/measured-client.js'
import type { FeedState, Message, OriginRow } from '../../monitor/messages.js'
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
  const { bounds, counts, p50, p99 } = ages.read(60_001)
  expect([p50, p99]).toEqual([50, 99])
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

const origin = (open: number, connections = 1): OriginRow => ({
  name: '001',
  host: 'host',
  status: open === connections ? 'connected' : 'reconnecting',
  open,
  connections,
  received: 0,
  first: 0,
  outOfOrder: 0,
  reconnects: 0,
})
const feeds = (states: Partial<Record<FeedState, number>>) => ({
  live: 0,
  stale: 0,
  waiting: 0,
  refused: 0,
  ...states,
})
const well: Condition = {
  states: feeds({ live: 500 }),
  origins: [origin(1), origin(1)],
  recentGaps: 0,
  recentConflicts: 0,
  wasOpen: true,
  isBehind: false,
}

describe('the verdict', () => {
  test.each<[Partial<Condition>, string, string, string]>([
    [{}, 'ok', 'All is well', '500 feeds, all live · 2 of 2 origins · no gaps'],
    [
      { states: feeds({ live: 498, stale: 2 }) },
      'degraded',
      'Needs attention',
      '498 of 500 feeds live, 2 stale · 2 of 2 origins · no gaps',
    ],
    [
      { origins: [origin(1), origin(0)] },
      'degraded',
      'Needs attention',
      '500 feeds, all live · 1 of 2 origins · no gaps',
    ],
    [
      { origins: [origin(5, 5), origin(4, 5)] },
      'degraded',
      'Needs attention',
      '500 feeds, all live · 1 of 2 origins · no gaps',
    ],
    [
      { recentGaps: 1, recentConflicts: 2 },
      'degraded',
      'Needs attention',
      '500 feeds, all live · 2 of 2 origins · 1 gap in 5 minutes · 2 conflicts in 5 minutes',
    ],
    [
      { states: feeds({ live: 1, refused: 1 }) },
      'degraded',
      'Needs attention',
      '1 of 2 feeds live, 1 refused · 2 of 2 origins · no gaps',
    ],
    [
      { origins: [origin(0)] },
      'down',
      'No connection to the service',
      '500 feeds, all live · 0 of 1 origin · no gaps',
    ],
    [
      { origins: [origin(0)], wasOpen: false, states: feeds({ waiting: 1 }) },
      'starting',
      'Connecting',
      '0 of 1 feed live, 1 waiting · 0 of 1 origin · no gaps',
    ],
    [
      { states: feeds({ live: 1, waiting: 1 }) },
      'starting',
      'Waiting for first reports',
      '1 of 2 feeds live, 1 waiting · 2 of 2 origins · no gaps',
    ],
    [
      { ended: 'unauthorised' },
      'down',
      'The stream has ended: unauthorised',
      '500 feeds, all live · 2 of 2 origins · no gaps',
    ],
  ])('of %j is %s', (change, level, headline, facts) => {
    const verdict = verdictOf({ ...well, ...change })
    expect({ ...verdict, facts: verdict.facts.join(' · ') }).toEqual({ level, headline, facts })
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
