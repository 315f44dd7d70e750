import type { StreamScope } from '../../client/contract/scope.js'
import { DIGITS, isSameBlob } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'

/** One report of an observation, and its state in its queue. */
export interface Slot {
  report: Report
  /** A `ready` report is verified, or need not be. It is passed on after the slots before it. */
  state: 'waiting' | 'ready' | 'passed' | 'rejected'
  /** Whether the verifier has checked the report, or is checking it. */
  isChecked: boolean
  /** When the first report of the slot arrived, as a time of `performance.now`. */
  readonly since: number
  /** Duplicates that arrived before the report was passed on. */
  readonly copies: Report[]
  readonly observation: Observation
}

/** The reports of one observation that are being verified or were passed on, without duplicates. */
export interface Observation {
  readonly feedID: string
  readonly time: number
  readonly slots: Slot[]
}

/**
 * How many passed observations of a feed are remembered, to recognise duplicates. Until duplicates
 * can arrive, only one is remembered, which saves the memory of whole reports.
 */
const REMEMBERED = 8
/** The number of digits of the report context. */
const CONTEXT_DIGITS = 3 * DIGITS

/**
 * The observations of a stream that are being verified, and the last observations of each feed that
 * were passed on.
 */
export class Observations {
  readonly #feeds = new Map<string, { byTime: Map<number, Observation>; passed: Observation[] }>()
  readonly #isDeduplicated: boolean
  #hasCopies = false
  #firstOrigin: string | undefined

  /** `isDeduplicated` says whether a `dedup` above drops duplicates. */
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
   * Finds the slot of the same report. Reports with the same blob and context are the same, even if
   * their signatures differ. If no `dedup` above drops duplicates, only reports with the same bytes
   * are the same.
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

  /** Adds a report to an observation, by default to a new observation. */
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

  /** Remembers an observation that was passed on, as long as it is one of the last of its feed. */
  remember(observation: Observation): void {
    const { passed } = this.#feedOf(observation.feedID)
    if (passed.includes(observation)) return
    if (passed.length === (this.#hasCopies ? REMEMBERED : 1)) this.#remove(passed.shift())
    passed.push(observation)
  }

  /** Forgets a report that was rejected, or that need not be compared with duplicates. */
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
