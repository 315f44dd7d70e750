import type { Feed } from 'sluice/client'
import type { DecodedReport } from 'sluice/plugins/decoders'
import type { MarketVerdict } from 'sluice/plugins/market-guard'
import { type Candle, formatPrice, type Gap, type Report } from 'sluice/report'
import { given } from '../command.js'
import { feedName, observedAt, shortID } from '../output/feeds.js'
import { USUAL_DECIMALS } from '../output/format.js'
import { fieldsOf } from '../output/prices.js'
import { nameOrigin } from '../stream/events.js'
import type { Board } from './board.js'
import { FeedRecord, type Quote } from './feed-record.js'
import type {
  FeedConflict,
  FeedDetails,
  FeedName,
  FeedRow,
  FeedState,
  MarketRow,
  Sent,
} from './messages.js'
import type { RangeName } from './series.js'
import type { FeedGroup } from './verdict.js'

interface Row {
  readonly index: number
  readonly feedID: string
  readonly name: string
  readonly decimals: number
  readonly record: FeedRecord
  state: FeedState
  /** When the state began. */
  since: number
  newest: number
  seenAt: number | undefined
  reports: number
  gaps: number
  hasChanged: boolean
  /** The prices of the report with the newest time; undefined if it can't be decoded. */
  quote: Quote | undefined
  field: string
  digits: number | undefined
  /** Whether the feed may be traded; undefined unless this is judged. */
  market: MarketRow | undefined
}

/** Why a feed may be traded, or why not. */
type Market = Pick<MarketVerdict, 'tradable' | 'caution' | 'reason' | 'text' | 'since'>

/** The feeds of a stream, and the latest report of each. */
export class FeedTable {
  readonly #board: Board
  readonly #rows: ReadonlyMap<string, Row>

  constructor(board: Board, feeds: readonly Feed[], now: number = Date.now()) {
    this.#board = board
    this.#rows = new Map(feeds.map((feed, index) => [feed.feedID, createRow(feed, index, now)]))
  }

  /** Notes a report. `present` is the service's time, `now` this machine's. */
  take(report: Report<DecodedReport>, now: number, present: number = now): void {
    const row = this.#rows.get(report.feedID)
    if (row === undefined) return
    row.reports++
    row.seenAt = now
    row.hasChanged = true
    if (row.state === 'waiting') setState(row, 'live', now)
    const quote = quoteOf(report, row)
    if (quote !== undefined) row.record.take(report, quote, present, now)
    if (report.observationsTimestamp < row.newest) return
    row.newest = report.observationsTimestamp
    row.quote = quote
  }

