import type { Plugin, Sink } from '../client/plugin.js'
import type { StreamScope } from '../client/scope.js'
import { ValidationError } from '../core/errors.js'
import { checkNumber, checkOptions, MAX_TIMER } from '../core/options.js'
import type { GapCause } from '../report/gap.js'
import { cutMissing, isFar, LONGEST_RANGE } from '../report/ranges.js'
import type { Report } from '../report/report.js'
import { type Backfill, createBackfill } from './continuity/backfill.js'
import {
  believe,
  createFeedChain,
  disbelieve,
  type FeedChain,
  follow,
  isAhead,
  isQuiet,
  type Missing,
  outlierAhead,
} from './continuity/feed-chain.js'
import { watchOutages } from './continuity/outages.js'
import { createReportOrder, type ReportOrder } from './continuity/report-order.js'

/** Options of `continuity`. */
export interface ContinuityOptions {
  /**
   * `arrival` delivers live reports at once and what was missing when it comes; `sorted` delivers the reports of each
   * feed in ascending order, and holds back those that are ahead. @default 'arrival'
   */
  readonly order?: 'arrival' | 'sorted'
  /**
   * Milliseconds of a feed's time, back from its newest report, in which missing reports are fetched; what is older is
   * announced as a gap. @default 300000
   */
  readonly maxBackfill?: number
  /** Milliseconds a report is held back at most, when sorted. @default 30000 */
  readonly maxHold?: number
  /** Reports of a feed that are held back at most, when sorted. @default 1000 */
  readonly maxHeld?: number
}

type Settings = Required<ContinuityOptions>

/** Milliseconds in which a report that was overtaken may still come by itself. */
const GRACE = 250

/** Milliseconds that clocks may differ. */
const GRANTED = 5000

