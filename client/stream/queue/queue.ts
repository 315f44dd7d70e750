import { DataStreamsError } from '../../../core/errors.js'
import type { Gap } from '../../../report/gap.js'
import { createOverflowGaps } from '../../../report/overflow-gaps.js'
import type { Report } from '../../../report/report.js'
import type { FlowControl } from '../connection/flow-control.js'
import { createReaders, type Readers } from './reader.js'
import { createReportRing } from './ring.js'

/** The values of the option `overflow`. */
export const overflowPolicies = ['block', 'drop-oldest', 'latest-per-feed', 'close'] as const
/**
 * What happens when you take reports too slowly: the connections are paused and nothing is lost (`block`), the oldest queued
 * report is dropped (`drop-oldest`), the oldest one of the same feed is, where there is one (`latest-per-feed`), or the
 * stream ends (`close`).
 */
export type OverflowPolicy = (typeof overflowPolicies)[number]

/** The options and listeners of a queue. */
export interface ReportQueueOptions {
  /** The most reports it holds. */
  readonly size: number
  readonly overflow: OverflowPolicy
  readonly flowControl: FlowControl
  /** The queue is full: called once, until it is drained to half. */
  slow(queued: number): void
  dropped(report: Report): void
  /** A range of dropped reports is complete; called before the next report of its feed is taken. */
  gap(gap: Gap): void
  /** The reader of this report asks for the next one. */
  consumed(report: Report): void
  /** The stream has to end; nothing is queued any more. */
  overflowed(error: DataStreamsError): void
}

/** The reports between their arrival and their readers. */
export interface ReportQueue extends Pick<Readers, 'waiting' | 'show'> {
  readonly length: number
  push(report: Report): void
  /** Removes and returns the oldest report, past all readers. */
  shift(): Report | undefined
  createReader: Readers['create']
  /** Resolves when one more report would not overflow, in the order of the calls; also when the queue has ended. */
  room(): Promise<void>
  /** After a failure the queued reports can still be taken; without one they are dropped. */
  end(failure?: Error): void
}

/** Makes an empty queue. Unless a reader waits for it, a report that passes through costs no promise and no closure. */
export function createReportQueue(options: ReportQueueOptions): ReportQueue {
  const { size, overflow, flowControl } = options
  const ring = createReportRing(overflow === 'latest-per-feed')
  const gaps = createOverflowGaps(options.gap)
  const readers = createReaders(takeFirst, options.consumed)
  const waitingForRoom: (() => void)[] = []
  /** From full until drained to half. */
  let isSlow = false
  let isEnded = false
  let failure: Error | undefined

  function push(report: Report): void {
    if (isEnded || readers.give(report)) return
    if (ring.length < size) ring.push(report)
    else if (overflow === 'drop-oldest') replace(ring.takeFirst(), report)
    else if (overflow === 'latest-per-feed')
      replace(ring.takeFirstOf(report.feedID) ?? ring.takeFirst(), report)
    // A paused connection still delivers what it has read; one that can't be paused never stops.
    else if (overflow === 'block' && !(ring.length >= 2 * size && flowControl.leaks))
      ring.push(report)
    else fail(report)
    if (ring.length < size || isSlow || isEnded) return
    isSlow = true
    if (overflow === 'block') flowControl.pause(queue)
    options.slow(ring.length)
  }

  function replace(oldest: Report | undefined, report: Report): void {
    ring.push(report)
    if (oldest !== undefined) drop(oldest)
  }

  function drop(report: Report): void {
    options.dropped(report)
    gaps.add(report)
  }

  /** The stream ends later; until then readers must not take the end of the queue for an ordinary one. */
  function fail(report: Report): void {
    isEnded = true
    drop(report)
    gaps.announceAll()
    const why = overflow === 'block' ? ', and a connection that cannot be paused' : ''
    const message = `the stream has ${ring.length} reports that were not taken${why}`
    const error = new DataStreamsError(message, { code: 'OVERFLOW' })
    failure = error
    readers.end(error)
    options.overflowed(error)
  }

  function takeFirst(): Report | undefined {
    const report = ring.takeFirst()
    if (report !== undefined) gaps.announce(report.feedID)
    if (isSlow && ring.length <= size >> 1) {
      isSlow = false
      gaps.announceAll()
      flowControl.resume(queue)
    }
    if (waitingForRoom.length > 0) releaseRoom()
    return report
  }

  function hasRoom(): boolean {
    return isEnded || (ring.length < size && !(isSlow && overflow === 'block'))
  }

  /** Each of those who wait brings one report. */
  function releaseRoom(): void {
    if (!hasRoom()) return
    const places = isEnded ? waitingForRoom.length : size - ring.length
    for (const resolve of waitingForRoom.splice(0, places)) resolve()
  }

  const queue: ReportQueue = {
    get length() {
      return ring.length
    },
    get waiting() {
      return readers.waiting
    },
    push,
    show: readers.show,
    shift: takeFirst,
    createReader: readers.create,
    room: () =>
      hasRoom() ? Promise.resolve() : new Promise<void>(resolve => waitingForRoom.push(resolve)),
    end(error) {
      failure ??= error
      isEnded = true
      if (error === undefined) ring.clear()
      gaps.announceAll()
      readers.end(failure)
      releaseRoom()
    },
  }
  return queue
}
