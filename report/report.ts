import type { DecoderTable } from './decoder-table.js'
import { originIDOf } from './origin-id.js'
import { type ReportContext, readContext } from './report-context.js'

/** How a report came. */
export type ReportSource = 'live' | 'backfill' | 'request'

/** Apart from the reports, so that it costs nothing where nobody asks. */
const contexts = new WeakMap<Report, ReportContext>()
const acknowledged = new WeakMap<Report, (report: Report) => void>()

/** Has the listener called when the report is acknowledged. */
export function onAcknowledge(report: Report, listener: (report: Report) => void): void {
  acknowledged.set(report, listener)
}

/** A signed report as the service stores it, and its decoded fields. */
export class Report<out Data = unknown> {
  /** In lower case. */
  readonly feedID: string
  /** The signed bytes, `0x` and hexadecimal: what a verifier contract takes. */
  readonly fullReport: string
  /** Earliest time for which the report holds, in the feed's unit (seconds, or milliseconds for ids beginning `0x1`). */
  readonly validFromTimestamp: number
  /** Time of the observations, in the feed's unit. */
  readonly observationsTimestamp: number
  /** Where it came from: the URL that was configured, with the id of the origin as its fragment where it has one. */
  readonly origin: string
  /** How it came: `live` over a stream's connection, `backfill` where a stream fetched it later, `request` as you asked. */
  readonly source: ReportSource
  readonly #table: DecoderTable<Data>
  #decoded: Data | undefined
  #failure: unknown

  constructor(
    feedID: string,
    fullReport: string,
    validFromTimestamp: number,
    observationsTimestamp: number,
    origin: string,
    source: ReportSource,
    table: DecoderTable<Data>,
  ) {
    this.feedID = feedID
    this.fullReport = fullReport
    this.validFromTimestamp = validFromTimestamp
    this.observationsTimestamp = observationsTimestamp
    this.origin = origin
    this.source = source
    this.#table = table
    this.#decoded = undefined
    this.#failure = undefined
  }

  /**
   * The fields, decoded on first reading and kept. Throws ReportDecodingError where the bytes break a rule or no decoder
   * of the stack knows the version; the record around it is whole all the same.
   */
  get decoded(): Data {
    if (this.#decoded !== undefined) return this.#decoded
    if (this.#failure !== undefined) throw this.#failure
    try {
      this.#decoded = this.#table.decode(this.fullReport, this.feedID)
      return this.#decoded
    } catch (thrown) {
      this.#failure = thrown
      throw thrown
    }
  }

  /** The id of the origin it came from, where the service has given one. */
  get originID(): string | undefined {
    return originIDOf(this.origin)
  }

  /** Who signed the report and when in their count, and the signatures; read when first asked for. Nothing of it is checked. */
  get context(): ReportContext {
    let context = contexts.get(this)
    if (context === undefined) {
      context = readContext(this.fullReport, this.feedID)
      contexts.set(this, context)
    }
    return context
  }

  /**
   * Says that you have dealt with the report, so that its stream's cursor may pass it: for a stream with
   * `acknowledge: 'manual'`. Of other reports, and the second time, it does nothing.
   */
  acknowledge(): void {
    acknowledged.get(this)?.(this)
  }

  /**
   * Checks the signatures, unless that has been done: needs the plugin `verify` in the stack. Rejects with
   * ReportVerificationError, whose `reason` says what is wrong.
   */
  verify(): Promise<void> {
    return this.#table.verify(this)
  }
}
