import type { Feed } from 'sluice/client'
import type { DecodedReport } from 'sluice/plugins/decoders'
import type { Report } from 'sluice/report'
import { feedName, shortID } from '../output/feeds.js'
import type { Board } from './board.js'
import type { FeedState } from './messages.js'
import { digitsFor, priceOf, writePrice } from './price.js'

/** The decimals of most feeds, for those of which they are not known. */
const USUAL_DECIMALS = 18

/** The feeds of a stream, and the latest report of each. */
export interface FeedTable {
  /** Takes a report: only notes it, for most are followed by another before anybody looks. */
  take(report: Report<DecodedReport>, now: number): void
  setState(feedIDs: readonly string[], state: FeedState): void
  countGap(feedID: string): void
  nameOf(feedID: string): string
  /** How many feeds are in each state. */
  states(): Readonly<Record<FeedState, number>>
  /** The newest price of each feed, by index. */
  prices(): (number | null)[]
  /** Writes what has changed on the board. */
  write(): void
}

interface Row {
  readonly index: number
  readonly feedID: string
  readonly name: string
  readonly decimals: number
  state: FeedState
  /** The newest by its time, until it is written. */
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

/** Makes the table of these feeds. */
export function createFeedTable(board: Board, feeds: readonly Feed[]): FeedTable {
  const rows = new Map(feeds.map((feed, index) => [feed.feedID, createRow(feed, index)]))

  /** Reads the price of the latest report, which a report without a decoder has not. */
  function readPrice(row: Row): void {
    const { latest, decimals } = row
    if (latest === undefined) return
    row.latest = undefined
    try {
      const price = priceOf(latest.decoded, decimals)
      row.digits ??= digitsFor(price.number)
      row.price = writePrice(price, decimals, row.digits)
      row.number = price.number
      row.field = price.field
    } catch {
      row.price = undefined
    }
  }

  return {
    take(report, now) {
      const row = rows.get(report.feedID)
      if (row === undefined) return
      row.reports++
      row.seenAt = now
      row.hasChanged = true
      if (row.state === 'waiting') row.state = 'live'
      if (report.observationsTimestamp < row.newest) return
      row.newest = report.observationsTimestamp
      row.latest = report
    },
    setState(ids, state) {
      for (const id of ids) {
        const row = rows.get(id)
        if (row === undefined) continue
        row.state = state
        row.hasChanged = true
      }
    },
    countGap(feedID) {
      const row = rows.get(feedID)
      if (row === undefined) return
      row.gaps++
      row.hasChanged = true
    },
    nameOf: feedID => rows.get(feedID)?.name ?? shortID(feedID),
    states() {
      const counts = { waiting: 0, live: 0, stale: 0, refused: 0 }
      for (const { state } of rows.values()) counts[state]++
      return counts
    },
    prices() {
      return Array.from(rows.values(), row => {
        readPrice(row)
        return row.number === null ? null : Number(row.number.toPrecision(7))
      })
    },
    write() {
      for (const row of rows.values()) {
        if (!row.hasChanged) continue
        row.hasChanged = false
        readPrice(row)
        const { index, feedID, name, field, state, price, seenAt, reports, gaps } = row
        board.put('names', index, { index, feedID, name, field })
        board.put('feeds', index, {
          index,
          state,
          ...(price === undefined ? {} : { price }),
          ...(seenAt === undefined ? {} : { seenAt }),
          reports,
          gaps,
        })
      }
    },
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
