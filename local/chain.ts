import { checkField, encodeBlob, rangeOf } from './encode.js'
import { type Feed, headTimes, type ReportFields, unknownField } from './feeds.js'
import { reportSchema } from './schemas.js'
import { createWalk } from './walk.js'

/** A signed report and what identifies it. */
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

/** The reports of one feed, each valid from where the one before ended. */
export interface Chain {
  /** Makes and signs the next report for the given time in ms. */
  readonly next: (ms: number, overrides?: ReportFields) => SignedReport
  /** How many ms after the given time the next report would not be dated ahead of the clock; 0 when that is now. */
  readonly wait: (ms: number) => number
  /** Goes on after a report that was made elsewhere. */
  readonly follow: (report: Pick<SignedReport, 'observationsTimestamp' | 'seqNr'>) => void
}

// An overridden time further ahead than this doesn't carry the chain with it, or one poisoned report would end it.
const farAheadMs = 86_400_000
const validityMs = 30 * 86_400_000

/** Starts the chain of a feed; `sign` makes full reports of blobs. */
export function createChain(
  feed: Feed,
  sign: (blob: string, seqNr: number) => string,
  seed: number,
): Chain {
  const { feedID, version, resolution } = feed
  const fields = reportSchema(version, resolution)
  if (fields === undefined) {
    throw new RangeError(
      `${feedID}: no reports of version ${version} can be made, only those of 2 to 14`,
    )
  }
  const schema = fields
  const unitMs = resolution === 's' ? 1000 : 1
  const mostTime = Number(
    resolution === 's' ? rangeOf('uint32')[1] : BigInt(Number.MAX_SAFE_INTEGER),
  )
  const nextValues = createWalk(feed, seed)
  let end: number | undefined
  let seqNr = 0

  function checkOverrides(overrides: ReportFields): void {
    for (const [name, value] of Object.entries(overrides)) {
      const field = schema.slice(1).find(field => field.name === name)
      if (field === undefined) throw new TypeError(unknownField(version, name, feedID))
      const checked = checkField(field, value)
      if (headTimes.has(name) && (checked as bigint) > BigInt(mostTime)) {
        throw new RangeError(`${name}: a time is at most ${mostTime}, got ${value}`)
      }
    }
  }

  function next(ms: number, overrides: ReportFields = {}): SignedReport {
    checkOverrides(overrides)
    const time = (name: string): number | undefined =>
      overrides[name] === undefined ? undefined : Number(overrides[name])
    const now = Math.floor(ms / unitMs)
    const from = end === undefined ? undefined : end + 1
    const observationsTimestamp = time('observationsTimestamp') ?? Math.max(from ?? 0, now)
    const validFromTimestamp =
      time('validFromTimestamp') ?? Math.min(from ?? observationsTimestamp, observationsTimestamp)
    const expiresAt = Math.min(observationsTimestamp + validityMs / unitMs, mostTime)
    const blob = encodeBlob(schema, {
      expiresAt,
      ...nextValues(Math.floor(ms)),
      ...overrides,
      feedId: feedID,
      validFromTimestamp,
      observationsTimestamp,
    })
    const number = seqNr + 1
    const fullReport = sign(blob, number)
    seqNr = number
    const isOverridden = overrides.observationsTimestamp !== undefined
    const plausible = Math.max(from ?? 0, now) + farAheadMs / unitMs
    if (!isOverridden || observationsTimestamp <= plausible) {
      end = Math.max(end ?? observationsTimestamp, observationsTimestamp)
    }
    return { feedID, fullReport, validFromTimestamp, observationsTimestamp, seqNr }
  }

  function follow(report: Pick<SignedReport, 'observationsTimestamp' | 'seqNr'>): void {
    end = Math.max(end ?? report.observationsTimestamp, report.observationsTimestamp)
    seqNr = Math.max(seqNr, report.seqNr)
  }

  function wait(ms: number): number {
    return end === undefined ? 0 : Math.max(0, (end + 1) * unitMs - ms)
  }

  return { next, wait, follow }
}