/**
 * Misses no report: each begins where the one of its feed before ended, so what is missing between two is known, and is
 * fetched and delivered as `backfill`. What can't be had is announced as a gap. It stands above `dedup`, so that what
 * comes twice, live and fetched, is delivered once.
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
    report: (next, scope) => (scope.kind === 'request' ? next : chained(next, scope, settings)),
  }
}

function checkOrder(order: unknown): 'arrival' | 'sorted' {
  if (order === 'arrival' || order === 'sorted') return order
  throw new ValidationError(`order must be 'arrival' or 'sorted', not ${JSON.stringify(order)}`)
}

function chained(next: Sink, scope: StreamScope, settings: Settings): Sink {
  const chains = new Map<string, FeedChain>()
  /** The feeds that have had a chain: their cursors are used up. */
  const begun = new Set<string>()
  const silent = new Map<FeedChain, readonly (Report | undefined)[]>()
  const { maxHold, maxHeld } = settings
  const backfill: Backfill = createBackfill({
    scope,
    isCurrent: chain => chains.get(chain.feedID) === chain,
    bound,
    skip,
    settle,
    kept,
    judge,
  })
  const order: ReportOrder | undefined =
    settings.order === 'arrival'
      ? undefined
      : createReportOrder({
          next,
          maxHold,
          maxHeld,
          giveUp: (chain, range) => settle(chain, range, 'bound'),
          gap: gap => scope.events.emit('gap', gap),
        })
  if (order !== undefined) scope.defer(order.end)
  scope.events.on('ending', giveUpAll)
  watchOutages(scope, { recovered, waited, unsubscribed })

  function chainOf(feedID: string, last: number): FeedChain {
    const cursor = begun.has(feedID) ? undefined : scope.cursors.get(feedID)
    const chain = createFeedChain(feedID, cursor ?? last)
    begun.add(feedID)
    chains.set(feedID, chain)
    return chain
  }

  /** Notes where feeds are, to see later which of them have said nothing since. */
  function recovered(feedIDs: readonly string[]): void {
    for (const feedID of feedIDs) {
      const cursor = begun.has(feedID) ? undefined : scope.cursors.get(feedID)
      const chain = cursor === undefined ? chains.get(feedID) : chainOf(feedID, cursor)
      if (chain !== undefined) silent.set(chain, [chain.newest, ...chain.outliers])
    }
  }

  function waited(feedIDs: readonly string[]): void {
    for (const feedID of feedIDs) {
      const chain = chains.get(feedID)
      if (chain === undefined) continue
      if (silent.get(chain)?.includes(chain.newest)) backfill.probe(chain)
      silent.delete(chain)
    }
  }

  /** Who subscribes again begins anew. */
  function unsubscribed(feedIDs: readonly string[]): void {
    for (const feedID of feedIDs) {
      begun.add(feedID)
      const chain = chains.get(feedID)
      if (chain === undefined) continue
      chains.delete(feedID)
      silent.delete(chain)
      order?.drop(chain)
    }
  }

  function opened(chain: FeedChain, range: Missing): void {
    range.dueAt += GRACE
    if (!isQuiet(range)) bound(chain, range)
    backfill.mend(chain)
  }

  function bound(chain: FeedChain, range: Missing): void {
    const { from } = range
    // A report of the longest range has nothing but older time before it.
    const newest = isQuiet(range) ? range.to : chain.last
    const to = Math.min(range.to, oldestOf(chain, newest) - 1)
    if (to < from) return
    cutMissing(chain, range, from, to)
    announce(chain, from, to, 'bound')
  }

  /** The time from which on missing reports are fetched, where `newest` is that of the newest one. */
  function oldestOf({ second }: FeedChain, newest: number): number {
    return newest + 1 - Math.ceil((settings.maxBackfill / 1000) * second)
  }

  function skip(chain: FeedChain, found: readonly Report[]): void {
    let newest = chain.last
    let before = chain.last
    for (const { validFromTimestamp: from, observationsTimestamp: time } of found) {
      // One that is alone far off may be wrong.
      if (!isFar(time, before, chain.second) || from === before + 1) newest = time
      before = time
    }
    // The feed has come to where its outlier was.
    const { observationsTimestamp: at = newest + 1 } = outlierAhead(chain) ?? {}
    if (at <= newest) judge(chain, true)
    const { last } = chain
    const to = oldestOf(chain, newest) - 1
    if (to <= last || !found.some(({ observationsTimestamp: at }) => at > last && at <= to)) return
    chain.last = to
    announce(chain, last + 1, to, 'bound')
  }

  function kept(chain: FeedChain, report: Report): void {
    const { outliers } = chain
    const verdict = follow(chain, report, range => opened(chain, range))
    order?.take(chain, undefined, verdict, outliers)
  }

  function judge(chain: FeedChain, areRight: boolean): void {
    const { outliers } = chain
    const verdict = areRight ? believe(chain, range => opened(chain, range)) : disbelieve(chain)
    order?.take(chain, undefined, verdict, outliers)
  }

  function settle(chain: FeedChain, range: Missing, cause: GapCause | undefined): void {
    const { from, to } = range
    cutMissing(chain, range, from, to)
    if (cause !== undefined) {
      announce(chain, from, to, cause)
      return
    }
    scope.cursors.skip(chain.feedID, from, to)
    order?.settled(chain, range, false)
  }

  /** Nothing more will be fetched: what is known to be missing is announced, and what is held is passed on. */
  function giveUpAll(): void {
    for (const chain of [...chains.values()]) {
      for (const range of [...chain.missing]) {
        // A handler may have ended the subscription.
        if (chains.get(chain.feedID) !== chain) break
        const to = knownEnd(chain, range)
        cutMissing(chain, range, range.from, range.to)
        if (to >= range.from) announce(chain, range.from, to, 'unavailable')
        else order?.settled(chain, range, false)
      }
      order?.flush(chain)
      const { last } = chain
      const found = backfill.foundUpTo(chain)
      if (found > last) announce(chain, last + 1, found, 'unavailable')
    }
  }

  /** Up to where reports are certain to be missing: one report alone does not prove that its time has come. */
  function knownEnd(chain: FeedChain, range: Missing): number {
    const { from, to } = range
    if (isQuiet(range)) return from - 1
    const present = Math.floor(((scope.client.now() + GRANTED) / 1000) * chain.second)
    // Where all of it seems to be in time to come, it is as likely our clock that is wrong.
    return isAhead(chain, range) && present >= from ? Math.min(to, present) : to
  }

  function announce(chain: FeedChain, from: number, to: number, cause: GapCause): void {
    const { feedID } = chain
    scope.log.warn?.(`reports of feed ${feedID} from ${from} to ${to} are missing: ${cause}`)
    scope.events.emit('gap', { feedID, from, to, cause })
    order?.settled(chain, { from, to }, true)
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
    const verdict = follow(chain, report, range => opened(current, range))
    if (order === undefined) next(report)
    else order.take(chain, report, verdict, outliers)
    if (verdict !== 'outlier' || chains.get(feedID) !== chain) return
    if (chain.outliers.length > maxHeld) judge(chain, true)
    else backfill.doubt(chain)
  }
}
