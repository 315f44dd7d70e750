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
  isAhead,
  isOfAdvance,
  isQuiet,
  isSuspect,
  type Missing,
  outlierAhead,
} from './feed-chain.js'

/** Fetches what is missing of a stream's feeds. */
export interface Backfill {
  /** Looks up the chain's missing when they are due, until there are none. */
  mend(chain: FeedChain): void
  /** Asks once for what may have come after the newest report of the chain. */
  probe(chain: FeedChain): void
  /** Asks whether the service bears out the chain's outliers, unless something else does meanwhile. */
  doubt(chain: FeedChain): void
  /** The time of the newest report that a probe has found and not passed on yet; -1 where there is none. */
  foundUpTo(chain: FeedChain): number
}

/** What somebody who has chains mended must say. */
export interface BackfillParts {
  readonly scope: StreamScope
  /** Whether the chain still matters. */
  isCurrent(chain: FeedChain): boolean
  /** Cuts off what of a range is not to be fetched. */
  bound(chain: FeedChain, range: Missing): void
  /** Cuts off what of the reports found behind the chain is not to be delivered. */
  skip(chain: FeedChain, found: readonly Report[]): void
  /** Nothing will come of a range: for a cause, or because nothing is missing. */
  settle(chain: FeedChain, range: Missing, cause: GapCause | undefined): void
  /** A plugin below has kept a report for itself: it will not be delivered, nor is it missing. */
  kept(chain: FeedChain, report: Report): void
  /** The chain's outliers are right, or they are not. */
  judge(chain: FeedChain, areRight: boolean): void
}

/** Reports on a page. */
const PAGE = 100
/** Feeds that are fetched at once. */
const FEEDS = 4
/** Milliseconds after which a second look tells what the service has not from what it had not stored yet. */
const SECOND_LOOK = 1000
/** How often it may fail, and the milliseconds after the first time, doubled for each further one. */
const FAILURES = 5
const DELAY = 1000
const MAX_DELAY = 60_000
/** Milliseconds between two looks at what is due. */
const PATIENCE = 250
/** Milliseconds after which a fetch that hangs makes way for others. */
const HANGING = 5000
/** Pages of a probe, which does not know where to end. */
const PROBE_PAGES = 10