  setState(feedIDs: readonly string[], state: FeedState, now: number): void {
    for (const row of feedIDs.map(feedID => this.#rows.get(feedID)))
      if (row !== undefined) setState(row, state, now)
  }

  /** Notes whether a feed may be traded. Pages get it with their next message. */
  setMarket(feedID: string, { tradable, caution, reason, text, since }: Market): void {
    const row = this.#rows.get(feedID)
    if (row === undefined) return
    const { index } = row
    row.market = { index, tradable, caution, reason, text, since: Math.round(since) }
    this.#board.put('markets', index, row.market)
  }

  /** Notes that feeds can't be traded, because no report of them comes. `text` says why not. */
  endMarkets(feedIDs: Iterable<string>, text: string, now: number): void {
    const none = { tradable: false, caution: false, reason: 'no-report' as const }
    for (const feedID of feedIDs) this.setMarket(feedID, { ...none, text, since: now })
  }

  /** How many feeds may be traded; undefined unless this is judged. */
  tradable(): number | undefined {
    const markets = [...this.#rows.values()].flatMap(({ market = [] }) => market)
    return markets.length === 0 ? undefined : markets.filter(({ tradable }) => tradable).length
  }

  addGap(gap: Gap, now: number): void {
    const row = this.#rows.get(gap.feedID)
    if (row === undefined) return
    row.gaps++
    row.hasChanged = true
    row.record.addGap(gap, now)
  }

  addCandle(candle: Candle): void {
    this.#rows.get(candle.feedID)?.record.addCandle(candle)
  }

  addConflict(first: Report<DecodedReport>, other: Report<DecodedReport>, now: number): void {
    const row = this.#rows.get(first.feedID)
    if (row === undefined) return
    const sent = (report: Report<DecodedReport>): Sent => {
      const price = quoteOf(report, row)?.price
      const text = price === undefined ? undefined : row.record.write(price)
      return { origin: nameOrigin(report.origin), ...given({ price: text }) }
    }
    const conflict: FeedConflict = {
      ...{ at: now, observedAt: observedAt(first) },
      ...{ first: sent(first), other: sent(other) },
    }
    row.record.addConflict(conflict)
  }

  /** The details of a feed, by its id or its name; undefined if there is no such feed. */
  details(feed: string, range: RangeName, now: number): FeedDetails | undefined {
    const wanted = feed.toLowerCase()
    const row =
      this.#rows.get(wanted) ??
      [...this.#rows.values()].find(({ name }) => name.toLowerCase() === wanted)
    if (row === undefined) return undefined
    const { market } = row
    return {
      name: nameRow(row),
      row: feedRow(row),
      ...given({ market }),
      ...row.record.read(range, now),
    }
  }

  readonly nameOf = (feedID: string): string => this.#rows.get(feedID)?.name ?? shortID(feedID)

  /** How many feeds are in each state. */
  states(): Readonly<Record<FeedState, number>> {
    const counts = { waiting: 0, live: 0, stale: 0, refused: 0 }
    for (const { state } of this.#rows.values()) counts[state]++
    return counts
  }

  /** The feeds in a state, if there are any. A stale feed needs attention since its last report. */
  group(state: FeedState): FeedGroup | undefined {
    const rows = [...this.#rows.values()].filter(row => row.state === state)
    if (rows.length === 0) return undefined
    const since = Math.min(...rows.map(row => (state === 'stale' && row.seenAt) || row.since))
    return { names: rows.map(({ name }) => name), since }
  }

  /** The newest price of each feed, by index. */
  prices(): (number | null)[] {
    return Array.from(this.#rows.values(), ({ quote, decimals }) =>
      quote === undefined ? null : Number((Number(quote.price) / 10 ** decimals).toPrecision(7)),
    )
  }

  /** Writes the changes on the board. */
  write(): void {
    for (const row of this.#rows.values()) {
      if (!row.hasChanged) continue
      row.hasChanged = false
      this.#board.put('feeds', row.index, feedRow(row))
      this.#board.put('names', row.index, nameRow(row))
    }
  }
}

function setState(row: Row, state: FeedState, now: number): void {
  if (row.state !== state) row.since = now
  row.state = state
  row.hasChanged = true
}

function nameRow({ index, feedID, name, field }: Row): FeedName {
  return { index, feedID, name, field }
}

function feedRow(row: Row): FeedRow {
  const { index, state, quote, decimals, seenAt, reports, gaps } = row
  if (quote === undefined) return { index, state, ...given({ seenAt }), reports, gaps }
  row.digits ??= digitsFor(Number(quote.price) / 10 ** decimals)
  const price = formatPrice(quote.price, decimals, { digits: row.digits })
  return { index, state, price, ...given({ seenAt }), reports, gaps }
}

/**
 * Reads the first price of a report, and its bid and ask if it has them. Undefined if the report
 * can't be decoded.
 */
function quoteOf(report: Report<DecodedReport>, row: Row): Quote | undefined {
  try {
    const { decoded } = report
    const { prices } = fieldsOf(decoded.feedID)
    const read = (name: string): bigint | undefined =>
      prices.has(name) ? (decoded as unknown as Readonly<Record<string, bigint>>)[name] : undefined
    const [field = ''] = prices
    const price = read(field)
    if (price === undefined) return undefined
    row.field = field
    return { price, ...given({ bid: read('bid'), ask: read('ask') }) }
  } catch {
    return undefined
  }
}

function createRow(feed: Feed, index: number, now: number): Row {
  const { feedID, decimals = USUAL_DECIMALS } = feed
  return {
    index,
    feedID,
    name: feedName(feed).slice(0, 40),
    decimals,
    record: new FeedRecord(decimals),
    state: 'waiting',
    since: now,
    newest: Number.NEGATIVE_INFINITY,
    seenAt: undefined,
    reports: 0,
    gaps: 0,
    hasChanged: true,
    quote: undefined,
    field: '',
    digits: undefined,
    market: undefined,
  }
}

/** How many digits after the decimal point to show, so that a price has about six digits in all. */
export function digitsFor(price: number): number {
  const size = Math.abs(price)
  if (size >= 1000) return 2
  if (size >= 1) return 4
  return size >= 0.01 ? 6 : 8
}
