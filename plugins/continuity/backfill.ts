import type { WireErrorFacts } from '../../client/call.js'
import type { StreamScope } from '../../client/scope.js'
import { abortable } from '../../core/abortable.js'
import { asError, isStreamsError } from '../../core/errors.js'
import { createSemaphore } from '../../core/semaphore.js'
import { sleep } from '../../core/sleep.js'
import type { GapCause } from '../../report/gap.js'
import { findMissing, LONGEST_RANGE, splitMissing } from '../../report/ranges.js'
import type { Report } from '../../report/report.js'
import {
  type FeedChain,
  isOfAdvance,
  isSuspect,
  type Missing,
  mayBeEmpty,
  mayBeFuture,
  outlierAhead,
} from './feed-chain.js'

/** Fetches the missing reports of a stream's feeds. */
export interface Backfill {
  /** Fetches the chain's missing ranges, each when it is due, until there are none. */
  fetchMissing(chain: FeedChain): void
  /** Asks the service once for reports after the newest one of the chain. */
  probe(chain: FeedChain): void
  /** Asks the service whether the chain's outliers are right, unless live reports show it meanwhile. */
  checkOutliers(chain: FeedChain): void
  /** The time of the newest report that a probe has found and not passed on yet; -1 without one. */
  foundUpTo(chain: FeedChain): number
}

/** The callbacks of a backfill. */
export interface BackfillParts {
  readonly scope: StreamScope
  /** False once the feed of the chain was unsubscribed. */
  isCurrent(chain: FeedChain): boolean
  /** Announces the part of a range that is too old to be fetched, and removes it. */
  dropTooOld(chain: FeedChain, range: Missing): void
  /** Moves the chain past those of the reports found after it that are too old to be delivered. */
  skipTooOld(chain: FeedChain, found: readonly Report[]): void
  /** Closes a range: as a gap with this cause, or without one because nothing was missing. */
  resolve(chain: FeedChain, range: Missing, cause: GapCause | undefined): void
  /** A plugin below has dropped an injected report: it will not be delivered, and it is not missing. */
  onDropped(chain: FeedChain, report: Report): void
  /** Adds the outliers to the chain if they are right, and discards them otherwise. */
  resolveOutliers(chain: FeedChain, areRight: boolean): void
}

/** Reports on a page. */
const PAGE = 100
/** Feeds that are fetched at a time. */
const FEEDS = 4
/** Milliseconds before a second request, which finds what the service had not stored at the first. */
const RECHECK = 1000
/** Failures after which it gives up, and the milliseconds after the first of them, doubled for each further one. */
const FAILURES = 5
const DELAY = 1000
const MAX_DELAY = 60_000
/** Milliseconds between two checks for ranges that are due. */
const POLL = 250
/** Milliseconds after which a fetch that hangs releases its permit. */
const MAX_PERMIT = 5000
/** The most pages of a probe, whose end is not known. */
const PROBE_PAGES = 10

