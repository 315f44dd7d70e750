import {
  checkObject,
  type Log,
  number,
  optional,
  readOptions,
  type Schema,
  ValidationError,
  withDefault,
} from 'sluice/core'
import {
  checkOwner,
  formatKey,
  openChangingFile,
  type PermissionOptions,
  parseBoxPublicKey,
  parseJSON,
  shownKey,
  TokenBucket,
} from 'sluice/internal'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import type { OpenAuditLog } from '../audit/audit-log.js'
import { Rejection } from './protocol.js'

/** The callers of an enclave: for each public key, the owner whose secrets the caller uses. */
export interface Callers {
  /** The owner whose secrets a caller uses. Undefined if the key belongs to no caller. */
  ownerOf(key: string): string | undefined
  /** Why the file of callers was refused when it was last read. */
  readonly refusal: string | undefined
}

/**
 * Reads the callers from an object, which must name at least one, or from a JSON file. The file is
 * read again when it has changed. If the file contains an empty object, nobody is a caller any
 * more.
 */
export function createCallers(
  given: { readonly [publicKey: string]: string } | string,
  options: PermissionOptions & { readonly log?: Log | undefined } = {},
): Callers {
  if (typeof given !== 'string') {
    const owners = readOwners('callers', given)
    if (owners.size === 0) throw new ValidationError('callers must name at least one public key')
    return { ownerOf: key => owners.get(key), refusal: undefined }
  }
  const file = openChangingFile<ReadonlyMap<string, string>>(given, {
    ...options,
    entries: 'callers',
    parse: text => readOwners(given, parseJSON(given, text)),
  })
  return {
    ownerOf: key => file.read().get(key),
    get refusal() {
      file.read()
      return file.refusal
    },
  }
}

function readOwners(
  field: string,
  callers: { readonly [publicKey: string]: string },
): ReadonlyMap<string, string> {
  const owners = new Map<string, string>()
  for (const [given, owner] of Object.entries(checkObject(field, callers))) {
    const key = formatKey(parseBoxPublicKey(`${field}: each key`, given))
    const shown = shownKey(key)
    if (owners.has(key)) throw new ValidationError(`${field}: the key ${shown} is named twice`)
    owners.set(key, checkOwner(`${field}.${shown}`, owner))
  }
  return owners
}

/** The limits of each caller of an enclave. */
export interface CallerLimits {
  /**
   * The most requests a second, on average. After a quiet second, this many may come at once.
   * @default no limit
   */
  readonly requestsPerSecond?: number
  /** The most requests that are running at the same time. @default 64 */
  readonly requestsAtOnce?: number
  /** The most bytes of sealed requests and answers a second, on average. @default no limit */
  readonly bytesPerSecond?: number
}

const limitRules = {
  requestsPerSecond: optional(number({ min: 0.001 })),
  requestsAtOnce: withDefault(64, number({ min: 1, whole: true })),
  bytesPerSecond: optional(number({ min: 0.001 })),
} satisfies Schema<CallerLimits>

/** Checks the limits, and fills in the defaults. */
export function checkCallerLimits(
  given: CallerLimits | undefined,
): CallerLimits & { readonly requestsAtOnce: number } {
  return readOptions('callerLimits', given, limitRules, 'callerLimits.')
}

/** Milliseconds after which a caller with too many running requests may try again. */
const LOOK_AGAIN = 100

interface Usage {
  readonly requests: TokenBucket | undefined
  readonly bytes: TokenBucket | undefined
  atOnce: number
}

/** Enforces the limits of each caller. Callers are known and few, so each one is remembered. */
export class CallerGuard {
  readonly #limits: ReturnType<typeof checkCallerLimits>
  readonly #now: (() => number) | undefined
  readonly #usages = new Map<string, Usage>()

  constructor(limits?: CallerLimits, now?: () => number) {
    this.#limits = checkCallerLimits(limits)
    this.#now = now
  }

  /**
   * Counts a request of a caller; `size` is its bytes. Returns a function to call with the size of
   * the answer. Throws EnclaveError (`RATE_LIMIT`) if the caller has reached a limit.
   */
  enter(caller: string, size: number): (answerBytes: number) => void {
    const { requestsPerSecond, requestsAtOnce, bytesPerSecond } = this.#limits
    const usage = this.#usageOf(caller)
    const { requests, bytes } = usage
    if (usage.atOnce >= requestsAtOnce)
      throw limited(`${requestsAtOnce} requests at once`, LOOK_AGAIN)
    const untilRequest = requests?.msUntil(1) ?? 0
    if (untilRequest > 0) throw limited(`${requestsPerSecond} requests a second`, untilRequest)
    const untilBytes = bytes?.msUntil(1) ?? 0
    if (untilBytes > 0) throw limited(`${bytesPerSecond} bytes a second`, untilBytes)
    requests?.spend(1)
    bytes?.spend(size)
    usage.atOnce++
    return function leave(answerBytes) {
      usage.atOnce--
      bytes?.spend(answerBytes)
    }
  }

