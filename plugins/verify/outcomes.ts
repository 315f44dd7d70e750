import type { Sink } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import { createDeferred, type Deferred } from '../../core/async.js'
import { asError, isStreamsError } from '../../core/errors.js'
import type { Report } from '../../report/report.js'
import type { Observations, Slot } from './observations.js'

/** Passes reports on or rejects them, and settles `inject` for those that were injected. */
export interface Outcomes {
  /** Makes `inject` wait for a report, if it was injected. */
  expect(report: Report): void
  /** Passes a report on, and its copies. */
  pass(slot: Slot): void
  /** Passes on another copy of a report that was passed on. */
  passCopy(copy: Report, first: Report): void
  /** Counts a rejected report and emits its error. */
  reject(report: Report, failure: Error): void
  /** Counts a copy of a rejected report. */
  rejectCopy(copy: Report, failure: Error): void
}

/** The most observations whose retryable errors are remembered. */
const MAX_FAILED = 4096

/** Creates the outcomes of a stream whose reports are passed on to `next`. */
export function createOutcomes(
  next: Sink,
  scope: StreamScope,
  observations: Observations,
): Outcomes {
  const injected = new Map<Report, Deferred>()
  const failed = new Set<string>()
  scope.defer(() => {
    for (const report of injected.keys()) settle(report, asError(scope.signal.reason))
  })

  function settle(report: Report, failure?: Error): void {
    const deferred = injected.get(report)
    if (deferred === undefined) return
    injected.delete(report)
    if (failure === undefined) deferred.resolve()
    else deferred.reject(failure)
  }

  function passOn(report: Report): void {
    if (scope.signal.aborted) return
    try {
      next(report)
    } catch (thrown) {
      const error = asError(thrown)
      scope.log.error?.(error.message)
      scope.events.emit('error', error)
    }
    settle(report)
  }

  /** Passes on a copy of the same bytes, which `dedup` drops; drops another copy here, as its signatures are not verified. */
  function passCopy(copy: Report, first: Report): void {
    if (copy.fullReport === first.fullReport) passOn(copy)
    else {
      scope.count('deduplicated', copy)
      settle(copy)
    }
  }

  /** Remembers a failed observation; false for one that failed before, as `continuity` fetches it again and again. */
  function addFailure({ feedID, observationsTimestamp }: Report): boolean {
    const observation = `${feedID} ${observationsTimestamp}`
    if (failed.has(observation)) return false
    if (failed.size === MAX_FAILED) failed.delete(failed.values().next().value as string)
    failed.add(observation)
    return true
  }

  function emitError({ origin }: Report, failure: Error): void {
    scope.log.warn?.(failure.message, { origin })
    scope.events.emit('error', failure)
  }

  function rejectCopy(report: Report, failure: Error): void {
    settle(report, failure)
    if (!isRetried(report, failure)) scope.count('verificationFailed', report)
  }

  return {
    expect(report) {
      if (report.source !== 'backfill') return
      const deferred = injected.get(report) ?? createDeferred()
      injected.set(report, deferred)
      scope.waitUntil(deferred.promise, report)
    },
    pass(slot) {
      const { report, copies, observation } = slot
      slot.state = 'passed'
      // Many fetched reports arrive at a time; they must not displace live reports whose copies are still to come.
      if (report.source === 'live') observations.remember(observation)
      else observations.forget(slot)
      passOn(report)
      for (const copy of copies.splice(0)) passCopy(copy, report)
    },
    passCopy,
    reject(report, failure) {
      rejectCopy(report, failure)
      if (!isRetried(report, failure) || addFailure(report)) emitError(report, failure)
    },
    rejectCopy,
  }
}

/** True where `continuity` will fetch the report again, since the error says nothing about it. */
function isRetried({ source }: Report, failure: Error): boolean {
  return source === 'backfill' && isStreamsError(failure) && failure.isRetryable
}
