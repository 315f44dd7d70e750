import { checkFunction } from '../../core/options.js'
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
const MAX_ASKS = 8
/** Reports that wait for their signers. */
const MAX_WAITING = 16_384

/** How long an ask may take, in milliseconds. */
const MAX_ASK = 10_000
/** How long it is believed that there are no signers: a rotation must be seen soon. */
const BELIEF = 10_000
/** How long a source that failed is left alone. */
const REST = 1000

/** Finds signers in what is given, or asks for them, remembers, and asks again. Throws ValidationError. */
export function createSignerSource(signers: Signers): SignerSource {
  if (typeof signers === 'function') return createAskingSource(signers)
  if (signers !== undefined && typeof signers !== 'object') checkFunction('signers', signers)
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
  let waiting = 0

  function find(configDigest: string, report: UnverifiedReport, found: Found): () => void {
    const kept = known.get(configDigest) ?? missing.get(configDigest)
    if (kept !== undefined) {
      const set = choose(kept.answer, configDigest, report)
      if (!isRefusal(set) || performance.now() < kept.until) {
        found(set)
        return nothing
      }
    }
    const ask = asks.get(configDigest)
    if (waiting === MAX_WAITING || (ask === undefined && asks.size === MAX_ASKS)) {
      found(
        unavailable(
          `${waiting} reports wait for those of ${asks.size} configurations, which is the most`,
        ),
      )
      return nothing
    }
    return join(ask ?? start(configDigest, report), { report, found })
  }

  function join(ask: Ask, one: Waiting): () => void {
    ask.waiting.add(one)
    ask.timer.ref?.()
    waiting++
    return function leave(): void {
      if (!ask.waiting.delete(one)) return
      waiting--
      if (ask.waiting.size === 0) ask.timer.unref?.()
    }
  }

  function start(configDigest: string, report: UnverifiedReport): Ask {
    const giveUp = (): void => settle(unavailable(`the source took over ${MAX_ASK} ms`), REST)
    const ask: Ask = { waiting: new Set(), timer: setTimeout(giveUp, MAX_ASK) }
    asks.set(configDigest, ask)

    function settle(answer: Kept['answer'], forMs: number): void {
      if (asks.get(configDigest) !== ask) return
      clearTimeout(ask.timer)
      asks.delete(configDigest)
      const all = [...ask.waiting]
      ask.waiting.clear()
      waiting -= all.length
      keep(configDigest, { answer, until: performance.now() + forMs })
      for (const each of all) each.found(choose(answer, configDigest, each.report))
    }

    async function seek(): Promise<void> {
      // Whoever asks first is to be among those who wait, even for a source that throws at once.
      await undefined
      const { feedID, fullReport, observationsTimestamp } = report
      try {
        const value = await source(configDigest, { feedID, fullReport, observationsTimestamp })
        const isNone = value === undefined || (Array.isArray(value) && value.length === 0)
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
    waiting = 0
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

/** The oldest make room. */
function put(map: Map<string, Kept>, configDigest: string, kept: Kept): void {
  map.delete(configDigest)
  if (map.size === MAX_DIGESTS) map.delete(map.keys().next().value as string)
  map.set(configDigest, kept)
}

function unavailable(rule: string): Refusal {
  return { reason: 'signers-unavailable', rule: `its signers can’t be had: ${rule}` }
}
