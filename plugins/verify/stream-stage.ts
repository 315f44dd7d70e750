import type { Sink } from '../../client/plugin.js'
import type { StreamScope } from '../../client/scope.js'
import type { Report } from '../../report/report.js'
import type { ReportVerifier } from '../../report/verifier.js'
import { createChecks } from './checks.js'
import { createDelivery } from './delivery.js'
import { createLines } from './lines.js'
import {
  createObservations,
  hasRoomForCopy,
  hasRoomForRival,
  isSameContent,
  type Observation,
  type Slot,
} from './observations.js'
import { createPressure } from './pressure.js'

/** What verifying a stream needs. */
export interface StreamStageParts {
  readonly verifier: ReportVerifier
  /** Whether the next report is to be verified. */
  readonly isChosen: () => boolean
  /** Reports that may wait before the connections are paused. */
  readonly maxPending: number
  /** Whether a `dedup` above drops copies. */
  readonly isDeduplicated: boolean
}

/**
 * Passes each report on once it is verified, in the order of its feed and configuration. A copy of a report that is
 * verified costs no other verification; a report that differs from another of its observation is verified beside it.
 */
export function verifyStream(next: Sink, scope: StreamScope, parts: StreamStageParts): Sink {
  const { verifier, isChosen, isDeduplicated } = parts
  const observations = createObservations(scope)
  const delivery = createDelivery(next, scope, observations)
  const pressure = createPressure(scope, parts.maxPending)
  const lines = createLines(pressure, delivery.pass)
  const onVerdict = lines.advance
  const checks = createChecks({ scope, verifier, observations, delivery, onVerdict })
  scope.defer(function end() {
    for (const part of [checks, lines, delivery, observations]) part.end()
  })

  function takeFirst(report: Report): void {
    const isDoubtful = isChosen()
    const isFree = !isDoubtful && !lines.has(report)
    if (isFree) delivery.pass(observations.add(report))
    else if (report.source !== 'live' || !pressure.sheds(report))
      enter(observations.add(report), isDoubtful)
  }

  function takeRival(report: Report, observation: Observation): void {
    if (report.source === 'live' && !hasRoomForRival(observation, report))
      scope.count('deduplicated', report)
    else enter(observations.add(report, observation), true)
  }

  function takeCopy(report: Report, slot: Slot): void {
    if (slot.state === 'passed') delivery.passCopy(report, slot.report)
    else if (report.source === 'live' && !hasRoomForCopy(slot, report))
      scope.count('deduplicated', report)
    else {
      delivery.expect(report)
      slot.copies.push(report)
    }
  }

  function enter(slot: Slot, isDoubtful: boolean): void {
    delivery.expect(slot.report)
    lines.add(slot)
    if (isDoubtful) checks.start(slot)
  }

  /** The slot of the same report. Where nobody above drops copies, only the same bytes are the same report. */
  function findSame({ slots }: Observation, { fullReport }: Report): Slot | undefined {
    for (const slot of slots) {
      const other = slot.report.fullReport
      if (isDeduplicated ? isSameContent(other, fullReport) : other === fullReport) return slot
    }
    return undefined
  }

  return function takeUnverified(report) {
    const observation = observations.find(report)
    if (observation === undefined) {
      takeFirst(report)
      return
    }
    const slot = findSame(observation, report)
    if (slot === undefined) takeRival(report, observation)
    else takeCopy(report, slot)
  }
}