  #usageOf(caller: string): Usage {
    const known = this.#usages.get(caller)
    if (known !== undefined) return known
    const bucket = (rate: number | undefined): TokenBucket | undefined =>
      rate === undefined ? undefined : new TokenBucket(rate, Math.max(1, rate), this.#now)
    const { requestsPerSecond, bytesPerSecond } = this.#limits
    const usage = { requests: bucket(requestsPerSecond), bytes: bucket(bytesPerSecond), atOnce: 0 }
    this.#usages.set(caller, usage)
    return usage
  }
}

function limited(limit: string, retryAfter: number): EnclaveError {
  return new EnclaveError(
    `this caller has reached its limit of ${limit}: ask again in ${retryAfter} ms`,
    { code: 'RATE_LIMIT', mayHaveBeenSent: false, isRetryable: true, retryAfter },
  )
}

/** The allowed difference of the clocks together with the time in transit, in milliseconds. */
export const MAX_SKEW = 30_000
/**
 * The most requests of one caller that are remembered, to bound memory. More requests of that
 * caller within twice MAX_SKEW are rejected. Requests of other callers don't count.
 */
const MAX_IDS = 100_000
const WRONG_TIME = `the request was issued more than ${MAX_SKEW / 1000} s before or after the enclave's time: are both clocks right?`
const TOO_MANY = `this caller has sent ${MAX_IDS} requests within ${(2 * MAX_SKEW) / 1000} s, and no more are taken`

/**
 * Remembers the requests since the enclave's start, so that none is carried out twice. It accepts a
 * request only within MAX_SKEW of the time of issue, and remembers its id until that time is over.
 * Requests from before the start can't be opened, so they don't come here.
 */
export class ReplayGuard {
  readonly #now: () => number
  readonly #seen = new Map<
    string,
    { readonly caller: string; readonly until: number; readonly issuedAt: number }
  >()
  /** How many remembered requests each caller has. */
  readonly #counts = new Map<string, number>()
  /** The ids of requests that were issued up to this time may have been forgotten. */
  #forgottenUntil = Number.NEGATIVE_INFINITY
  /**
   * Requests that were issued up to this time may have been rejected as too old, and not carried
   * out.
   */
  #rejectedUntil = Number.NEGATIVE_INFINITY

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  /** Throws Rejection if the request must not be carried out. A request may be carried out once. */
  check(caller: string, id: string, issuedAt: number): void {
    const time = this.#now()
    this.#forget(time)
    const key = `${caller} ${id}`
    if (this.#seen.has(key)) throw new Rejection(409, 'the request was seen before')
    if (issuedAt < time - MAX_SKEW) this.#rejectedUntil = Math.max(this.#rejectedUntil, issuedAt)
    // Such requests stay rejected even if the clock is set back.
    const isForgotten = issuedAt <= this.#forgottenUntil
    if (isForgotten || issuedAt <= this.#rejectedUntil)
      throw new Rejection(409, WRONG_TIME, isForgotten)
    // Not remembered: the same request may be carried out once its time has come.
    if (issuedAt > time + MAX_SKEW) throw new Rejection(409, WRONG_TIME)
    const count = this.#counts.get(caller) ?? 0
    if (count >= MAX_IDS) throw new Rejection(503, TOO_MANY)
    // The request may have been issued up to MAX_SKEW from now, and is valid for MAX_SKEW after
    // that.
    this.#seen.set(key, { caller, until: time + 2 * MAX_SKEW, issuedAt })
    this.#counts.set(caller, count + 1)
  }

  #forget(time: number): void {
    for (const [key, { caller, until, issuedAt }] of this.#seen) {
      if (until >= time) return
      this.#seen.delete(key)
      this.#counts.set(caller, (this.#counts.get(caller) ?? 0) - 1)
      this.#forgottenUntil = Math.max(this.#forgottenUntil, issuedAt)
    }
  }
}

/** Milliseconds. Refusals of one caller for one reason within this time become one record. */
const INTERVAL = 10_000

/**
 * Records the requests of known callers that were refused before they reached the enclave's
 * plugins.
 */
export class Refusals {
  readonly #records: Pick<OpenAuditLog, 'append'>
  readonly #log: Log
  /** How many refusals since the last record, by caller and code. */
  readonly #counts = new Map<string, number>()
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>()

  constructor(records: Pick<OpenAuditLog, 'append'>, log: Log) {
    this.#records = records
    this.#log = log
  }

  /**
   * Counts a refusal. The first one is recorded at once. Refusals of the next seconds are recorded
   * together, because nothing waits for them.
   */
  add(caller: string, code: string): void {
    const key = `${caller} ${code}`
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    if (this.#timers.has(key)) return
    void this.#flush(key)
    const timer = setTimeout(() => {
      this.#timers.delete(key)
      if (this.#counts.has(key)) void this.#flush(key)
    }, INTERVAL)
    timer.unref()
    this.#timers.set(key, timer)
  }

  /** Records the refusals that have been counted but not recorded. */
  async end(): Promise<void> {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    await Promise.all([...this.#counts.keys()].map(key => this.#flush(key)))
  }

  async #flush(key: string): Promise<void> {
    const [caller, code] = key.split(' ')
    const count = this.#counts.get(key)
    this.#counts.delete(key)
    await this.#records
      .append({ type: 'refused', caller, code, count })
      .catch(error => this.#log.error?.(`refused requests are not recorded: ${error.message}`))
  }
}
