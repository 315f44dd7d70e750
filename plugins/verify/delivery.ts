import type { Sink } from '../../client/plugin.js'
import type { StreamScope } from '../../client/scope.js'
import { createDeferred, type Deferred } from '../../core/deferred.js'
import { asError, DataStreamsError } from '../../core/errors.js'
import type { Report } from '../../report/report.js'
import type { Observations, Slot } from './observations.js'

/** Passes reports on, and has `inject` settle for those that were injected. */
export interface Delivery {
  /** A report waits: where it was injected, `inject` waits for it. */
  expect(report: Report): void
  /** Passes a report on, and its copies. */
  pass(slot: Slot): void
  /** Passes on another copy of a report that was passed on. */
  passCopy(copy: Report, first: Report): void
  /** A report that waited was refused. */
  reject(report: Report, failure: Error): void
  end(): void
}

/** Makes the delivery of a stream's reports to `next`. */
export function createDelivery(
  next: Sink,
  scope: StreamScope,
  observations: Observations,
): Delivery {
  const injected = new Map<Report, Deferred>()
  let isOver = false

  function settle(report: Report, failure?: Error): void {
    const deferred = injected.get(report)
    if (deferred === undefined) return
    injected.delete(report)
    if (failure === undefined) deferred.resolve()
    else deferred.reject(failure)
  }

  function hand(report: Report): void {
    if (isOver) return
    try {
      next(report)
    } catch (cause) {
      const message = `a plugin threw on a report of feed ${report.feedID}: ${asError(cause).message}`
      scope.log.error?.(message)
      scope.events.emit('error', new DataStreamsError(message, { code: 'PLUGIN', cause }))
    }
    settle(report)
  }

  /** `dedup` drops a copy of the same bytes; the signatures of another have not been verified, so it goes no further. */
  function passCopy(copy: Report, first: Report): void {
    if (copy.fullReport === first.fullReport) hand(copy)
    else {
      scope.count('deduplicated', copy)
      settle(copy)
    }
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
    reject: settle,
    end() {
      isOver = true
      for (const deferred of injected.values()) deferred.reject(asError(scope.signal.reason))
      injected.clear()
    },
  }
}
