import { ValidationError } from 'sluice/core'
import {
  checkField,
  encodeBlob,
  type Field,
  type FieldValue,
  rangeOf,
  reportSchema,
} from './encode.js'
import { type Feed, findField, headTimes, type ReportFields } from './feeds.js'
import { createPriceModel, type PriceModel } from './price-model.js'

/** A signed report and its identity. */
export interface SignedReport {
  /** The feed's id, in lower case. */
  readonly feedID: string
  /** The signed report, ABI-encoded, in hex with `0x`. */
  readonly fullReport: string
  /** In the feed's unit: seconds, or milliseconds for ids that start with `0x1`. */
  readonly validFromTimestamp: number
  /** In the feed's unit. */
  readonly observationsTimestamp: number
  /**
   * The network's count of its reports, over all feeds. The report's context contains it as epoch
   * (seqNr / 256) and round (the remainder).
   */
  readonly seqNr: number
}

/** Signs a report blob and returns the full report. */
type Sign = (blob: string, seqNr: number) => string

/**
 * Milliseconds. A chain does not continue from an overridden time that is further ahead than this.
 * Otherwise one such report would end the chain.
 */
const farAheadMs = 86_400_000
/** Milliseconds between a report's observation and its expiry: 30 days. */
const validityMs = 30 * 86_400_000

function schemaOf({ feedID, version, resolution }: Feed): readonly Field[] {
  const schema = reportSchema(version, resolution)
  if (schema !== undefined) return schema
  throw new ValidationError(
    `${feedID}: no reports of version ${version} can be made, only those of 2 to 14`,
  )
}

/** The sequence number of the network, which all its feeds share. */
export interface Numbering {
  last: number
}

/** Makes the reports of one feed. Each report is valid from the end of the report before it. */
export class Chain {
  readonly #feed: Feed
  readonly #schema: readonly Field[]
  readonly #seed: number
  #nextValues: PriceModel
  /** The milliseconds in the feed's unit. */
  readonly #unitMs: number
  /** The latest time that a report can have, in the feed's unit. */
  readonly #maxTime: number
  readonly #numbering: Numbering
  #end: number | undefined

  /** Continues after the feed's last report, if there is one. */
  constructor(feed: Feed, seed: number, numbering: Numbering, last?: SignedReport) {
    const isInSeconds = feed.resolution === 's'
    this.#feed = feed
    this.#schema = schemaOf(feed)
    this.#seed = seed
    this.#nextValues = createPriceModel(feed, seed)
    this.#unitMs = isInSeconds ? 1000 : 1
    this.#maxTime = isInSeconds ? Number(rangeOf('uint32')[1]) : Number.MAX_SAFE_INTEGER
    this.#end = last?.observationsTimestamp
    this.#numbering = numbering
  }

  /** Begins where a walk over these times, in ms, ends at the feed's start values. */
  lead(times: readonly number[]): void {
    const walk = createPriceModel(this.#feed, this.#seed)
    let end: ReportFields = {}
    for (const ms of times) end = walk(Math.floor(ms))
    const start = Object.entries(this.#feed.start).map(
      ([name, value]) => [name, this.#within(name, before(value, end[name]))] as const,
    )
    this.#nextValues = createPriceModel(
      { ...this.#feed, start: Object.fromEntries(start) },
      this.#seed,
    )
  }

  /** A value that the field can hold. */
  #within(name: string, value: FieldValue): FieldValue {
    const type = this.#schema.find(field => field.name === name)?.type
    if (typeof value !== 'bigint' || type === undefined || type === 'bytes32') return value
    const [least, most] = rangeOf(type)
    return value < least ? least : value > most ? most : value
  }

  /** Begins again at the feed's start values. */
  restart(): void {
    this.#nextValues = createPriceModel(this.#feed, this.#seed)
  }

  /**
   * Makes and signs the next report for the given time in ms. A report of the past is signed when
   * somebody reads it.
   */
  next(ms: number, sign: Sign, overrides: ReportFields = {}, isPast = false): SignedReport {
    this.#checkOverrides(overrides)
    const time = (name: string): number | undefined =>
      overrides[name] === undefined ? undefined : Number(overrides[name])
    const { feedID } = this.#feed
    const now = Math.floor(ms / this.#unitMs)
    const from = this.#end === undefined ? undefined : this.#end + 1
    const observationsTimestamp = time('observationsTimestamp') ?? Math.max(from ?? 0, now)
    const validFromTimestamp =
      time('validFromTimestamp') ?? Math.min(from ?? observationsTimestamp, observationsTimestamp)
    const blob = encodeBlob(this.#schema, {
      expiresAt: Math.min(observationsTimestamp + validityMs / this.#unitMs, this.#maxTime),
      ...this.#nextValues(Math.floor(ms)),
      ...overrides,
      feedId: feedID,
      validFromTimestamp,
      observationsTimestamp,
    })
    const seqNr = this.#numbering.last + 1
    let signed = isPast ? undefined : sign(blob, seqNr)
    this.#numbering.last = seqNr
    const isOverridden = overrides.observationsTimestamp !== undefined
    const plausible = Math.max(from ?? 0, now) + farAheadMs / this.#unitMs
    if (!isOverridden || observationsTimestamp <= plausible)
      this.#end = Math.max(this.#end ?? 0, observationsTimestamp)
    return {
      feedID,
      get fullReport() {
        signed ??= sign(blob, seqNr)
        return signed
      },
      validFromTimestamp,
      observationsTimestamp,
      seqNr,
    }
  }

  /**
   * Milliseconds to wait from the given time, so that the next report is not dated ahead of the
   * clock.
   */
  wait(ms: number): number {
    return this.#end === undefined ? 0 : Math.max(0, (this.#end + 1) * this.#unitMs - ms)
  }

  /** Continues after a report that was made elsewhere. */
  follow(report: SignedReport): void {
    this.#end = Math.max(this.#end ?? 0, report.observationsTimestamp)
  }

  #checkOverrides(overrides: ReportFields): void {
    for (const [name, value] of Object.entries(overrides)) {
      const checked = checkField(findField(this.#schema, name, this.#feed.feedID), value)
      if (headTimes.has(name) && (checked as bigint) > BigInt(this.#maxTime))
        throw new ValidationError(`${name}: a time is at most ${this.#maxTime}, got ${value}`)
    }
  }
}

/**
 * The value from which a walk comes to `value`, if from `value` it comes to `end`: its steps are
 * relative.
 */
function before(value: FieldValue, end: FieldValue | undefined): FieldValue {
  const isNumber = typeof value === 'number' || typeof value === 'bigint'
  if (!isNumber || typeof end !== 'bigint' || end === 0n) return value
  return (BigInt(value) * BigInt(value)) / end
}
