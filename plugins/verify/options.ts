import { ValidationError } from '../../core/errors.js'
import {
  checkFunction,
  checkNumber,
  checkOptions,
  checkText,
  kindOf,
  number,
  type OptionNames,
  oneOf,
  optional,
  type Rule,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import type { Report } from '../../report/report.js'

/** The signers of a configuration. */
export interface SignerSet {
  /**
   * The signers' addresses: `0x` and 40 hexadecimal digits, in upper or lower case. More than 3 f
   * and at most 31 addresses, without duplicates.
   */
  readonly signers: readonly string[]
  /** How many signers may be faulty, 1 or more. A report needs more signatures than this number. */
  readonly f: number
  /**
   * The configuration's digest, which is in its reports: `0x` and 64 hexadecimal digits.
   * @default every configuration that no set of the list names
   */
  readonly configDigest?: string
  /**
   * The signers sign reports that were observed from this time on. In seconds of Unix time, also
   * for feeds in milliseconds.
   * @default always
   */
  readonly activeFrom?: number
  /**
   * The time from which these signers no longer sign, in seconds of Unix time.
   * @default never
   */
  readonly activeUntil?: number
}

/** The report for which a source of signers is called. No field of it has been verified yet. */
export interface UnverifiedReport
  extends Pick<Report, 'feedID' | 'fullReport' | 'observationsTimestamp'> {
  /** The origin that sent the report, as in `report.origin`; missing in calls by `verifyReport`. */
  readonly origin?: string
}

/**
 * The signers: one set, several sets, or a function that is called once for each new configuration.
 * Several sets are for several configurations, or for one configuration at different times. If
 * several sets are active at a time, verification uses the set with the latest `activeFrom`.
 *
 * The sets that the function returns are cached until the first of them ends, by the clock of this
 * machine. Then the function is called again, and its answer replaces the sets, also for reports of
 * earlier times. Until then, the function is called again only for a report from a time when no set
 * is active, at most once a second. So a set without `activeUntil` stays valid, even if the signers
 * are revoked later.
 *
 * `undefined`, `null` and an empty list mean that there is no set: the function is called again
 * after ten seconds. After an error, or ten seconds without an answer, the function is called again
 * in one second. Its error is the `cause` of the report's error.
 *
 * Anyone can invent configurations. So each origin may cause at most four calls at a time. After
 * eight calls in a row it may cause one a second. Reports beyond these limits are rejected as
 * `signers-unavailable`. `verifyReport` may cause eight calls at a time.
 */
export type Signers =
  | SignerSet
  | readonly SignerSet[]
  | ((
      configDigest: string,
      report: UnverifiedReport,
    ) => Promise<SignerSet | readonly SignerSet[] | undefined | null>)

/**
 * Which reports are verified before you get them: `all`, a random one of n (`{ sample: n }`), or
 * none until you call `report.verify` (`on-demand`).
 */
export type VerifyMode =
  | 'all'
  | 'on-demand'
  | {
      /**
       * One report in this many is verified, chosen at random. A whole number from 1 to 1,000,000.
       */
      readonly sample: number
    }

/**
 * How many signatures a report needs. `at-least`: f + 1 or more, as newer verifier contracts
 * require. `exactly`: f + 1, as older contracts require.
 */
export type Quorum = 'at-least' | 'exactly'

/**
 * The library that recovers signers: the package `secp256k1`, libsecp256k1 as WebAssembly (`wasm`),
 * or `noble`. `auto` is the first of them that this platform can run.
 */
export type CurveLibraryChoice = 'auto' | 'noble' | 'secp256k1' | 'wasm'

/** A thread of Node (`Worker` of node:worker_threads), or a `Worker` of the web. */
export interface VerifyWorker {
  /** Hands a message over to the thread. */
  postMessage(message: unknown): void
  /** Ends the thread. */
  terminate(): unknown
}

/** The rules for a verified report. */
export interface VerificationRules {
  /** The addresses that may sign. */
  readonly signers: Signers
  /** How many signatures a report needs. @default 'at-least' */
  readonly quorum?: Quorum
  /**
   * The library that recovers the signers. `secp256k1` is an optional peer dependency in machine
   * code. `wasm` is libsecp256k1 as WebAssembly, which the package carries and which takes about
   * twice as long. `noble` is JavaScript and takes about twenty times as long. `auto` is the first
   * of them that this platform can run.
   * @default 'auto'
   */
  readonly curveLibrary?: CurveLibraryChoice
}

/** Options of `verify`. */
export interface VerifyOptions extends VerificationRules {
  /**
   * Which reports are verified before they are delivered: `all`, a random one of n (`{ sample: n
   * }`), or none until you call `report.verify` (`on-demand`). @default 'all'
   */
  readonly mode?: VerifyMode
  /**
   * Which expired reports are rejected: those that claim to be of the present (`current`), all, or
   * none. A live report and the report of `getLatestReport` claim to be of the present. A report of
   * a page, of a time or of a backfill does not. The present is the service's `Date`. While no
   * answer of the service had a date, an expired report is delivered, with a warning.
   * @default 'current'
   */
  readonly checkExpiry?: 'current' | boolean
  /**
   * The highest age of a report that claims to be of the present, in milliseconds. The age is the
   * time since the observations. @default Infinity
   */
  readonly maxAge?: number
  /**
   * The number of threads that recover signers. With 0, the event loop recovers them: a report of
   * two signatures blocks it for 0.2 ms with secp256k1, 0.3 ms with wasm and 4 ms with noble.
   * @default the number of cores less one, 1 to 4
   */
  readonly workers?: number
  /**
   * Starts a thread that recovers signers. Bundles and web pages need this option. The thread's
   * program is a file of its own that imports `sluice/plugins/verify/thread`.
   * @default the package's own file, on Node and outside a bundle
   */
  readonly worker?: () => VerifyWorker
  /**
   * How many reports of a stream may wait for verification. At this number the stream's connections
   * are paused.
   * @default 1024
   */
  readonly maxPending?: number
  /** Returns the present in milliseconds of Unix time. @default the service's `Date` */
  readonly now?: () => number
  /**
   * Draws the sample. Returns unpredictable numbers from 0 to below 1.
   * @default the platform's crypto
   */
  readonly random?: () => number
}

/** The schema of `VerificationRules`. */
export const ruleSchema: {
  readonly signers: Rule<Signers>
  readonly quorum: Rule<Quorum>
  readonly curveLibrary: Rule<CurveLibraryChoice>
} = {
  signers: signersRule,
  quorum: withDefault('at-least', oneOf('at-least', 'exactly')),
  curveLibrary: withDefault('auto', oneOf('auto', 'noble', 'secp256k1', 'wasm')),
} satisfies Schema<VerificationRules>

const schema = {
  ...ruleSchema,
  mode: withDefault('all', checkMode),
  checkExpiry: withDefault('current', checkExpiry),
  maxAge: withDefault(Number.POSITIVE_INFINITY, number({ min: 1, infinite: true })),
  workers: optional(number({ min: 0, max: 64, whole: true })),
  worker: optional(checkFunction<() => VerifyWorker>),
  maxPending: withDefault(1024, number({ min: 1, whole: true })),
  now: optional(checkFunction<() => number>),
  random: optional(checkFunction<() => number>),
} satisfies Schema<VerifyOptions>

type Unset = 'workers' | 'worker' | 'random' | 'now'
/** The options of `verify`, checked. */
export type CheckedVerifyOptions = Required<Omit<VerifyOptions, Unset>> & Pick<VerifyOptions, Unset>

/** Checks the options of `verify`. Throws ValidationError. */
export function readVerifyOptions(given: VerifyOptions): CheckedVerifyOptions {
  return readOptions('verify', given, schema)
}

function signersRule(_field: string, value: unknown): Signers {
  checkSigners(value as Signers)
  return value as Signers
}

function checkExpiry(field: string, value: unknown): 'current' | boolean {
  if (value === 'current' || typeof value === 'boolean') return value
  throw new ValidationError(`${field} must be 'current', true or false`)
}

function checkMode(field: string, mode: unknown): VerifyMode {
  if (mode === 'all' || mode === 'on-demand') return mode
  if (typeof mode !== 'object')
    throw new ValidationError(`${field} must be 'all', 'on-demand' or { sample: n }`)
  const { sample } = checkOptions(field, mode as { sample?: number }, { sample: true })
  return { sample: checkNumber(`${field}.sample`, sample, { min: 1, max: 1_000_000, whole: true }) }
}

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

/** The form of the option `signers` that is a function. */
export type LookUp = Extract<Signers, (...args: never) => unknown>

/** The last time that a report can have, in seconds. */
export const MAX_TIME = 0xffff_ffff
/** The most signers of a set: the verifier contracts have the same limit. */
const MAX_SIGNERS = 31
const ZERO_ADDRESS = `0x${'0'.repeat(40)}`

const setNames: OptionNames<SignerSet> = {
  signers: true,
  f: true,
  configDigest: true,
  activeFrom: true,
  activeUntil: true,
}

/** Checks the option `signers`: its sets, or the function. Throws ValidationError. */
export function checkSigners(signers: Signers): readonly CheckedSet[] | LookUp {
  if (typeof signers === 'function') return signers
  if (signers === null || (signers !== undefined && typeof signers !== 'object'))
    throw new ValidationError(
      `signers must be a set, a list of sets or a function, not ${kindOf(signers)}`,
    )
  return checkSets('signers', signers)
}

/** Checks one set, or a list of sets that is not empty. */
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
  const given = checkOptions(field, value as SignerSet, setNames)
  const addresses = checkAddresses(`${field}.signers`, given.signers)
  const f = checkNumber(`${field}.f`, given.f, { min: 1, whole: true })
  if (addresses.size <= 3 * f)
    throw new ValidationError(
      `${field}.signers must be more than 3 f: ${addresses.size} are too few for an f of ${f}`,
    )
  const activeFrom = activeTime(`${field}.activeFrom`, given.activeFrom) ?? Number.NEGATIVE_INFINITY
  const activeUntil =
    activeTime(`${field}.activeUntil`, given.activeUntil) ?? Number.POSITIVE_INFINITY
  if (activeUntil <= activeFrom)
    throw new ValidationError(
      `${field}.activeUntil must be later than activeFrom, not ${activeUntil}`,
    )
  const configDigest = optional(checkDigest)(`${field}.configDigest`, given.configDigest)
  return { addresses, f, configDigest, activeFrom, activeUntil }
}

