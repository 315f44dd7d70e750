import { DataStreamsError } from '../../../core/errors.js'
import type { Gap } from '../../../report/gap.js'
import { createOverflowGaps } from '../../../report/overflow-gaps.js'
import type { Report } from '../../../report/report.js'
import type { FlowControl } from '../connection/flow-control.js'
import { createReportRing } from './ring.js'

/** What becomes of a report that finds the queue full. */
export const overflowPolicies = ['block', 'drop-oldest', 'latest-per-feed', 'close'] as const
/**
 * What becomes of reports when you take them too slowly: the connections are held back and nothing is lost (`block`), the
 * oldest report queued is dropped (`drop-oldest`), the oldest one of the same feed is, where there is one
 * (`latest-per-feed`), or the stream ends (`close`).
 */
export type OverflowPolicy = (typeof overflowPolicies)[number]

/** What a queue is made of, and whom it tells. */
export interface ReportQueueOptions {
  /** Reports it holds. */
  readonly size: number
  readonly overflow: OverflowPolicy
  readonly flowControl: FlowControl
  /** The queue is full: once, until it has been drained to half. */
  slow(queued: number): void
  /** A report was thrown away. */
  dropped(report: Report): void
  /** An interval of thrown away reports is complete: before its feed's next report is given. */
  gap(gap: Gap): void
  /** Whoever had this report asks for the next one. */
  consumed(report: Report): void
  /** The stream has to end: nothing is queued any more. */
  overflowed(error: DataStreamsError): void
}

/** One who takes reports. Several of one queue share what is in it. */
export interface ReportReader {
  /** The next report, where one is queued. Whatever this reader was given before counts as consumed. */
  take(): Report | undefined
  /** The next report to come: for who found none to take. Undefined when the stream was closed; rejects with why it failed. */
  wait(): Promise<Report | undefined>
}

/** What lies between the arrival of reports and those who take them. */
export interface ReportQueue {
  readonly length: number
  /** How many readers wait for a report. */
  readonly waiting: number
  push(report: Report): void
  /** Shows a report that is somebody else's to the reader that has waited longest, who does not come to consume it. */
  show(report: Report): void
  /** Takes the oldest report out, past all readers. */
  shift(): Report | undefined
  createReader(): ReportReader
  /** Resolves when a report more would not overflow; in the order of asking. Also when the queue has ended. */
  room(): Promise<void>
  /** After a failure what is queued can still be taken; without one nothing more is given. */
  end(failure?: Error): void
}

interface Waiting {
  resolve(report: Report | undefined): void
  reject(error: Error): void
  readonly given: Report[]
}

/** Makes an empty queue. Unless somebody waits for it, a report that passes through costs no promise and no closure. */
export function createReportQueue(options: ReportQueueOptions): ReportQueue {
  const { size, overflow, flowControl } = options
  const ring = createReportRing(overflow === 'latest-per-feed')
  const gaps = createOverflowGaps(options.gap)
  const waiting: Waiting[] = []
  const wantRoom: (() => void)[] = []
  /** From full until drained to half. */
  let isSlow = false
  let isOver = false
  let failure: Error | undefined

  function push(report: Report): void {
    if (isOver) return
    const first = waiting.shift()
    if (first !== undefined) {
      first.given.push(report)
      first.resolve(report)
      return
    }
    if (ring.length >= size) pushBeyond(report)
    else ring.push(report)
    if (ring.length < size || isSlow || isOver) return
    isSlow = true
    if (overflow === 'block') flowControl.pause(queue)
    options.slow(ring.length)
  }

  function pushBeyond(report: Report): void {
    if (overflow === 'close') burst(report)
    // Beyond the limit comes what had been read already. Where nothing holds a connection back there is no end to it.
    else if (overflow === 'block' && ring.length >= 2 * size && flowControl.leaks) burst(report)
    else if (overflow === 'block') ring.push(report)
    else {
      const sameFeed = overflow === 'latest-per-feed' ? ring.takeFirstOf(report.feedID) : undefined
      const least = sameFeed ?? (ring.takeFirst() as Report)
      ring.push(report)
      drop(least)
    }
  }

  function drop(report: Report): void {
    options.dropped(report)
    gaps.add(report)
  }

  function burst(report: Report): void {
    isOver = true
    drop(report)
    gaps.announceAll()
    const why = overflow === 'block' ? ', and a connection that cannot be paused' : ''
    const error = new DataStreamsError(
      `the stream has ${ring.length} reports that nobody took${why}`,
      {
        code: 'OVERFLOW',
      },
    )
    // The stream ends in its own time; who drains the queue before that must not take it for an ordinary end.
    failure = error
    options.overflowed(error)
  }

  function takeFirst(): Report | undefined {
    const report = ring.takeFirst()
    if (report !== undefined) gaps.announce(report.feedID)
    if (isSlow && ring.length <= size >> 1) endEpisode()
    if (wantRoom.length > 0) giveRoom()
    return report
  }

  function endEpisode(): void {
    isSlow = false
    gaps.announceAll()
    flowControl.resume(queue)
  }

  function hasRoom(): boolean {
    return isOver || (ring.length < size && !(isSlow && overflow === 'block'))
  }

  /** To as many as there are places free, since each of them brings one report. */
  function giveRoom(): void {
    if (!hasRoom()) return
    const places = isOver ? wantRoom.length : size - ring.length
    for (const tell of wantRoom.splice(0, places)) tell()
  }

  function end(error?: Error): void {
    failure ??= error
    isOver = true
    if (failure === undefined || error === undefined) ring.clear()
    gaps.announceAll()
    for (const { resolve, reject } of waiting.splice(0)) {
      if (failure === undefined) resolve(undefined)
      else reject(failure)
    }
    giveRoom()
  }

  const queue: ReportQueue = {
    get length() {
      return ring.length
    },
    get waiting() {
      return waiting.length
    },
    push,
    show: report => waiting.shift()?.resolve(report),
    shift: takeFirst,
    createReader() {
      const given: Report[] = []
      return {
        take() {
          for (let report = given.shift(); report !== undefined; report = given.shift())
            options.consumed(report)
          const report = takeFirst()
          if (report !== undefined) given.push(report)
          return report
        },
        wait() {
          if (!isOver) {
            return new Promise((resolve, reject) => waiting.push({ resolve, reject, given }))
          }
          return failure === undefined ? Promise.resolve(undefined) : Promise.reject(failure)
        },
      }
    },
    room: () =>
      hasRoom() ? Promise.resolve() : new Promise<void>(resolve => wantRoom.push(resolve)),
    end,
  }
  return queue
}
