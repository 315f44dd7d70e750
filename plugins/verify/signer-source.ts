import { BoundedMap } from '../../core/bounded-map.js'
import { feedResolution } from '../../report/feed-id.js'
import {
  type CheckedSet,
  checkSets,
  checkSigners,
  type LookUp,
  type Signers,
  type UnverifiedReport,
} from './options.js'
import { isRejection, type Rejection } from './rule.js'

/** Finds the signers of reports. */
export interface SignerSource {
  /**
   * Finds the signers of a report, and calls `found` once: immediately if the signers are known,
   * else later. Returns a function that cancels the call.
   */
  find(configDigest: string, report: UnverifiedReport, found: Found): () => void
  /** Cancels all calls. */
  end(): void
}

/** Receives the signers, or the reason why none were found. */
export type Found = (set: CheckedSet | Rejection) => void

function nothing(): void {}

/** The monotonic clock, in milliseconds. A runtime without this clock has only its date. */
function monotonic(): number {
  return (globalThis.performance === undefined ? Date : performance).now()
}

/**
 * Creates a source that finds signers among the given sets, or calls the given function and caches
 * its answers. Throws ValidationError.
 */
export function createSignerSource(signers: Signers): SignerSource {
  const sets = checkSigners(signers)
  if (typeof sets === 'function') return new LookupSource(sets)
  return {
    find(configDigest, report, found) {
      found(chooseSet(setsFor(sets, configDigest), configDigest, report))
      return nothing
    },
    end: nothing,
  }
}

/**
 * The sets for a configuration: the sets that name the configuration or, if there are none, the
 * sets that name no configuration.
 */
function setsFor(sets: readonly CheckedSet[], configDigest: string): readonly CheckedSet[] {
  const own = sets.filter(set => set.configDigest === configDigest)
  return own.length > 0 ? own : sets.filter(set => set.configDigest === undefined)
}

