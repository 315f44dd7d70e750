import { feedResolution } from '../../../report/feed-id.js'
import {
  type Coverage,
  cover,
  findMissing,
  frontierOf,
  isFar,
  LONGEST_RANGE,
  type Second,
  wholeSince,
  wholeSinceIn,
} from '../../../report/ranges.js'

/** Which times of a feed have been consumed. */
export interface Progress extends Coverage {
  readonly second: Second
  /** Set when the feed is unsubscribed: how far it had come by then, or has come since without a break. */
  unsubscribedAt: number | undefined
  /** The progress without the report that went far ahead of all others, which may have a wrong time. */
  candidate: Candidate | undefined
}

interface Candidate extends Coverage {
  /** True once a report has been consumed that the far one had passed over. */
  isLikely: boolean
}

/** Missing ranges that are remembered for a feed; of more, the oldest counts as consumed. */
const MAX_MISSING = 1024

/** The progress of a feed that has been consumed up to a time. */
export function startAt(feedID: string, last: number): Progress {
  const second = feedResolution(feedID) === 's' ? 1 : 1000
  return { second, last, missing: [], unsubscribedAt: undefined, candidate: undefined }
}

/** The time up to which everything has been consumed. */
export function consumedUpTo(progress: Progress): number {
  return frontierOf(progress.candidate?.isLikely === true ? progress.candidate : progress)
}

/** Adds a report of `from` to `to`. */
export function addReport(progress: Progress, from: number, to: number): void {
  const { second, unsubscribedAt, candidate } = progress
  if (unsubscribedAt !== undefined && to > unsubscribedAt) {
    resubscribe(progress, unsubscribedAt, from, to)
    return
  }
  if (candidate !== undefined) compareCandidate(progress, candidate, from, to)
  else if (to >= from && followsOn(from, to, progress.last, second)) {
    progress.last = to
    return
  }
  if (to > progress.last && isFar(to, progress.last, second)) addFar(progress, from, to)
  else add(progress, from, to, second)
}

/** Adds a range in which no more reports will come. */
export function addRange(progress: Progress, from: number, to: number): void {
  cover(progress, from, to)
  if (progress.candidate !== undefined) cover(progress.candidate, from, to)
}

/** From now on the next report that does not follow on begins anew, and leaves no missing range below it. */
export function unsubscribe(progress: Progress): void {
  progress.unsubscribedAt = progress.last
  progress.candidate = undefined
}

function followsOn(from: number, to: number, last: number, second: Second): boolean {
  return from === last + 1 && to - from < LONGEST_RANGE * second
}

/** A report that follows on may have been queued before. Missing ranges above the new beginning are known, and stay. */
function resubscribe(progress: Progress, unsubscribedAt: number, from: number, to: number): void {
  const isQueued = followsOn(from, to, unsubscribedAt, progress.second)
  progress.unsubscribedAt = isQueued ? to : undefined
  cover(progress, isQueued ? from : 0, to)
}

function compareCandidate(
  progress: Progress,
  candidate: Candidate,
  from: number,
  to: number,
): void {
  if (to <= progress.last) {
    candidate.isLikely ||= to > candidate.last
    add(candidate, from, to, progress.second)
    return
  }
  // The candidate is right if this report goes on from it, or at least not from the far report.
  if (candidate.isLikely && (from === candidate.last + 1 || from !== progress.last + 1)) {
    progress.last = candidate.last
    progress.missing = candidate.missing
  }
  progress.candidate = undefined
}

/** Adds a report that goes far ahead; without a missing range to show for it, its time may be wrong. */
function addFar(progress: Progress, from: number, to: number): void {
  const { last } = progress
  const missing = progress.missing.map(range => ({ ...range }))
  add(progress, from, to, progress.second)
  if (progress.missing.length === missing.length)
    progress.candidate = { last, missing, isLikely: false }
}

/** Adds a report that ends in a missing range or beyond the last one. */
function add(coverage: Coverage, from: number, to: number, second: Second): void {
  const range = findMissing(coverage, to)
  if (range !== undefined) cover(coverage, wholeSinceIn(range, from, to, second), to)
  else if (to > coverage.last) cover(coverage, wholeSince(from, to, coverage.last + 1, second), to)
  const [oldest] = coverage.missing
  if (coverage.missing.length > MAX_MISSING && oldest !== undefined)
    cover(coverage, oldest.from, oldest.to)
}
