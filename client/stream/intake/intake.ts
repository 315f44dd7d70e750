import { asError, DataStreamsError, isStreamsError } from '../../../core/errors.js'
import type { Log } from '../../../core/log.js'
import type { DecoderTable } from '../../../report/decoder-table.js'
import { EnvelopeError, toReport } from '../../../report/envelope.js'
import { Report } from '../../../report/report.js'
import type { Sink } from '../../plugin.js'
import type { OriginTraffic } from '../origins.js'
import type { FeedState } from '../staleness.js'
import type { StreamCounters } from '../stream-api.js'
import { type Copies, createCopies, type Place } from './copies.js'
import { createFastPath } from './fast-path.js'
import { badFrame, parseFrame } from './frame.js'
import { MAX_JUNK, type Rejections } from './rejections.js'
import { createTickClock } from './tick-clock.js'

/**
 * Takes one message of a connection; true where the connection is so far ahead of the others that it is their turn, an error
 * where it is to be dropped.
 */
export type Intake = (data: Uint8Array, source: Source) => boolean | Error

/** A connection, as what it receives is told by it. */
export interface Source {
  readonly origin: string
  readonly traffic: OriginTraffic
  /** The feeds that it was opened for. */
  readonly carried: readonly string[]
  readonly place: Place
  readonly rejections: Rejections
  /** Messages in a row that were no reports. */
  junk: number
  /** When the last report came, in milliseconds of the wall clock. */
  lastReportAt: number
}

/** What a intake needs of its stream. */
export interface IntakeParts<Data> {
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

/**
 * Bytes that a connection may bring before any other does, until it is the others' turn: the platform would read on for as
 * long as there is more, and copies of what came long ago are dear to tell.
 */
const LEAD = 131_072

/** Sends the report in each message up the stack, once nothing about it is in doubt; what is refused is announced. */
export function createIntake<Data>(parts: IntakeParts<Data>): Intake {
  const { table, log, counters, feeds, sink, fail } = parts
  const now = createTickClock(parts.now)
  const scan = createFastPath(feeds, table)
  /** Copies come from a second origin on. */
  let copies: Copies | undefined
  let sender: OriginTraffic | undefined

  /** The report of a message as the service writes it; undefined of any other, right or wrong. */
  function readFast(data: Uint8Array, { origin, traffic, place }: Source): Report | undefined {
    if (copies === undefined) {
      sender ??= traffic
      if (traffic === sender) return scan(data, origin)
      copies = createCopies()
    }
    const first = copies.find(data, place)
    const feed = first && feeds.get(first.feedID)
    if (first !== undefined && feed !== undefined) {
      feed.reports++
      return copyOf(first, origin)
    }
    const report = scan(data, origin)
    if (report !== undefined) copies.keep(data, report, place)
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

  function read(data: Uint8Array, source: Source): Report | undefined {
    const { origin, carried, rejections } = source
    try {
      const report = toReport(parseFrame(data), origin, table, 'live')
      const feed = feeds.get(report.feedID)
      if (feed === undefined) {
        // A connection may carry a feed for a while before and after that is subscribed to.
        if (carried.includes(report.feedID)) return undefined
        counters.rejected++
        rejections.add(badFrame(data, `it is of feed ${report.feedID}, which is not subscribed`))
        return undefined
      }
      feed.reports++
      return report
    } catch (thrown) {
      const error =
        thrown instanceof EnvelopeError ? badFrame(data, thrown.message) : asError(thrown)
      counters.rejected++
      // A report that contradicts itself may be the fault of its feed alone.
      if (isStreamsError(error, 'WS_FRAME')) source.junk++
      rejections.add(error)
      return undefined
    }
  }

  function pass(report: Report, source: Source): void {
    const { traffic } = source
    const time = now()
    traffic.received++
    traffic.lastSeenAt = time
    source.lastReportAt = time
    source.junk = 0
    try {
      sink(report)
    } catch (cause) {
      const message = `a plugin threw on a report of feed ${report.feedID}: ${asError(cause).message}`
      log.error?.(message)
      fail(new DataStreamsError(message, { code: 'PLUGIN', cause }))
    }
  }

  return function receive(data, source) {
    const report = readFast(data, source) ?? read(data, source)
    if (report !== undefined) pass(report, source)
    else if (source.junk === MAX_JUNK) return source.rejections.drop()
    const { place } = source
    if (place.lead < LEAD) return false
    place.lead = 0
    return true
  }
}
