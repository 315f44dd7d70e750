import { asError } from '../core/errors.js'
import { kindOf } from '../core/options.js'
import { isFeedID } from './feed-id.js'
import {
  decodingError,
  type Head,
  type ReportContext,
  readContext,
  readHead,
} from './full-report.js'
import { type JSONOf, toJSON } from './json.js'
import type { SignedLater } from './signing-order.js'

/** How a report was received. */
export type ReportSource = 'live' | 'backfill' | 'request'

/** The form of a report in JSON: its fields, and `decoded` with bigints as decimal strings. */
export interface ReportJSON<out Data = unknown> {
  /** In lower case. */
  readonly feedID: string
  /** The signed bytes, `0x` and hexadecimal digits. */
  readonly fullReport: string
  /**
   * The earliest time for which the report is valid, in the feed's unit: seconds, or milliseconds
   * if the feed's id begins with `0x1`.
   */
  readonly validFromTimestamp: number
  /** The time of the observations, in the feed's unit. */
  readonly observationsTimestamp: number
  /**
   * The configured URL that the report was received from. If the origin has an id, the id is the
   * fragment of this URL.
   */
  readonly origin: string
  /** How the report was received. */
  readonly source: ReportSource
  /**
   * The decoded fields, each bigint as a decimal string; undefined if the report cannot be decoded.
   */
  readonly decoded: JSONOf<Data> | undefined
}

/** Decodes and verifies the reports of a stack. */
export interface DecoderTable<out Data = unknown> {
  /** The versions that the table has decoders for: 3 for V3. */
  readonly versions: readonly number[]
  /** Decodes a report of a feed (in normal form). Throws ReportDecodingError. */
  decode(fullReport: string, feedID: string): Data
  /**
   * Verifies a report. Rejects with ReportVerificationError, or with DataStreamsError if there is
   * no verifier.
   */
  verify(report: Report): Promise<void>
}

// This is a map and not a field, so that reports without an entry need no memory for it.
const contexts = new WeakMap<Report, ReportContext>()

/**
 * The state of a report. Its key is a symbol that all copies of this library share, and it is an
 * enumerable property of its own. So a Proxy of the report, a copy of it, and the other form of the
 * package (ES module or CommonJS) reach the same state.
 */
const stateKey: unique symbol = Symbol.for('sluice.report')

/**
 * The state of a report. Its fields are private, so that a comparison sees no difference between
 * two states.
 */
class State<out Data> {
  readonly #table: DecoderTable<Data>
  /** The bytes whose state it is: a copy may have others. */
  readonly #fullReport: string
  readonly #feedID: string
  #decoded: Data | undefined
  #failure: unknown
  #isNewest: boolean | undefined
  #isVerified: boolean
  #isLatest: boolean
  #signedLater: SignedLater | undefined
  #acknowledge: (() => void) | undefined

  constructor(table: DecoderTable<Data>, fullReport: string, feedID: string) {
    this.#table = table
    this.#fullReport = fullReport
    this.#feedID = feedID
    this.#isLatest = false
    this.#decoded = undefined
    this.#failure = undefined
    this.#isNewest = undefined
    this.#isVerified = false
    this.#signedLater = undefined
    this.#acknowledge = undefined
  }

  static {
    // Vue and lodash leave an object with a tag of its own as it is, and Valtio an iterable.
    Object.defineProperty(State.prototype, Symbol.toStringTag, { value: 'ReportState' })
    Object.defineProperty(State.prototype, Symbol.iterator, { value: undefined })
  }

  isOf({ fullReport, feedID }: Report): boolean {
    return fullReport === this.#fullReport && feedID === this.#feedID
  }