/** Creates a backfill that ends with the stream. */
export function createBackfill(parts: BackfillParts): Backfill {
  const { scope, isCurrent, dropTooOld, resolve } = parts
  const { log, signal } = scope
  const permits = createSemaphore(FEEDS, signal)
  const fetching = new Set<FeedChain>()
  const probing = new Set<FeedChain>()
  const checking = new Set<FeedChain>()
  const foundUpTo = new Map<FeedChain, number>()

  /** Runs one task of a kind for each chain; only the end of the stream ends it early. */
  async function run(
    tasks: Set<FeedChain>,
    chain: FeedChain,
    task: (chain: FeedChain) => Promise<void>,
  ): Promise<void> {
    if (tasks.has(chain) || signal.aborted) return
    tasks.add(chain)
    try {
      await task(chain)
    } catch (thrown) {
      if (!signal.aborted) scope.events.emit('error', asError(thrown))
    } finally {
      tasks.delete(chain)
      if (tasks === probing) foundUpTo.delete(chain)
    }
    // A range may have opened after the task's last check.
    if (tasks === fetching && chain.missing.length > 0 && isCurrent(chain)) fetchMissing(chain)
  }

  function fetchMissing(chain: FeedChain): void {
    void run(fetching, chain, fetchAll)
  }

  async function fetchAll(chain: FeedChain): Promise<void> {
    for (let range = nextOf(chain); range !== undefined; range = nextOf(chain)) {
      if (!isCurrent(chain)) return
      const wait = range.dueAt - performance.now()
      // A range that opens meanwhile may be due earlier.
      if (wait > 0) await sleep(Math.min(wait, POLL), signal)
      else await withPermit(() => fetchDue(chain))
    }
  }

  async function withPermit<Result>(task: () => Promise<Result>): Promise<Result> {
    await permits.acquire()
    let hasPermit = true
    let timer: ReturnType<typeof setTimeout> | undefined
    function release(): void {
      if (hasPermit) permits.release()
      hasPermit = false
    }
    try {
      await abortable(scope.flow.room(), signal)
      timer = setTimeout(release, MAX_PERMIT)
      return await task()
    } finally {
      clearTimeout(timer)
      release()
    }
  }

  async function fetchDue(chain: FeedChain): Promise<void> {
    const range = nextOf(chain)
    // Late reports may have arrived while this chain waited for its permit.
    if (range === undefined || range.dueAt > performance.now()) return
    const start = range.from
    let page: readonly Report[]
    try {
      page = await scope.client.fetchPage(chain.feedID, start, PAGE, signal)
    } catch (error) {
      if (signal.aborted) throw error
      if (isCurrent(chain)) postpone(chain, asError(error))
      return
    }
    const rejected = await deliverAll(page, report => deliver(chain, report))
    if (!isCurrent(chain)) return
    for (const report of rejected.keys()) markRejected(chain, report)
    const retryable = new Map<Missing, Error>()
    for (const [{ observationsTimestamp: time }, error] of rejected) {
      const range = findMissing(chain, time)
      if (range !== undefined && isRetryable(error)) retryable.set(range, error)
    }
    applyPage(chain, start, endOf(page), retryable)
  }

  /** Delivers reports in their order; resolves with the rejected ones and their errors. */
  async function deliverAll(
    reports: readonly Report[],
    deliverOne: (report: Report) => Promise<void> | undefined,
  ): Promise<ReadonlyMap<Report, Error>> {
    const rejected = new Map<Report, Error>()
    const pending: Promise<void>[] = []
    for (const report of reports) {
      await abortable(scope.flow.room(), signal)
      const delivery = deliverOne(report)
      if (delivery !== undefined)
        pending.push(delivery.catch(thrown => void rejected.set(report, asError(thrown))))
    }
    await abortable(Promise.all(pending), signal)
    return rejected
  }

  /** Splits a range at a rejected report: the service has a report there, so the range is not empty. */
  function markRejected(chain: FeedChain, { observationsTimestamp: time }: Report): void {
    const range = findMissing(chain, time)
    if (range === undefined) return
    range.hasFreeStart = false
    range.before = undefined
    splitMissing(chain, range, time)
  }

  /** Delivers a report; undefined where it is not missing. */
  function deliver(chain: FeedChain, report: Report): Promise<void> | undefined {
    const { observationsTimestamp: time } = report
    const range = findMissing(chain, time)
    if (range === undefined || !isCurrent(chain)) return undefined
    if (mayBeEmpty(range)) dropTooOld(chain, range)
    return findMissing(chain, time) === undefined ? undefined : inject(chain, report)
  }

  async function inject(chain: FeedChain, report: Report): Promise<void> {
    await scope.inject(report)
    // A report that was delivered is in its chain by now.
    if (isCurrent(chain) && findMissing(chain, report.observationsTimestamp) !== undefined)
      parts.onDropped(chain, report)
  }

  /** Updates the ranges that a page from `start` to `end` covers, or an empty page from `start` on. */
  function applyPage(
    chain: FeedChain,
    start: number,
    end: number | undefined,
    retryable: ReadonlyMap<Missing, Error>,
  ): void {
    const now = performance.now()
    for (const range of [...chain.missing]) {
      if (range.from < start || (end !== undefined && end < range.to)) continue
      const failure = retryable.get(range)
      if (failure !== undefined) {
        if (range.dueAt <= now) retryLater(chain, range, failure)
        continue
      }
      range.failures = 0
      if (range.dueAt > now) continue
      if (end === undefined && mayBeFuture(chain, range)) {
        range.dueAt = now + Math.max(RECHECK, now - range.openedAt)
        continue
      }
      range.emptyAnswers++
      if (range.emptyAnswers === 1) range.dueAt = now + RECHECK
      else resolve(chain, range, mayBeEmpty(range) ? undefined : 'upstream')
    }
  }

  function postpone(chain: FeedChain, error: Error): void {
    const now = performance.now()
    for (const range of [...chain.missing]) if (range.dueAt <= now) retryLater(chain, range, error)
    log.warn?.(`reports of feed ${chain.feedID} could not be fetched: ${error.message}`)
  }

  function retryLater(chain: FeedChain, range: Missing, error: Error): void {
    // A failure while the service is unreachable does not count.
    if (scope.connections.open > 0) range.failures++
    if (range.failures > FAILURES) resolve(chain, range, 'unavailable')
    else range.dueAt = performance.now() + delayAfter(range.failures, error)
  }

  async function fetchIf(
    isWanted: () => boolean,
    { feedID }: FeedChain,
    start: number,
    limit: number,
  ): Promise<readonly Report[]> {
    return isWanted() ? scope.client.fetchPage(feedID, start, limit, signal) : []
  }

  async function probeOnce(chain: FeedChain): Promise<void> {
    for (let failures = 0, isOver = false; !isOver; ) {
      const { newest } = chain
      // A live report shows what is missing before it, so the probe is no longer needed.
      const isUnchanged = () => isCurrent(chain) && chain.newest === newest
      const found: Report[] = []
      for (let pages = 0, start = chain.last + 1; pages < PROBE_PAGES && isUnchanged(); ) {
        try {
          const page = await withPermit(() => fetchIf(isUnchanged, chain, start, PAGE))
          const end = endOf(page)
          if (end === undefined) break
          found.push(...page)
          foundUpTo.set(chain, end)
          start = end + 1
          pages++
        } catch (thrown) {
          isOver = !(await waitAfter(asError(thrown)))
          if (isOver) break
        }
      }
      if (!isUnchanged()) return
      parts.skipTooOld(chain, found)
      const rejected = await deliverAll(found, report => deliverFound(chain, report))
      const failure = [...rejected.values()].find(isRetryable)
      isOver ||= failure === undefined || !(await waitAfter(failure))

      /** Waits before the next try; false after too many failures. */
      async function waitAfter(error: Error): Promise<boolean> {
        if (signal.aborted) throw error
        // A failure while the service is unreachable does not count.
        if (scope.connections.open > 0) failures++
        log.warn?.(`reports of feed ${chain.feedID} could not be fetched: ${error.message}`)
        if (failures <= FAILURES) await sleep(delayAfter(failures, error), signal)
        else log.warn?.(`feed ${chain.feedID} has been quiet since ${chain.last}: given up asking`)
        return failures <= FAILURES
      }
    }
  }

  function deliverFound(chain: FeedChain, report: Report): Promise<void> | undefined {
    if (!isCurrent(chain)) return undefined
    return report.observationsTimestamp > chain.last ? scope.inject(report) : deliver(chain, report)
  }

  /** Looks for reports around outliers ahead, or between outliers behind and the end of the chain. */
  async function askService(chain: FeedChain): Promise<void> {
    let asked: Report | undefined
    for (let failures = 0; ; ) {
      const [outlier] = chain.outliers
      if (outlier === undefined || outlier === asked || !isCurrent(chain)) return
      const isInFront = outlierAhead(chain) === outlier
      await sleep(RECHECK + POLL, signal)
      const isOpen = () => isCurrent(chain) && chain.outliers[0] === outlier
      if (!isOpen()) continue
      const { observationsTimestamp: time } = chain.outliers.at(-1) ?? outlier
      const range = LONGEST_RANGE * chain.second
      const start = Math.max(0, isInFront ? time - range + 1 : time + range + 1)
      let isKnown: boolean
      let isUnclear: boolean
      try {
        const page = await withPermit(() => fetchIf(isOpen, chain, start, 1))
        isKnown = page.some(
          each => isInFront || each.observationsTimestamp !== chain.last || !isSuspect(chain),
        )
        isUnclear =
          !isInFront && page.some(({ observationsTimestamp: at }) => isOfAdvance(chain, at))
      } catch (thrown) {
        if (signal.aborted) throw thrown
        failures++
        await sleep(delayAfter(failures, asError(thrown)), signal)
        continue
      }
      asked = outlier
      failures = 0
      // A single outlier does not move the chain back.
      if (isOpen() && !isUnclear && (isKnown || (!isInFront && chain.outliers.length > 1)))
        parts.resolveOutliers(chain, isKnown === isInFront)
    }
  }

  return {
    fetchMissing,
    probe: chain => void run(probing, chain, probeOnce),
    checkOutliers: chain => void run(checking, chain, askService),
    foundUpTo: chain => foundUpTo.get(chain) ?? -1,
  }
}

/** The time up to which a page shows the service's reports; undefined for an empty page. */
function endOf(page: readonly Report[]): number | undefined {
  return page.at(-1)?.observationsTimestamp
}

function isRetryable(error: Error): boolean {
  return isStreamsError(error) && error.isRetryable
}

function nextOf({ missing }: FeedChain): Missing | undefined {
  let next: Missing | undefined
  for (const range of missing) if (next === undefined || range.dueAt < next.dueAt) next = range
  return next
}

function delayAfter(failures: number, error: Error): number {
  const { retryAfter = 0 } = error as WireErrorFacts
  const backoff = DELAY * 2 ** Math.max(0, failures - 1)
  return Math.min(MAX_DELAY, Math.max(backoff, retryAfter))
}
