import { createOriginShares, type OriginShare } from './origin-share.js'
import { isRejection, type Rejection } from './rejection.js'
import {
  type CheckedSet,
  checkSets,
  checkSigners,
  chooseSet,
  type LookUp,
  type Signers,
  setsFor,
  type UnverifiedReport,
} from './signers.js'

/** Finds the signers of reports. */
export interface SignerSource {
  /** Calls `found` once: at once where the signers are known, else later. Returns a function that cancels the call. */
  find(configDigest: string, report: UnverifiedReport, found: Found): () => void
  /** Cancels all calls. */
  end(): void
}

type Found = (set: CheckedSet | Rejection) => void

function nothing(): void {}

// Anyone can invent digests, so the limits below bound their number and their lookups.

/** Configurations whose signers are cached, and as many again that are known to have none. */
const MAX_DIGESTS = 128
/** Milliseconds that a lookup may take. */
const MAX_LOOKUP = 10_000
/** Milliseconds before a source that found no signers is called again: a rotation must be noticed soon. */
const NONE_RETRY_AFTER = 10_000
/** Milliseconds before a source is called again that failed, or found none for the time of a report. */
const RETRY_AFTER = 1000

/** Finds signers among given sets, or calls a function for them and caches its answers. Throws ValidationError. */
export function createSignerSource(signers: Signers): SignerSource {
  const sets = checkSigners(signers)
  if (typeof sets === 'function') return createLookupSource(sets)
  return {
    find(configDigest, report, found) {
      found(chooseSet(setsFor(sets, configDigest), configDigest, report))
      return nothing
    },
    end: nothing,
  }
}

/** An answer of the function. */
interface Answer {
  readonly sets: readonly CheckedSet[] | Rejection
  /** When the source is called again for a report that it rejects. On the monotonic clock, in milliseconds. */
  readonly retryAt: number
  /** When it is called again for any: the first of the sets has ended. On the same clock. */
  readonly endsAt: number
}

interface Waiting {
  readonly report: UnverifiedReport
  readonly found: Found
  readonly share: OriginShare
}

interface Lookup {
  readonly waiting: Set<Waiting>
  /** Keeps the process alive while reports wait. */
  readonly timer: ReturnType<typeof setTimeout>
  /** On the monotonic clock, in milliseconds. At the edge, a lookup may end with the request that has begun it, without a word. */
  readonly overAt: number
}

function createLookupSource(lookUp: LookUp): SignerSource {
  const answers = createAnswerCache()
  const lookups = new Map<string, Lookup>()
  const shareOf = createOriginShares()

  function find(configDigest: string, report: UnverifiedReport, found: Found): () => void {
    const known = answers.find(configDigest, report)
    if (known !== undefined) {
      found(known)
      return nothing
    }
    const begun = lookups.get(configDigest)
    const lookup = begun && performance.now() < begun.overAt ? begun : undefined
    const share = shareOf(report.origin)
    const limit = share.enter(lookup === undefined)
    if (limit === undefined)
      return join(lookup ?? start(configDigest, report, share), { report, found, share })
    found(unavailable(limit))
    return nothing
  }

  function join(lookup: Lookup, one: Waiting): () => void {
    lookup.waiting.add(one)
    lookup.timer.ref?.()
    return function leave(): void {
      if (!lookup.waiting.delete(one)) return
      one.share.leave()
      if (lookup.waiting.size === 0) lookup.timer.unref?.()
    }
  }

  function start(configDigest: string, report: UnverifiedReport, share: OriginShare): Lookup {
    const timer = setTimeout(() => {
      finish(unavailable(`the source took over ${MAX_LOOKUP} ms`))
    }, MAX_LOOKUP)
    const overAt = performance.now() + 2 * MAX_LOOKUP
    const lookup: Lookup = { waiting: new Set(), timer, overAt }
    lookups.set(configDigest, lookup)

    function finish(sets: Answer['sets']): void {
      if (lookups.get(configDigest) !== lookup) return
      clearTimeout(timer)
      lookups.delete(configDigest)
      share.lookupEnded()
      const all = [...lookup.waiting]
      lookup.waiting.clear()
      for (const each of all) each.share.leave()
      answers.add(configDigest, toAnswer(sets))
      for (const each of all) each.found(choose(sets, configDigest, each.report))
    }

    callSource(lookUp, configDigest, report).then(finish, cause =>
      finish({ ...unavailable('the source failed'), cause }),
    )
    return lookup
  }

  function end(): void {
    for (const { timer, waiting } of lookups.values()) {
      clearTimeout(timer)
      waiting.clear()
    }
    lookups.clear()
  }
  return { find, end }
}

