import type { StreamScope } from '../../client/contract/scope.js'
import { DIGITS, isSameBlob } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'

/** One report of an observation, and its place in the order of its line. */
export interface Slot {
  report: Report
  /** A `ready` slot is passed on after those before it. */
  state: 'waiting' | 'ready' | 'passed' | 'rejected'
  /** Whether the verifier has checked the report, or is checking it. */
  isChecked: boolean
  /** When the report arrived, as a time of `performance.now`; of one that came in its place, when the first did. */
  readonly since: number
  /** Copies that arrived before the report was passed on. */
  readonly copies: Report[]
  readonly observation: Observation
}

/** The reports of one observation that are being verified or were passed on; no two are the same. */
export interface Observation {
  readonly feedID: string
  readonly time: number
  readonly slots: Slot[]
}

/** The observations of a stream that are being verified, and the last of each feed that were passed on. */
export interface Observations {
  /** The observation of a report. */
  find(report: Report): Observation | undefined
  /** Adds a report to an observation, by default a new one. */
  add(report: Report, observation?: Observation): Slot
  /** Remembers that a report of the observation was passed on, while that is one of the newest of its feed. */
  remember(observation: Observation): void
  /** Forgets a report that was rejected, or whose copies need no comparison. */
  forget(slot: Slot): void
}

/**
 * The observations of a feed that are remembered after they were passed on. Only one is until copies can arrive, to save the
 * memory of whole reports.
 */
const REMEMBERED = 8
/** The most reports that may wait beside the first, one of each origin. */
const MAX_OTHERS = 8
/** Digits of the report context. */
const CONTEXT_DIGITS = 3 * DIGITS

interface Feed {
  readonly byTime: Map<number, Observation>
  /** The oldest first. */
  readonly remembered: Observation[]
}

/** Creates the observations of a stream, none at first. */
export function createObservations(scope: StreamScope): Observations {
  const feeds = new Map<string, Feed>()
  let hasCopies = false
  let firstOrigin: string | undefined
  scope.defer(
    scope.connections.watch(({ type, origin }) => {
      if (type !== 'connected') return
      firstOrigin ??= origin
      hasCopies ||= origin !== firstOrigin
    }),
  )

  function feedOf(feedID: string): Feed {
    const feed = feeds.get(feedID) ?? { byTime: new Map(), remembered: [] }
    feeds.set(feedID, feed)
    return feed
  }

  function begin({ feedID, observationsTimestamp: time }: Report): Observation {
    const observation: Observation = { feedID, time, slots: [] }
    feedOf(feedID).byTime.set(time, observation)
    return observation
  }

  function remove(observation: Observation | undefined): void {
    if (observation === undefined) return
    const { byTime } = feedOf(observation.feedID)
    if (byTime.get(observation.time) === observation) byTime.delete(observation.time)
  }

  return {
    find({ feedID, observationsTimestamp }) {
      const observation = feeds.get(feedID)?.byTime.get(observationsTimestamp)
      hasCopies ||= observation !== undefined
      return observation
    },
    add(report, observation = begin(report)) {
      const since = performance.now()
      const slot: Slot = {
        report,
        state: 'ready',
        isChecked: false,
        since,
        copies: [],
        observation,
      }
      observation.slots.push(slot)
      return slot
    },
    remember(observation) {
      const { remembered } = feedOf(observation.feedID)
      if (remembered.includes(observation)) return
      if (remembered.length === (hasCopies ? REMEMBERED : 1)) remove(remembered.shift())
      remembered.push(observation)
    },
    forget(slot) {
      const { observation } = slot
      const { slots } = observation
      slots.splice(slots.indexOf(slot), 1)
      if (slots.length === 0) remove(observation)
    },
  }
}

/**
 * Finds the slot of the same report: with the same blob and context, whatever its signatures. Without a plugin above that
 * drops copies, only the same bytes are the same report.
 */
export function findSame(
  { slots }: Observation,
  { fullReport }: Report,
  isDeduplicated: boolean,
): Slot | undefined {
  for (const slot of slots) {
    const other = slot.report.fullReport
    if (other === fullReport) return slot
    if (isDeduplicated && contextOf(other) === contextOf(fullReport))
      if (isSameBlob(other, fullReport)) return slot
  }
  return undefined
}

/** True where a report may wait beside these others. */
export function hasRoom(others: readonly Report[], { origin }: Report): boolean {
  for (const other of others) if (other.origin === origin) return false
  return others.length < MAX_OTHERS
}

function contextOf(fullReport: string): string {
  return fullReport.slice(2, 2 + CONTEXT_DIGITS).toLowerCase()
}