  decode(report: Report<Data>): Data {
    const { fullReport, feedID } = report
    if (!this.isOf(report)) return this.#table.decode(fullReport, feedID)
    if (this.#decoded !== undefined) return this.#decoded
    if (this.#failure !== undefined) throw this.#failure
    try {
      this.#decoded = this.#table.decode(fullReport, feedID)
      return this.#decoded
    } catch (thrown) {
      this.#failure = thrown
      throw thrown
    }
  }

  verify(report: Report): Promise<void> {
    return this.#table.verify(report)
  }

  get isNewest(): boolean | undefined {
    return this.#isNewest
  }
  set isNewest(value: boolean | undefined) {
    this.#isNewest = value
  }

  get isVerified(): boolean {
    return this.#isVerified
  }
  set isVerified(value: boolean) {
    this.#isVerified = value
  }

  get isLatest(): boolean {
    return this.#isLatest
  }
  set isLatest(value: boolean) {
    this.#isLatest = value
  }

  get signedLater(): SignedLater | undefined {
    return this.#signedLater
  }
  set signedLater(value: SignedLater | undefined) {
    this.#signedLater = value
  }

  get acknowledge(): (() => void) | undefined {
    return this.#acknowledge
  }
  set acknowledge(value: (() => void) | undefined) {
    this.#acknowledge = value
  }
}

/** The state of a report; undefined for an object of a plugin that is not a report. */
function stateOf<Data>(report: Report<Data>): State<Data> | undefined {
  return (report as { [stateKey]?: State<Data> })[stateKey]
}

/** The test of `instanceof`: a report of any copy of this library. */
function isReport(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  // A copy without the methods is no report.
  return stateOf(value as Report) !== undefined && 'verify' in value && 'covers' in value
}

/** Calls the listener when the report, or a copy of it, is acknowledged. */
export function onAcknowledge(report: Report, listener: (report: Report) => void): void {
  const state = stateOf(report)
  if (state !== undefined) state.acknowledge = () => listener(report)
}

/** Sets `signedLater` of a report. */
export function markSignedLater(report: Report, facts: SignedLater): void {
  const state = stateOf(report)
  if (state !== undefined) state.signedLater = facts
}

/** Sets `isNewest` of a report, just before a stream delivers it. */
export function markNewest(report: Report, isNewest: boolean): void {
  const state = stateOf(report)
  if (state !== undefined) state.isNewest = isNewest
}

/** Sets `verified` of a report. For a plugin that verifies signatures. */
export function markVerified(report: Report): void {
  const state = stateOf(report)
  if (state?.isOf(report)) state.isVerified = true
}

/** Notes that a report of a request claims to be of the present. */
export function markLatest(report: Report): void {
  const state = stateOf(report)
  if (state !== undefined) state.isLatest = true
}

/** Whether a report claims to be of the present: it is live, or was asked for as the latest. */
export function isCurrent(report: Report): boolean {
  return report.source === 'live' || stateOf(report)?.isLatest === true
}

/** The decoded fields that every version has. A report has most of them itself. */
const commonFields: ReadonlySet<string> = new Set([
  'feedID',
  'validFromTimestamp',
  'observationsTimestamp',
  'nativeFee',
  'linkFee',
  'expiresAt',
])

/** A signed report as the service stores it, and its decoded fields. */
export class Report<out Data = unknown> {
  /** In lower case. */
  readonly feedID: string
  /** The signed bytes, `0x` and hexadecimal digits, in the form that verifier contracts accept. */
  readonly fullReport: string
  /**
   * The earliest time for which the report is valid, in the feed's unit: seconds, or milliseconds
   * if the feed's id begins with `0x1`.
   */
  readonly validFromTimestamp: number
  /** The time of the observations, in the feed's unit. */
  readonly observationsTimestamp: number
  /**
   * The configured URL that the report was received from. If the origin has an id, the id is the
   * fragment of this URL.
   */
  readonly origin: string
  /**
   * `live`: over a stream's connection. `backfill`: a stream fetched the report later. `request`:
   * your program requested the report.
   */
  readonly source: ReportSource

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
    ;(this as { [stateKey]?: State<Data> })[stateKey] = new State(table, fullReport, feedID)
  }

  static {
    Object.defineProperty(Report, Symbol.hasInstance, { value: isReport })
    // What `console.log` of Node and Bun writes.
    Object.defineProperty(Report.prototype, Symbol.for('nodejs.util.inspect.custom'), {
      value: inspectReport,
      configurable: true,
    })
  }

  /**
   * Whether the report was newer than all reports of its feed that its stream had delivered before
   * it. Always false for a report dated more than five seconds in the future. Undefined before the
   * delivery, and for a report of a request.
   */
  get isNewest(): boolean | undefined {
    return stateOf(this)?.isNewest
  }

  /**
   * Whether the signatures have been verified: by the plugin `verify` before the delivery, or by
   * `verify()` since.
   */
  get verified(): boolean {
    const state = stateOf(this)
    return state?.isVerified === true && state.isOf(this)
  }

  /**
   * Set if the network signed the report later than its time, as other reports show: then the
   * signers may have signed what they did not observe at that time. Undefined if no report shows
   * it. A page compares its reports with each other. In a stream, `dedup` compares a report with
   * the newest report of its feed.
   */
  get signedLater(): SignedLater | undefined {
    return stateOf(this)?.signedLater
  }

  /**
   * The fields, decoded on first access and cached. Throws ReportDecodingError if the bytes break a
   * rule, or if no decoder of the stack knows the version. The other fields of the report are valid
   * even then.
   */
  get decoded(): Data {
    return (stateOf(this) as State<Data>).decode(this)
  }

  /**
   * The id of the origin that the report was received from; undefined if the service gave no id.
   */
  get originID(): string | undefined {
    return originIDOf(this.origin)
  }

  /**
   * The configuration, sequence number and signatures, read on first access. None of them is
   * checked.
   */
  get context(): ReportContext {
    let context = contexts.get(this)
    if (context === undefined) {
      context = readContext(this.fullReport, this.feedID)
      contexts.set(this, context)
    }
    return context
  }

  /**
   * Whether the report's window holds a time, in the feed's unit. The window is from
   * `validFromTimestamp` to `observationsTimestamp`, both included, so one report of a feed at most
   * holds a time.
   */
  covers(time: number): boolean {
    return this.validFromTimestamp <= time && time <= this.observationsTimestamp
  }

  /**
   * Marks the report as processed, so that its stream's cursor may pass it. Only for streams with
   * `acknowledge: 'manual'`: it does nothing for other reports, or when it is called again.
   */
  acknowledge(): void {
    stateOf(this)?.acknowledge?.()
  }

  /**
   * The report in the form that `JSON.stringify` writes. Decodes the report. If decoding fails,
   * `decoded` is undefined, and nothing is thrown.
   */
  toJSON(): ReportJSON<Data> {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp, origin, source } = this
    let decoded: JSONOf<Data> | undefined
    try {
      decoded = toJSON(this.decoded)
    } catch {
      // The bytes break a rule, or no decoder knows the version. The other fields are valid even
      // then.
    }
    const times = { validFromTimestamp, observationsTimestamp }
    return { feedID, fullReport, ...times, origin, source, decoded }
  }

