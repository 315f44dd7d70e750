import { DataStreamsError } from '../../core/errors.js'
import { setImmediate } from '../../platform/globals.js'
import { createOverflowGaps, type Gap } from '../../report/gaps.js'
import { onAcknowledge, type Report } from '../../report/report.js'
import type { FlowControl } from './connection/connections.js'
import type { CheckedStreamOptions, OverflowPolicy } from './options.js'

/** The methods of a stream that its backlog calls. */
export interface BacklogOwner {
  /** A report was delivered and is not acknowledged yet. */
  arrived(report: Report): void
  acknowledged(report: Report): void
  /** The backlog was full and dropped the report. */
  dropped(report: Report): void
  /** The stream was closed, or the reader left, before the report was handled. */
  unacknowledged(report: Report): void
  gap(gap: Gap): void
  /**
   * The backlog has reached one of its two limits. Called again only after the count has fallen to
   * half of the limit.
   */
  backpressure(count: number, message: string): void
  /** The backlog has overflowed, so the stream must end. `report`, if given, was dropped. */
  overflowed(error: DataStreamsError, report?: Report): void
}

/** The options of a backlog, and the connections that it pauses. */
export interface BacklogOptions
  extends Pick<CheckedStreamOptions, 'queue' | 'overflow' | 'acknowledge'> {
  /** True if cursors or a plugin must know which reports are acknowledged. */
  readonly isTracked: boolean
  readonly flowControl: FlowControl
  readonly handlers: {
    /** Calls the `report` handlers. Returns false if there are none. */
    report(report: Report): boolean
    hasReportHandler(): boolean
  }
}

/**
 * A new handler gets at most so many queued reports in one tick, so that the event loop is not
 * blocked.
 */
const SLICE = 1024

const consequences: Readonly<Record<OverflowPolicy, string>> = {
  block: 'the connections are paused until half of them are',
  'drop-oldest': 'each new one drops the oldest',
  'latest-per-feed': 'each new one drops an older one',
  close: 'one more ends the stream',
}

/** A reader, as the list of the reports that it has taken and not finished handling. */
export type ReportReader = Report[]

interface WaitingReader {
  readonly reader: ReportReader
  resolve(report: Report | undefined): void
  reject(failure: Error): void
}

/**
 * One limit of a backlog. `isFull` turns true when the count reaches the limit, and false when the
 * count has fallen to half.
 */
interface Limit {
  isFull: boolean
}

/**
 * Holds the reports between the last stage of the stack and the handlers, loops and readers of the
 * stream. It counts queued reports, and reports that were given out and are not acknowledged. Each
 * count has a limit.
 *
 * A report that handlers finish synchronously only passes through. It costs no promise, no closure
 * and no entry.
 */
export class Backlog {
  readonly #owner: BacklogOwner
  readonly #size: number
  readonly #overflow: OverflowPolicy
  readonly #flowControl: FlowControl
  readonly #handlers: BacklogOptions['handlers']
  /**
   * True if `acknowledge` is `automatic`, and cursors or a plugin must know which reports are
   * acknowledged.
   */
  readonly #isAutomatic: boolean
  readonly #isManual: boolean
  readonly #gaps: ReturnType<typeof createOverflowGaps>
  readonly #queue: ReportQueue
  /** Readers that wait for a report, in the order of their calls. */
  readonly #readers: WaitingReader[] = []
  readonly #waitingForRoom: (() => void)[] = []
  readonly #queued: Limit = { isFull: false }
  readonly #givenOut: Limit = { isFull: false }
  /**
   * The reports that are not acknowledged, by feed. The number counts the holders of a report, such
   * as a reader or the promise of a handler.
   */
  readonly #held = new Map<string, Map<Report, number>>()
  #heldCount = 0
  /** True once a plugin has held a report. */
  #hasHolder = false
  /** All calls of `read` share this reader. */
  readonly #reader: ReportReader = []
  #isRead = false
  #isIterated = false
  /** The report with which the handlers are being called. */
  #current: Report | undefined
  /** True while a new handler gets the queued reports. New reports are then queued behind them. */
  #isHandingOver = false
  #isEnded = false
  #failure: Error | undefined

  constructor(owner: BacklogOwner, options: BacklogOptions) {
    this.#owner = owner
    this.#size = options.queue
    this.#overflow = options.overflow
    this.#flowControl = options.flowControl
    this.#handlers = options.handlers
    this.#isManual = options.acknowledge === 'manual'
    this.#isAutomatic = options.isTracked && !this.#isManual
    this.#gaps = createOverflowGaps(gap => owner.gap(gap))
    this.#queue = new ReportQueue(this.#overflow === 'latest-per-feed')
  }

