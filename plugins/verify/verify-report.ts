import { abortable } from '../../core/async.js'
import {
  checkBoolean,
  checkSignal,
  number,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import { parseFeedID } from '../../report/feed-id.js'
import { readContext } from '../../report/full-report.js'
import { ruleSchema, type Signers, type VerificationRules } from './options.js'
import { recoverAnyway } from './recovery.js'
import { checkClaim, checkQuorum, isRejection, type Rejection, readClaim, toError } from './rule.js'
import { createSignerSource, type SignerSource } from './signer-source.js'

/**
 * Options of `verifyReport`. If `signers` is a function, its answers are cached as long as the
 * function exists.
 */
export interface VerifyReportOptions extends VerificationRules {
  /**
   * The feed of the report; a report of another feed is rejected. If you leave it out, compare the
   * `feedID` of the result with the feed you expect.
   */
  readonly feedID?: string
  /**
   * The `validFromTimestamp` of the envelope, in the feed's unit. Not checked for version 1, whose
   * reports do not sign this time.
   */
  readonly validFromTimestamp?: number
  /** The `observationsTimestamp` of the envelope, in the feed's unit. */
  readonly observationsTimestamp?: number
  /** Whether a report that has expired by this machine's clock is rejected. @default false */
  readonly checkExpiry?: boolean
  /** Aborts the wait for the source of signers. */
  readonly signal?: AbortSignal
}

/** The signed facts of a verified report. */
export interface Verification {
  /** The signed feed id, in lower case. */
  readonly feedID: string
  /** The digest of the signers' configuration: `0x` and 64 digits in lower case. */
  readonly configDigest: string
  /** The network's count of its reports; undefined for networks that count in another way. */
  readonly sequenceNumber: number | undefined
  /** The signed start of the report's range, in the feed's unit; undefined for version 1. */
  readonly validFromTimestamp: number | undefined
  /** The signed time of the observations, in the feed's unit. */
  readonly observationsTimestamp: number
  /** How many signers of the set may be faulty. */
  readonly f: number
  /**
   * The addresses that signed, in the order of the signatures: `0x` and 40 digits in lower case.
   */
  readonly signers: readonly string[]
}

const time = optional(number({ min: 0, whole: true }))
const schema = {
  ...ruleSchema,
  feedID: optional((_field, value) => parseFeedID(value as string)),
  validFromTimestamp: time,
  observationsTimestamp: time,
  checkExpiry: withDefault(false, checkBoolean),
  signal: checkSignal,
} satisfies Schema<VerifyReportOptions>

/** The signer sources of functions, kept so that their answers stay cached between calls. */
const sources = new WeakMap<object, SignerSource>()

/**
 * Does the work of the public `verifyReport`. The first call of the public function loads this
 * module.
 */
export async function verifyReport(
  fullReport: string,
  options: VerifyReportOptions,
): Promise<Verification> {
  const given = readOptions('verifyReport', options, schema)
  const source = sourceOf(given.signers)
  given.signal?.throwIfAborted()

  function orThrow<Value extends object>(found: Value | Rejection): Value {
    if (isRejection(found)) throw toError(found, given.feedID)
    return found
  }

  const claim = orThrow(readClaim(fullReport, given.feedID))
  const now = given.checkExpiry ? Date.now() : undefined
  orThrow(checkClaim(claim, { ...given, now }) ?? claim)
  const { feedID, configDigest, validFromTimestamp, observationsTimestamp } = claim
  let leave: (() => void) | undefined
  const finding = new Promise<Parameters<Parameters<SignerSource['find']>[2]>[0]>(resolve => {
    leave = source.find(configDigest, { feedID, fullReport, observationsTimestamp }, resolve)
  })
  const { signal } = given
  const found = await (signal === undefined ? finding : abortable(finding, signal)).finally(leave)
  const set = orThrow(found)
  orThrow(checkQuorum(claim, set, given.quorum) ?? claim)
  const task = { fullReport, addresses: set.addresses }
  const signers = orThrow(await recoverAnyway(task, given.curveLibrary))
  const { sequenceNumber } = readContext(fullReport, feedID)
  const times = { validFromTimestamp, observationsTimestamp }
  return { feedID, configDigest, sequenceNumber, ...times, f: set.f, signers }
}

function sourceOf(signers: Signers): SignerSource {
  const known = typeof signers === 'function' ? sources.get(signers) : undefined
  if (known !== undefined) return known
  const source = createSignerSource(signers)
  if (typeof signers === 'function') sources.set(signers, source)
  return source
}
