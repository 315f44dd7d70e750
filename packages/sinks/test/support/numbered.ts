// Reports with numbers: number N is of feed N mod 5, and a second later than number N - 5.
import type { Candle } from 'sluice/plugins/candles'
import type { SinkBatch, SinkPosition } from 'sluice/plugins/sink'
import type { Report } from 'sluice/report'
import { feedOf, makeCandle, makeReport, TIME } from './reports.js'

export const FEEDS = 5
export const BATCH = 50
/** A position is so many seconds behind the reports: their last ones come again after a restart. */
const LAG = 4

const feedIDOf = (number: number): string => feedOf(3, 1 + (number % FEEDS))
export const timeOf = (number: number): number => TIME + Math.floor(number / FEEDS)

export const reportAt = (number: number): Report =>
  makeReport({ feedID: feedIDOf(number), time: timeOf(number), seed: number })

/**
 * The candle of the first feed that is issued with the batch from `first` on. The last candle of a
 * minute has a revision of 60 or more.
 */
export function candleAt(first: number): Candle {
  const start = 60 * Math.floor(timeOf(first) / 60)
  const revision = 1 + timeOf(first + BATCH - 1) - start
  return makeCandle({ feedID: feedIDOf(0), start, close: BigInt(revision), revision })
}

/** The batch of the numbers from `first` on, and the position after it. */
export function batchAt(first: number): SinkBatch {
  const reports = Array.from({ length: BATCH }, (_, index) => reportAt(first + index))
  const time = timeOf(first + BATCH) - 1 - LAG
  const position = Object.fromEntries(
    Array.from({ length: FEEDS }, (_, feed) => [feedIDOf(feed), time]),
  )
  const receivedAt = reports.map(() => 1000 * time)
  return { reports, receivedAt, candles: [candleAt(first)], position }
}

/** The number of the first report that a stream delivers after a position. */
export function firstAfter(position: SinkPosition): number {
  const times = Object.values(position)
  return times.length === 0 ? 0 : FEEDS * (Math.min(...times) + 1 - TIME)
}