  /** The number of queued reports. */
  get queued(): number {
    return this.#queue.length
  }

  /**
   * Gives a report to the handlers, and queues it for an open loop. Without handlers and loops, the
   * report waits in the queue.
   */
  deliver(report: Report): void {
    const isTaken = this.#hasHolder && this.#isHeld(report)
    if (this.#isManual) {
      this.#hold(report)
      onAcknowledge(report, this.#release)
    }
    if (this.#size === 0) this.#give(report)
    else if (this.#isHandingOver) this.#enqueue(report)
    else {
      // These are read before the handlers run. A handler that begins to read or iterate gets only
      // later reports.
      const isAwaited = this.#readers.length > 0
      const isIterated = this.#isIterated
      const isGiven = this.#give(report) || isTaken
      if (!isGiven || isIterated) this.#enqueue(report)
      else if (isAwaited) this.#readers.shift()?.resolve(report)
    }
    if (this.#heldCount > 0 && this.#size > 0) this.#checkGivenOut()
    if (this.#isAutomatic && !this.#isHeld(report)) this.#owner.acknowledged(report)
  }

  /** A plugin keeps the report until `release`. */
  hold(report: Report): void {
    this.#hasHolder = true
    this.#hold(report)
  }

  /** A plugin no longer needs the report. A report without holders is acknowledged. */
  release(report: Report): void {
    this.#release(report)
  }

  /** A `report` handler was added. It gets the queued reports next, unless they wait for a loop. */
  handlerAdded(): void {
    if (this.#isIterated || this.#isHandingOver || this.#queue.length === 0) return
    this.#isHandingOver = true
    // In a microtask, so that handlers that are added together get the same reports.
    queueMicrotask(this.#handOverSlice)
  }

  /**
   * A handler returned a promise for this report. Returns a function to call once the promise has
   * settled.
   */
  promised(report: unknown): (() => void) | undefined {
    const current = this.#current
    // A user can emit their own report, which is not tracked.
    if (!this.#isAutomatic || current === undefined || current !== report) return undefined
    this.#hold(current)
    return () => this.#release(current)
  }

  /**
   * Gives the next report; calls are served in order. Gives undefined if the stream was closed.
   * Rejects with the failure if the stream has failed.
   */
  read(): Report | Promise<Report | undefined> {
    this.#isRead = true
    this.#finishHandover()
    return this.take(this.#reader) ?? this.wait(this.#reader)
  }

  /** A loop begins. From now on every report is queued for the loop, even if there are handlers. */
  loopAdded(): void {
    this.#finishHandover()
    this.#isIterated = true
  }

  /**
   * Takes the next queued report. The reports that this reader took earlier now count as handled.
   */
  take(reader: ReportReader): Report | undefined {
    for (let report = reader.shift(); report !== undefined; report = reader.shift())
      if (this.#isAutomatic) this.#release(report)
    const report = this.#takeFirst()
    if (report !== undefined) reader.push(report)
    return report
  }

  /**
   * Waits for the next report, after `take` found none. Resolves with undefined if the stream was
   * closed. Rejects with the failure if the stream has failed.
   */
  wait(reader: ReportReader): Promise<Report | undefined> {
    return new Promise((resolve, reject) => {
      this.#readers.push({ reader, resolve, reject })
      if (this.#isEnded) this.#endReaders(undefined)
    })
  }

  /** The reader stops. The reports that it has not finished handling stay unacknowledged. */
  leave(reader: ReportReader): void {
    for (const report of reader.splice(0)) this.#owner.unacknowledged(report)
  }

  /** The time of a feed's earliest report that is not acknowledged. */
  earliest(feedID: string): number | undefined {
    let earliest: number | undefined
    for (const { observationsTimestamp: time } of this.#held.get(feedID)?.keys() ?? [])
      if (earliest === undefined || time < earliest) earliest = time
    return earliest
  }

  /**
   * Resolves when there is room for one more report; calls are served in order. Also resolves when
   * the stream ends.
   */
  readonly room = (): Promise<void> =>
    this.#hasRoom
      ? Promise.resolve()
      : new Promise<void>(resolve => void this.#waitingForRoom.push(resolve))

  /**
   * Ends the backlog. After a failure the queued reports can still be read. Without a failure they
   * are dropped.
   */
  end(failure?: Error): void {
    if (failure !== undefined) this.#finishHandover()
    this.#isEnded = true
    if (failure === undefined) {
      for (let left = this.#queue.takeFirst(); left !== undefined; left = this.#queue.takeFirst())
        this.#owner.unacknowledged(left)
    }
    this.#gaps.flushAll()
    this.#endReaders(failure)
    this.#releaseRoom()
  }

  #give(report: Report): boolean {
    const before = this.#current
    this.#current = report
    const isHandled = this.#handlers.report(report)
    this.#current = before
    return isHandled
  }

  #enqueue(report: Report): void {
    if (this.#isAutomatic) this.#hold(report)
    if (this.#isEnded) return
    const waiting = this.#readers.shift()
    waiting?.reader.push(report)
    if (waiting === undefined) this.#push(report)
    else waiting.resolve(report)
  }

  #push(report: Report): void {
    const { length } = this.#queue
    if (length < this.#size) this.#queue.push(report)
    else if (this.#overflow === 'drop-oldest') this.#replace(this.#queue.takeFirst(), report)
    else if (this.#overflow === 'latest-per-feed')
      this.#replace(this.#queue.takeFirstOf(report.feedID) ?? this.#queue.takeFirst(), report)
    // A paused connection still delivers the messages that it has read, so the queue may grow. A
    // connection that can't be paused never stops, so the queue may only grow to twice its size.
    else if (
      this.#overflow === 'block' &&
      !(length >= 2 * this.#size && this.#flowControl.hasUnpausable)
    )
      this.#queue.push(report)
    else this.#fail(report)
    if (this.#queue.length < this.#size || this.#queued.isFull || this.#isEnded) return
    this.#fill(this.#queued, this.#overflow === 'block', this.#queue.length, this.#describeQueue())
  }

  #replace(oldest: Report | undefined, report: Report): void {
    this.#queue.push(report)
    if (oldest !== undefined) this.#drop(oldest)
  }

  #drop(report: Report): void {
    this.forget(report)
    this.#owner.dropped(report)
    this.#gaps.add(report)
  }

  /**
   * Ends the readers with the error. The stream itself ends later, and until then an empty queue
   * must not look like an ordinary end.
   */
  #fail(report: Report): void {
    this.#isEnded = true
    this.#drop(report)
    this.#gaps.flushAll()
    const why = this.#overflow === 'block' ? ', and a connection that cannot be paused' : ''
    const message = `the stream has ${this.#queue.length} reports that were not taken${why}`
    const error = new DataStreamsError(message, { code: 'OVERFLOW' })
    this.#endReaders(error)
    this.#owner.overflowed(error, report)
  }

  /** Ends the waiting readers. Of several failures, the first counts. */
  #endReaders(failure: Error | undefined): void {
    this.#failure ??= failure
    for (const { resolve, reject } of this.#readers.splice(0)) {
      if (this.#failure === undefined) resolve(undefined)
      else reject(this.#failure)
    }
  }

  #takeFirst(): Report | undefined {
    const report = this.#queue.takeFirst()
    if (report !== undefined) this.#gaps.flush(report.feedID)
    if (this.#queued.isFull && this.#queue.length <= this.#size >> 1) {
      this.#gaps.flushAll()
      this.#drain(this.#queued)
    } else this.#releaseRoom()
    return report
  }

  #hold(report: Report): void {
    const feed = this.#held.get(report.feedID) ?? new Map<Report, number>()
    if (feed.size === 0) this.#held.set(report.feedID, feed)
    const holders = feed.get(report) ?? 0
    feed.set(report, holders + 1)
    if (holders > 0) return
    this.#heldCount++
    this.#owner.arrived(report)
  }

  #isHeld(report: Report): boolean {
    return this.#heldCount > 0 && this.#held.get(report.feedID)?.has(report) === true
  }

  /** Removes a holder of a report. A report without holders is acknowledged. */
  readonly #release = (report: Report): void => {
    const feed = this.#held.get(report.feedID)
    const holders = feed?.get(report)
    if (feed === undefined || holders === undefined) return
    if (holders > 1) {
      feed.set(report, holders - 1)
      return
    }
    this.forget(report)
    this.#owner.acknowledged(report)
  }

  /** The report is out of the stream: nothing will acknowledge it. */
  forget(report: Report): void {
    const feed = this.#held.get(report.feedID)
    if (feed?.delete(report) !== true) return
    if (feed.size === 0) this.#held.delete(report.feedID)
    this.#heldCount--
    if (this.#givenOut.isFull && this.#givenOutCount <= this.#size >> 1) this.#drain(this.#givenOut)
  }

  get #givenOutCount(): number {
    return this.#heldCount - this.#queue.length
  }

  #checkGivenOut(): void {
    const count = this.#givenOutCount
    if (count < this.#size) return
    if (count >= 2 * this.#size && this.#flowControl.hasUnpausable) {
      const message = `the stream has ${count} reports that were given out and not acknowledged, and a connection that cannot be paused`
      this.#owner.overflowed(new DataStreamsError(message, { code: 'OVERFLOW' }))
    }
    if (this.#givenOut.isFull) return
    const why = this.#isManual ? '' : ', since promises of handlers have not settled'
    const message = `${count} reports were given out and are not acknowledged${why}: the connections are paused until half of them are`
    this.#fill(this.#givenOut, true, count, message)
  }

  #fill(limit: Limit, pauses: boolean, count: number, message: string): void {
    limit.isFull = true
    if (pauses) this.#flowControl.pause(limit)
    this.#owner.backpressure(count, message)
  }

  #drain(limit: Limit): void {
    limit.isFull = false
    this.#flowControl.resume(limit)
    this.#releaseRoom()
  }

  get #hasRoom(): boolean {
    if (this.#isEnded) return true
    if (this.#givenOut.isFull) return false
    const isPaused = this.#queued.isFull && this.#overflow === 'block'
    return this.#size === 0 || (this.#queue.length < this.#size && !isPaused)
  }

  /** Resolves as many calls of `room` as there are free places: each caller brings one report. */
  #releaseRoom(): void {
    if (this.#waitingForRoom.length === 0 || !this.#hasRoom) return
    const isBounded = this.#size > 0 && !this.#isEnded
    const places = isBounded ? this.#size - this.#queue.length : this.#waitingForRoom.length
    for (const resolve of this.#waitingForRoom.splice(0, places)) resolve()
  }

  #describeQueue(): string {
    const waiting = `${this.#queue.length} reports wait to be taken: ${consequences[this.#overflow]}`
    if (this.#isIterated || this.#isRead || this.#handlers.hasReportHandler()) return waiting
    return `${waiting}. Nothing takes them: add a report handler, iterate the stream, or give it the option queue: 0 if only plugins read it`
  }

  #handOver(most: number): void {
    for (let given = 0; given < most && this.#handlers.hasReportHandler(); given++) {
      const report = this.#takeFirst()
      if (report === undefined) break
      this.#give(report)
      if (this.#isAutomatic) this.#release(report)
    }
    this.#isHandingOver = this.#queue.length > 0 && this.#handlers.hasReportHandler()
  }

  readonly #handOverSlice = (): void => {
    if (this.#isHandingOver) this.#handOver(SLICE)
    if (this.#isHandingOver) setImmediate(this.#handOverSlice)
  }

  /**
   * Gives the handlers the remaining queued reports at once, before a reader takes them or the
   * stream ends.
   */
  #finishHandover(): void {
    if (this.#isHandingOver) this.#handOver(Number.POSITIVE_INFINITY)
  }
}

/** A queued report, linked with the reports that came before and after it. */
interface Place {
  readonly report: Report
  before: Place | undefined
  after: Place | undefined
  /** The next report of the same feed. */
  sibling: Place | undefined
}

/**
 * A linked list of reports in their order of arrival. With `byFeed`, it finds the oldest report of
 * a feed without a search.
 */
class ReportQueue {
  length = 0
  #first: Place | undefined
  #last: Place | undefined
  readonly #feeds: Map<string, { first: Place; last: Place }> | undefined

  constructor(byFeed: boolean) {
    if (byFeed) this.#feeds = new Map()
  }

  push(report: Report): void {
    const place: Place = { report, before: this.#last, after: undefined, sibling: undefined }
    if (this.#last === undefined) this.#first = place
    else this.#last.after = place
    this.#last = place
    this.length++
    if (this.#feeds === undefined) return
    const feed = this.#feeds.get(report.feedID)
    if (feed === undefined) this.#feeds.set(report.feedID, { first: place, last: place })
    else {
      feed.last.sibling = place
      feed.last = place
    }
  }

  /** Removes and returns the oldest report. */
  takeFirst(): Report | undefined {
    return this.#take(this.#first)
  }

  /** Removes and returns the oldest report of a feed. */
  takeFirstOf(feedID: string): Report | undefined {
    return this.#take(this.#feeds?.get(feedID)?.first)
  }

  /** Removes a place, which must be the first of its feed. */
  #take(place: Place | undefined): Report | undefined {
    if (place === undefined) return undefined
    const { report, before, after, sibling } = place
    if (before === undefined) this.#first = after
    else before.after = after
    if (after === undefined) this.#last = before
    else after.before = before
    this.length--
    const feed = this.#feeds?.get(report.feedID)
    if (feed !== undefined && sibling !== undefined) feed.first = sibling
    else this.#feeds?.delete(report.feedID)
    return report
  }
}