/**
 * The rule for a time in seconds. The maximum rejects times in milliseconds, which would be far in
 * the future.
 */
const activeTime = optional(number({ min: 0, max: MAX_TIME }))

function checkAddresses(field: string, value: unknown): ReadonlySet<string> {
  if (!Array.isArray(value))
    throw new ValidationError(`${field} must be a list of addresses, not ${kindOf(value)}`)
  if (value.length > MAX_SIGNERS)
    throw new ValidationError(`${field} must be at most ${MAX_SIGNERS}, not ${value.length}`)
  const addresses = new Set<string>()
  value.forEach((each, index) => {
    const address = checkAddress(`${field}[${index}]`, each)
    if (address === ZERO_ADDRESS) throw new ValidationError(`${field}[${index}] must not be zero`)
    if (addresses.has(address))
      throw new ValidationError(`${field}[${index}] must not be a duplicate: ${address}`)
    addresses.add(address)
  })
  return addresses
}

/** Checks an address, and returns it in lower case. */
export const checkAddress: Rule<string> = hexadecimal(40)

/** Checks the digest of a configuration, and returns it in lower case. */
export const checkDigest: Rule<string> = hexadecimal(64)

/** The rule for `0x` and `digits` hexadecimal digits. Returns the text in lower case. */
function hexadecimal(digits: number): Rule<string> {
  return (field, value) => {
    const text = checkText(field, value).toLowerCase()
    if (!/^0x[0-9a-f]*$/.test(text) || text.length !== 2 + digits)
      throw new ValidationError(`${field} must be 0x and ${digits} hexadecimal digits`)
    return text
  }
}
