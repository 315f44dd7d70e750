import { BoundedMap } from '../../core/bounded-map.js'
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
import { Intervals } from '../../report/intervals.js'
import { priceField } from '../../report/price-field.js'
import type { Report } from '../../report/report.js'
import { LONGEST_RANGE } from '../../report/seen-times.js'

/** The parts of a report that a candle is made of. */
export type PricedReport = Pick<
  Report,
  'feedID' | 'validFromTimestamp' | 'observationsTimestamp' | 'decoded'
> & {
  /** Set if the network signed the report later than its time. */
  readonly signedLater?: Report['signedLater']
}

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
/** So many complete candles of an interval are remembered, a power of two. */
const MOST_COMPLETE = 128
/**
 * A feed remembers so many windows whose times an overlapping report may take over. In older
 * windows, the report that came first keeps its times.
 */
const MOST_WINDOWS = 1024

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
  /** How many reports hold some of these moments, and were observed later. */
  passing: number
  /** How many reports were signed later than their time. */
  signedLater: number
  /** When the first of the reports was observed. */
  readonly observed: number

  /** One report, or the part of its window from `from` to `to`. */
  constructor(from: number, to: number, price: bigint, observed: number) {
    this.from = from
    this.to = to
    this.open = price
    this.high = price
    this.low = price
    this.close = price
    this.sum = to === from ? price : price * BigInt(to - from + 1)
    this.passing = observed > to ? 1 : 0
    this.count = 1 - this.passing
    this.signedLater = 0
    this.observed = observed
  }
}

/** Consecutive times that a report holds which was observed later. */
interface Part extends CandleRange {
  readonly price: bigint
  readonly observed: number
}

/** A part that a report which comes later may take over. */
interface Window extends Part {
  /** Its place in the order of arrival. */
  readonly age: number
}

/** Times that a report takes over from a report that was observed later, or that nobody held. */
interface Taken extends CandleRange {
  /** The price until then; undefined if nobody held them. */
  readonly before: bigint | undefined
}

/** The prices of one interval, if reports may still be added. */
class Bar extends Prices {
  readonly start: number
  readonly end: number
  /** How many times of the interval reports hold. */
  duration: number
  isIssued = false
  /** What reports hold that were observed after the end. */
  #crossing: readonly Part[] = []
  /** The highest and the lowest price of the reports that were observed in the interval. */
  #high: bigint | undefined
  #low: bigint | undefined

  constructor(start: number, length: number) {
    const end = start + length - 1
    super(end + 1, start - 1, 0n, end + 1)
    this.start = start
    this.end = end
    this.passing = 0
    this.duration = 0
  }

  /** Adds prices of other moments. */
  put(prices: Prices): void {
    if (prices.from < this.from) {
      this.from = prices.from
      this.open = prices.open
    }
    if (prices.to > this.to) {
      this.to = prices.to
      this.close = prices.close
    }
    this.sum += prices.sum
    this.count += prices.count
    this.duration += prices.to - prices.from + 1
    const { from, to, close: price, observed } = prices
    // A report counts once: with its own time, or where it holds the end.
    if (observed <= to || to === this.end) this.signedLater += prices.signedLater
    if (observed > this.end) {
      if (to === this.end) this.passing++
      this.#crossing = [...this.#crossing, { from, to, price, observed }]
    } else this.#observe(prices.high, prices.low)
    this.#compare()
  }

  /**
   * Adds a report whose window overlaps others. It holds the times of `taken` from now on, all of
   * which lie in the interval.
   */
  take(
    taken: readonly Taken[],
    price: bigint,
    { observationsTimestamp: observed, signedLater }: PricedReport,
    isCopy: boolean,
  ): void {
    const isPassing = observed > this.end
    if (isPassing || isCopy) this.passing++
    else this.count++
    if (signedLater !== undefined && !isCopy) this.signedLater++
    for (const { from, to, before } of taken) {
      const width = to - from + 1
      this.sum += (price - (before ?? 0n)) * BigInt(width)
      if (before === undefined) this.duration += width
      else this.#crossing = this.#crossing.flatMap(part => without(part, from, to))
      if (isPassing) this.#crossing = [...this.#crossing, { from, to, price, observed }]
      if (from <= this.from) {
        this.from = from
        this.open = price
      }
      if (to >= this.to) {
        this.to = to
        this.close = price
      }
    }
    if (!isPassing && taken.length > 0) this.#observe(price, price)
    this.#compare()
  }

