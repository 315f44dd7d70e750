import { abortable } from '../../core/async.js'
import {
  checkBoolean,
  checkNumber,
  checkOptions,
  checkSignal,
  type OptionNames,
} from '../../core/options.js'
import { parseFeedID } from '../../report/feed-id.js'
import { readContext } from '../../report/report-context.js'
import { loadCurveLibrary, noCurveLibrary } from './curve-library.js'
import { recoverSigners } from './recover-signers.js'
import { isRejection, type Rejection, toError } from './rejection.js'
import { checkClaim, checkQuorum, readClaim } from './rule.js'
import { createSignerSource, type SignerSource } from './signer-source.js'
import type { CheckedSet, Signers, UnverifiedReport } from './signers.js'
import { checkQuorumRule, checkCurveLibrary, type VerifierOptions } from './verifier-options.js'

/** Options of `verifyReport`. The answers of a function in `signers` are cached as long as that function exists. */
export interface VerifyReportOptions
  extends Pick<VerifierOptions, 'signers' | 'quorum' | 'checkExpiry' | 'curveLibrary'> {
  /** The feed that the report must be of. Without it, compare the `feedID` of the result with the feed you expect. */
  readonly feedID?: string
  /** The time of the envelope, in the feed's unit. Version 1 does not sign it. */
  readonly validFromTimestamp?: number
  /** The time of the envelope, in the feed's unit. */
  readonly observationsTimestamp?: number
  /** Aborting it ends the wait for the source of signers. */
  readonly signal?: AbortSignal
}

/** The signed facts of a verified report. */
export interface Verification {
  /** The signed feed id, in lower case. */
  readonly feedID: string
  /** The configuration of the signers, `0x` and 64 digits in lower case. */
  readonly configDigest: string
  /** The network's count of its reports; undefined for networks that count otherwise. */
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

const names: OptionNames<VerifyReportOptions> = {
  signers: true,
  quorum: true,
  feedID: true,
  validFromTimestamp: true,
  observationsTimestamp: true,
  checkExpiry: true,
  curveLibrary: true,
  signal: true,
}

/** The sources of functions, which cache their answers. */
const sources = new WeakMap<object, SignerSource>()

/** Verifies a report: the work of the public `verifyReport`, which loads it with the first call. */
export async function verifyReport(
  fullReport: string,
  options: VerifyReportOptions,
): Promise<Verification> {
  const given = checkOptions('verifyReport', options, names)
  const quorum = checkQuorumRule(given.quorum)
  const choice = checkCurveLibrary(given.curveLibrary)
  const signal = checkSignal('signal', given.signal)
  const source = sourceOf(given.signers)
  const expected = {
    validFromTimestamp: checkTime('validFromTimestamp', given.validFromTimestamp),
    observationsTimestamp: checkTime('observationsTimestamp', given.observationsTimestamp),
    now: checkBoolean('checkExpiry', given.checkExpiry ?? false) ? Date.now() : undefined,
  }
  const wanted = given.feedID === undefined ? undefined : parseFeedID(given.feedID)
  signal?.throwIfAborted()

  function orThrow<Value extends object>(found: Value | Rejection): Value {
    if (isRejection(found)) throw toError(found, wanted)
    return found
  }

  const claim = orThrow(readClaim(fullReport, wanted))
  orThrow(checkClaim(claim, expected) ?? claim)
  const { feedID, configDigest, validFromTimestamp, observationsTimestamp } = claim
  const set = orThrow(
    await find(source, configDigest, { feedID, fullReport, observationsTimestamp }, signal),
  )
  orThrow(checkQuorum(claim, set, quorum) ?? claim)
  const curveLibrary = orThrow((await loadCurveLibrary(choice)) ?? noCurveLibrary)
  const signers = orThrow(recoverSigners(fullReport, set.addresses, curveLibrary))
  const { sequenceNumber } = readContext(fullReport, feedID)
  const times = { validFromTimestamp, observationsTimestamp }
  return { feedID, configDigest, sequenceNumber, ...times, f: set.f, signers }
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
): Promise<CheckedSet | Rejection> {
  let leave: (() => void) | undefined
  const finding = new Promise<CheckedSet | Rejection>(resolve => {
    leave = source.find(configDigest, report, resolve)
  })
  try {
    return await (signal === undefined ? finding : abortable(finding, signal))
  } finally {
    leave?.()
  }
}
