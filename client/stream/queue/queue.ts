import { DataStreamsError } from '../../../core/errors.js'
import type { Gap } from '../../../report/gap.js'
import { createOverflowGaps } from '../../../report/overflow-gaps.js'
import type { Report } from '../../../report/report.js'
import type { FlowControl } from '../connection/flow-control.js'
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
  /** The queue was closed, or its reader has left, before the report was dealt with. */
  untaken?(report: Report): void
  /** A range of dropped reports is announced: before the next report of its feed is taken, and in bounded time. */
  gap(gap: Gap): void
  /** The reader of this report asks for the next one. */
  consumed(report: Report): void
  /** The stream has to end, for this report was dropped; nothing is queued any more. */
  overflowed(error: DataStreamsError, report: Report): void
}

/** Takes reports out of a queue. Several readers of one queue share its reports. */
export interface ReportReader {
  /** The next report that is queued. The reports this reader took before count as consumed. */
  take(): Report | undefined
  /** The next report to come, after `take` found none. Undefined when the queue was closed; rejects with its failure. */
  wait(): Promise<Report | undefined>
  /** Leaves the reports that it has taken and not finished with. */
  leave(): void
}

/** The reports between their arrival and their readers. */
export interface ReportQueue {
  readonly length: number
  /** How many readers wait for a report. */
  readonly waiting: number
  push(report: Report): void
  /** Removes and returns the oldest report, past all readers. */
  shift(): Report | undefined
  createReader(): ReportReader
  /** Gives a report that handlers consume to the reader that has waited longest. */
  show(report: Report): void
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
  const readers = createReaders(takeFirst, options.consumed, options.untaken)
  const waitingForRoom: (() => void)[] = []
  /** From full until drained to half. */
  let isSlow = false
  let isEnded = false

  function push(report: Report): void {
    if (isEnded || readers.give(report)) return
    if (ring.length < size) ring.push(report)
    else if (overflow === 'drop-oldest') replace(ring.takeFirst(), report)
    else if (overflow === 'latest-per-feed')
      replace(ring.takeFirstOf(report.feedID) ?? ring.takeFirst(), report)
    // A paused connection still delivers what it has read; one that can't be paused never stops.
    else if (overflow === 'block' && !(ring.length >= 2 * size && flowControl.hasUnpausable))
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
    gaps.flushAll()
    const why = overflow === 'block' ? ', and a connection that cannot be paused' : ''
    const message = `the stream has ${ring.length} reports that were not taken${why}`
    const error = new DataStreamsError(message, { code: 'OVERFLOW' })
    readers.end(error)
    options.overflowed(error, report)
  }

  function takeFirst(): Report | undefined {
    const report = ring.takeFirst()
    if (report !== undefined) gaps.flush(report.feedID)
    if (isSlow && ring.length <= size >> 1) {
      isSlow = false
      gaps.flushAll()
      flowControl.resume(queue)
    }
    if (waitingForRoom.length > 0) releaseRoom()
    return report
  }

  function clear(): void {
    for (let left = ring.takeFirst(); left !== undefined; left = ring.takeFirst())
      options.untaken?.(left)
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
      isEnded = true
      if (error === undefined) clear()
      gaps.flushAll()
      readers.end(error)
      releaseRoom()
    },
  }
  return queue
}

/** The readers of a queue; `consumed` is called with each report that a reader has finished with. */
function createReaders(
  takeFirst: () => Report | undefined,
  consumed: (report: Report) => void,
  untaken: ((report: Report) => void) | undefined,
) {
  const waiting: Waiting[] = []
  let isEnded = false
  let failure: Error | undefined

  function endWaits(): void {
    for (const { resolve, reject } of waiting.splice(0)) {
      if (failure === undefined) resolve(undefined)
      else reject(failure)
    }
  }

  return {
    create(): ReportReader {
      const taken: Report[] = []
      return {
        take() {
          for (let report = taken.shift(); report !== undefined; report = taken.shift())
            consumed(report)
          const report = takeFirst()
          if (report !== undefined) taken.push(report)
          return report
        },
        wait: () =>
          new Promise((resolve, reject) => {
            waiting.push({ resolve, reject, taken })
            if (isEnded) endWaits()
          }),
        leave() {
          for (const report of taken.splice(0)) untaken?.(report)
        },
      }
    },
    get waiting() {
      return waiting.length
    },
    /** Gives a report to the reader that has waited longest; false where none waits. */
    give(report: Report): boolean {
      const first = waiting.shift()
      first?.taken.push(report)
      first?.resolve(report)
      return first !== undefined
    },
    show: (report: Report) => waiting.shift()?.resolve(report),
    /** Ends all waits, now and later, with the first failure if there is one. */
    end(error: Error | undefined): void {
      isEnded = true
      failure ??= error
      endWaits()
    },
  }
}

interface Waiting {
  resolve(report: Report | undefined): void
  reject(error: Error): void
  /** The reports its reader has not finished with. */
  readonly taken: Report[]
}