  #observe(high: bigint, low: bigint): void {
    if (this.#high === undefined || high > this.#high) this.#high = high
    if (this.#low === undefined || low < this.#low) this.#low = low
  }

  #compare(): void {
    let high = this.#high
    let low = this.#low
    for (const { price } of this.#crossing) {
      if (high === undefined || price > high) high = price
      if (low === undefined || price < low) low = price
    }
    this.high = high ?? this.high
    this.low = low ?? this.low
  }
}

/** What is left of a part without some times. */
function without<Each extends Part>(part: Each, from: number, to: number): readonly Each[] {
  if (part.to < from || part.from > to) return [part]
  const left = part.from < from ? [{ ...part, to: from - 1 }] : []
  return part.to > to ? [...left, { ...part, from: to + 1 }] : left
}

/** The bars of one interval of a feed. */
interface Series {
  readonly interval: CandleInterval
  readonly length: number
  /** The bars that are not complete, by start. */
  readonly bars: BoundedMap<number, Bar>
  /** The prices of the candles that were completed last. */
  readonly complete: Prices[]
  completed: number
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
  /** Times that reports hold. The times of `run` are not among them. */
  readonly held: Intervals = new Intervals()
  /** Consecutive reports in one base interval, which are not in the bars yet. */
  run: Prices | undefined = undefined
  /** The time with which `run` ends at the latest. */
  limit = 0
  /** Earlier times are forgotten. */
  forgotten: number = Number.NEGATIVE_INFINITY
  isUnreadable = false
  /** Times that reports hold before their own, ascending and apart. */
  windows: Window[] = []
  #age = 0

  constructor(feedID: string, { intervals, field }: Checked<typeof candleSchema>, base: number) {
    this.feedID = feedID
    this.field = field ?? priceField(feedID)
    this.read = readerOf(this.field)
    this.second = feedResolution(feedID) === 's' ? 1 : 1000
    this.base = base * this.second
    this.series = intervals.map(interval => ({
      interval,
      length: intervalSeconds[interval] * this.second,
      bars: new BoundedMap(MOST_OPEN),
      complete: [],
      completed: 0,
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
    const next = held.all[held.indexOf(from)]?.from ?? Number.POSITIVE_INFINITY
    return from <= this.forgotten || next <= to ? undefined : next - 1
  }

  hold(from: number, to: number): void {
    const { all } = this.held
    this.held.add(from, to)
    if (all.length > MOST_RANGES) this.forgotten = all.shift()?.to as number
  }

  /**
   * Remembers the times that a report holds before its own. A report whose window overlaps them,
   * and that was observed earlier, takes them over.
   */
  remember(from: number, to: number, price: bigint, observed: number): void {
    if (from > to) return
    const window = { from, to, price, observed, age: this.#age++ }
    if (from > (this.windows.at(-1)?.to ?? Number.NEGATIVE_INFINITY)) this.windows.push(window)
    else this.windows.splice(this.#windowAt(from), 0, window)
    if (this.windows.length < 2 * MOST_WINDOWS) return
    this.windows = this.windows.filter(({ age }) => age >= this.#age - MOST_WINDOWS)
  }

  /** The times that a report takes whose window overlaps others, in ascending order. */
  take(from: number, to: number): readonly Taken[] {
    const taken: Taken[] = []
    for (const free of this.held.missingIn(from, to)) {
      taken.push({ from: free.from, to: free.to, before: undefined })
      this.hold(free.from, free.to)
    }
    for (let at = this.#windowAt(from); at < this.windows.length; ) {
      const window = this.windows[at] as Window
      if (window.from > to) break
      const within = { from: Math.max(from, window.from), to: Math.min(to, window.to) }
      const isTaken = window.observed > to
      const left = isTaken ? without(window, within.from, within.to) : [window]
      if (isTaken) taken.push({ ...within, before: window.price })
      if (isTaken) this.windows.splice(at, 1, ...left)
      at += left.length
    }
    return taken.sort((one, other) => one.from - other.from)
  }

  /** The index of the first window that ends at a time or later. */
  #windowAt(time: number): number {
    let low = 0
    let high = this.windows.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.windows[middle] as Window).to < time) low = middle + 1
      else high = middle
    }
    return low
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
    if (to === from) run.sum += price
    else {
      run.sum += price * BigInt(to - from + 1)
      feed.remember(from, to - 1, price, to)
    }
    if (report.signedLater !== undefined) run.signedLater++
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
    if (to < from || from <= feed.forgotten) return
    const upTo = feed.freeUpTo(from, to)
    if (upTo === undefined) {
      this.#addOver(feed, from, report)
      return
    }
    const price = this.#priceOf(feed, report)
    if (price === undefined) return
    feed.remember(from, to - 1, price, to)
    const later = report.signedLater === undefined ? 0 : 1
    const { base } = feed
    for (let start = from; ; ) {
      const limit = start - (start % base) + base - 1
      if (to <= limit) {
        const run = new Prices(start, to, price, to)
        run.signedLater = later
        feed.limit = Math.min(limit, upTo)
        if (to === feed.limit) this.#merge(feed, run)
        else feed.run = run
        return
      }
      const part = new Prices(start, limit, price, to)
      part.signedLater = later
      this.#merge(feed, part)
      start = limit + 1
    }
  }

  /**
   * Adds a report whose window overlaps others. Of the reports whose windows have a moment, the
   * earliest observed holds it.
   */
  #addOver(feed: CandleFeed, from: number, report: PricedReport): void {
    const { observationsTimestamp: to } = report
    const price = this.#priceOf(feed, report)
    if (price === undefined) return
    const taken = feed.take(from, to)
    // Nobody else holds the time at which the report was observed, but a report of the same time.
    const isCopy = taken.at(-1)?.to !== to
    if (isCopy && taken.length === 0) return
    for (const range of taken) feed.remember(range.from, Math.min(range.to, to - 1), price, to)
    for (const series of feed.series)
      for (let start = from - (from % series.length); start <= to; start += series.length) {
        const parts = within(taken, start, start + series.length - 1)
        if (isCopy && parts.length === 0) continue
        const bar = barAt(series, start, parts)
        if (bar === undefined) continue
        bar.take(parts, price, report, isCopy)
        this.#changed(feed, series, bar)
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
        complete(series, prices)
        this.#issueAs(feed, series, from, prices, none)
        continue
      }
      const start = from - (from % length)
      const known = last?.start === start ? last : bars.get(start)
      const bar = known ?? addBar(series, start)
      bar.put(prices)
      series.last = bar
      this.#changed(feed, series, bar)
    }
  }

