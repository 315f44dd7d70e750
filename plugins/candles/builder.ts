import { ValidationError } from '../../core/errors.js'
import {
  type Checked,
  checkText,
  kindOf,
  optional,
  type Rule,
  type Schema,
} from '../../core/options.js'
import {
  type Candle,
  type CandleInterval,
  type CandleRange,
  intervalSeconds,
} from '../../report/candle.js'
import { feedResolution, feedVersion } from '../../report/feed-id.js'
import { priceField } from '../../report/price-field.js'
import type { Report } from '../../report/report.js'
import { LONGEST_RANGE } from '../../report/seen-times.js'

/** The parts of a report that a candle is made of. */
export type PricedReport = Pick<
  Report,
  'feedID' | 'validFromTimestamp' | 'observationsTimestamp' | 'decoded'
>

/** Options of `candles` and `candlesOf`. */
export interface CandleOptions {
  /**
   * The intervals of the candles: `1s`, `5s`, `10s`, `15s`, `30s`, `1m`, `5m`, `15m`, `30m`, `1h`,
   * `4h`, `1d`.
   */
  readonly intervals: readonly CandleInterval[]
  /**
   * The field that holds the price, for feeds whose version has no single price. Version 13 needs
   * it. @default the price of the version: `price`, `midPrice`, `mid`, `rate`, `exchangeRate` or
   * `navPerShare`
   */
  readonly field?: string
}

const checkIntervals: Rule<readonly CandleInterval[]> = (field, value) => {
  if (!Array.isArray(value) || value.length === 0)
    throw new ValidationError(
      `${field} must be a list of intervals, such as ['1m', '1h'], not ${kindOf(value)}`,
    )
  const known = Object.keys(intervalSeconds)
  for (const each of value)
    if (!known.includes(each))
      throw new ValidationError(`${field} must hold only ${known.join(', ')}, not ${String(each)}`)
  const given = new Set(value as CandleInterval[])
  return known.filter((each): each is CandleInterval => given.has(each as CandleInterval))
}

/** The rules of `CandleOptions`. */
export const candleSchema: {
  readonly intervals: Rule<readonly CandleInterval[]>
  readonly field: Rule<string | undefined>
} = {
  intervals: checkIntervals,
  field: optional(checkText),
} satisfies Schema<CandleOptions>

/**
 * A feed remembers so many ranges of times that reports hold. A feed whose windows do not join has
 * a range for each report. Candles before the forgotten ranges do not change any more.
 */
const MOST_RANGES = 4096
/** So many candles of an interval that miss a range are remembered, to be issued again. */
const MOST_OPEN = 1024

type Fields = Readonly<Record<string, unknown>>

/** Readers of the most common fields. A name that is a constant is read several times faster. */
const readers: Readonly<Record<string, (fields: Fields) => unknown>> = {
  price: fields => fields.price,
  mid: fields => fields.mid,
}

const readerOf = (field: string | undefined): ((fields: Fields) => unknown) =>
  field === undefined ? () => undefined : (readers[field] ?? (fields => fields[field]))

/** Prices of consecutive moments of an interval. */
class Prices {
  from: number
  to: number
  open: bigint
  high: bigint
  low: bigint
  close: bigint
  /** The sum of price times duration. */
  sum: bigint
  /** How many reports were observed from `from` to `to`. */
  count: number
  /** True if the report that holds `to` was observed later. */
  goesOn: boolean

  /** One report, or the part of its window from `from` to `to`. */
  constructor(from: number, to: number, price: bigint, goesOn: boolean) {
    this.from = from
    this.to = to
    this.open = price
    this.high = price
    this.low = price
    this.close = price
    this.sum = to === from ? price : price * BigInt(to - from + 1)
    this.count = goesOn ? 0 : 1
    this.goesOn = goesOn
  }
}

/** A candle that is not complete. */
class Bar extends Prices {
  readonly start: number
  readonly end: number
  /** How many times of the interval reports hold. */
  duration: number
  isIssued = false

