import { isStreamsError } from '../../core/errors.js'
import { kindOf } from '../../core/options.js'
import { feedResolution, feedVersion, isFeedID } from '../../report/feed-id.js'
import { BLOB_DIGITS, DIGITS, HEAD_WORDS, readHead } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'
import { ReportVerificationError, type VerificationFailure } from '../../report/verifier.js'
import type { CheckedSet, Quorum } from './options.js'

/**
 * The reason why a report is not verified. Several reports may share one rejection, so an error is
 * made later for each report.
 */
export interface Rejection {
  readonly reason: VerificationFailure
  /** Ends the sentence "the report is not verified: …". */
  readonly rule: string
  readonly cause?: unknown
}

/** True for a rejection, false for a value. */
export function isRejection<Value extends object>(found: Value | Rejection): found is Rejection {
  return 'reason' in found
}

/** Makes the error of one report from a rejection. */
export function toError(
  { reason, rule, ...facts }: Rejection,
  feedID: string | undefined,
  report?: Report,
): ReportVerificationError {
  const name = feedID === undefined ? 'report' : `report of feed ${feedID}`
  return new ReportVerificationError(`${name} is not verified: ${rule}`, {
    reason,
    report,
    ...facts,
  })
}

/** The signed fields of a report that its verification needs. */
export interface Claim {
  readonly feedID: string
  readonly configDigest: string
  /** Undefined for version 1, which has a block number in its place. */
  readonly validFromTimestamp: number | undefined
  readonly observationsTimestamp: number
  /**
   * The time at which the report expires, in the feed's unit; undefined for version 1, which does
   * not expire.
   */
  readonly expiresAt: number | undefined
  /** The number of signatures. */
  readonly signatures: number
}

const VS_DIGITS = 6 * DIGITS
const NO_DIGITS = '0'.repeat(DIGITS)

/**
 * Checks the encoding of a report, and reads its claim. If `wanted` is given, a feed id in normal
 * form, the report's feed id must be equal to it.
 */
export function readClaim(fullReport: unknown, wanted?: string): Claim | Rejection {
  if (typeof fullReport !== 'string')
    return { reason: 'malformed', rule: `fullReport must be a string, not ${kindOf(fullReport)}` }
  if (!fullReport.startsWith('0x'))
    return { reason: 'malformed', rule: 'fullReport must begin with 0x' }
  const feedID = `0x${fullReport.slice(2 + BLOB_DIGITS, 2 + BLOB_DIGITS + DIGITS).toLowerCase()}`
  if (!isFeedID(feedID))
    return { reason: 'malformed', rule: 'fullReport is cut short, or not hexadecimal' }
  if (wanted !== undefined && wanted !== feedID)
    return { reason: 'wrong-feed', rule: `it is signed for feed ${feedID}` }
  let head: ReturnType<typeof readHead>
  try {
    head = readHead(fullReport, feedID)
  } catch (thrown) {
    if (!isStreamsError(thrown, 'DECODING')) throw thrown
    return { reason: 'malformed', rule: thrown.message, cause: thrown }
  }
  const { blobLength, validFromTimestamp, observationsTimestamp } = head
  const digits = (from: number, count: number): string =>
    fullReport.slice(2 + from, 2 + from + count)
  const signatures = Number.parseInt(digits(BLOB_DIGITS + 2 * blobLength, DIGITS), 16)
  // The bytes after the last v are not signed, so they must be zero.
  const vs = 2 * signatures
  if (digits(VS_DIGITS + vs, DIGITS - vs) !== NO_DIGITS.slice(vs))
    return {
      reason: 'malformed',
      rule: `rawVs has bytes after those of its ${signatures} signatures`,
    }
  const expiry = digits(BLOB_DIGITS + DIGITS * (HEAD_WORDS - 1), DIGITS)
  return {
    feedID,
    configDigest: `0x${digits(0, DIGITS).toLowerCase()}`,
    validFromTimestamp,
    observationsTimestamp,
    expiresAt: feedVersion(feedID) < 2 ? undefined : Number(`0x${expiry}`),
    signatures,
  }
}

/** The facts that a claim is compared with. */
export interface Expected {
  readonly validFromTimestamp?: number | undefined
  readonly observationsTimestamp?: number | undefined
  /** Unix time in milliseconds. If it is undefined, neither expiry nor age is checked. */
  readonly now?: number | undefined
  /** Milliseconds by which `now` may be wrong. @default 0 */
  readonly tolerance?: number
  /** Whether a report that has expired is rejected. @default true */
  readonly checkExpiry?: boolean
  /** The highest age of the report, in milliseconds. @default Infinity */
  readonly maxAge?: number
}

/** Compares a claim with the expected facts, and checks its expiry. */
export function checkClaim(claim: Claim, expected: Expected): Rejection | undefined {
  for (const name of ['validFromTimestamp', 'observationsTimestamp'] as const) {
    const time = expected[name]
    if (time !== undefined && claim[name] !== undefined && time !== claim[name])
      return { reason: 'wrong-time', rule: `its ${name} is ${claim[name]}, not ${time}` }
  }
  const { now, tolerance = 0, checkExpiry = true, maxAge = Number.POSITIVE_INFINITY } = expected
  const { feedID, expiresAt = Number.POSITIVE_INFINITY, observationsTimestamp: observed } = claim
  if (now === undefined) return undefined
  const unit = feedResolution(feedID) === 's' ? 1000 : 1
  const time = Math.floor(now / unit)
  if (checkExpiry && Math.floor((now - tolerance) / unit) > expiresAt)
    return { reason: 'expired', rule: `it expired at ${expiresAt}, and now is ${time}` }
  return now - tolerance > observed * unit + maxAge
    ? { reason: 'too-old', rule: `it was observed at ${observed}, and now is ${time}` }
    : undefined
}

/**
 * Checks the number of signatures. This comes before the signers are recovered, which takes long.
 */
export function checkQuorum(
  { signatures }: Claim,
  { f, addresses }: CheckedSet,
  quorum: Quorum,
): Rejection | undefined {
  if (signatures <= f)
    return { reason: 'too-few-signatures', rule: `it has ${signatures} of ${f + 1} signatures` }
  const most = quorum === 'exactly' ? f + 1 : addresses.size
  return signatures > most
    ? { reason: 'too-many-signatures', rule: `it has ${signatures} signatures, more than ${most}` }
    : undefined
}
