import type { Plugin, RequestScope, Sink, StreamScope } from 'sluice/client'
import { isStreamsError } from 'sluice/core'
import type { Report } from 'sluice/report'

/** A message of a queue that a worker has been given. */
export interface Delivery {
  readonly owner: DeliveryOwner
}

/** Decides what becomes of a worker's messages. */
export interface DeliveryOwner {
  /** Its report was taken. */
  taken(delivery: Delivery): void
  /** Its report will not be taken by this worker. */
  untaken(delivery: Delivery): void
  /** Its report is not signed as it should be. */
  rejected(delivery: Delivery, error: Error): void
}

/** The scopes of the streams whose stack has the plugin, by the object that all connections of a stream share. */
const scopes = new WeakMap<object, StreamScope>()

/** The message that is being delivered, until its report has been seen. */
let current: Delivery | undefined

/** The scope of a stream whose stack has the plugin. */
export function queueScope(cursors: object | undefined): StreamScope | undefined {
  return cursors && scopes.get(cursors)
}

/** Delivers a message; false where no report came of it. */
export function deliverOfQueue(delivery: Delivery, deliver: () => void): boolean {
  current = delivery
  deliver()
  const wasSeen = current === undefined
  current = undefined
  return wasSeen
}

/**
 * Acknowledges the reports of a queue: each once it has been taken, so that the log gives it to another worker where this one
 * dies before. One that the stream drops is handed back, one whose signatures are wrong becomes a dead letter. It stands below
 * all other plugins.
 */
export function queueDeliveries(): Plugin<never> {
  const deliveries = new WeakMap<Report, Delivery>()

  function watchReports(next: Sink, scope: StreamScope | RequestScope): Sink {
    if (scope.kind === 'request') return next
    scopes.set(scope.cursors, scope)
    scope.events.on('error', error => {
      if (!isStreamsError(error, 'VERIFICATION') || error.report === undefined) return
      const delivery = deliveries.get(error.report)
      if (delivery === undefined) return
      // Where the reason says nothing about the report, another try may find it good.
      if (error.isRetryable) delivery.owner.untaken(delivery)
      else delivery.owner.rejected(delivery, error)
    })
    return function passDelivered(report) {
      const delivery = current
      current = undefined
      if (delivery === undefined) return next(report)
      deliveries.set(report, delivery)
      try {
        next(report)
      } catch (thrown) {
        delivery.owner.untaken(delivery)
        throw thrown
      }
    }
  }

  return {
    name: 'queue-deliveries',
    report: watchReports,
    acknowledged(report) {
      const delivery = deliveries.get(report)
      delivery?.owner.taken(delivery)
    },
    unacknowledged(report) {
      const delivery = deliveries.get(report)
      delivery?.owner.untaken(delivery)
    },
  }
}
