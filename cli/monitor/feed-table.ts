import type { Feed } from '../../client/rest.js'
import { findFeed } from '../../presets/feeds.js'
import type { DecodedReport } from '../../presets/versions.js'
import type { Report } from '../../report/report.js'
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

/** Makes the table of these feeds; `listed` is what the service says of them. */
export function createFeedTable(
  board: Board,
  feedIDs: readonly string[],
  listed: readonly Feed[] = [],
): FeedTable {
  const byID = new Map(listed.map(feed => [feed.feedID, feed]))
  const rows = new Map(
    feedIDs.map((feedID, index) => [feedID, createRow(feedID, index, byID.get(feedID))]),
  )

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

function createRow(feedID: string, index: number, listed: Feed | undefined): Row {
  const { name, decimals } = { ...findFeed(feedID), ...listed }
  return {
    index,
    feedID,
    name: clean(name) ?? shortID(feedID),
    decimals: decimals ?? USUAL_DECIMALS,
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

/** The service's words, without control characters. */
function clean(name: string | undefined): string | undefined {
  return name?.slice(0, 40).replace(/\p{C}/gu, '?')
}

/** Shortens a feed id for a column. */
function shortID(feedID: string): string {
  return `${feedID.slice(0, 10)}…${feedID.slice(-4)}`
}
