import { ValidationError } from '../../core/errors.js'
import {
  checkNumber,
  checkOptions,
  checkText,
  kindOf,
  type OptionNames,
} from '../../core/options.js'
import { feedResolution } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import type { Rejection } from './rejection.js'

/** The signers of a configuration. */
export interface SignerSet {
  /** Their addresses, `0x` and 40 hexadecimal digits in either case: each once, more than 3 f of them, 31 at most. */
  readonly signers: readonly string[]
  /** How many of them may be faulty, 1 or more: a report needs the signatures of more than that. */
  readonly f: number
  /**
   * The configuration, by the digest in its reports: `0x` and 64 hexadecimal digits.
   * @default any that no other set of the list names
   */
  readonly configDigest?: string
  /**
   * The first time of observations that they sign, in seconds of Unix time for every feed.
   * @default always
   */
  readonly activeFrom?: number
  /**
   * The time from which they no longer sign, in seconds of Unix time.
   * @default never
   */
  readonly activeUntil?: number
}

/** The report for which a source of signers is called. None of it has been verified. */
export interface UnverifiedReport
  extends Pick<Report, 'feedID' | 'fullReport' | 'observationsTimestamp'> {
  /** The origin it was received from, as in `report.origin`; missing in calls by `verifyReport`. */
  readonly origin?: string
}

/**
 * The signers: one set, several (for several configurations, or for one at different times), or a function that is called
 * once for each new configuration. Of the sets that are active at a time, the one with the latest `activeFrom` is used.
 *
 * The sets that the function finds are cached until the first of them ends, by the clock of this machine: what it finds then
 * takes their place, for reports of earlier times too, and if it finds none there are none. Before, it is called again only for
 * a report of a time at which none of them is active, once a second at most. So a set without `activeUntil` stays valid, even if
 * it is revoked later. After `undefined`, `null` or an empty list, which mean that there is no set, it is called again after
 * ten seconds; after an error, or after ten seconds without an answer, in one second. The error it throws is the `cause` of
 * the report's.
 *
 * Anyone can invent configurations. So each origin may cause four calls at a time, and eight in a row, then one a second;
 * reports beyond that are rejected as `signers-unavailable`. `verifyReport` may cause eight at a time.
 */
export type Signers =
  | SignerSet
  | readonly SignerSet[]
  | ((
      configDigest: string,
      report: UnverifiedReport,
    ) => Promise<SignerSet | readonly SignerSet[] | undefined | null>)

/** A set that has been checked. */
export interface CheckedSet {
  /** In lower case. */
  readonly addresses: ReadonlySet<string>
  readonly f: number
  /** In lower case. */
  readonly configDigest: string | undefined
  readonly activeFrom: number
  readonly activeUntil: number
}

/** The last time that a report can have, in seconds. */
export const MAX_TIME = 0xffff_ffff
/** The limit of the verifier contracts. */
const MAX_SIGNERS = 31
const names: OptionNames<SignerSet> = {
  signers: true,
  f: true,
  configDigest: true,
  activeFrom: true,
  activeUntil: true,
}
const ZERO_ADDRESS = `0x${'0'.repeat(40)}`

/** A source of signers. */
export type LookUp = Extract<Signers, (...args: never) => unknown>

/** Checks the option `signers`: its sets, or the function. Throws ValidationError. */
export function checkSigners(signers: Signers): readonly CheckedSet[] | LookUp {
  if (typeof signers === 'function') return signers
  if (signers === null || (signers !== undefined && typeof signers !== 'object'))
    throw new ValidationError(
      `signers must be a set, a list of sets or a function, not ${kindOf(signers)}`,
    )
  return checkSets('signers', signers)
}

/** Checks one set or a list of them, not empty. */
export function checkSets(field: string, value: unknown): readonly CheckedSet[] {
  if (!Array.isArray(value)) return [checkSet(field, value)]
  if (value.length === 0) throw new ValidationError(`${field} must hold at least one set`)
  const sets = value.map((each, index) => checkSet(`${field}[${index}]`, each))
  const starts = new Set<string>()
  sets.forEach(({ configDigest, activeFrom }, index) => {
    const start = `${configDigest} ${activeFrom}`
    if (starts.has(start))
      throw new ValidationError(
        `${field}[${index}].activeFrom must differ from that of every other set for its configDigest`,
      )
    starts.add(start)
  })
  return sets
}

