import type { Sink } from '../../client/plugin.js'
import type { StreamScope } from '../../client/scope.js'
import { createDeferred, type Deferred } from '../../core/deferred.js'
import { asError, DataStreamsError, isStreamsError } from '../../core/errors.js'
import type { Report } from '../../report/report.js'
import type { Observations, Slot } from './observations.js'

/** What becomes of reports: they are passed on or rejected, and `inject` settles for those that were injected. */
export interface Outcomes {
  /** A report waits: if it was injected, so does `inject`. */
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

/** Observations that are remembered because nothing was found out about them yet. */
const MAX_DOUBTED = 4096

/** Makes the outcomes of a stream whose reports are passed on to `next`. */
export function createOutcomes(
  next: Sink,
  scope: StreamScope,
  observations: Observations,
): Outcomes {
  const injected = new Map<Report, Deferred>()
  const doubted = new Set<string>()
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

  function hand(report: Report): void {
    if (scope.signal.aborted) return
    try {
      next(report)
    } catch (cause) {
      const message = `a plugin threw on a report of feed ${report.feedID}: ${asError(cause).message}`
      scope.log.error?.(message)
      scope.events.emit('error', new DataStreamsError(message, { code: 'PLUGIN', cause }))
    }
    settle(report)
  }

  /** `dedup` drops a copy of the same bytes. The signatures of another have not been verified, so it goes no further. */
  function passCopy(copy: Report, first: Report): void {
    if (copy.fullReport === first.fullReport) hand(copy)
    else {
      scope.count('deduplicated', copy)
      settle(copy)
    }
  }

  /** False where the observation was in doubt before: it is fetched again and again. */
  function doubt({ feedID, observationsTimestamp }: Report): boolean {
    const observation = `${feedID} ${observationsTimestamp}`
    if (doubted.has(observation)) return false
    if (doubted.size === MAX_DOUBTED) doubted.delete(doubted.values().next().value as string)
    doubted.add(observation)
    return true
  }

  function announce({ origin }: Report, failure: Error): void {
    scope.log.warn?.(failure.message, { origin })
    scope.events.emit('error', failure)
  }

  function rejectCopy(report: Report, failure: Error): void {
    settle(report, failure)
    if (!isDoubtful(report, failure)) scope.count('unverified', report)
  }

  return {
    expect(report) {
      if (report.source !== 'backfill') return
      const deferred = injected.get(report) ?? createDeferred()
      injected.set(report, deferred)
      scope.wait(deferred.promise)
    },
    pass(slot) {
      const { report, copies, observation } = slot
      slot.state = 'passed'
      // What is fetched comes in masses, and must not displace live reports whose copies are still to come.
      if (report.source === 'live') observations.remember(observation)
      else observations.forget(slot)
      hand(report)
      for (const copy of copies.splice(0)) passCopy(copy, report)
    },
    passCopy,
    reject(report, failure) {
      rejectCopy(report, failure)
      if (!isDoubtful(report, failure) || doubt(report)) announce(report, failure)
    },
    rejectCopy,
  }
}

/** True where a report was fetched of which nothing is found out yet: it is asked for again, so it is not rejected. */
function isDoubtful({ source }: Report, failure: Error): boolean {
  return source === 'backfill' && isStreamsError(failure) && failure.isRetryable
}
