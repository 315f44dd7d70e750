import { kindOf } from '../core/options.js'
import { isFeedID } from './feed-id.js'
import {
  decodingError,
  type Head,
  readContext,
  readHead,
  type ReportContext,
} from './full-report.js'
import { type JSONOf, toJSON } from './json.js'

/** How a report was received. */
export type ReportSource = 'live' | 'backfill' | 'request'

/** What `JSON.stringify` writes of a report: its fields, and `decoded` with bigints as decimal strings. */
export interface ReportJSON<out Data = unknown> {
  /** In lower case. */
  readonly feedID: string
  /** The signed bytes, `0x` and hexadecimal digits. */
  readonly fullReport: string
  /** Earliest time for which the report is valid, in the feed's unit: seconds, or milliseconds for ids that begin with `0x1`. */
  readonly validFromTimestamp: number
  /** Time of the observations, in the feed's unit. */
  readonly observationsTimestamp: number
  /** The configured URL that it was received from, with the id of the origin as its fragment where it has one. */
  readonly origin: string
  /** How it was received. */
  readonly source: ReportSource
  /** The decoded fields, each bigint as a decimal string; undefined where the report cannot be decoded. */
  readonly decoded: JSONOf<Data> | undefined
}

/** Decodes and verifies the reports of a stack. */
export interface DecoderTable<out Data = unknown> {
  /** The versions that there are decoders for: 3 for V3. */
  readonly versions: readonly number[]
  /** Decodes a report of a feed (in normal form). Throws ReportDecodingError. */
  decode(fullReport: string, feedID: string): Data
  /** Rejects with ReportVerificationError, or with DataStreamsError where there is no verifier. */
  verify(report: Report): Promise<void>
}

// Maps and not fields, so that reports without them need no memory for them.
const contexts = new WeakMap<Report, ReportContext>()
const acknowledged = new WeakMap<Report, (report: Report) => void>()

/** Calls the listener when the report is acknowledged. */
export function onAcknowledge(report: Report, listener: (report: Report) => void): void {
  acknowledged.set(report, listener)
}

/** Says of a report that a stream delivers whether it is the newest of its feed. */
export let markNewest: (report: Report, isNewest: boolean) => void

/** A signed report as the service stores it, and its decoded fields. */
export class Report<out Data = unknown> {
  /** In lower case. */
  readonly feedID: string
  /** The signed bytes, `0x` and hexadecimal digits, as verifier contracts take them. */
  readonly fullReport: string
  /** Earliest time for which the report is valid, in the feed's unit: seconds, or milliseconds for ids that begin with `0x1`. */
  readonly validFromTimestamp: number
  /** Time of the observations, in the feed's unit. */
  readonly observationsTimestamp: number
  /** The configured URL that it was received from, with the id of the origin as its fragment where it has one. */
  readonly origin: string
  /** `live`: over a stream's connection; `backfill`: a stream fetched it later; `request`: by a request of yours. */
  readonly source: ReportSource
  readonly #table: DecoderTable<Data>
  #decoded: Data | undefined
  #failure: unknown
  #isNewest: boolean | undefined

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
    this.#isNewest = undefined
  }

  static {
    markNewest = (report, isNewest) => {
      // A plugin may pass on an object of its own.
      if (#isNewest in report) report.#isNewest = isNewest
    }
  }

  /**
   * Whether its stream had delivered no report of its feed that is as new, when it delivered this one. Always false for a report
   * dated more than five seconds after the present; undefined for a report of a request, and before the delivery.
   */
  get isNewest(): boolean | undefined {
    return this.#isNewest
  }

  /**
   * The fields, decoded on first access and cached. Throws ReportDecodingError where the bytes break a rule or no decoder of
   * the stack knows the version; the other fields of the report are valid all the same.
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

  /** The id of the origin that it was received from, where the service has given one. */
  get originID(): string | undefined {
    return originIDOf(this.origin)
  }

  /** The configuration, sequence number and signatures, read on first access. None of them is checked. */
  get context(): ReportContext {
    let context = contexts.get(this)
    if (context === undefined) {
      context = readContext(this.fullReport, this.feedID)
      contexts.set(this, context)
    }
    return context
  }

  /**
   * Marks the report as processed, so that its stream's cursor may pass it: for a stream with `acknowledge: 'manual'`. On
   * other reports, and the second time, it does nothing.
   */
  acknowledge(): void {
    acknowledged.get(this)?.(this)
  }

  /** What `JSON.stringify` writes of it. Decodes the report; where that fails, `decoded` is left out, and nothing is thrown. */
  toJSON(): ReportJSON<Data> {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp, origin, source } = this
    let decoded: JSONOf<Data> | undefined
    try {
      decoded = toJSON(this.decoded)
    } catch {
      // The bytes break a rule, or no decoder knows the version: the other fields are valid all the same.
    }
    const times = { validFromTimestamp, observationsTimestamp }
    return { feedID, fullReport, ...times, origin, source, decoded }
  }

  /**
   * Verifies the signatures, unless that has been done: needs the plugin `verify` in the stack. Rejects with
   * ReportVerificationError, whose `reason` says what is wrong.
   */
  verify(): Promise<void> {
    return this.#table.verify(this)
  }
}

/** The id in `wss://host#001`, where there is one. */
export function originIDOf(origin: string): string | undefined {
  const at = origin.indexOf('#')
  return at === -1 ? undefined : origin.slice(at + 1)
}

/** An envelope breaks a rule of its format. */
export class EnvelopeError extends Error {}

/**
 * Makes a report from an envelope, the JSON object in which the service sends it. Nothing of that is trusted: shape and
 * types are checked, and what is not signed must agree with the signed blob. Times that the envelope lacks are the blob's.
 *
 * Throws EnvelopeError for an envelope of another shape, ReportDecodingError where the report itself breaks a rule.
 */
export function toReport(
  envelope: unknown,
  origin: string,
  table: DecoderTable,
  source: ReportSource = 'request',
): Report {
  if (typeof envelope !== 'object' || envelope === null)
    throw new EnvelopeError(`report must be an object, not ${kindOf(envelope)}`)
  const { feedID, fullReport, ...times } = envelope as Readonly<Record<string, unknown>>
  if (!isFeedID(feedID))
    throw new EnvelopeError('report.feedID must be 0x and 64 hexadecimal digits')
  if (typeof fullReport !== 'string')
    throw new EnvelopeError(`report.fullReport must be a string, not ${kindOf(fullReport)}`)
  const id = feedID.toLowerCase()
  const head = readHead(fullReport, id)
  const observed = checkTime(times, head, 'observationsTimestamp', id) as number
  const validFrom = checkTime(times, head, 'validFromTimestamp', id)
  return new Report(id, fullReport, validFrom ?? observed, observed, origin, source, table)
}

/** The time in a field of the envelope, or else that of the blob; where both have one, they must be the same. */
function checkTime(
  times: Readonly<Record<string, unknown>>,
  head: Head,
  field: 'validFromTimestamp' | 'observationsTimestamp',
  feedID: string,
): number | undefined {
  const value = times[field]
  const signed = head[field]
  if (value === undefined) return signed
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw new EnvelopeError(`report.${field} must be a whole number from 0 on`)
  if (signed === undefined || value === signed) return value
  throw decodingError(feedID, `the envelope’s ${field} is ${value}, the signed one ${signed}`)
}