  constructor(start: number, length: number, prices: Prices) {
    super(prices.from, prices.to, prices.open, prices.goesOn)
    this.start = start
    this.end = start + length - 1
    this.high = prices.high
    this.low = prices.low
    this.close = prices.close
    this.sum = prices.sum
    this.count = prices.count
    this.duration = prices.to - prices.from + 1
  }

  /** Adds prices of other moments. */
  put(prices: Prices): void {
    if (prices.high > this.high) this.high = prices.high
    if (prices.low < this.low) this.low = prices.low
    if (prices.from < this.from) {
      this.from = prices.from
      this.open = prices.open
    }
    if (prices.to > this.to) {
      this.to = prices.to
      this.close = prices.close
      this.goesOn = prices.goesOn
    }
    this.sum += prices.sum
    this.count += prices.count
    this.duration += prices.to - prices.from + 1
  }
}

/** The bars of one interval of a feed. */
interface Series {
  readonly interval: CandleInterval
  readonly length: number
  /** The bars that are not complete, by start. */
  readonly bars: Map<number, Bar>
  /** The bar that prices came into last. */
  last: Bar | undefined
  /** The candle that was issued last. */
  issued: Candle | undefined
}

/** A feed, with its bars. */
class CandleFeed {
  readonly feedID: string
  /** The feed whose report came after that of this feed. */
  next: CandleFeed | undefined = undefined
  /** The name of the field that holds the price; undefined if there is none. */
  readonly field: string | undefined
  /** Reads that field. */
  readonly read: (fields: Fields) => unknown
  /** Units of time in a second. */
  readonly second: number
  readonly base: number
  readonly series: readonly Series[]
  /** Times that reports hold, ascending and apart. The times of `run` are not among them. */
  readonly held: { from: number; to: number }[] = []
  /** Consecutive reports in one base interval, which are not in the bars yet. */
  run: Prices | undefined = undefined
  /** The time with which `run` ends at the latest. */
  limit = 0
  /** Earlier times are forgotten. */
  forgotten: number = Number.NEGATIVE_INFINITY
  isUnreadable = false

  constructor(feedID: string, { intervals, field }: Checked<typeof candleSchema>, base: number) {
    this.feedID = feedID
    this.field = field ?? priceField(feedID)
    this.read = readerOf(this.field)
    this.second = feedResolution(feedID) === 's' ? 1 : 1000
    this.base = base * this.second
    this.series = intervals.map(interval => ({
      interval,
      length: intervalSeconds[interval] * this.second,
      bars: new Map(),
      last: undefined,
      issued: undefined,
    }))
  }

  /**
   * The last time up to which nothing holds a time after `to`. Undefined if a report holds a time
   * of the range.
   */
  freeUpTo(from: number, to: number): number | undefined {
    const { held } = this
    let index = held.length - 1
    while (index >= 0 && (held[index] as CandleRange).from > to) index--
    if (from <= this.forgotten || (held[index]?.to ?? Number.NEGATIVE_INFINITY) >= from)
      return undefined
    return (held[index + 1]?.from ?? Number.POSITIVE_INFINITY) - 1
  }

  hold(from: number, to: number): void {
    const { held } = this
    let index = held.length
    while (index > 0 && (held[index - 1] as CandleRange).from > to) index--
    const before = held[index - 1]
    const after = held[index]
    const joins = before !== undefined && before.to + 1 === from
    if (after !== undefined && to + 1 === after.from) {
      after.from = joins ? before.from : from
      if (joins) held.splice(index - 1, 1)
    } else if (joins) before.to = to
    else {
      held.splice(index, 0, { from, to })
      if (held.length > MOST_RANGES) this.forgotten = held.shift()?.to as number
    }
  }

  /** The ranges of an interval that no report holds. */
  missingIn(start: number, end: number): readonly CandleRange[] {
    const missing: CandleRange[] = []
    let next = start
    for (const { from, to } of this.held) {
      if (to < next) continue
      if (from > end) break
      if (from > next) missing.push(Object.freeze({ from: next, to: from - 1 }))
      next = to + 1
    }
    if (next <= end) missing.push(Object.freeze({ from: next, to: end }))
    return Object.freeze(missing)
  }
}