function checkSet(field: string, value: unknown): CheckedSet {
  if (value === undefined) throw new ValidationError(`${field} is required`)
  const { signers, f, configDigest, activeFrom, activeUntil } = checkOptions(
    field,
    value as SignerSet,
    names,
  )
  const addresses = checkAddresses(`${field}.signers`, signers)
  checkNumber(`${field}.f`, f, { min: 1, whole: true })
  if (addresses.size <= 3 * f) {
    throw new ValidationError(
      `${field}.signers must be more than 3 f: ${addresses.size} are too few for an f of ${f}`,
    )
  }
  const from = checkTime(`${field}.activeFrom`, activeFrom) ?? Number.NEGATIVE_INFINITY
  const until = checkTime(`${field}.activeUntil`, activeUntil) ?? Number.POSITIVE_INFINITY
  if (until <= from)
    throw new ValidationError(`${field}.activeUntil must be later than activeFrom, not ${until}`)
  return {
    addresses,
    f,
    configDigest:
      configDigest === undefined ? undefined : checkDigest(`${field}.configDigest`, configDigest),
    activeFrom: from,
    activeUntil: until,
  }
}

function checkAddresses(field: string, value: unknown): ReadonlySet<string> {
  if (!Array.isArray(value))
    throw new ValidationError(`${field} must be a list of addresses, not ${kindOf(value)}`)
  if (value.length > MAX_SIGNERS)
    throw new ValidationError(`${field} must be at most ${MAX_SIGNERS}, not ${value.length}`)
  const addresses = new Set<string>()
  value.forEach((each, index) => {
    const address = checkText(`${field}[${index}]`, each).toLowerCase()
    if (!/^0x[0-9a-f]{40}$/.test(address))
      throw new ValidationError(`${field}[${index}] must be 0x and 40 hexadecimal digits`)
    if (address === ZERO_ADDRESS) throw new ValidationError(`${field}[${index}] must not be zero`)
    if (addresses.has(address))
      throw new ValidationError(`${field}[${index}] must not be a duplicate: ${address}`)
    addresses.add(address)
  })
  return addresses
}

function checkDigest(field: string, value: unknown): string {
  const digest = checkText(field, value).toLowerCase()
  if (!/^0x[0-9a-f]{64}$/.test(digest))
    throw new ValidationError(`${field} must be 0x and 64 hexadecimal digits`)
  return digest
}

function checkTime(field: string, value: unknown): number | undefined {
  // The maximum rejects milliseconds, which would be a time in the far future.
  return value === undefined ? undefined : checkNumber(field, value, { min: 0, max: MAX_TIME })
}

/** The sets for a configuration: those that name it, or else those that name none. */
export function setsFor(sets: readonly CheckedSet[], configDigest: string): readonly CheckedSet[] {
  const own = sets.filter(set => set.configDigest === configDigest)
  return own.length > 0 ? own : sets.filter(set => set.configDigest === undefined)
}

/** Chooses the set of a report among those for its configuration. */
export function chooseSet(
  sets: readonly CheckedSet[],
  configDigest: string,
  report: UnverifiedReport,
): CheckedSet | Rejection {
  const { feedID, observationsTimestamp } = report
  const time = observationsTimestamp / (feedResolution(feedID) === 's' ? 1 : 1000)
  const [latest] = sets
    .filter(({ activeFrom, activeUntil }) => activeFrom <= time && time < activeUntil)
    .sort((one, other) => other.activeFrom - one.activeFrom)
  if (latest !== undefined) return latest
  return sets.length === 0
    ? { reason: 'unknown-digest', rule: `no signers are known for configDigest ${configDigest}` }
    : {
        reason: 'not-active',
        rule: `no signers of configDigest ${configDigest} were active at its time, ${observationsTimestamp}`,
      }
}
