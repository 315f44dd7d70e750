import type { Log } from '../../core/log.js'
import type { Candle } from '../../report/candle.js'
import type { Report } from '../../report/report.js'

/** The time up to which each feed's reports are stored, in the feed's unit, by feed id. */
export type SinkPosition = Readonly<Record<string, number>>

/** What one `write` of a store puts away. */
export interface SinkBatch {
  /** The reports, in the order in which they came. */
  readonly reports: readonly Report[]
  /** When each of them came, in milliseconds of Unix time by this machine's clock. */
  readonly receivedAt: readonly number[]
  /**
   * The candles that were issued meanwhile, in their order. A candle with a higher `revision`
   * replaces the stored candle of its feed, interval and start.
   */
  readonly candles: readonly Candle[]
  /**
   * The feeds whose position changes with this write. The other feeds keep theirs. Undefined if
   * nothing changes. A position is never ahead of the reports that were written, so a store may
   * keep it in the same transaction.
   */
  readonly position: SinkPosition | undefined
}

/** A report that a store can't hold. */
export interface SinkRefusal {
  /** One of the batch. */
  readonly report: Report
  /** Names the field and the rule: `price needs 58 digits, and a DECIMAL holds 38`. */
  readonly reason: string
}

/** What a store gets when it is opened. */
export interface SinkOpening {
  /** The log of the client. */
  readonly log: Log
  /** Aborts when the sink is closed. */
  readonly signal: AbortSignal
}

/**
 * Where a sink puts reports: a database, files, a queue. The sink calls one method at a time, and
 * waits for its promise.
 *
 * A method that rejects is called again later with the same arguments: the store may be away for
 * hours. So `write` may get a batch that it has stored already, and must not store it twice. A
 * rejection with a ValidationError is final: it ends the stream, and nothing is acknowledged.
 */
export interface SinkStore {
  /** Names the store in messages, without a password: `duckdb prices.db`. */
  readonly name: string
  /** Opens the store. Makes its tables, or brings them up to date. */
  open(opening: SinkOpening): Promise<void>
  /**
   * Stores a batch, all of it or nothing. Resolves when it would survive the death of the process.
   * Resolves with the reports that the store can't hold: the sink announces and counts them, and
   * goes on without them. Candles are never refused. If it rejects, the sink gives the same batch
   * again, with nothing left out and nothing added.
   */
  write(batch: SinkBatch): Promise<readonly SinkRefusal[]>
  /**
   * The position that was written last, or an empty object. A stream without the option `cursors`
   * then resumes from there. Leave it out if the store keeps none.
   */
  position?(): Promise<SinkPosition>
  /**
   * Closes the store. It is called once, also after a failed `open`, and in the middle of a call
   * that does not end. If it rejects, so does `close` of the sink.
   */
  close(): Promise<void>
}