/** Calls the function later, and checks its result. */
async function callSource(
  lookUp: LookUp,
  configDigest: string,
  { feedID, fullReport, observationsTimestamp, origin }: UnverifiedReport,
): Promise<readonly CheckedSet[]> {
  // The report must wait before a source can answer, even one that throws at once.
  await undefined
  const given = { feedID, fullReport, observationsTimestamp }
  const value = await lookUp(configDigest, origin === undefined ? given : { ...given, origin })
  const isNone =
    value === undefined || value === null || (Array.isArray(value) && value.length === 0)
  return isNone ? [] : setsFor(checkSets('what the source of signers found', value), configDigest)
}

function hasSigners(sets: Answer['sets']): sets is readonly CheckedSet[] {
  return !isRejection(sets) && sets.length > 0
}

function toAnswer(sets: Answer['sets']): Answer {
  const now = performance.now()
  const isNone = !isRejection(sets) && sets.length === 0
  // The sets that have ended already are those of reports that are as old.
  const times = hasSigners(sets)
    ? sets.map(each => 1000 * each.activeUntil - Date.now()).filter(time => time > 0)
    : []
  return {
    sets,
    retryAt: now + (isNone ? NONE_RETRY_AFTER : RETRY_AFTER),
    endsAt: now + Math.min(...times),
  }
}

/** The answers of a function, by the digest of the configuration. */
interface AnswerCache {
  /** The set of a report; undefined where it must be looked up. */
  find(configDigest: string, report: UnverifiedReport): CheckedSet | Rejection | undefined
  add(configDigest: string, answer: Answer): void
}

function createAnswerCache(): AnswerCache {
  const withSigners = new Map<string, Answer>()
  const without = new Map<string, Answer>()

  /** Adds an answer in place of the least recently used one. */
  function put(map: Map<string, Answer>, configDigest: string, answer: Answer): void {
    map.delete(configDigest)
    if (map.size === MAX_DIGESTS) map.delete(map.keys().next().value as string)
    map.set(configDigest, answer)
  }

  return {
    find(configDigest, report) {
      const now = performance.now()
      const found = withSigners.get(configDigest)
      const answer = found !== undefined && now < found.endsAt ? found : without.get(configDigest)
      if (answer === undefined) return undefined
      const set = choose(answer.sets, configDigest, report)
      if (isRejection(set)) return now < answer.retryAt ? set : undefined
      // Invented digests must not displace answers in use.
      put(withSigners, configDigest, answer)
      return set
    },
    add(configDigest, answer) {
      const old = withSigners.get(configDigest)
      if (hasSigners(answer.sets)) {
        put(withSigners, configDigest, answer)
        without.delete(configDigest)
      } else if (old !== undefined && performance.now() < old.endsAt) {
        // Until they end, no report for whose time there are none does away with the sets.
        withSigners.set(configDigest, { ...old, retryAt: answer.retryAt })
      } else {
        withSigners.delete(configDigest)
        put(without, configDigest, answer)
      }
    },
  }
}

function choose(
  sets: Answer['sets'],
  configDigest: string,
  report: UnverifiedReport,
): CheckedSet | Rejection {
  return isRejection(sets) ? sets : chooseSet(sets, configDigest, report)
}

function unavailable(rule: string): Rejection {
  return { reason: 'signers-unavailable', rule: `its signers are not available: ${rule}` }
}
