import { type Candle, formatPrice, type Gap, type Report } from 'sluice/report'
import { given } from '../command.js'
import { nameOrigin } from '../stream/events.js'
import { feedTimeMs } from '../values.js'
import type {
  FeedCandle,
  FeedCandles,
  FeedChange,
  FeedConflict,
  FeedDetails,
  FeedGap,
  FeedReport,
} from './messages.js'
import { BUCKETS, type RangeName, ranges, Series } from './series.js'

/** How many reports, gaps and conflicts of a feed are stored. */
const LAST = 20
/** How many candles of each interval are stored: an hour of minutes, six hours of five minutes. */
const CANDLES = 72

/** The prices of a report, as the integers that are signed. */
export interface Quote {
  readonly price: bigint
  readonly bid?: bigint
  readonly ask?: bigint
}

interface Taken extends Quote {
  readonly observedAt: number
  readonly arrivedAt: number
  readonly origin: string
  readonly source: string
}

/**
 * What a feed has brought in the last six hours: its prices, ages and gaps in buckets, and its last
 * reports and conflicts. Its size does not grow with the number of reports.
 */
export class FeedRecord {
  readonly #decimals: number
  readonly #prices = new Series()
  readonly #ages = new Series()
  readonly #gapSeries = new Series()
  readonly #opened = Object.values(ranges).map(ms => new Prices(ms / BUCKETS))
  readonly #reports: Taken[] = []
  readonly #gaps: FeedGap[] = []
  readonly #conflicts: FeedConflict[] = []
  /** The candles of each interval, by start, the oldest first. */
  readonly #candles: Readonly<Record<FeedCandles['interval'], Map<number, FeedCandle>>> = {
    '1m': new Map(),
    '5m': new Map(),
  }
  #newest: Taken | undefined

  constructor(decimals: number) {
    this.#decimals = decimals
  }

  /** Adds a report. `present` is the service's time in Unix milliseconds, `now` this machine's. */
  take(report: Report, quote: Quote, present: number, now: number): void {
    const observedAt = feedTimeMs(report.feedID, report.observationsTimestamp)
    const { source } = report
    const origin = nameOrigin(report.origin)
    const taken = { ...quote, observedAt, arrivedAt: now, origin, source }
    keep(this.#reports, taken)
    if (source === 'live') this.#ages.add(Math.max(0, present - observedAt), now)
    // A report that is dated after the present would end the buckets of all others.
    if (observedAt > present + MAX_AHEAD) return
    this.#prices.add(Number(quote.price) / 10 ** this.#decimals, observedAt)
    for (const prices of this.#opened) prices.add(quote.price, observedAt)
    if (observedAt >= (this.#newest?.observedAt ?? 0)) this.#newest = taken
  }

  addGap({ feedID, from, to, cause }: Gap, now: number): void {
    const [start, end] = [feedTimeMs(feedID, from), feedTimeMs(feedID, to)]
    keep(this.#gaps, { at: now, from: start, to: end, cause })
    this.#gapSeries.addSpan(1, start, Math.min(end, now))
  }

  addCandle({ feedID, interval, start, complete, ...prices }: Candle): void {
    const candles = this.#candles[interval as FeedCandles['interval']]
    const at = feedTimeMs(feedID, start)
    const scale = (price: bigint): number => Number(price) / 10 ** this.#decimals
    const { open, high, low, close } = prices
    const row = { open: scale(open), high: scale(high), low: scale(low), close: scale(close) }
    candles.set(at, { start: at, ...row, complete })
    if (candles.size > CANDLES) candles.delete(Math.min(...candles.keys()))
  }

  addConflict(conflict: FeedConflict): void {
    keep(this.#conflicts, conflict)
  }

  /** A price as an exact decimal number. */
  write(value: bigint): string {
    return formatPrice(value, this.#decimals)
  }

  read(range: RangeName, now: number): Omit<FeedDetails, 'row' | 'name' | 'market'> {
    const newest = this.#newest
    return {
      range,
      ...given({ quote: newest && this.#writeQuote(newest) }),
      changes: newest === undefined ? [] : this.#changes(newest.price, now),
      prices: this.#prices.read(range, now),
      ages: this.#ages.read(range, now),
      gapCourse: this.#gapSeries.read(range, now),
      candles: this.#candlesOf(range, now),
      reports: this.#reports.map(taken => this.#writeReport(taken)).reverse(),
      gaps: [...this.#gaps].reverse(),
      conflicts: [...this.#conflicts].reverse(),
    }
  }

  #candlesOf(range: RangeName, now: number): FeedCandles {
    const interval = range === '6h' ? '5m' : '1m'
    const candles = [...this.#candles[interval].values()]
      .filter(({ start }) => start > now - ranges[range])
      .sort((one, other) => one.start - other.start)
    return { interval, widthMs: interval === '1m' ? 60_000 : 300_000, candles }
  }

  #writeQuote({ price, bid, ask }: Taken): FeedDetails['quote'] {
    return {
      price: this.write(price),
      ...(bid === undefined || ask === undefined
        ? {}
        : {
            bid: this.write(bid),
            ask: this.write(ask),
            spread: this.write(ask - bid),
            ...given({ spreadBps: basisPoints(2n * (ask - bid), ask + bid) }),
          }),
    }
  }

  #writeReport({ price, bid, ask, ...facts }: Taken): FeedReport {
    const write = (value: bigint | undefined) =>
      value === undefined ? undefined : this.write(value)
    return { ...facts, price: this.write(price), ...given({ bid: write(bid), ask: write(ask) }) }
  }

  /** The change of the price over each range, or since the first report within the range. */
  #changes(price: bigint, now: number): readonly FeedChange[] {
    return (Object.keys(ranges) as RangeName[]).flatMap((range, index) => {
      const first = this.#opened[index]?.oldest(now)
      if (first === undefined) return []
      const by = this.write(price - first.price)
      const bps = basisPoints(price - first.price, first.price)
      return [{ range, since: first.at, by, ...given({ bps }) }]
    })
  }
}

/** A report may be dated this many milliseconds after the present. */
const MAX_AHEAD = 5000

/** The exact first price of each bucket of a range. */
class Prices {
  readonly #width: number
  readonly #entries: ({ readonly at: number; readonly price: bigint } | undefined)[] = []

  constructor(width: number) {
    this.#width = width
  }

  add(price: bigint, at: number): void {
    const slot = Math.floor(at / this.#width) % BUCKETS
    const known = this.#entries[slot]
    const isSame = known !== undefined && this.#numberOf(known.at) === this.#numberOf(at)
    if (known === undefined || (isSame ? at < known.at : at > known.at))
      this.#entries[slot] = { at, price }
  }

  /** The first price within the range. */
  oldest(now: number): { readonly at: number; readonly price: bigint } | undefined {
    const first = this.#numberOf(now) - BUCKETS + 1
    for (let number = first; number <= first + BUCKETS - 1; number++) {
      const entry = this.#entries[number % BUCKETS]
      if (entry !== undefined && this.#numberOf(entry.at) === number) return entry
    }
    return undefined
  }

  readonly #numberOf = (at: number): number => Math.floor(at / this.#width)
}

/** A share in hundredths of a percent, to two digits; undefined if it is one of nothing. */
function basisPoints(part: bigint, whole: bigint): number | undefined {
  const size = whole < 0n ? -whole : whole
  return size === 0n ? undefined : Math.round(Number((part * 10_000_000n) / size) / 10) / 100
}

function keep<Value>(values: Value[], value: Value): void {
  values.push(value)
  if (values.length > LAST) values.shift()
}
