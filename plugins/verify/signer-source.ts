import { ValidationError } from '../../core/errors.js'
import { kindOf } from '../../core/kind.js'
import { createOriginShares, type OriginShare } from './origin-share.js'
import { isRefusal, type Refusal } from './refusal.js'
import {
  type CheckedSet,
  checkSets,
  chooseSet,
  type Signers,
  setsFor,
  type UnverifiedReport,
} from './signers.js'

/** Where the signers of a report are found. */
export interface SignerSource {
  /**
   * Calls `found` once: at once where they are known, otherwise when they are. The function returned is for who does not want
   * to know any more.
   */
  find(configDigest: string, report: UnverifiedReport, found: Found): () => void
  /** Whoever still waits is forgotten. */
  end(): void
}

type Found = (set: CheckedSet | Refusal) => void

function nothing(): void {}

// Digests come from the network, so that nothing may grow with their number, and none may be asked for at will.

/** Configurations whose signers are kept, and again so many of which it is kept that there are none. */
const MAX_DIGESTS = 128
/** How long an ask may take, in milliseconds. */
const MAX_ASK = 10_000
/** How long it is believed that there are no signers: a rotation must be seen soon. */
const BELIEF = 10_000
/** How long a source that failed is left alone. */
const REST = 1000

/** Finds signers in what is given, or asks for them, remembers, and asks again. Throws ValidationError. */
export function createSignerSource(signers: Signers): SignerSource {
  if (typeof signers === 'function') return createAskingSource(signers)
  if (signers === null || (signers !== undefined && typeof signers !== 'object'))
    throw new ValidationError(
      `signers must be a set, a list of sets or a function, not ${kindOf(signers)}`,
    )
  const sets = checkSets('signers', signers)
  return {
    find(configDigest, report, found) {
      found(chooseSet(setsFor(sets, configDigest), configDigest, report))
      return nothing
    },
    end: nothing,
  }
}

/** An answer, good until a time on the monotonic clock. */
interface Kept {
  readonly answer: readonly CheckedSet[] | Refusal
  readonly until: number
}

interface Waiting {
  readonly report: UnverifiedReport
  readonly found: Found
  readonly share: OriginShare
}

interface Ask {
  readonly waiting: Set<Waiting>
  /** Keeps the process alive while anybody waits. */
  readonly timer: ReturnType<typeof setTimeout>
}

function createAskingSource(source: Extract<Signers, (...args: never) => unknown>): SignerSource {
  const known = new Map<string, Kept>()
  const missing = new Map<string, Kept>()
  const asks = new Map<string, Ask>()
  const shareOf = createOriginShares()

  function find(configDigest: string, report: UnverifiedReport, found: Found): () => void {
    const kept = known.get(configDigest) ?? missing.get(configDigest)
    if (kept !== undefined) {
      const set = choose(kept.answer, configDigest, report)
      if (!isRefusal(set) || performance.now() < kept.until) {
        // What is in use is not to make room for what somebody makes up.
        if (!isRefusal(set)) put(known, configDigest, kept)
        found(set)
        return nothing
      }
    }
    const ask = asks.get(configDigest)
    const share = shareOf(report.origin)
    const limit = share.take(ask === undefined)
    if (limit === undefined)
      return join(ask ?? start(configDigest, report, share), { report, found, share })
    found(unavailable(limit))
    return nothing
  }

  function join(ask: Ask, one: Waiting): () => void {
    ask.waiting.add(one)
    ask.timer.ref?.()
    return function leave(): void {
      if (!ask.waiting.delete(one)) return
      one.share.leave()
      if (ask.waiting.size === 0) ask.timer.unref?.()
    }
  }

  function start(configDigest: string, report: UnverifiedReport, share: OriginShare): Ask {
    const giveUp = (): void => settle(unavailable(`the source took over ${MAX_ASK} ms`), REST)
    const ask: Ask = { waiting: new Set(), timer: setTimeout(giveUp, MAX_ASK) }
    asks.set(configDigest, ask)

    function settle(answer: Kept['answer'], forMs: number): void {
      if (asks.get(configDigest) !== ask) return
      clearTimeout(ask.timer)
      asks.delete(configDigest)
      share.answered()
      const all = [...ask.waiting]
      ask.waiting.clear()
      for (const each of all) each.share.leave()
      keep(configDigest, { answer, until: performance.now() + forMs })
      for (const each of all) each.found(choose(answer, configDigest, each.report))
    }

    async function seek(): Promise<void> {
      // Whoever asks first is to be among those who wait, even for a source that throws at once.
      await undefined
      const { feedID, fullReport, observationsTimestamp, origin } = report
      const told = { feedID, fullReport, observationsTimestamp }
      try {
        const value = await source(configDigest, origin === undefined ? told : { ...told, origin })
        const isNone =
          value === undefined || value === null || (Array.isArray(value) && value.length === 0)
        const sets = isNone ? [] : checkSets('what the source of signers found', value)
        settle(setsFor(sets, configDigest), BELIEF)
      } catch (thrown) {
        settle({ ...unavailable('the source failed'), cause: thrown }, REST)
      }
    }
    void seek()
    return ask
  }

  /** Sets that were found are never given up for what a later ask did not find. */
  function keep(configDigest: string, kept: Kept): void {
    const old = known.get(configDigest)
    const isFound = !isRefusal(kept.answer) && kept.answer.length > 0
    if (old !== undefined && !isFound) known.set(configDigest, { ...old, until: kept.until })
    else put(isFound ? known : missing, configDigest, kept)
    if (isFound) missing.delete(configDigest)
  }

  function end(): void {
    for (const ask of asks.values()) {
      clearTimeout(ask.timer)
      ask.waiting.clear()
    }
    asks.clear()
  }
  return { find, end }
}

function choose(
  answer: Kept['answer'],
  configDigest: string,
  report: UnverifiedReport,
): CheckedSet | Refusal {
  return isRefusal(answer) ? answer : chooseSet(answer, configDigest, report)
}

/** Those longest not used make room. */
function put(map: Map<string, Kept>, configDigest: string, kept: Kept): void {
  map.delete(configDigest)
  if (map.size === MAX_DIGESTS) map.delete(map.keys().next().value as string)
  map.set(configDigest, kept)
}

function unavailable(rule: string): Refusal {
  return { reason: 'signers-unavailable', rule: `its signers can’t be had: ${rule}` }
}