/**
 * Makes candles of reports, which may come in any order and more than once. The same reports give
 * the same candles, in whatever order they come.
 *
 * Consecutive reports are first joined to a run, which ends with the base interval: the greatest
 * common divisor of the intervals. A finished run goes into the bars. So the cost of a report does
 * not depend on the number of intervals.
 */
export class CandleBuilder {
  readonly #options: Checked<typeof candleSchema>
  readonly #base: number
  readonly #issue: (candle: Candle) => void
  readonly #unreadable: (feedID: string, rule: string) => void
  readonly #begun: ((report: PricedReport) => void) | undefined
  readonly #feeds = new Map<string, CandleFeed>()
  #last: CandleFeed | undefined

  /**
   * `issue` gets each candle. `unreadable` is called once for a feed whose price can't be read: its
   * reports are as if they had not come. `begun` gets the first report of each feed.
   */
  constructor(
    options: Checked<typeof candleSchema>,
    issue: (candle: Candle) => void,
    unreadable: (feedID: string, rule: string) => void,
    begun?: (report: PricedReport) => void,
  ) {
    this.#options = options
    this.#base = options.intervals.reduce((base, each) => divisor(base, intervalSeconds[each]), 0)
    this.#issue = issue
    this.#unreadable = unreadable
    this.#begun = begun
  }

  readonly add = (report: PricedReport): void => {
    const { feedID, validFromTimestamp: from, observationsTimestamp: to } = report
    // Feeds come in much the same order again and again.
    const guess = this.#last?.next
    const feed = guess?.feedID === feedID ? guess : this.#feedOf(report)
    this.#last = feed
    const { run } = feed
    if (run === undefined || from !== run.to + 1 || to > feed.limit || to < from) {
      this.#addApart(feed, report)
      return
    }
    const price = this.#priceOf(feed, report)
    if (price === undefined) return
    if (price > run.high) run.high = price
    else if (price < run.low) run.low = price
    run.close = price
    run.sum += to === from ? price : price * BigInt(to - from + 1)
    run.count++
    run.to = to
    if (to === feed.limit) this.#endRun(feed)
  }

  /**
   * Issues the candles that ended more than `wait` milliseconds before `now`, in milliseconds of
   * Unix time, as they stand.
   */
  closeBefore(now: number, wait: number): void {
    for (const feed of this.#feeds.values())
      this.#closeFeed(feed, Math.floor(((now - wait) / 1000) * feed.second))
  }

  /** Issues all candles as they stand. */
  finish(): void {
    for (const feed of this.#feeds.values()) this.#closeFeed(feed, Number.POSITIVE_INFINITY)
  }

  /** The candle of a feed that was issued last. */
  lastOf(feedID: string, interval: CandleInterval): Candle | undefined {
    return this.#feeds.get(feedID)?.series.find(each => each.interval === interval)?.issued
  }

  /** Forgets a feed. */
  forget(feedID: string): void {
    this.#last = undefined
    for (const feed of this.#feeds.values()) feed.next = undefined
    this.#feeds.delete(feedID)
  }

  #feedOf(report: PricedReport): CandleFeed {
    const { feedID } = report
    let feed = this.#feeds.get(feedID)
    if (feed === undefined) {
      feed = new CandleFeed(feedID, this.#options, this.#base)
      this.#feeds.set(feedID, feed)
      this.#begun?.(report)
    }
    if (this.#last !== undefined) this.#last.next = feed
    return feed
  }

  #priceOf(feed: CandleFeed, report: PricedReport): bigint | undefined {
    let rule: string
    try {
      const price = feed.read(report.decoded as Fields)
      if (typeof price === 'bigint') return price
      const { field } = feed
      rule =
        field === undefined
          ? `version ${feedVersion(feed.feedID)} has no single price: name one with the option field`
          : `its field ${field} must be a bigint, not ${kindOf(price)}`
    } catch (thrown) {
      rule = (thrown as Error).message
    }
    if (!feed.isUnreadable) this.#unreadable(feed.feedID, rule)
    feed.isUnreadable = true
    return undefined
  }

  /** Adds a report that does not continue the run, or that goes on beyond its interval. */
  #addApart(feed: CandleFeed, report: PricedReport): void {
    const { observationsTimestamp: to } = report
    // No report holds more. A forged window must not take a minute of work.
    const from = Math.max(report.validFromTimestamp, to - LONGEST_RANGE * feed.second + 1)
    this.#endRun(feed)
    const upTo = to < from ? undefined : feed.freeUpTo(from, to)
    if (upTo === undefined) return
    const price = this.#priceOf(feed, report)
    if (price === undefined) return
    const { base } = feed
    for (let start = from; ; ) {
      const limit = start - (start % base) + base - 1
      if (to <= limit) {
        const run = new Prices(start, to, price, false)
        feed.limit = Math.min(limit, upTo)
        if (to === feed.limit) this.#merge(feed, run)
        else feed.run = run
        return
      }
      this.#merge(feed, new Prices(start, limit, price, true))
      start = limit + 1
    }
  }

  #endRun(feed: CandleFeed): void {
    const { run } = feed
    if (run === undefined) return
    feed.run = undefined
    this.#merge(feed, run)
  }

  /** Adds prices of one base interval to the bars. */
  #merge(feed: CandleFeed, prices: Prices): void {
    const { from, to } = prices
    feed.hold(from, to)
    for (const series of feed.series) {
      const { bars, length, last } = series
      if (to - from + 1 === length) {
        this.#issueAs(feed, series, from, prices, none)
        continue
      }
      const start = from - (from % length)
      const known = last?.start === start ? last : bars.get(start)
      const bar = known ?? addBar(series, start, prices)
      known?.put(prices)
      series.last = bar
      if (bar.duration === length) {
        bars.delete(start)
        series.last = undefined
        this.#issueBar(feed, series, bar)
      } else if (bar.isIssued) this.#issueBar(feed, series, bar)
    }
  }

