import type { Sink } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import type { Report } from '../../report/report.js'
import type { ReportVerifier } from '../../report/verifier.js'
import { type Backlog, watchBacklog } from './backlog.js'
import { createLines } from './lines.js'
import {
  createObservations,
  findSame,
  hasRoom,
  type Observation,
  type Slot,
} from './observations.js'
import { createOutcomes } from './outcomes.js'
import type { VerifierState } from './verifier.js'

/** The parts of a stream's stage. */
export interface StreamStageParts {
  readonly verifier: ReportVerifier
  readonly state: VerifierState
  /** What waits in each stream, by its scope. */
  readonly backlogs: WeakMap<object, Backlog>
  /** Whether the next report is to be verified. */
  readonly isChosen: () => boolean
  /** Reports that may wait before the connections are paused. */
  readonly maxPending: number
  /** Whether a `dedup` above drops copies. */
  readonly isDeduplicated: boolean
}

/**
 * Passes each report on once it is verified, in the order of its feed and configuration. A copy of a verified report costs no
 * further verification; a report that differs from another of its observation is verified beside it.
 */
export function verifyStream(next: Sink, scope: StreamScope, parts: StreamStageParts): Sink {
  const { verifier, isChosen } = parts
  const observations = createObservations(scope)
  const outcomes = createOutcomes(next, scope, observations)
  const lines = createLines(scope, parts.maxPending, outcomes.pass)
  const backlog = watchBacklog(scope, lines, parts.state)
  parts.backlogs.set(scope, backlog)
  const checked = new Map<Report, Slot>()

  function takeFirst(report: Report): void {
    const mustCheck = isChosen()
    if (!mustCheck && !lines.has(report)) outcomes.pass(observations.add(report))
    else if (report.source !== 'live' || !lines.sheds(report))
      enter(observations.add(report), mustCheck)
  }

  function takeOther(report: Report, observation: Observation): void {
    const same = findSame(observation, report, parts.isDeduplicated)
    const others = same?.copies ?? observation.slots.slice(1).map(slot => slot.report)
    if (same?.state === 'passed') outcomes.passCopy(report, same.report)
    else if (report.source === 'live' && !hasRoom(others, report))
      scope.count('deduplicated', report)
    else if (same === undefined) enter(observations.add(report, observation), true)
    else {
      outcomes.expect(report)
      same.copies.push(report)
    }
  }

  function enter(slot: Slot, mustCheck: boolean): void {
    outcomes.expect(slot.report)
    lines.add(slot)
    backlog.begun()
    if (mustCheck) check(slot)
  }

  function check(slot: Slot): void {
    slot.isChecked = true
    if (slot.state === 'ready') slot.state = 'waiting'
    checked.set(slot.report, slot)
    verifier.check(slot.report, settled)
  }

  function settled(failure: Error | undefined, report: Report): void {
    const slot = checked.get(report)
    if (slot === undefined || scope.signal.aborted) return
    checked.delete(report)
    if (failure === undefined) accept(slot)
    else reject(slot, failure)
    lines.advance(report)
  }

  function accept(slot: Slot): void {
    scope.count('verified', slot.report)
    if (slot.state === 'waiting') slot.state = 'ready'
    // Reports of one observation that differ are all verified, even if they were not chosen.
    for (const other of slot.observation.slots) if (!other.isChecked) check(other)
  }

  function reject(slot: Slot, failure: Error): void {
    const { report, copies } = slot
    outcomes.reject(report, failure)
    if (slot.state === 'passed') return
    for (const copy of copies.splice(0)) {
      if (copy.fullReport === report.fullReport) outcomes.rejectCopy(copy, failure)
      else copies.push(copy)
    }
    const successor = copies.shift()
    if (successor === undefined) {
      slot.state = 'rejected'
      observations.forget(slot)
    } else {
      slot.report = successor
      check(slot)
    }
  }

  return function takeUnverified(report) {
    const observation = observations.find(report)
    if (observation === undefined) takeFirst(report)
    else takeOther(report, observation)
  }
}