  /** Issues a bar that has become complete, or was issued before. */
  #changed(feed: CandleFeed, series: Series, bar: Bar): void {
    if (bar.duration === series.length) {
      if (series.bars.delete(bar.start)) complete(series, bar)
      series.last = undefined
      this.#issueBar(feed, series, bar)
    } else if (bar.isIssued) this.#issueBar(feed, series, bar)
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
    const missing = duration === series.length ? none : feed.held.missingIn(start, end)
    for (const range of missing) Object.freeze(range)
    this.#issueAs(feed, series, start, bar, Object.freeze(missing))
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
  readonly signedLater: number
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
    this.signedLater = prices.signedLater
    this.revision = count + prices.passing
  }
}

function addBar({ bars, length }: Series, start: number): Bar {
  const bar = new Bar(start, length)
  bars.set(start, bar)
  return bar
}

/** Remembers the prices of a complete candle. */
function complete(series: Series, prices: Prices): void {
  series.complete[series.completed++ & (MOST_COMPLETE - 1)] = prices
}

/**
 * The bar of an interval, for a report that overlaps others; undefined if its candle was complete,
 * and is forgotten.
 */
function barAt(series: Series, start: number, taken: readonly Taken[]): Bar | undefined {
  const open = series.bars.get(start)
  if (open !== undefined) return open
  const at = series.complete.findIndex(({ from }) => from === start)
  const prices = series.complete[at]
  if (prices === undefined) {
    const isNew = taken.length > 0 && taken.every(({ before }) => before === undefined)
    return isNew ? addBar(series, start) : undefined
  }
  if (prices instanceof Bar) return prices
  const bar = new Bar(start, series.length)
  bar.put(prices)
  series.complete[at] = bar
  return bar
}

/** The parts of ranges that lie in an interval. */
function within(ranges: readonly Taken[], start: number, end: number): readonly Taken[] {
  return ranges
    .filter(({ from, to }) => from <= end && to >= start)
    .map(({ from, to, before }) => ({
      from: Math.max(from, start),
      to: Math.min(to, end),
      before,
    }))
}

function divisor(one: number, other: number): number {
  return other === 0 ? one : divisor(other, one % other)
}
