// Numbered batches: what a test can tell to be missing, by number, after a process was killed.
import type { SinkBatch, SinkPosition } from 'sluice/plugins/sink'
import { feedOf, makeReport, TIME } from './reports.js'

/** The feeds of each batch. */
export const FEEDS = 10
/** The reports of each feed in a batch. */
export const EACH = 5
/** The reports of a batch. */
export const BATCH: number = FEEDS * EACH

/** The batch of a number: the next reports of each feed, in turn. */
export function batchNumber(number: number): SinkBatch {
  const first = TIME + number * EACH
  const reports = Array.from({ length: BATCH }, (_, index) =>
    makeReport({
      feedID: feedOf(3, 1 + (index % FEEDS)),
      time: first + Math.floor(index / FEEDS),
    }),
  )
  const feeds = Array.from({ length: FEEDS }, (_, index) => feedOf(3, 1 + index))
  const position = Object.fromEntries(feeds.map(feedID => [feedID, first + EACH - 1]))
  const receivedAt = reports.map(() => 1000 * first)
  return { reports, receivedAt, candles: [], position }
}

/** The number of the first batch that a position does not hold. */
export function firstAfter(position: SinkPosition): number {
  const time = position[feedOf(3, 1)]
  return time === undefined ? 0 : (time - TIME + 1) / EACH
}
