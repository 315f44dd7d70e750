import type { StreamScope } from '../../client/scope.js'
import { isStreamsError } from '../../core/errors.js'
import type { Report } from '../../report/report.js'
import type { ReportVerifier } from '../../report/verifier.js'
import type { Delivery } from './delivery.js'
import type { Observations, Slot } from './observations.js'

/** Has the reports of a stream verified, and acts on the verdicts. */
export interface Checks {
  start(slot: Slot): void
  end(): void
}

/** What checks need of their stream. */
export interface ChecksParts {
  readonly scope: StreamScope
  readonly verifier: ReportVerifier
  readonly observations: Observations
  readonly delivery: Delivery
  /** Reports of the line that this report is in may have become ready. */
  readonly onVerdict: (report: Report) => void
}

/** Makes the checks of a stream. */
export function createChecks(parts: ChecksParts): Checks {
  const { scope, verifier, observations, delivery } = parts
  const refuse = createRefusals(scope)
  const checked = new Map<Report, Slot>()
  let isOver = false

  function start(slot: Slot): void {
    if (isOver) return
    slot.isChecked = true
    if (slot.state === 'ready') slot.state = 'waiting'
    checked.set(slot.report, slot)
    verifier.check(slot.report, settled)
  }

  function settled(failure: Error | undefined, report: Report): void {
    const slot = checked.get(report)
    if (slot === undefined) return
    checked.delete(report)
    if (failure === undefined) accept(slot)
    else reject(slot, failure)
    parts.onVerdict(report)
  }

  function accept(slot: Slot): void {
    scope.count('verified', slot.report)
    if (slot.state === 'waiting') slot.state = 'ready'
    // Reports of one observation that differ are all verified, also one that was not chosen.
    for (const other of slot.observation.slots) if (!other.isChecked) start(other)
  }

  function reject(slot: Slot, failure: Error): void {
    const { report, copies } = slot
    refuse(report, failure)
    delivery.reject(report, failure)
    if (slot.state === 'passed') return
    for (const copy of copies.splice(0)) {
      if (copy.fullReport === report.fullReport) rejectCopy(copy, failure)
      else copies.push(copy)
    }
    const successor = copies.shift()
    if (successor === undefined) {
      slot.state = 'refused'
      observations.forget(slot)
    } else {
      slot.report = successor
      start(slot)
    }
  }

  /** The error of the first has said what is wrong with these bytes. */
  function rejectCopy(copy: Report, failure: Error): void {
    scope.count('unverified', copy)
    delivery.reject(copy, failure)
  }

  return {
    start,
    end() {
      isOver = true
      checked.clear()
    },
  }
}

/** Observations that are remembered because they could not be verified yet. */
const MAX_DOUBTED = 4096

/**
 * Makes a function that counts a refused report and emits its error. A report that was fetched and may be verified later is
 * not counted, and its error is emitted once, however often the report is fetched again.
 */
function createRefusals(scope: StreamScope): (report: Report, failure: Error) => void {
  const doubted = new Set<string>()

  /** False where the observation was in doubt before. */
  function doubt({ feedID, observationsTimestamp }: Report): boolean {
    const observation = `${feedID} ${observationsTimestamp}`
    if (doubted.has(observation)) return false
    if (doubted.size === MAX_DOUBTED) doubted.delete(doubted.values().next().value as string)
    doubted.add(observation)
    return true
  }

  return function refuse(report, failure) {
    const isDoubt = report.source === 'backfill' && isStreamsError(failure) && failure.isRetryable
    if (isDoubt && !doubt(report)) return
    if (!isDoubt) scope.count('unverified', report)
    scope.log.warn?.(failure.message, { origin: report.origin })
    scope.events.emit('error', failure)
  }
}