  #closeFeed(feed: CandleFeed, time: number): void {
    this.#endRun(feed)
    for (const series of feed.series)
      for (const bar of series.bars.values())
        if (!bar.isIssued && bar.end < time) this.#issueBar(feed, series, bar)
  }

  #issueBar(feed: CandleFeed, series: Series, bar: Bar): void {
    bar.isIssued = true
    const { start, end, duration } = bar
    const missing = duration === series.length ? none : feed.missingIn(start, end)
    this.#issueAs(feed, series, start, bar, missing)
  }

  #issueAs(
    feed: CandleFeed,
    series: Series,
    start: number,
    prices: Prices,
    missing: readonly CandleRange[],
  ): void {
    series.issued = new IssuedCandle(feed.feedID, series, start, prices, missing)
    this.#issue(series.issued)
  }
}

const none: readonly CandleRange[] = Object.freeze([])

class IssuedCandle implements Candle {
  readonly feedID: string
  readonly interval: CandleInterval
  readonly start: number
  readonly end: number
  readonly open: bigint
  readonly high: bigint
  readonly low: bigint
  readonly close: bigint
  readonly twap: bigint
  readonly count: number
  readonly complete: boolean
  readonly missing: readonly CandleRange[]
  readonly revision: number

  constructor(
    feedID: string,
    { interval, length }: Series,
    start: number,
    prices: Prices,
    missing: readonly CandleRange[],
  ) {
    const { count, sum } = prices
    let lacking = 0
    for (const { from, to } of missing) lacking += to - from + 1
    this.feedID = feedID
    this.interval = interval
    this.start = start
    this.end = start + length - 1
    this.open = prices.open
    this.high = prices.high
    this.low = prices.low
    this.close = prices.close
    this.twap = length === 1 ? sum : sum / BigInt(length - lacking)
    this.count = count
    this.complete = lacking === 0
    this.missing = missing
    this.revision = prices.goesOn && prices.to === this.end ? count + 1 : count
  }
}

function addBar({ bars, length }: Series, start: number, prices: Prices): Bar {
  const bar = new Bar(start, length, prices)
  bars.set(start, bar)
  if (bars.size > MOST_OPEN) for (const [first] of bars) if (bars.delete(first)) break
  return bar
}

function divisor(one: number, other: number): number {
  return other === 0 ? one : divisor(other, one % other)
}
