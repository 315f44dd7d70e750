import type { DecoderTable } from './decoder-table.js'
import { asError, DataStreamsError } from './errors.js'
import { badFrame, parseFrame } from './frame.js'
import { createFrameMemo, type FrameMemo } from './frame-memo.js'
import { createFrameScan } from './frame-scan.js'
import type { OriginTraffic } from './origins.js'
import { EnvelopeError, toReport } from './record.js'
import { Report } from './report.js'
import type { FeedState } from './silence.js'
import { createTurnClock } from './turn-clock.js'
import type { Log, Sink, StreamCounters } from './types.js'

/** Takes one message of a connection; `carried` are the feeds that the connection was opened for. */
export type Reception = (
  data: Uint8Array,
  origin: string,
  traffic: OriginTraffic,
  carried: readonly string[],
) => void

/** What a reception needs of its stream. */
export interface ReceptionParts<Data> {
  readonly table: DecoderTable<Data>
  readonly log: Log
  readonly now: () => number
  readonly counters: StreamCounters
  /** What is subscribed to. */
  readonly feeds: ReadonlyMap<string, FeedState>
  /** The bottom of the stack. */
  readonly sink: Sink
  fail(error: Error): void
}

/** Sends the report in each message up the stack, once nothing about it is in doubt; what is refused is announced. */
export function createReception<Data>(parts: ReceptionParts<Data>): Reception {
  const { table, log, counters, feeds, sink, fail } = parts
  const now = createTurnClock(parts.now)
  const scan = createFrameScan(feeds, table)
  /** Copies come from a second origin on. */
  let memo: FrameMemo | undefined
  let sender: OriginTraffic | undefined

  /** The report of a message as the service writes it; undefined of any other, right or wrong. */
  function glance(data: Uint8Array, origin: string, traffic: OriginTraffic): Report | undefined {
    if (memo === undefined) {
      sender ??= traffic
      if (traffic === sender) return scan(data, origin)
      memo = createFrameMemo()
    }
    const first = memo.find(data)
    const feed = first && feeds.get(first.feedID)
    if (first !== undefined && feed !== undefined) {
      feed.reports++
      return copyOf(first, origin)
    }
    const report = scan(data, origin)
    if (report !== undefined) memo.keep(data, report)
    return report
  }

  function copyOf(first: Report, origin: string): Report {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = first
    return new Report(
      feedID,
      fullReport,
      validFromTimestamp,
      observationsTimestamp,
      origin,
      'live',
      table,
    )
  }

  function read(data: Uint8Array, origin: string, carried: readonly string[]): Report | undefined {
    try {
      const report = toReport(parseFrame(data), origin, table, 'live')
      const feed = feeds.get(report.feedID)
      if (feed === undefined) {
        // A connection may carry a feed for a while before and after that is subscribed to.
        if (carried.includes(report.feedID)) return undefined
        throw new EnvelopeError(`it is of feed ${report.feedID}, which is not subscribed`)
      }
      feed.reports++
      return report
    } catch (thrown) {
      const error =
        thrown instanceof EnvelopeError ? badFrame(data, thrown.message) : asError(thrown)
      counters.rejected++
      log.warn?.(`invalid data: ${error.message}`)
      fail(error)
      return undefined
    }
  }

  return function receive(data, origin, traffic, carried) {
    const report = glance(data, origin, traffic) ?? read(data, origin, carried)
    if (report === undefined) return
    traffic.received++
    traffic.lastSeenAt = now()
    try {
      sink(report)
    } catch (cause) {
      const message = `a plugin threw on a report of feed ${report.feedID}: ${asError(cause).message}`
      log.error?.(message)
      fail(new DataStreamsError(message, { code: 'PLUGIN', cause }))
    }
  }
}
