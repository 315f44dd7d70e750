import type { Feed } from 'sluice/client'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { formatPrice, type Report } from 'sluice/report'
import { given } from '../command.js'
import { feedName, shortID } from '../output/feeds.js'
import { USUAL_DECIMALS } from '../output/format.js'
import { fieldsOf } from '../output/prices.js'
import type { Board } from './board.js'
import type { FeedState } from './messages.js'

interface Row {
  readonly index: number
  readonly feedID: string
  readonly name: string
  readonly decimals: number
  state: FeedState
  /** The report with the newest time; undefined once its price has been read. */
  latest: Report<DecodedReport> | undefined
  newest: number
  seenAt: number | undefined
  reports: number
  gaps: number
  hasChanged: boolean
  price: string | undefined
  number: number | null
  field: string
  digits: number | undefined
}

/** The feeds of a stream, and the latest report of each. */
export class FeedTable {
  readonly #board: Board
  readonly #rows: ReadonlyMap<string, Row>

  constructor(board: Board, feeds: readonly Feed[]) {
    this.#board = board
    this.#rows = new Map(feeds.map((feed, index) => [feed.feedID, createRow(feed, index)]))
  }

  /**
   * Notes a report. The price is read only when the board is written, because most reports are
   * replaced by a newer one before then.
   */
  take(report: Report<DecodedReport>, now: number): void {
    const row = this.#rows.get(report.feedID)
    if (row === undefined) return
    row.reports++
    row.seenAt = now
    row.hasChanged = true
    if (row.state === 'waiting') row.state = 'live'
    if (report.observationsTimestamp < row.newest) return
    row.newest = report.observationsTimestamp
    row.latest = report
  }

  setState(feedIDs: readonly string[], state: FeedState): void {
    for (const row of feedIDs.map(feedID => this.#rows.get(feedID))) {
      if (row === undefined) continue
      row.state = state
      row.hasChanged = true
    }
  }

  countGap(feedID: string): void {
    const row = this.#rows.get(feedID)
    if (row === undefined) return
    row.gaps++
    row.hasChanged = true
  }

  readonly nameOf = (feedID: string): string => this.#rows.get(feedID)?.name ?? shortID(feedID)

  /** How many feeds are in each state. */
  states(): Readonly<Record<FeedState, number>> {
    const counts = { waiting: 0, live: 0, stale: 0, refused: 0 }
    for (const { state } of this.#rows.values()) counts[state]++
    return counts
  }

  /** The newest price of each feed, by index. */
  prices(): (number | null)[] {
    return Array.from(this.#rows.values(), row => {
      readPrice(row)
      return row.number === null ? null : Number(row.number.toPrecision(7))
    })
  }

  /** Writes the changes on the board. */
  write(): void {
    for (const row of this.#rows.values()) {
      if (!row.hasChanged) continue
      row.hasChanged = false
      readPrice(row)
      const { index, feedID, name, field, state, price, seenAt, reports, gaps } = row
      this.#board.put('names', index, { index, feedID, name, field })
      const some = given({ price, seenAt })
      this.#board.put('feeds', index, { index, state, ...some, reports, gaps })
    }
  }
}

/** Reads the first price of the latest report. A report without a decoder has no price. */
function readPrice(row: Row): void {
  const { latest, decimals } = row
  if (latest === undefined) return
  row.latest = undefined
  try {
    const { decoded } = latest
    const [field = ''] = fieldsOf(decoded.feedID).prices
    const value = decoded[field as keyof DecodedReport] as unknown as bigint
    const number = Number(value) / 10 ** decimals
    row.digits ??= digitsFor(number)
    row.price = formatPrice(value, decimals, { digits: row.digits })
    row.number = number
    row.field = field
  } catch {
    row.price = undefined
  }
}

function createRow(feed: Feed, index: number): Row {
  const { feedID, decimals = USUAL_DECIMALS } = feed
  return {
    index,
    feedID,
    name: feedName(feed).slice(0, 40),
    decimals,
    state: 'waiting',
    latest: undefined,
    newest: Number.NEGATIVE_INFINITY,
    seenAt: undefined,
    reports: 0,
    gaps: 0,
    hasChanged: true,
    price: undefined,
    number: null,
    field: '',
    digits: undefined,
  }
}

/** How many digits after the decimal point to show, so that a price has about six digits in all. */
export function digitsFor(price: number): number {
  const size = Math.abs(price)
  if (size >= 1000) return 2
  if (size >= 1) return 4
  return size >= 0.01 ? 6 : 8
}