/** A backfill that ends with the stream. */
export function createBackfill(parts: BackfillParts): Backfill {
  const { scope, isCurrent, bound, settle } = parts
  const { log, signal } = scope
  const permits = createSemaphore(FEEDS, signal)
  const mending = new Set<FeedChain>()
  const probing = new Set<FeedChain>()
  const doubting = new Set<FeedChain>()
  const foundUpTo = new Map<FeedChain, number>()

  /** One task of a kind for each chain; only the end of the stream ends it early. */
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
    // What has opened since the task had its last look.
    if (tasks === mending && chain.missing.length > 0 && isCurrent(chain)) mend(chain)
  }

  function mend(chain: FeedChain): void {
    void run(mending, chain, mendAll)
  }

  async function mendAll(chain: FeedChain): Promise<void> {
    for (let range = nextOf(chain); range !== undefined; range = nextOf(chain)) {
      if (!isCurrent(chain)) return
      const wait = range.dueAt - performance.now()
      // A range that opens meanwhile may be due sooner.
      if (wait > 0) await sleep(Math.min(wait, PATIENCE), signal)
      else await withPermit(() => look(chain))
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
      timer = setTimeout(release, HANGING)
      return await task()
    } finally {
      clearTimeout(timer)
      release()
    }
  }

  async function look(chain: FeedChain): Promise<void> {
    const range = nextOf(chain)
    // What was late may have come while we waited for our turn.
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
    for (const report of rejected.keys()) leaveOpen(chain, report)
    const doubts = new Map<Missing, Error>()
    for (const [{ observationsTimestamp: time }, error] of rejected) {
      const range = findMissing(chain, time)
      if (range !== undefined && isRetryable(error)) doubts.set(range, error)
    }
    conclude(chain, start, endOf(page), doubts)
  }

  /** Delivers reports in their order; resolves with those that were refused, and why. */
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

  /** The service has shown that something is there, but nothing that is to be believed. */
  function leaveOpen(chain: FeedChain, { observationsTimestamp: time }: Report): void {
    const range = findMissing(chain, time)
    if (range === undefined) return
    range.isExcused = false
    range.before = undefined
    splitMissing(chain, range, time)
  }

  /** Undefined where the report is not missing. */
  function deliver(chain: FeedChain, report: Report): Promise<void> | undefined {
    const { observationsTimestamp: time } = report
    const range = findMissing(chain, time)
    if (range === undefined || !isCurrent(chain)) return undefined
    if (isQuiet(range)) bound(chain, range)
    return findMissing(chain, time) === undefined ? undefined : inject(chain, report)
  }

  async function inject(chain: FeedChain, report: Report): Promise<void> {
    await scope.inject(report)
    // A report that was passed on is in its chain by now.
    if (isCurrent(chain) && findMissing(chain, report.observationsTimestamp) !== undefined)
      parts.kept(chain, report)
  }

  /** A page that begins at `start` and ends at `end` shows what the service has between them, and an empty one all. */
  function conclude(
    chain: FeedChain,
    start: number,
    end: number | undefined,
    doubts: ReadonlyMap<Missing, Error>,
  ): void {
    const now = performance.now()
    for (const range of [...chain.missing]) {
      if (range.from < start || (end !== undefined && end < range.to)) continue
      const doubt = doubts.get(range)
      if (doubt !== undefined) {
        if (range.dueAt <= now) retryLater(chain, range, doubt)
        continue
      }
      range.failures = 0
      if (range.dueAt > now) continue
      if (end === undefined && isAhead(chain, range)) {
        range.dueAt = now + Math.max(SECOND_LOOK, now - range.openedAt)
        continue
      }
      range.looks++
      if (range.looks === 1) range.dueAt = now + SECOND_LOOK
      else settle(chain, range, isQuiet(range) ? undefined : 'upstream')
    }
  }

  function postpone(chain: FeedChain, error: Error): void {
    const now = performance.now()
    for (const range of [...chain.missing]) if (range.dueAt <= now) retryLater(chain, range, error)
    log.warn?.(`reports of feed ${chain.feedID} could not be fetched: ${error.message}`)
  }

  function retryLater(chain: FeedChain, range: Missing, error: Error): void {
    // While the service is away it proves nothing.
    if (scope.connections.open > 0) range.failures++
    if (range.failures > FAILURES) settle(chain, range, 'unavailable')
    else range.dueAt = performance.now() + delayAfter(range.failures, error)
  }

  /** A page, while it is wanted. */
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
      // A report that comes by itself shows what is missing before it.
      const isStill = () => isCurrent(chain) && chain.newest === newest
      const found: Report[] = []
      for (let pages = 0, start = chain.last + 1; pages < PROBE_PAGES && isStill(); ) {
        try {
          const page = await withPermit(() => fetchIf(isStill, chain, start, PAGE))
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
      if (!isStill()) return
      parts.skip(chain, found)
      const rejected = await deliverAll(found, report => deliverFound(chain, report))
      const doubt = [...rejected.values()].find(isRetryable)
      isOver ||= doubt === undefined || !(await waitAfter(doubt))

      /** False where it has failed too often. */
      async function waitAfter(error: Error): Promise<boolean> {
        if (signal.aborted) throw error
        // While the service is away it proves nothing.
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

  /** Where a feed is, the service has reports: around outliers ahead, or between those behind and a front that is right. */
  async function ask(chain: FeedChain): Promise<void> {
    let asked: Report | undefined
    for (let failures = 0; ; ) {
      const [outlier] = chain.outliers
      if (outlier === undefined || outlier === asked || !isCurrent(chain)) return
      const isInFront = outlierAhead(chain) === outlier
      await sleep(SECOND_LOOK + PATIENCE, signal)
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
      // One alone moves nothing back.
      if (isOpen() && !isUnclear && (isKnown || (!isInFront && chain.outliers.length > 1)))
        parts.judge(chain, isKnown === isInFront)
    }
  }

  return {
    mend,
    probe: chain => void run(probing, chain, probeOnce),
    doubt: chain => void run(doubting, chain, ask),
    foundUpTo: chain => foundUpTo.get(chain) ?? -1,
  }
}

/** How far the service has shown what there is; undefined where there is nothing. */
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
