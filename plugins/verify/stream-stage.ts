import type { Sink } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import { createDeferred, type Deferred } from '../../core/async.js'
import { asError, isStreamsError } from '../../core/errors.js'
import { DIGITS } from '../../report/full-report.js'
import { createOverflowGaps, type OverflowGaps } from '../../report/gaps.js'
import { markVerified, type Report } from '../../report/report.js'
import type { VerificationMetrics } from '../../report/verifier.js'
import { type Observation, Observations, type Slot } from './observations.js'
import type { Verifier } from './verifier.js'

/**
 * The most reports that may wait in addition to the first report of an observation. Each must come
 * from another origin.
 */
const MAX_OTHERS = 8
/** The most observations whose retryable errors are remembered. */
const MAX_FAILED = 4096
/**
 * Milliseconds that a report may wait to be verified. If a report waits longer, the stream is
 * behind.
 */
const BEHIND = 2000
/** The interval at which the waiting reports are looked at, in milliseconds. */
const LOOK_INTERVAL = 250

/** The parts and settings of a stream's stage. */
export interface StreamStageOptions {
  readonly verifier: Verifier
  /** Whether a `dedup` above drops duplicates. */
  readonly isDeduplicated: boolean
  /** Says whether the next report must be verified. With a sample, each call draws again. */
  readonly isChosen: () => boolean
  /** How many reports may wait. At this number the connections are paused. */
  readonly maxPending: number
}

/**
 * Passes each report on once it is verified. Reports of the same feed and configuration keep their
 * order. A duplicate of a verified report is not verified again. If two reports of one observation
 * differ, both are verified.
 */
export class StreamStage {
  readonly #next: Sink
  readonly #scope: StreamScope
  readonly #options: StreamStageOptions
  readonly #observations: Observations
  /**
   * The waiting reports, in one queue for each feed and configuration. No queue is empty. The
   * queues are separate so that invented configurations do not delay other reports.
   */
  readonly #queues = new Map<string, Slot[]>()
  #waiting = 0
  /** The slots of the reports that the verifier is checking. */
  readonly #checked = new Map<Report, Slot>()
  /** The injected reports that `inject` waits for. */
  readonly #injected = new Map<Report, Deferred>()
  readonly #failed = new Set<string>()
  readonly #gaps: OverflowGaps
  #pause: ReturnType<StreamScope['flow']['pause']> | undefined
  /**
   * Why the stream fell behind: the oldest report waited for its signers or for their recovery.
   * Undefined once the stream has caught up.
   */
  #cause: 'signers' | 'recovery' | undefined
  /** Looks at the waiting reports. Runs while reports wait, and until the stream has caught up. */
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(next: Sink, scope: StreamScope, options: StreamStageOptions) {
    this.#next = next
    this.#scope = scope
    this.#options = options
    this.#observations = new Observations(scope, options.isDeduplicated)
    this.#gaps = createOverflowGaps(gap => scope.events.emit('gap', gap))
    scope.events.on('ending', () => this.#announceWaiting())
    scope.defer(() => this.#end())
  }

  /** Takes a report from the plugin below. */
  take(report: Report): void {
    const observation = this.#observations.find(report)
    if (observation === undefined) this.#takeFirst(report)
    else this.#takeOther(report, observation)
  }

  metrics(): VerificationMetrics {
    // After the end of the stream, waiting reports are no longer verified.
    const waiting = this.#scope.signal.aborted ? 0 : this.#waiting
    const oldestMs = waiting === 0 ? 0 : ageOf(this.#oldest())
    return { waiting, oldestMs, ...this.#options.verifier.facts() }
  }

  #takeFirst(report: Report): void {
    const mustCheck = this.#options.isChosen()
    if (!mustCheck && !this.#queues.has(keyOf(report))) this.#pass(this.#observations.add(report))
    else if (report.source !== 'live' || !this.#drops(report))
      this.#enter(this.#observations.add(report), mustCheck)
  }

  #takeOther(report: Report, observation: Observation): void {
    const same = this.#observations.findSame(observation, report)
    const others = same?.copies ?? observation.slots.slice(1).map(slot => slot.report)
    if (same?.state === 'passed') this.#passCopy(report, same.report)
    else if (report.source === 'live' && !hasRoom(others, report))
      this.#scope.count('deduplicated', report)
    else if (same === undefined) this.#enter(this.#observations.add(report, observation), true)
    else {
      this.#expect(report)
      same.copies.push(report)
    }
  }

  /**
   * Adds a slot to its queue. If the queue has other slots of the same observation, the slot goes
   * after them.
   */
  #enter(slot: Slot, mustCheck: boolean): void {
    const { observation, report } = slot
    this.#expect(report)
    const key = keyOf(report)
    const queue = this.#queues.get(key) ?? []
    this.#queues.set(key, queue)
    const isFirst = observation.slots.length === 1
    const last = isFirst ? -1 : queue.findLastIndex(each => each.observation === observation)
    if (last === -1) queue.push(slot)
    else queue.splice(last + 1, 0, slot)
    this.#waiting++
    if (this.#waiting >= this.#options.maxPending && this.#pause === undefined) {
      this.#scope.log.warn?.(
        `${this.#waiting} reports wait to be verified: the connections are paused`,
      )
      this.#pause = this.#scope.flow.pause()
    }
    if (this.#timer === undefined && !this.#scope.signal.aborted) {
      this.#timer = setInterval(() => this.#look(), LOOK_INTERVAL)
      this.#timer.unref?.()
    }
    if (mustCheck) this.#check(slot)
  }

  /**
   * If too many reports wait and a connection can't be paused: drops the report, adds its time to a
   * gap, and returns true.
   */
  #drops(report: Report): boolean {
    // Reports that were read before the connections were paused still arrive, so the limit is twice
    // `maxPending`.
    if (this.#waiting < 2 * this.#options.maxPending || this.#pause?.hasUnpausable !== true)
      return false
    this.#gaps.add(report)
    return true
  }

  #check(slot: Slot): void {
    slot.isChecked = true
    if (slot.state === 'ready') slot.state = 'waiting'
    this.#checked.set(slot.report, slot)
    this.#options.verifier.check(slot.report, this.#settled)
  }

  readonly #settled = (failure: Error | undefined, report: Report): void => {
    const slot = this.#checked.get(report)
    if (slot === undefined || this.#scope.signal.aborted) return
    this.#checked.delete(report)
    if (failure === undefined) this.#accept(slot)
    else this.#reject(slot, failure)
    this.#advance(keyOf(report))
  }

  #accept(slot: Slot): void {
    this.#scope.count('verified', slot.report)
    if (slot.state === 'waiting') slot.state = 'ready'
    // If reports of one observation differ, all of them are verified, even if they were not chosen.
    for (const other of slot.observation.slots) if (!other.isChecked) this.#check(other)
  }

