import { describe, expect, test } from '@jest/globals'
import { ValidationError } from '../../../core/errors.js'
import { CandleBuilder } from '../../../plugins/candles/builder.js'
import { type Candle, type CandleInterval, candlesOf } from '../../../plugins/candles/index.js'
import { twap } from '../../../proof/index.js'
import type { SignedLater } from '../../../report/signing-order.js'
import { createRandom, type Random } from '../../support/random.js'
import { inForm } from '../../support/tier.js'

const inSeconds = `0x0003${'c1'.repeat(30)}`
const inMilliseconds = `0x1003${'c1'.repeat(30)}`
const lengths = { '1s': 1, '5s': 5, '10s': 10, '15s': 15, '1m': 60, '5m': 300, '1h': 3600 } as const
const FIRST = 1_700_000_040

interface Given {
  readonly feedID: string
  readonly fullReport: string
  readonly validFromTimestamp: number
  readonly observationsTimestamp: number
  readonly decoded: { readonly price: bigint }
  readonly signedLater?: SignedLater
}

function reportOf(feedID: string, from: number, to: number, price: bigint): Given {
  const times = { validFromTimestamp: from, observationsTimestamp: to }
  const fullReport = `0x${`${from}${to}`.repeat(60)}`
  const later = to % 5 === 0 ? { signedLater: { after: 0, before: undefined } } : {}
  return { feedID, fullReport, ...times, decoded: { price }, ...later }
}

function priceIn(random: Random): bigint {
  const price = (1n << BigInt(random.pick(71, 79))) + BigInt(random.pick(0, 1e9))
  return random.chance(0.1) ? -price : price
}

/** Reports whose windows follow each other, some wide, with holes where reports were lost. */
function chainOf(feedID: string, random: Random, count: number): Given[] {
  const unit = feedID === inSeconds ? 1 : 1000
  const reports: Given[] = []
  let from = FIRST * unit + random.pick(0, 90) * unit
  for (let index = 0; index < count; index++) {
    const width = random.chance(0.2) ? random.pick(2, 40) : 1
    const to = from + (unit === 1 ? width : width * random.pick(50, 200)) - 1
    if (!random.chance(0.05)) reports.push(reportOf(feedID, from, to, priceIn(random)))
    from = to + 1
  }
  return reports
}

/** Reports whose windows overlap: re-issues, hand-overs between networks, and reports inside the windows of others. */
function overlapsOf(feedID: string, random: Random, count: number): Given[] {
  const unit = feedID === inSeconds ? 1 : 1000
  const first = FIRST * unit + random.pick(0, 90) * unit
  const reports = new Map<number, Given>()
  while (reports.size < count) {
    const to = first + random.pick(0, 8 * count * unit)
    const from = to - (random.chance(0.3) ? 0 : random.pick(1, 20 * unit))
    reports.set(to, reportOf(feedID, from, to, priceIn(random)))
  }
  return [...reports.values()].sort(
    (one, other) => one.observationsTimestamp - other.observationsTimestamp,
  )
}

/** Parts of an interval that one report holds, or none: of the reports whose windows have a moment, the one observed first. */
function partsOf(given: readonly Given[], start: number, end: number) {
  const cuts = given.flatMap(each => [each.validFromTimestamp, each.observationsTimestamp + 1])
  const within = [start, ...cuts.filter(cut => cut > start && cut <= end)]
  const froms = [...new Set(within)].sort((one, other) => one - other)
  return froms.map((from, index) => {
    const holding = given.filter(
      each => each.validFromTimestamp <= from && each.observationsTimestamp >= from,
    )
    const times = holding.map(each => each.observationsTimestamp)
    const holder = holding.find(each => each.observationsTimestamp === Math.min(...times))
    return { from, to: (froms[index + 1] ?? end + 1) - 1, price: holder?.decoded.price }
  })
}

/** What a candle is by its definition: it looks at each moment of the interval. */
function modelOf(given: readonly Given[], interval: CandleInterval): Map<number, Candle> {
  const [{ feedID }] = given as [Given]
  const unit = feedID === inSeconds ? 1 : 1000
  const length = lengths[interval as keyof typeof lengths] * unit
  const candles = new Map<number, Candle>()
  const first = Math.min(...given.map(each => each.validFromTimestamp))
  const last = Math.max(...given.map(each => each.observationsTimestamp))
  for (let start = first - (first % length); start <= last; start += length) {
    const end = start + length - 1
    const inside = given.filter(
      each => each.observationsTimestamp >= start && each.validFromTimestamp <= end,
    )
    if (inside.length === 0) continue
    const missing: { from: number; to: number }[] = []
    const prices: bigint[] = []
    let sum = 0n
    let held = 0
    for (const { from, to, price } of partsOf(inside, start, end)) {
      const last = missing.at(-1)
      if (price === undefined && last?.to === from - 1) last.to = to
      else if (price === undefined) missing.push({ from, to })
      else {
        prices.push(price)
        sum += price * BigInt(to - from + 1)
        held += to - from + 1
      }
    }
    const sorted = [...prices].sort((one, other) => (one < other ? -1 : 1))
    candles.set(start, {
      feedID,
      interval,
      start,
      end,
      open: prices[0] as bigint,
      high: sorted.at(-1) as bigint,
      low: sorted[0] as bigint,
      close: prices.at(-1) as bigint,
      twap: sum / BigInt(held),
      count: inside.filter(each => each.observationsTimestamp <= end).length,
      complete: missing.length === 0,
      missing,
      signedLater: inside.filter(each => each.signedLater !== undefined).length,
      revision: inside.length,
    })
  }
  return candles
}

