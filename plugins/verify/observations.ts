import type { StreamScope } from '../../client/contract/scope.js'
import { DIGITS, isSameBlob } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'

/** One report of an observation, and its place in its queue. */
export interface Slot {
  report: Report
  /** A `ready` slot is passed on after the slots before it. */
  state: 'waiting' | 'ready' | 'passed' | 'rejected'
  /** Whether the verifier has checked the report, or is checking it. */
  isChecked: boolean
  /** When the first report of the slot arrived, as a time of `performance.now`. */
  readonly since: number
  /** Copies that arrived before the report was passed on. */
  readonly copies: Report[]
  readonly observation: Observation
}

/**
 * The reports of one observation that are being verified or were passed on; no two are the same.
 */
export interface Observation {
  readonly feedID: string
  readonly time: number
  readonly slots: Slot[]
}

/**
 * Passed observations of a feed that are remembered, to recognise copies. Until copies can arrive
 * one is enough, which saves the memory of whole reports.
 */
const REMEMBERED = 8
/** Digits of the report context. */
const CONTEXT_DIGITS = 3 * DIGITS

/**
 * The observations of a stream that are being verified, and those of each feed that were passed on
 * last.
 */
export class Observations {
  readonly #feeds = new Map<string, { byTime: Map<number, Observation>; passed: Observation[] }>()
  readonly #isDeduplicated: boolean
  #hasCopies = false
  #firstOrigin: string | undefined

  /** `isDeduplicated` says whether a `dedup` above drops copies. */
  constructor(scope: StreamScope, isDeduplicated: boolean) {
    this.#isDeduplicated = isDeduplicated
    scope.defer(
      scope.connections.watch(({ type, origin }) => {
        if (type !== 'connected') return
        this.#firstOrigin ??= origin
        this.#hasCopies ||= origin !== this.#firstOrigin
      }),
    )
  }

  find({ feedID, observationsTimestamp }: Report): Observation | undefined {
    const observation = this.#feeds.get(feedID)?.byTime.get(observationsTimestamp)
    this.#hasCopies ||= observation !== undefined
    return observation
  }

  /**
   * Finds the slot of the same report: with the same blob and context, whatever its signatures.
   * Without a plugin above that drops copies, only the same bytes are the same report.
   */
  findSame({ slots }: Observation, { fullReport }: Report): Slot | undefined {
    for (const slot of slots) {
      const other = slot.report.fullReport
      if (other === fullReport) return slot
      if (this.#isDeduplicated && contextOf(other) === contextOf(fullReport))
        if (isSameBlob(other, fullReport)) return slot
    }
    return undefined
  }

  /** Adds a report to an observation, by default a new one. */
  add(report: Report, observation: Observation = this.#begin(report)): Slot {
    const slot: Slot = {
      report,
      state: 'ready',
      isChecked: false,
      since: performance.now(),
      copies: [],
      observation,
    }
    observation.slots.push(slot)
    return slot
  }

  /** Remembers an observation that was passed on, while it is one of the last of its feed. */
  remember(observation: Observation): void {
    const { passed } = this.#feedOf(observation.feedID)
    if (passed.includes(observation)) return
    if (passed.length === (this.#hasCopies ? REMEMBERED : 1)) this.#remove(passed.shift())
    passed.push(observation)
  }

  /** Forgets a report that was rejected, or whose copies need no comparison. */
  forget(slot: Slot): void {
    const { observation } = slot
    const { slots } = observation
    slots.splice(slots.indexOf(slot), 1)
    if (slots.length === 0) this.#remove(observation)
  }

  #feedOf(feedID: string): { byTime: Map<number, Observation>; passed: Observation[] } {
    let feed = this.#feeds.get(feedID)
    if (feed === undefined) {
      feed = { byTime: new Map(), passed: [] }
      this.#feeds.set(feedID, feed)
    }
    return feed
  }

  #begin({ feedID, observationsTimestamp: time }: Report): Observation {
    const observation: Observation = { feedID, time, slots: [] }
    this.#feedOf(feedID).byTime.set(time, observation)
    return observation
  }

  #remove(observation: Observation | undefined): void {
    if (observation === undefined) return
    const { byTime } = this.#feedOf(observation.feedID)
    if (byTime.get(observation.time) === observation) byTime.delete(observation.time)
  }
}

function contextOf(fullReport: string): string {
  return fullReport.slice(2, 2 + CONTEXT_DIGITS).toLowerCase()
}