  /**
   * Verifies the signatures, unless they have been verified already. The stack must have the plugin
   * `verify`. Rejects with ReportVerificationError, whose `reason` says what is wrong.
   */
  verify(): Promise<void> {
    return (stateOf(this) as State<Data>).verify(this)
  }
}

/** The origin's id: `001` for `wss://host#001`. Undefined if there is none. */
export function originIDOf(origin: string): string | undefined {
  const at = origin.indexOf('#')
  return at === -1 ? undefined : origin.slice(at + 1)
}

/** Thrown if an envelope breaks a rule of its format. */
export class EnvelopeError extends Error {}

/**
 * Makes a report from an envelope, the JSON object in which the service sends a report. The
 * envelope is not trusted: its shape and types are checked, and its unsigned fields must agree with
 * the signed blob. If the envelope lacks a time, the time of the blob is used.
 *
 * Throws EnvelopeError if the envelope has another shape, and ReportDecodingError if the report
 * itself breaks a rule.
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

/**
 * The time in a field of the envelope. If the field is missing, the time of the blob. If both have
 * a time, the two must be equal.
 */
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

/**
 * Writes a report for a person: first the decoded fields that differ among versions, last the
 * beginning of the bytes. Decodes the report.
 */
function inspectReport(
  this: Report,
  depth: number,
  options: object,
  inspect: (value: unknown, options: object) => string,
): string {
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp, isNewest } = this
  const { origin, source, verified } = this
  if (depth < 0) return '[Report]'
  let decoded: unknown
  try {
    const entries = Object.entries(this.decoded as object)
    decoded = Object.fromEntries(entries.filter(([name]) => !commonFields.has(name)))
  } catch (thrown) {
    decoded = `not decoded: ${asError(thrown).message}`
  }
  const times = { observationsTimestamp, validFromTimestamp }
  const facts = { feedID, ...times, source, origin, verified, isNewest }
  const bytes = `${fullReport.slice(0, 18)}… (${(fullReport.length >> 1) - 1} bytes)`
  return `Report ${inspect({ decoded, ...facts, fullReport: bytes }, options)}`
}