  #reject(slot: Slot, failure: Error): void {
    const { report, copies } = slot
    this.#countFailure(report, failure)
    if (!isRetried(report, failure) || this.#addFailure(report)) {
      this.#scope.log.warn?.(failure.message, { origin: report.origin })
      this.#scope.events.emit('error', failure)
    }
    if (slot.state === 'passed') return
    for (const copy of copies.splice(0)) {
      if (copy.fullReport === report.fullReport) this.#countFailure(copy, failure)
      else copies.push(copy)
    }
    const successor = copies.shift()
    if (successor === undefined) {
      slot.state = 'rejected'
      this.#observations.forget(slot)
    } else {
      slot.report = successor
      this.#check(slot)
    }
  }

  #countFailure(report: Report, failure: Error): void {
    this.#settleInjected(report, failure)
    if (!isRetried(report, failure)) this.#scope.count('verificationFailed', report)
  }

  /**
   * Remembers a failed observation. False if it has failed before: `continuity` fetches such an
   * observation repeatedly, and only its first error is emitted.
   */
  #addFailure({ feedID, observationsTimestamp }: Report): boolean {
    const failed = this.#failed
    const observation = `${feedID} ${observationsTimestamp}`
    if (failed.has(observation)) return false
    if (failed.size === MAX_FAILED) failed.delete(failed.values().next().value as string)
    failed.add(observation)
    return true
  }

  /** Passes on the ready reports at the head of a queue. */
  #advance(key: string): void {
    const queue = this.#queues.get(key)
    if (queue === undefined) return
    for (let first = queue[0]; first !== undefined && first.state !== 'waiting'; first = queue[0]) {
      queue.shift()
      if (first.state === 'ready') this.#pass(first)
      this.#waiting--
      if (this.#pause === undefined || this.#waiting > this.#options.maxPending >> 1) continue
      this.#pause.resume()
      this.#pause = undefined
      this.#gaps.flushAll()
    }
    if (queue.length === 0) this.#queues.delete(key)
  }

  /** Passes on a report and its duplicates. */
  #pass(slot: Slot): void {
    const { report, copies, observation } = slot
    slot.state = 'passed'
    // Many fetched reports arrive at a time. They must not displace live reports whose duplicates
    // have not arrived yet.
    if (report.source === 'live') this.#observations.remember(observation)
    else this.#observations.forget(slot)
    this.#passOn(report)
    for (const copy of copies.splice(0)) this.#passCopy(copy, report)
  }

  /**
   * Passes on a duplicate if its bytes are the same; `dedup` drops it. Drops a duplicate with other
   * signatures, as these signatures are not verified.
   */
  #passCopy(copy: Report, first: Report): void {
    if (copy.fullReport === first.fullReport) {
      if (first.verified) markVerified(copy)
      this.#passOn(copy)
    } else {
      this.#scope.count('deduplicated', copy)
      this.#settleInjected(copy)
    }
  }

  #passOn(report: Report): void {
    if (this.#scope.signal.aborted) return
    try {
      this.#next(report)
    } catch (thrown) {
      const error = asError(thrown)
      this.#scope.log.error?.(error.message)
      this.#scope.events.emit('error', error)
    }
    this.#settleInjected(report)
  }

  /** Makes `inject` wait for a report, if the report was injected. */
  #expect(report: Report): void {
    if (report.source !== 'backfill') return
    const deferred = this.#injected.get(report) ?? createDeferred()
    this.#injected.set(report, deferred)
    this.#scope.waitUntil(deferred.promise, report)
  }

  #settleInjected(report: Report, failure?: Error): void {
    const deferred = this.#injected.get(report)
    if (deferred === undefined) return
    this.#injected.delete(report)
    if (failure === undefined) deferred.resolve()
    else deferred.reject(failure)
  }

  /** The slot that has waited longest. */
  #oldest(): Slot | undefined {
    let oldest: Slot | undefined
    for (const queue of this.#queues.values())
      for (const slot of queue) if (oldest === undefined || slot.since < oldest.since) oldest = slot
    return oldest
  }

  /** Emits a `status` event when the stream falls behind, and when it has caught up. */
  #look(): void {
    const { verifier } = this.#options
    const { events } = this.#scope
    const waiting = this.#waiting
    const oldest = this.#oldest()
    const oldestMs = ageOf(oldest)
    const { threads } = verifier.facts()
    if (this.#cause === undefined && oldest !== undefined && oldestMs > BEHIND) {
      this.#cause = verifier.awaitsSigners(oldest.report) ? 'signers' : 'recovery'
      events.emit('status', { type: 'behind', waiting, oldestMs, cause: this.#cause, threads })
    } else if (this.#cause !== undefined && oldestMs < BEHIND / 2) {
      events.emit('status', { type: 'caught-up', waiting, oldestMs, cause: this.#cause, threads })
      this.#cause = undefined
    }
    if (waiting === 0 && this.#cause === undefined) this.#stopLooking()
  }

  /**
   * Called when the stream is about to fail. Passes on the reports that are verified, and announces
   * a gap for the others.
   */
  #announceWaiting(): void {
    for (const queue of this.#queues.values())
      for (const slot of queue) {
        if (slot.state === 'ready') this.#pass(slot)
        else if (slot.state === 'waiting' && slot.report.source === 'live')
          this.#gaps.add(slot.report)
      }
    this.#queues.clear()
    this.#checked.clear()
    this.#waiting = 0
    this.#gaps.flushAll()
  }

  #stopLooking(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #end(): void {
    this.#stopLooking()
    this.#gaps.flushAll()
    for (const report of this.#injected.keys())
      this.#settleInjected(report, asError(this.#scope.signal.reason))
  }
}

function ageOf(slot: Slot | undefined): number {
  return slot === undefined ? 0 : Math.round(performance.now() - slot.since)
}

/** The key of a report's queue: its feed, and the configuration that the report names. */
function keyOf({ feedID, fullReport }: Report): string {
  return feedID + fullReport.slice(2, 2 + DIGITS).toLowerCase()
}

/** True if a report may wait in addition to these other reports. */
function hasRoom(others: readonly Report[], { origin }: Report): boolean {
  for (const other of others) if (other.origin === origin) return false
  return others.length < MAX_OTHERS
}

/**
 * True if `continuity` will fetch the report again, because the error says nothing about the
 * report.
 */
function isRetried({ source }: Report, failure: Error): boolean {
  return source === 'backfill' && isStreamsError(failure) && failure.isRetryable
}