async function finalOf(
  given: Iterable<Given>,
  intervals: readonly CandleInterval[],
): Promise<Map<string, Candle>> {
  const final = new Map<string, Candle>()
  for await (const candle of candlesOf(given, { intervals })) {
    const key = `${candle.interval} ${candle.start}`
    const before = final.get(key)
    if (before !== undefined) {
      expect(candle.revision).toBeGreaterThan(before.revision)
      expect(before.complete && !candle.complete).toBe(false)
    }
    final.set(key, candle)
  }
  return final
}

/** The candles of a stream, which issues them some time after their end even if reports are missing. */
function liveOf(
  given: readonly Given[],
  intervals: readonly CandleInterval[],
  seed: number,
): Map<string, Candle> {
  const random = createRandom(seed)
  const final = new Map<string, Candle>()
  const builder = new CandleBuilder(
    { intervals },
    candle => void final.set(`${candle.interval} ${candle.start}`, candle),
    () => undefined,
  )
  for (const report of given) {
    builder.add(report)
    if (random.chance(0.5)) builder.closeBefore((FIRST + random.pick(0, 30)) * 1000, 0)
  }
  builder.finish()
  return final
}

describe('candlesOf', () => {
  test('equals the definition, whatever the order and however often a report comes', async () => {
    for (let seed = 1; seed <= inForm(10, 3000); seed++) {
      const random = createRandom(seed)
      const feedID = random.chance(0.5) ? inSeconds : inMilliseconds
      const reports = chainOf(feedID, random, random.pick(1, 250))
      if (reports.length === 0) continue
      const known = Object.keys(lengths) as CandleInterval[]
      const intervals = known.filter(() => random.chance(0.5))
      if (intervals.length === 0) intervals.push('1m')
      const given = random.chance(0.3) ? reports : shuffle(reports, random)
      // A list would be sorted.
      const found = await finalOf(given.values(), intervals)
      expect([...found].sort(byKey)).toEqual(expectedOf(reports, intervals))
    }
  })

  test('equals the definition where windows overlap, whatever the order', async () => {
    for (let seed = 1; seed <= inForm(25, 10_000); seed++) {
      const random = createRandom(seed)
      const feedID = random.chance(0.5) ? inSeconds : inMilliseconds
      // A feed remembers 128 complete candles.
      const reports = overlapsOf(feedID, random, random.pick(1, 14))
      const intervals = (Object.keys(lengths) as CandleInterval[]).filter(() => random.chance(0.7))
      if (intervals.length === 0) intervals.push('1m')
      const given = random.chance(0.2) ? reports : shuffle(reports, random)
      const found = await finalOf(given.values(), intervals)
      expect({ seed, found: [...found].sort(byKey) }).toEqual({
        seed,
        found: expectedOf(reports, intervals),
      })
    }
  })

  test('sorts a list, so that any number of candles is right where windows overlap', async () => {
    // Two networks, each with a report every two seconds, one after the other.
    const chain = (shift: number) =>
      Array.from({ length: 800 }, (_, at) => {
        const from = FIRST + 2 * at + shift
        return reportOf(inSeconds, from, from + 1, BigInt(1000 + (at % 7) + 10 * shift))
      })
    const reports = [...chain(0), ...chain(1)]
    const last = await finalOf(reports, ['5s'])
    const sorted = [...reports].sort(
      (one, other) => one.observationsTimestamp - other.observationsTimestamp,
    )
    expect([...last].sort(byKey)).toEqual(expectedOf(sorted, ['5s']))
    expect(last.size).toBeGreaterThan(300)
  })

  test('all orders of eight reports whose windows overlap give the same candles', async () => {
    const windows = [
      [0, 6],
      [3, 9],
      [4, 4],
      [8, 13],
      [2, 14],
      [14, 15],
      [12, 20],
      [17, 22],
    ] as const
    const reports = windows.map(([from, to], index) =>
      reportOf(inSeconds, FIRST + from, FIRST + to, BigInt((index * 5) % 8) - 3n),
    )
    const intervals = ['1s', '5s', '15s'] as const
    const expected = expectedOf(reports, intervals)
    let orders = 0
    for (const order of ordersOf(reports)) {
      if (orders++ % inForm(1000, 1) !== 0) continue
      expect([...(await finalOf(order.values(), intervals))].sort(byKey)).toEqual(expected)
      expect([...liveOf(order, intervals, orders)].sort(byKey)).toEqual(expected)
    }
    expect(orders).toBe(40_320)
  })

  test('the average is that of twap over the same window', async () => {
    const reports = chainOf(inSeconds, createRandom(5), 900)
    const candles = [...(await finalOf(reports, ['1m', '5m'])).values()].filter(
      each => each.complete,
    )
    expect(candles.length).toBeGreaterThan(3)
    for (const { start, end, twap: average } of candles) {
      const ends = { open: 'to', straddling: 'clip' } as const
      expect(twap(reports, { from: start, to: end + 1, ends }).value).toBe(average)
    }
  })

  test('a report that absorbed a gap is the price of each moment that it holds', async () => {
    const wide = reportOf(inSeconds, FIRST + 58, FIRST + 62, 7n)
    const found = await finalOf([wide], ['1s', '1m'])
    expect([...found.values()].filter(each => each.interval === '1s')).toHaveLength(5)
    expect(found.get(`1m ${FIRST}`)).toMatchObject({
      close: 7n,
      count: 0,
      complete: false,
      missing: [{ from: FIRST, to: FIRST + 57 }],
      revision: 1,
    })
    expect(found.get(`1m ${FIRST + 60}`)).toMatchObject({ open: 7n, count: 1, revision: 1 })
  })

  test('a window that no report has makes no more candles than the longest window', async () => {
    const forged = reportOf(inMilliseconds, 0, FIRST * 1000, 1n)
    const found = await finalOf([forged], ['1s', '1d'])
    expect(found.size).toBe(302)
  })

  test.each([
    [{ intervals: [] }, /intervals must be a list of intervals/],
    [{ intervals: ['2m'] }, /intervals must hold only 1s, 5s, .*, not 2m/],
    [{ intervals: ['1m'], fields: 'bid' }, /unknown option 'fields' of candlesOf/],
  ])('rejects %j', async (options, message) => {
    const loop = candlesOf([], options as never)
    await expect(loop.next()).rejects.toThrow(ValidationError)
    await expect(candlesOf([], options as never).next()).rejects.toThrow(message)
  })

  test('names the report that is wrong, and a version without a price', async () => {
    const right = reportOf(inSeconds, FIRST, FIRST, 1n)
    const options = { intervals: ['1m'] } as const
    await expect(
      candlesOf([right, { ...right, observationsTimestamp: '1' as never }], options).next(),
    ).rejects.toThrow(/reports\[1\]: validFromTimestamp and observationsTimestamp must be whole/)
    await expect(candlesOf([{ ...right, feedID: 'ETH' }], options).next()).rejects.toThrow(
      /reports\[0\]: feedID must be the id of a feed/,
    )
    const books = { ...right, feedID: `0x000d${'c1'.repeat(30)}` }
    await expect(candlesOf([books], options).next()).rejects.toThrow(
      /version 13 has no single price: name one with the option field/,
    )
    const bid = { ...books, decoded: { bestBid: 3n } }
    const { value } = await candlesOf([bid], { ...options, field: 'bestBid' }).next()
    expect(value).toMatchObject({ open: 3n })
  })
})

