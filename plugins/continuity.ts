import type { Plugin, Sink } from '../client/plugin.js'
import type { StreamScope } from '../client/scope.js'
import { ValidationError } from '../core/errors.js'
import { checkNumber, checkOptions, MAX_TIMER } from '../core/options.js'
import type { GapCause } from '../report/gap.js'
import { cutMissing, isFar, LONGEST_RANGE } from '../report/ranges.js'
import type { Report } from '../report/report.js'
import { type Backfill, createBackfill } from './continuity/backfill.js'
import {
  addReport,
  confirmOutliers,
  createFeedChain,
  discardOutliers,
  type FeedChain,
  type Missing,
  mayBeEmpty,
  mayBeFuture,
  outlierAhead,
} from './continuity/feed-chain.js'
import { watchOutages } from './continuity/outages.js'
import { createReportOrder, type ReportOrder } from './continuity/report-order.js'

/** Options of `continuity`. */
export interface ContinuityOptions {
  /**
   * `arrival` delivers live reports at once, and fetched ones when they arrive; `sorted` delivers the reports of each
   * feed in ascending order, and delays those that follow a missing range. @default 'arrival'
   */
  readonly order?: 'arrival' | 'sorted'
  /**
   * Milliseconds of a feed's time, back from its newest report, in which missing reports are fetched; older ones are
   * announced as a gap. @default 300000
   */
  readonly maxBackfill?: number
  /** The longest time that a report waits in sorted order, in milliseconds. @default 30000 */
  readonly maxHold?: number
  /** How many reports of a feed may wait in sorted order. @default 1000 */
  readonly maxHeld?: number
}

type Settings = Required<ContinuityOptions>

/** Milliseconds in which a live report may still arrive after the one that follows it. */
const GRACE = 250

/** Milliseconds by which the clocks of the service and of this machine may differ. */
const CLOCK_TOLERANCE = 5000

/**
 * Misses no report: each begins where the one before it ended, so the range that is missing between two is known. It is
 * fetched and delivered as `backfill`, or announced as a gap. The plugin stands above `dedup`, so that a report that arrives
 * both live and fetched is delivered once.
 */
export function continuity(given?: ContinuityOptions): Plugin<never> {
  const options = checkOptions('continuity', given, ['order', 'maxBackfill', 'maxHold', 'maxHeld'])
  const settings: Settings = {
    order: checkOrder(options.order ?? 'arrival'),
    maxBackfill: checkNumber('maxBackfill', options.maxBackfill ?? 300_000, { min: 0 }),
    maxHold: checkNumber('maxHold', options.maxHold ?? 30_000, { min: 1, max: MAX_TIMER }),
    maxHeld: checkNumber('maxHeld', options.maxHeld ?? 1000, { min: 1, whole: true }),
  }
  return {
    name: 'continuity',
    report: (next, scope) =>
      scope.kind === 'request' ? next : chainReports(next, scope, settings),
  }
}

function checkOrder(order: unknown): 'arrival' | 'sorted' {
  if (order === 'arrival' || order === 'sorted') return order
  throw new ValidationError(`order must be 'arrival' or 'sorted', not ${JSON.stringify(order)}`)
}

