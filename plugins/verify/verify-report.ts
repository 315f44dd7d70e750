import { abortable } from '../../core/abortable.js'
import { checkBoolean, checkNumber, checkOptions, checkSignal } from '../../core/options.js'
import { parseFeedID } from '../../report/feed-id.js'
import { readContext } from '../../report/report-context.js'
import { checkEngine, type EngineChoice, loadEngine, noEngine } from './engines/engine.js'
import { recoverSigners } from './recover-signers.js'
import { isRefusal, type Refusal, toError } from './refusal.js'
import { type CountRule, checkClaim, checkCount, checkCountRule, readClaim } from './rule.js'
import { createSignerSource, type SignerSource } from './signer-source.js'
import type { CheckedSet, Signers, UnverifiedReport } from './signers.js'

/** What a report must be to be verified. */
export interface VerifyReportOptions {
  /** Who may sign. What a function found is remembered from call to call, as long as it is the same function. */
  readonly signers: Signers
  /**
   * How many signatures it needs.
   * @default 'at-least'
   */
  readonly count?: CountRule
  /** The feed it must be of. Without it, the feed is the one it says, which whoever reads it must compare. */
  readonly feedID?: string
  /** What the envelope says, in the feed's unit. Version 1 does not sign it. */
  readonly validFromTimestamp?: number
  /** What the envelope says, in the feed's unit. */
  readonly observationsTimestamp?: number
  /**
   * Whether a report that has expired is refused.
   * @default false
   */
  readonly checkExpiry?: boolean
  /**
   * What recovers the signers: `secp256k1` (an optional peer dependency, 0.06 ms a signature), `noble` (1.5 ms), or the
   * first of them that is there.
   * @default 'auto'
   */
  readonly engine?: EngineChoice
  /** Ends the waiting for the source of signers. */
  readonly signal?: AbortSignal
}

/** What is sure of a report that is verified. */
export interface Verification {
  /** The signed feed id, in lower case. */
  readonly feedID: string
  /** Who configured the signers, `0x` and 64 digits in lower case. */
  readonly configDigest: string
  /** The network's count of its reports, where it has one. */
  readonly sequenceNumber: number | undefined
  /** In the feed's unit; undefined for version 1. */
  readonly validFromTimestamp: number | undefined
  /** In the feed's unit. */
  readonly observationsTimestamp: number
  /** How many of the signers may be faulty. */
  readonly f: number
  /** The addresses that signed, in the order of their signatures, `0x` and 40 digits in lower case. */
  readonly signers: readonly string[]
}

const names = [
  'signers',
  'count',
  'feedID',
  'validFromTimestamp',
  'observationsTimestamp',
  'checkExpiry',
  'engine',
  'signal',
] as const

/** Functions that were given, and what is remembered of their answers. */
const sources = new WeakMap<object, SignerSource>()

/**
 * Verifies the signatures of a report as the verifier contracts do, here and now. Rejects with a ReportVerificationError,
 * whose `reason` says why, with a ValidationError for wrong options, and with the signal's reason.
 *
 * It recovers in the thread that it is called in.
 */
export async function verifyReport(
  fullReport: string,
  options: VerifyReportOptions,
): Promise<Verification> {
  const given = checkOptions('options', options, names)
  const count = checkCountRule(given.count)
  const choice = checkEngine(given.engine)
  const signal = checkSignal('signal', given.signal)
  const source = sourceOf(given.signers)
  const expected = {
    validFromTimestamp: checkTime('validFromTimestamp', given.validFromTimestamp),
    observationsTimestamp: checkTime('observationsTimestamp', given.observationsTimestamp),
    now: checkBoolean('checkExpiry', given.checkExpiry ?? false) ? Date.now() : undefined,
  }
  const wanted = given.feedID === undefined ? undefined : parseFeedID(given.feedID)
  signal?.throwIfAborted()

  function orThrow<Value extends object>(found: Value | Refusal): Value {
    if (isRefusal(found)) throw toError(found, wanted)
    return found
  }
  function pass(refusal: Refusal | undefined): void {
    if (refusal !== undefined) orThrow(refusal)
  }

  const claim = orThrow(readClaim(fullReport, wanted))
  pass(checkClaim(claim, expected))
  const { feedID, configDigest, validFromTimestamp, observationsTimestamp } = claim
  const set = orThrow(
    await find(source, configDigest, { feedID, fullReport, observationsTimestamp }, signal),
  )
  pass(checkCount(claim, set, count))
  const engine = orThrow((await loadEngine(choice)) ?? noEngine)
  const signers = orThrow(recoverSigners(fullReport, set.addresses, engine))
  const { sequenceNumber } = readContext(fullReport, feedID)
  const { f } = set
  return {
    feedID,
    configDigest,
    sequenceNumber,
    validFromTimestamp,
    observationsTimestamp,
    f,
    signers,
  }
}

function checkTime(field: string, value: unknown): number | undefined {
  return value === undefined ? undefined : checkNumber(field, value, { min: 0, whole: true })
}

function sourceOf(signers: Signers): SignerSource {
  const known = typeof signers === 'function' ? sources.get(signers) : undefined
  if (known !== undefined) return known
  const source = createSignerSource(signers)
  if (typeof signers === 'function') sources.set(signers, source)
  return source
}

async function find(
  source: SignerSource,
  configDigest: string,
  report: UnverifiedReport,
  signal: AbortSignal | undefined,
): Promise<CheckedSet | Refusal> {
  let leave: (() => void) | undefined
  const finding = new Promise<CheckedSet | Refusal>(resolve => {
    leave = source.find(configDigest, report, resolve)
  })
  try {
    return await (signal === undefined ? finding : abortable(finding, signal))
  } finally {
    leave?.()
  }
}
