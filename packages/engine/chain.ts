import { ValidationError } from 'sluice/core'
import { checkField, encodeBlob, rangeOf } from './encode.js'
import { type Feed, findField, headTimes, type ReportFields } from './feeds.js'
import { type Field, reportSchema } from './schemas.js'
import { createPriceModel } from './price-model.js'

/** A signed report and its identity. */
export interface SignedReport {
  /** Lower-case. */
  readonly feedID: string
  /** The signed report, ABI-encoded, in hex with `0x`. */
  readonly fullReport: string
  /** In the feed's unit: seconds, or milliseconds for ids that start with `0x1`. */
  readonly validFromTimestamp: number
  /** In the feed's unit. */
  readonly observationsTimestamp: number
  /** The report's number in its feed; the report's context holds it as epoch (seqNr / 256) and round. */
  readonly seqNr: number
}

/** Makes a full report of a blob. */
type Sign = (blob: string, seqNr: number) => string

/** The reports of one feed, each valid from the end of the last one. */
export interface Chain {
  /** Makes and signs the next report for the given time in ms. */
  readonly next: (ms: number, overrides?: ReportFields, signOtherwise?: Sign) => SignedReport
  /** Milliseconds from the given time until the next report is not dated ahead of the clock. */
  readonly wait: (ms: number) => number
  /** Continues after a report that was made elsewhere. */
  readonly follow: (report: SignedReport) => void
}

// A chain does not continue from an overridden time further ahead than this: one such report would end it.
const farAheadMs = 86_400_000
const validityMs = 30 * 86_400_000

function schemaOf({ feedID, version, resolution }: Feed): readonly Field[] {
  const schema = reportSchema(version, resolution)
  if (schema !== undefined) return schema
  throw new ValidationError(
    `${feedID}: no reports of version ${version} can be made, only those of 2 to 14`,
  )
}

/** The chain of a feed, after the last report if there is one. `sign` turns blobs into full reports. */
export function createChain(feed: Feed, sign: Sign, seed: number, last?: SignedReport): Chain {
  const { feedID, resolution } = feed
  const schema = schemaOf(feed)
  const unitMs = resolution === 's' ? 1000 : 1
  const maxTime = Number(
    resolution === 's' ? rangeOf('uint32')[1] : BigInt(Number.MAX_SAFE_INTEGER),
  )
  const nextValues = createPriceModel(feed, seed)
  let end = last?.observationsTimestamp
  let seqNr = last?.seqNr ?? 0

  function checkOverrides(overrides: ReportFields): void {
    for (const [name, value] of Object.entries(overrides)) {
      const checked = checkField(findField(schema, name, feedID), value)
      if (headTimes.has(name) && (checked as bigint) > BigInt(maxTime))
        throw new ValidationError(`${name}: a time is at most ${maxTime}, got ${value}`)
    }
  }

  function next(ms: number, overrides: ReportFields = {}, signOtherwise = sign): SignedReport {
    checkOverrides(overrides)
    const time = (name: string): number | undefined =>
      overrides[name] === undefined ? undefined : Number(overrides[name])
    const now = Math.floor(ms / unitMs)
    const from = end === undefined ? undefined : end + 1
    const observationsTimestamp = time('observationsTimestamp') ?? Math.max(from ?? 0, now)
    const validFromTimestamp =
      time('validFromTimestamp') ?? Math.min(from ?? observationsTimestamp, observationsTimestamp)
    const expiresAt = Math.min(observationsTimestamp + validityMs / unitMs, maxTime)
    const blob = encodeBlob(schema, {
      expiresAt,
      ...nextValues(Math.floor(ms)),
      ...overrides,
      feedId: feedID,
      validFromTimestamp,
      observationsTimestamp,
    })
    const number = seqNr + 1
    const fullReport = signOtherwise(blob, number)
    seqNr = number
    const isOverridden = overrides.observationsTimestamp !== undefined
    const plausible = Math.max(from ?? 0, now) + farAheadMs / unitMs
    if (!isOverridden || observationsTimestamp <= plausible)
      end = Math.max(end ?? 0, observationsTimestamp)
    return { feedID, fullReport, validFromTimestamp, observationsTimestamp, seqNr }
  }

  return {
    next,
    wait: ms => (end === undefined ? 0 : Math.max(0, (end + 1) * unitMs - ms)),
    follow(report) {
      end = Math.max(end ?? 0, report.observationsTimestamp)
      seqNr = Math.max(seqNr, report.seqNr)
    },
  }
}