/** In another order, some of them twice. */
function shuffle(reports: readonly Given[], random: Random): Given[] {
  return random.shuffled([...reports, ...reports.filter(() => random.chance(0.2))])
}

function expectedOf(
  reports: readonly Given[],
  intervals: readonly CandleInterval[],
): [string, Candle][] {
  const all = intervals.flatMap(interval =>
    Array.from(modelOf(reports, interval), ([start, candle]): [string, Candle] => [
      `${interval} ${start}`,
      candle,
    ]),
  )
  return all.sort(byKey)
}

/** All orders of some reports. */
function* ordersOf<Each>(all: readonly Each[]): Generator<Each[]> {
  if (all.length === 0) yield []
  for (const [index, first] of all.entries())
    for (const rest of ordersOf(all.toSpliced(index, 1))) yield [first, ...rest]
}

function byKey([one]: readonly [string, Candle], [other]: readonly [string, Candle]): number {
  return one < other ? -1 : 1
}

test('a candle that was issued with holes is issued again with each that is filled', () => {
  const issued: Candle[] = []
  const builder = new CandleBuilder(
    { intervals: ['10s'] },
    candle => issued.push(candle),
    () => undefined,
  )
  const start = FIRST - (FIRST % 10)
  const add = (from: number, to: number): void =>
    builder.add(reportOf(inSeconds, start + from, start + to, 5n))
  add(0, 3)
  add(5, 6)
  builder.closeBefore(1000 * (start + 20), 0)
  add(4, 4)
  // A report that does not continue shows that the run has ended.
  add(20, 20)
  const missing = issued.filter(each => each.start === start).map(each => each.missing)
  expect(missing).toEqual([
    [
      { from: start + 4, to: start + 4 },
      { from: start + 7, to: start + 9 },
    ],
    [{ from: start + 7, to: start + 9 }],
  ])
})