/** Chooses the set of a report among the sets for its configuration. */
function chooseSet(
  sets: readonly CheckedSet[] | Rejection,
  configDigest: string,
  { feedID, observationsTimestamp }: UnverifiedReport,
): CheckedSet | Rejection {
  if (isRejection(sets)) return sets
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

// Anyone can invent digests. So the limits below bound the number of digests and of lookups.

/**
 * The most configurations whose signers are cached. The same number of configurations without
 * signers is cached as well.
 */
const MAX_DIGESTS = 128
/** How many milliseconds a lookup may take. */
const MAX_LOOKUP = 10_000
/**
 * Milliseconds until a source that found no signers is called again. The time is short, so that a
 * rotation is noticed soon.
 */
const NONE_RETRY_AFTER = 10_000
/**
 * Milliseconds until a source is called again after it failed, or found no signers for the time of
 * a report.
 */
const RETRY_AFTER = 1000

interface Waiting {
  readonly report: UnverifiedReport
  readonly found: Found
  readonly quota: LookupQuota
}

interface Lookup {
  readonly waiting: Set<Waiting>
  /**
   * Ends the lookup after `MAX_LOOKUP`. Keeps the process alive while reports wait. Undefined on a
   * runtime without timers, where only the source itself ends the lookup.
   */
  readonly timer: ReturnType<typeof setTimeout> | undefined
  /**
   * When the lookup no longer counts as running, on the monotonic clock in milliseconds. In a
   * worker at the edge, a lookup may end silently, together with the request that began it.
   */
  readonly overAt: number
}

/** Calls a function for signers. */
class LookupSource implements SignerSource {
  readonly #lookUp: LookUp
  readonly #answers = new AnswerCache()
  readonly #lookups = new Map<string, Lookup>()
  readonly #quotas = new LookupQuotas()

  constructor(lookUp: LookUp) {
    this.#lookUp = lookUp
  }

  find(configDigest: string, report: UnverifiedReport, found: Found): () => void {
    const known = this.#answers.find(configDigest, report)
    if (known !== undefined) {
      found(known)
      return nothing
    }
    const begun = this.#lookups.get(configDigest)
    const isRunning = begun !== undefined && monotonic() < begun.overAt
    const quota = this.#quotas.of(report.origin)
    const limit = quota.enter(!isRunning)
    if (limit !== undefined) {
      found(unavailable(limit))
      return nothing
    }
    const lookup = isRunning ? begun : this.#start(configDigest, report, quota)
    const waiting: Waiting = { report, found, quota }
    lookup.waiting.add(waiting)
    lookup.timer?.ref?.()
    return function leave(): void {
      if (!lookup.waiting.delete(waiting)) return
      quota.waiting--
      if (lookup.waiting.size === 0) lookup.timer?.unref?.()
    }
  }

  end(): void {
    for (const { timer, waiting } of this.#lookups.values()) {
      globalThis.clearTimeout?.(timer)
      waiting.clear()
    }
    this.#lookups.clear()
  }

  #start(configDigest: string, report: UnverifiedReport, quota: LookupQuota): Lookup {
    const finish = (sets: Answer['sets']): void => {
      if (this.#lookups.get(configDigest) !== lookup) return
      globalThis.clearTimeout?.(lookup.timer)
      this.#lookups.delete(configDigest)
      quota.lookups--
      const all = [...lookup.waiting]
      lookup.waiting.clear()
      for (const each of all) each.quota.waiting--
      this.#answers.add(configDigest, toAnswer(sets))
      for (const each of all) each.found(chooseSet(sets, configDigest, each.report))
    }
    const lookup: Lookup = {
      waiting: new Set(),
      timer: globalThis.setTimeout?.(() => {
        finish(unavailable(`the source took over ${MAX_LOOKUP} ms`))
      }, MAX_LOOKUP),
      overAt: monotonic() + 2 * MAX_LOOKUP,
    }
    this.#lookups.set(configDigest, lookup)
    callSource(this.#lookUp, configDigest, report).then(finish, cause =>
      finish({ ...unavailable('the source failed'), cause }),
    )
    return lookup
  }
}

/** Calls the function later, and checks its result. */
async function callSource(
  lookUp: LookUp,
  configDigest: string,
  { feedID, fullReport, observationsTimestamp, origin }: UnverifiedReport,
): Promise<readonly CheckedSet[]> {
  // The report must be waiting before the source answers, even if the source throws at once.
  await undefined
  const given = { feedID, fullReport, observationsTimestamp }
  const value = await lookUp(configDigest, origin === undefined ? given : { ...given, origin })
  const isNone =
    value === undefined || value === null || (Array.isArray(value) && value.length === 0)
  return isNone ? [] : setsFor(checkSets('what the source of signers found', value), configDigest)
}

function unavailable(rule: string): Rejection {
  return { reason: 'signers-unavailable', rule: `its signers are not available: ${rule}` }
}

/** An answer of the function. */
interface Answer {
  readonly sets: readonly CheckedSet[] | Rejection
  /**
   * The earliest time at which the source is called again for a report that has no set in this
   * answer. On the monotonic clock, in milliseconds.
   */
  readonly retryAt: number
  /**
   * The end of the set that ends first, leaving out sets that have already ended. From then on the
   * source is called again for any report. On the same clock.
   */
  readonly endsAt: number
}

function hasSigners(sets: Answer['sets']): sets is readonly CheckedSet[] {
  return !isRejection(sets) && sets.length > 0
}

function toAnswer(sets: Answer['sets']): Answer {
  const now = monotonic()
  const isNone = !isRejection(sets) && sets.length === 0
  // Sets that have already ended serve old reports only. They are ignored when the end of the
  // answer is computed.
  const times = hasSigners(sets)
    ? sets.map(each => 1000 * each.activeUntil - Date.now()).filter(time => time > 0)
    : []
  return {
    sets,
    retryAt: now + (isNone ? NONE_RETRY_AFTER : RETRY_AFTER),
    endsAt: now + Math.min(...times),
  }
}

/** The answers of the function, by the digest of the configuration. */
class AnswerCache {
  readonly #withSigners = new BoundedMap<string, Answer>(MAX_DIGESTS)
  readonly #without = new BoundedMap<string, Answer>(MAX_DIGESTS)

  /** The set of a report, or its rejection; undefined if the signers must be looked up. */
  find(configDigest: string, report: UnverifiedReport): CheckedSet | Rejection | undefined {
    const now = monotonic()
    const found = this.#withSigners.get(configDigest)
    const isCurrent = found !== undefined && now < found.endsAt
    const answer = isCurrent ? found : this.#without.get(configDigest)
    if (answer === undefined) return undefined
    const set = chooseSet(answer.sets, configDigest, report)
    if (isRejection(set)) return now < answer.retryAt ? set : undefined
    // Invented digests must not displace answers in use.
    this.#withSigners.set(configDigest, answer)
    return set
  }

  add(configDigest: string, answer: Answer): void {
    const old = this.#withSigners.get(configDigest)
    if (hasSigners(answer.sets)) {
      this.#withSigners.set(configDigest, answer)
      this.#without.delete(configDigest)
    } else if (old !== undefined && monotonic() < old.endsAt) {
      // A lookup for a report from a time without signers must not remove sets that are still
      // active.
      this.#withSigners.set(configDigest, { ...old, retryAt: answer.retryAt })
    } else {
      this.#withSigners.delete(configDigest)
      this.#without.set(configDigest, answer)
    }
  }
}

interface Limits {
  readonly owner: string
  /** The most lookups at a time. */
  readonly lookups: number
  /** The most lookups in a row. After them, one a second is allowed. */
  readonly burst: number
  readonly waiting: number
}

// Anyone can send reports of invented configurations. One origin must not use up the lookups of the
// other origins.
const OF_ORIGIN: Limits = { owner: 'its origin', lookups: 4, burst: 8, waiting: 4096 }
/**
 * The limits for `verifyReport`, which knows no origin. Calls in a row are not limited: their
 * number is the caller's choice.
 */
const OF_CALLERS: Limits = {
  owner: 'all callers',
  lookups: 8,
  burst: Number.POSITIVE_INFINITY,
  waiting: 16_384,
}
/** The most origins that have their own quota. All other origins share one quota. */
const MAX_ORIGINS = 64

/** The quota of each origin, and one quota for all callers that name no origin. */
class LookupQuotas {
  readonly #callers = new LookupQuota(OF_CALLERS)
  readonly #others = new LookupQuota(OF_ORIGIN)
  readonly #origins = new Map<string, LookupQuota>()

  of(origin: string | undefined): LookupQuota {
    if (origin === undefined) return this.#callers
    const known = this.#origins.get(origin)
    if (known !== undefined) return known
    if (this.#origins.size === MAX_ORIGINS) return this.#others
    const quota = new LookupQuota(OF_ORIGIN)
    this.#origins.set(origin, quota)
    return quota
  }
}

/**
 * Limits the lookups that one origin may cause, and the reports that may wait for these lookups.
 */
class LookupQuota {
  /** The number of lookups that are running. */
  lookups = 0
  /** The number of reports that wait. */
  waiting = 0
  readonly #limits: Limits
  #credit: number
  #creditedAt = monotonic()

  constructor(limits: Limits) {
    this.#limits = limits
    this.#credit = limits.burst
  }

  /**
   * Admits a report that waits, and counts a new lookup if the report needs one. If a limit is
   * reached, returns a text that names the limit.
   */
  enter(needsLookup: boolean): string | undefined {
    const { owner, burst, lookups, waiting } = this.#limits
    if (this.waiting === waiting)
      return `${waiting} reports of ${owner} wait for theirs, which is the maximum`
    if (needsLookup) {
      if (this.lookups === lookups)
        return `${lookups} configurations of ${owner} are being looked up, which is the maximum`
      const now = monotonic()
      this.#credit = Math.min(burst, this.#credit + (now - this.#creditedAt) / 1000)
      this.#creditedAt = now
      if (this.#credit < 1)
        return `${owner} causes too many lookups, which are limited to one a second`
      this.#credit--
      this.lookups++
    }
    this.waiting++
    return undefined
  }
}
