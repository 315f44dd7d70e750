import { asError, isStreamsError } from '../../../core/errors.js'
import type { Log } from '../../../core/log.js'
import { setImmediate, TextDecoder } from '../../../platform/globals.js'
import { EnvelopeError, toReport } from '../../../report/envelope.js'
import { inMilliseconds } from '../../../report/feed-id.js'
import type { DecoderTable, Report } from '../../../report/report.js'
import { WebSocketError } from '../../contract/errors.js'
import type { Sink } from '../../contract/plugin.js'
import type { FastReader, MessageSource } from '../../fast/index.js'
import type { Present } from '../../present.js'
import type { FeedState } from '../feeds.js'
import type { StreamCounters } from '../stream-api.js'
import { MAX_JUNK, type Rejections } from './rejections.js'

/**
 * Takes one message of a connection. True where the connection is so far ahead that its siblings are read next, an error
 * where it is to be dropped.
 */
export type Intake = (data: Uint8Array, source: Source) => boolean | Error

/** A connection, as the source of messages. */
export interface Source extends MessageSource {
  /** The feeds that it was opened for. */
  readonly carried: readonly string[]
  readonly rejections: Rejections
  /** Messages in a row that were no reports. */
  junk: number
  /** When the last report came, in milliseconds of the wall clock. */
  lastReportAt: number
}

/** What an intake needs of its stream. */
export interface IntakeParts<Data> {
  readonly table: DecoderTable<Data>
  readonly log: Log
  readonly now: () => number
  readonly counters: StreamCounters
  /** The feeds that are subscribed. */
  readonly feeds: ReadonlyMap<string, FeedState>
  /** Without it each message is parsed: the same reports, slower. */
  readonly readFast?: FastReader | undefined
  readonly present: Present
  /** The bottom of the stack. */
  readonly sink: Sink
  fail(error: Error): void
}

/**
 * Bytes that a connection may bring before any other does, until its siblings are read: the platform would read on for as
 * long as there is more, and recognising copies of old messages is expensive.
 */
const MAX_LEAD = 131_072

/** Makes an intake. It checks the report in each message and sends it up the stack; each rejected one becomes an error. */
export function createIntake<Data>(parts: IntakeParts<Data>): Intake {
  const { table, log, counters, feeds, readFast, present, sink, fail } = parts
  const now = createTickClock(parts.now)

  function read(data: Uint8Array, source: Source): Report | undefined {
    const { origin, carried, rejections } = source
    try {
      const report = toReport(parseFrame(data), origin, table, 'live')
      const feed = feeds.get(report.feedID)
      if (feed !== undefined) {
        feed.reports++
        return report
      }
      // A connection may carry a feed for a while before and after that is subscribed.
      if (carried.includes(report.feedID)) return undefined
      counters.malformed++
      rejections.add(badFrame(data, `it is of feed ${report.feedID}, which is not subscribed`))
    } catch (thrown) {
      const error =
        thrown instanceof EnvelopeError ? badFrame(data, thrown.message) : asError(thrown)
      counters.malformed++
      // A report that contradicts itself may be the fault of its feed alone.
      if (isStreamsError(error, 'WS_FRAME')) source.junk++
      rejections.add(error)
    }
    return undefined
  }

  function pass(report: Report, source: Source): void {
    const { traffic } = source
    const time = now()
    traffic.received++
    traffic.lastSeenAt = time
    source.lastReportAt = time
    source.junk = 0
    const at = inMilliseconds(report.feedID, report.observationsTimestamp)
    if (at > present.horizon) present.look(report, at)
    try {
      sink(report)
    } catch (thrown) {
      const error = asError(thrown)
      log.error?.(error.message)
      fail(error)
    }
  }

  return function receive(data, source) {
    const report = readFast?.(data, source) ?? read(data, source)
    if (report !== undefined) pass(report, source)
    else if (source.junk === MAX_JUNK) return source.rejections.drop()
    const { place } = source
    if (place.lead < MAX_LEAD) return false
    place.lead = 0
    return true
  }
}

let text: InstanceType<typeof TextDecoder> | undefined

/**
 * Parses a message, `{"report": {…}}` in text or binary, and returns the envelope in it, unchecked. Throws WebSocketError.
 */
export function parseFrame(data: Uint8Array): unknown {
  let frame: unknown
  try {
    text ??= new TextDecoder('utf-8', { fatal: true })
    frame = JSON.parse(text.decode(data))
  } catch {
    throw badFrame(data, 'it is not JSON in UTF-8')
  }
  if (typeof frame !== 'object' || frame === null || !('report' in frame)) {
    throw badFrame(data, 'it is not an object with a report')
  }
  return frame.report
}

/** The error for a message that breaks `rule`. It does not quote the message. */
function badFrame(data: Uint8Array, rule: string): WebSocketError {
  return new WebSocketError(`a message of ${data.byteLength} bytes is rejected: ${rule}`, {
    code: 'WS_FRAME',
  })
}

/** A clock that is read once in a tick of the event loop, however many messages come in it: reading it costs. */
function createTickClock(now: () => number): () => number {
  let time: number | undefined
  function reset(): void {
    time = undefined
  }

  return function readClock() {
    if (time === undefined) {
      time = now()
      setImmediate(reset)
    }
    return time
  }
}