function chainReports(next: Sink, scope: StreamScope, settings: Settings): Sink {
  const chains = new Map<string, FeedChain>()
  /** The feeds that have had a chain: their cursors no longer apply. */
  const started = new Set<string>()
  /** The newest report and the outliers that each chain had when its feed recovered. */
  const atRecovery = new Map<FeedChain, readonly (Report | undefined)[]>()
  const { maxHold, maxHeld } = settings
  const backfill: Backfill = createBackfill({
    scope,
    isCurrent: chain => chains.get(chain.feedID) === chain,
    dropTooOld,
    skipTooOld,
    resolve,
    onDropped,
    resolveOutliers,
  })
  const order: ReportOrder | undefined =
    settings.order === 'arrival'
      ? undefined
      : createReportOrder({
          next,
          maxHold,
          maxHeld,
          giveUp: (chain, range) => resolve(chain, range, 'bound'),
          gap: gap => scope.events.emit('gap', gap),
        })
  if (order !== undefined) scope.defer(order.end)
  scope.events.on('ending', giveUpAll)
  watchOutages(scope, { onRecovered, onGraceOver, onUnsubscribed })

  function chainOf(feedID: string, last: number): FeedChain {
    const cursor = started.has(feedID) ? undefined : scope.cursors.get(feedID)
    const chain = createFeedChain(feedID, cursor ?? last)
    started.add(feedID)
    chains.set(feedID, chain)
    return chain
  }

  function onRecovered(feedIDs: readonly string[]): void {
    for (const feedID of feedIDs) {
      const cursor = started.has(feedID) ? undefined : scope.cursors.get(feedID)
      const chain = cursor === undefined ? chains.get(feedID) : chainOf(feedID, cursor)
      if (chain !== undefined) atRecovery.set(chain, [chain.newest, ...chain.outliers])
    }
  }

  function onGraceOver(feedIDs: readonly string[]): void {
    for (const feedID of feedIDs) {
      const chain = chains.get(feedID)
      if (chain === undefined) continue
      if (atRecovery.get(chain)?.includes(chain.newest)) backfill.probe(chain)
      atRecovery.delete(chain)
    }
  }

  /** A feed that is subscribed again starts a new chain. */
  function onUnsubscribed(feedIDs: readonly string[]): void {
    for (const feedID of feedIDs) {
      started.add(feedID)
      const chain = chains.get(feedID)
      if (chain === undefined) continue
      chains.delete(feedID)
      atRecovery.delete(chain)
      order?.drop(chain)
    }
  }

  function limitCursor({ feedID, missing, outliers, last }: FeedChain): void {
    scope.cursors.limit(feedID, missing[0]?.from ?? (outliers.length > 0 ? last + 1 : undefined))
  }

  function onMissing(chain: FeedChain, range: Missing): void {
    range.dueAt += GRACE
    if (!mayBeEmpty(range)) dropTooOld(chain, range)
    backfill.fetchMissing(chain)
  }

  function dropTooOld(chain: FeedChain, range: Missing): void {
    const { from } = range
    // The time before a report of the longest range is older than that report in any case.
    const newest = mayBeEmpty(range) ? range.to : chain.last
    const to = Math.min(range.to, oldestOf(chain, newest) - 1)
    if (to < from) return
    cutMissing(chain, range, from, to)
    emitGap(chain, from, to, 'bound')
  }

  /** The oldest time whose missing reports are fetched, where `newest` is the time of the newest report. */
  function oldestOf({ second }: FeedChain, newest: number): number {
    return newest + 1 - Math.ceil((settings.maxBackfill / 1000) * second)
  }

  function skipTooOld(chain: FeedChain, found: readonly Report[]): void {
    let newest = chain.last
    let before = chain.last
    for (const { validFromTimestamp: from, observationsTimestamp: time } of found) {
      // A single report far from the others may have a wrong time.
      if (!isFar(time, before, chain.second) || from === before + 1) newest = time
      before = time
    }
    // The feed has reached the time of its outlier.
    const { observationsTimestamp: at = newest + 1 } = outlierAhead(chain) ?? {}
    if (at <= newest) resolveOutliers(chain, true)
    const { last } = chain
    const to = oldestOf(chain, newest) - 1
    if (to <= last || !found.some(({ observationsTimestamp: at }) => at > last && at <= to)) return
    chain.last = to
    emitGap(chain, last + 1, to, 'bound')
  }

  function onDropped(chain: FeedChain, report: Report): void {
    const { outliers } = chain
    const placement = addReport(chain, report, range => onMissing(chain, range))
    limitCursor(chain)
    order?.add(chain, undefined, placement, outliers)
  }

  function resolveOutliers(chain: FeedChain, areRight: boolean): void {
    const { outliers } = chain
    const placement = areRight
      ? confirmOutliers(chain, range => onMissing(chain, range))
      : discardOutliers(chain)
    limitCursor(chain)
    order?.add(chain, undefined, placement, outliers)
  }

  function resolve(chain: FeedChain, range: Missing, cause: GapCause | undefined): void {
    const { from, to } = range
    cutMissing(chain, range, from, to)
    limitCursor(chain)
    if (cause !== undefined) {
      emitGap(chain, from, to, cause)
      return
    }
    order?.onResolved(chain, range, false)
  }

  /** Announces the ranges that are known to be missing, and passes on all that waits: the stream ends. */
  function giveUpAll(): void {
    for (const chain of [...chains.values()]) {
      for (const range of [...chain.missing]) {
        // A listener may have ended the subscription.
        if (chains.get(chain.feedID) !== chain) break
        const to = knownEnd(chain, range)
        cutMissing(chain, range, range.from, range.to)
        if (to >= range.from) emitGap(chain, range.from, to, 'unavailable')
        else order?.onResolved(chain, range, false)
      }
      order?.flush(chain)
      const { last } = chain
      const found = backfill.foundUpTo(chain)
      if (found > last) emitGap(chain, last + 1, found, 'unavailable')
    }
  }

  /** The end of the time for which reports are certainly missing: one report alone may have a time in the future. */
  function knownEnd(chain: FeedChain, range: Missing): number {
    const { from, to } = range
    if (mayBeEmpty(range)) return from - 1
    const present = Math.floor(((scope.client.now() + CLOCK_TOLERANCE) / 1000) * chain.second)
    // Where the whole range seems to lie in the future, it is as likely that our clock is wrong.
    return mayBeFuture(chain, range) && present >= from ? Math.min(to, present) : to
  }

  function emitGap(chain: FeedChain, from: number, to: number, cause: GapCause): void {
    const { feedID } = chain
    scope.log.warn?.(`reports of feed ${feedID} from ${from} to ${to} are missing: ${cause}`)
    scope.events.emit('gap', { feedID, from, to, cause })
    order?.onResolved(chain, { from, to }, true)
  }

  return function passChained(report) {
    const { feedID, validFromTimestamp: from, observationsTimestamp: to } = report
    let chain = chains.get(feedID)
    if (
      order === undefined &&
      chain !== undefined &&
      from === chain.last + 1 &&
      to >= from &&
      to - from < LONGEST_RANGE * chain.second &&
      chain.outliers.length === 0
    ) {
      chain.last = to
      chain.newest = report
      return next(report)
    }
    chain ??= chainOf(feedID, to - 1)
    const current = chain
    const { outliers } = chain
    const placement = addReport(chain, report, range => onMissing(current, range))
    limitCursor(chain)
    if (order === undefined) next(report)
    else order.add(chain, report, placement, outliers)
    if (placement !== 'outlier' || chains.get(feedID) !== chain) return
    if (chain.outliers.length > maxHeld) resolveOutliers(chain, true)
    else backfill.checkOutliers(chain)
  }
}
