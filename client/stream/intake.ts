import { asError, isStreamsError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { setImmediate, TextDecoder } from '../../platform/globals.js'
import { inMilliseconds } from '../../report/feed-id.js'
import { type DecoderTable, EnvelopeError, type Report, toReport } from '../../report/report.js'
import { WebSocketError } from '../contract/errors.js'
import type { Sink } from '../contract/plugin.js'
import type { ConnectionFacts } from '../contract/status.js'
import { type FastReader, fastPath, type MessageSource } from '../fast/index.js'
import type { Present } from '../present.js'
import type { FeedState } from './feeds.js'
import type { StreamCounters } from './stream-api.js'

/** The members of a connection that the intake uses. */
export interface Source extends MessageSource {
  /** The feeds that the connection was opened for. */
  readonly feedIDs: readonly string[]
  readonly rejections: Pick<Rejections, 'add' | 'drop'>
  /** The number of messages in a row that were not reports. */
  junk: number
  /** When the last report came, in milliseconds of the wall clock. */
  lastReportAt: number
}

/** The parts of a stream that its intake uses. */
export interface IntakeParts {
  readonly table: DecoderTable
  readonly log: Log
  readonly now: () => number
  readonly counters: StreamCounters
  /** The subscribed feeds. */
  readonly feeds: ReadonlyMap<string, FeedState>
  readonly present: Present
  /** The bottom of the stack: passes a report up through all stages. */
  readonly sink: Sink
  fail(error: Error): void
}

/**
 * How many bytes a connection may be ahead of the other connections. Then it rests, so that the
 * others are read. Otherwise the platform would keep reading one connection as long as it has data.
 * Duplicates of old messages are expensive to recognise.
 */
const MAX_LEAD = 131_072

/**
 * Checks the report in each message and sends it up the stack. Each rejected message becomes an
 * error.
 */
export class Intake {
  readonly #parts: IntakeParts
  /**
   * Reads most messages. Without this reader every message is parsed: the reports are the same, but
   * take longer.
   */
  readonly #readFast: FastReader | undefined
  /**
   * The time of the current tick of the event loop. The clock is read only once a tick, because
   * reading the clock is expensive.
   */
  #time: number | undefined
  readonly #endTick = (): void => {
    this.#time = undefined
  }

  constructor(parts: IntakeParts, isFast = true) {
    this.#parts = parts
    this.#readFast = isFast ? fastPath?.createReader(parts.feeds, parts.table) : undefined
  }

  /**
   * Takes one message. Returns true if the connection is so far ahead that the other connections
   * must be read first. Returns an error if the connection must be dropped.
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
      // A connection may carry a feed shortly before the feed is subscribed and after it is
      // unsubscribed.
      if (feedIDs.includes(report.feedID)) return undefined
      counters.malformed++
      rejections.add(badFrame(data, `it is of feed ${report.feedID}, which is not subscribed`))
    } catch (thrown) {
      const error =
        thrown instanceof EnvelopeError ? badFrame(data, thrown.message) : asError(thrown)
      counters.malformed++
      // A report that contradicts itself is not junk: the fault may lie in its feed only.
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
 * Parses a message, `{"report": {…}}` in text or binary. Returns the envelope without checking it.
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
 * After so many messages in a row that are not reports, the connection is dropped: its peer can't
 * be the service.
 */
const MAX_JUNK = 16
/** At most so many rejected messages become separate `error` events in one period. */
const MAX_EVENTS = 16
/** The length of a period, in milliseconds. */
const PERIOD = 1000

/**
 * The rejected messages of a connection. Each becomes an `error` event, up to a limit in each
 * period. The messages beyond the limit share one event.
 */
export class Rejections {
  readonly #facts: ConnectionFacts
  readonly #log: Log
  readonly #fail: (error: Error) => void
  /** Events emitted in this period. */
  #emitted = 0
  /** Rejected messages that have no event yet. */
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

  /** Stops emitting errors, because the connection is dropped. Returns the reason. */
  drop(): WebSocketError {
    this.#isDropped = true
    clearTimeout(this.#period)
    return this.#dropError()
  }

  /**
   * The connection has ended. Emits the remaining errors. If the connection was dropped, returns
   * the reason.
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
    this.#fail(Object.assign(error, { origin }))
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
