import { asError, isStreamsError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { setImmediate, TextDecoder } from '../../platform/globals.js'
import { EnvelopeError, toReport } from '../../report/report.js'
import { inMilliseconds } from '../../report/feed-id.js'
import type { DecoderTable, Report } from '../../report/report.js'
import { WebSocketError } from '../contract/errors.js'
import type { Sink } from '../contract/plugin.js'
import type { ConnectionFacts } from '../contract/status.js'
import { type FastReader, fastLane, type MessageSource } from '../fast/index.js'
import type { Present } from '../present.js'
import type { FeedState } from './feeds.js'
import type { StreamCounters } from './stream-api.js'

/** A connection, as the source of messages. */
export interface Source extends MessageSource {
  /** The feeds that the connection was opened for. */
  readonly feedIDs: readonly string[]
  readonly rejections: Pick<Rejections, 'add' | 'drop'>
  /** Messages in a row that were no reports. */
  junk: number
  /** When the last report came, in milliseconds of the wall clock. */
  lastReportAt: number
}

/** What an intake needs of its stream. */
export interface IntakeParts {
  readonly table: DecoderTable
  readonly log: Log
  readonly now: () => number
  readonly counters: StreamCounters
  /** The feeds that are subscribed. */
  readonly feeds: ReadonlyMap<string, FeedState>
  readonly present: Present
  /** The bottom of the stack. */
  readonly sink: Sink
  fail(error: Error): void
}

/**
 * Bytes that a connection may bring before any other does, until the intake reads its siblings. The
 * platform would read on for as long as there is more, and it is expensive to recognise duplicates
 * of old messages.
 */
const MAX_LEAD = 131_072

/**
 * Checks the report in each message and sends it up the stack. Each rejected message becomes an
 * error.
 */
export class Intake {
  readonly #parts: IntakeParts
  /** Without it each message is parsed: the same reports, slower. */
  readonly #readFast: FastReader | undefined
  /**
   * The clock is read once in a tick of the event loop, however many messages come in it: reading
   * the clock costs.
   */
  #time: number | undefined
  readonly #endTick = (): void => {
    this.#time = undefined
  }

  constructor(parts: IntakeParts, isFast = true) {
    this.#parts = parts
    this.#readFast = isFast ? fastLane?.createReader(parts.feeds, parts.table) : undefined
  }

  /**
   * Takes one message. Returns true if the connection is so far ahead that its siblings are read
   * next, and an error if the connection is to be dropped.
   */
  receive(data: Uint8Array, source: Source): boolean | Error {
    const report = this.#readFast?.(data, source) ?? this.#read(data, source)
    if (report !== undefined) this.#pass(report, source)
    else if (source.junk === MAX_JUNK) return source.rejections.drop()
    const { place } = source
    if (place.lead < MAX_LEAD) return false
    place.lead = 0
    return true
  }

  #read(data: Uint8Array, source: Source): Report | undefined {
    const { table, counters, feeds } = this.#parts
    const { origin, feedIDs, rejections } = source
    try {
      const report = toReport(parseFrame(data), origin, table, 'live')
      const feed = feeds.get(report.feedID)
      if (feed !== undefined) {
        feed.reports++
        return report
      }
      // A connection may carry a feed for a while before and after that is subscribed.
      if (feedIDs.includes(report.feedID)) return undefined
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

  #pass(report: Report, source: Source): void {
    const { traffic } = source
    const { present, sink } = this.#parts
    const time = this.#time ?? this.#readClock()
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
      this.#parts.log.error?.(error.message)
      this.#parts.fail(error)
    }
  }

  #readClock(): number {
    const time = this.#parts.now()
    this.#time = time
    setImmediate(this.#endTick)
    return time
  }
}

let text: InstanceType<typeof TextDecoder> | undefined

/**
 * Parses a message, `{"report": {…}}` in text or binary, and returns the envelope in it, unchecked.
 * Throws WebSocketError.
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

/**
 * Messages in a row that are no reports, before the connection is dropped: the peer can't be the
 * service.
 */
const MAX_JUNK = 16
/** Rejected messages that become `error` events of their own in one period. */
const MAX_EVENTS = 16
/** Milliseconds of a period. */
const PERIOD = 1000

/**
 * The rejected messages of a connection. Each becomes an `error` event, up to a limit. The others
 * become one event together.
 */
export class Rejections {
  readonly #facts: ConnectionFacts
  readonly #log: Log
  readonly #fail: (error: Error) => void
  /** Events in this period. */
  #emitted = 0
  /** Messages without an event so far. */
  #pending = 0
  #last: Error | undefined
  #period: ReturnType<typeof setTimeout> | undefined
  #isDropped = false

  constructor(facts: ConnectionFacts, log: Log, fail: (error: Error) => void) {
    this.#facts = facts
    this.#log = log
    this.#fail = fail
  }

  add(error: Error): void {
    this.#last = error
    if (this.#isDropped || this.#emitted === MAX_EVENTS) {
      this.#pending++
      return
    }
    this.#emitted++
    this.#period ??= setTimeout(() => this.#endPeriod(), PERIOD)
    this.#period.unref?.()
    this.#emit(error)
  }

  /** Stops emitting errors, since the connection is dropped. Returns why. */
  drop(): WebSocketError {
    this.#isDropped = true
    clearTimeout(this.#period)
    return this.#dropError()
  }

  /**
   * The connection has ended: emits what is left, and returns the error for which it was dropped.
   */
  end(): WebSocketError | undefined {
    if (!this.#isDropped) {
      this.#endPeriod()
      return undefined
    }
    const error = this.#dropError()
    this.#emit(error)
    return error
  }

  #emit(error: Error): void {
    const { host, origin } = this.#facts
    this.#log.warn?.(`invalid data: ${error.message}`, { host, origin })
    this.#fail(error)
  }

  #endPeriod(): void {
    clearTimeout(this.#period)
    this.#period = undefined
    this.#emitted = 0
    const last = this.#last
    if (this.#pending === 0 || last === undefined) return
    const message = `${this.#pending} more messages of ${this.#facts.host} were rejected; the last: ${last.message}`
    this.#pending = 0
    this.#emit(new WebSocketError(message, { code: 'WS_FRAME', cause: last }))
  }

  #dropError(): WebSocketError {
    const others = this.#pending === 0 ? '' : `; ${this.#pending} more were rejected`
    const message = `connection to ${this.#facts.host} was dropped: ${MAX_JUNK} messages in a row were no reports${others}`
    return new WebSocketError(message, {
      code: 'WS_FRAME',
      ...(this.#last === undefined ? {} : { cause: this.#last }),
    })
  }
}
