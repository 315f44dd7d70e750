import type { Plugin } from '../client/plugin.js'
import { checkNumber } from '../core/options.js'
import { isSameBlob } from '../report/full-report.js'
import type { Report } from '../report/report.js'

/** Options of `dedup`. */
export interface DedupOptions {
  /**
   * How many observations of each feed are remembered, at 8 bytes each: a copy that comes after that many newer reports
   * is delivered again. Of reports that were fetched because they were missing, eight times as many. @default 512
   */
  readonly window?: number
}

/**
 * How many of the newest reports of a feed are kept whole, to hold copies against them. They are what a feed costs of
 * memory and of the collector's time, so it is one alone until copies can come.
 */
const KEPT = 4

/** What is fetched comes in masses, and copies of it may still be on their way: this much more of it is remembered. */
const FETCHED = 8

/** Times of observation, written round and round. */
interface Times {
  readonly ring: Float64Array
  count: number
}

/** What was seen of one feed. */
interface Seen {
  readonly live: Times
  /** Apart, so that what is fetched does not push out what is live. */
  fetched: Times | undefined
  /** Written round and round, as often as `live` was. */
  readonly reports: (Report | undefined)[]
  latest: number
  /** Where a plugin above judges: what it has not judged yet. Only what it has passed on is remembered as above. */
  readonly pending: Map<number, Report> | undefined
}

/**
 * Delivers each report once, however many copies come and in whatever order: a report is known by its feed and its time
 * of observation. One that is merely late is no copy; it is delivered, and counted as late. Only what was seen is held
 * back, so no report, whatever its time, can mute those behind it.
 *
 * Two reports of one observation whose values differ raise a `conflict`; the one that came first is delivered. Where a
 * plugin above verifies reports, that is decided when both have been: one that is refused is forgotten here, so it keeps
 * nobody away.
 */
export function dedup(options: DedupOptions = {}): Plugin<never> {
  const window = checkNumber('window', options.window ?? 512, {
    min: 8,
    max: 1_000_000,
    whole: true,
  })

  return {
    name: 'dedup',
    report(next, scope) {
      if (scope.kind === 'request') return next
      const feeds = new Map<string, Seen>()
      const { judge } = scope
      const origins = new Set<string>()
      let hasCopies = false
      const unwatch = scope.watch(status => {
        if (status.type === 'connected') origins.add(status.origin)
        hasCopies ||= origins.size > 1
      })
      scope.defer(unwatch)
      const remember = (seen: Seen, report: Report): void => {
        const { observationsTimestamp: time } = report
        if (time > seen.latest) seen.latest = time
        else if (report.source === 'live') scope.count('late', report)
        if (report.source === 'backfill') {
          seen.fetched ??= createTimes(FETCHED * window)
          add(seen.fetched, time)
        } else {
          const { count } = seen.live
          seen.reports[count % KEPT] = report
          if (!hasCopies) seen.reports[(count + KEPT - 1) % KEPT] = undefined
          add(seen.live, time)
        }
      }
      judge?.listen({
        passed(report) {
          const seen = feeds.get(report.feedID)
          if (seen === undefined) return
          seen.pending?.delete(report.observationsTimestamp)
          remember(seen, report)
        },
        refused(report, instead) {
          const seen = feeds.get(report.feedID)
          if (seen !== undefined) replace(seen, report, instead)
        },
      })
      return function passOnce(report) {
        const { feedID, observationsTimestamp: time } = report
        let seen = feeds.get(feedID)
        if (seen === undefined) {
          seen = {
            live: createTimes(window),
            fetched: undefined,
            reports: [],
            latest: Number.NEGATIVE_INFINITY,
            pending: judge && new Map(),
          }
          feeds.set(feedID, seen)
        }
        const { live, fetched, pending } = seen
        const waiting = pending?.get(time)
        if (
          waiting !== undefined ||
          (time <= seen.latest &&
            (hasSeen(live, time) || (fetched !== undefined && hasSeen(fetched, time))))
        ) {
          const first = waiting ?? findAt(seen.reports, time)
          hasCopies = true
          if (judge?.contest(report, first)) return
          scope.count('deduplicated', report)
          if (first !== undefined && !isSameBlob(first.fullReport, report.fullReport))
            scope.conflict(first, report)
          return
        }
        if (pending === undefined) remember(seen, report)
        else pending.set(time, report)
        next(report)
      }
    },
  }
}

function createTimes(length: number): Times {
  return { ring: new Float64Array(length), count: 0 }
}

function add(times: Times, time: number): void {
  times.ring[times.count % times.ring.length] = time
  times.count++
}

/** Copies follow one another closely, so the newest are looked at first. */
function hasSeen({ ring, count }: Times, time: number): boolean {
  const oldest = Math.max(0, count - ring.length)
  for (let index = count - 1; index >= oldest; index--)
    if (ring[index % ring.length] === time) return true
  return false
}

function findAt(reports: readonly (Report | undefined)[], time: number): Report | undefined {
  for (const report of reports) if (report?.observationsTimestamp === time) return report
  return undefined
}

/** Forgets a report that was refused, or keeps another in its place. */
function replace({ pending, reports }: Seen, report: Report, instead: Report | undefined): void {
  const { observationsTimestamp: time } = report
  const at = reports.indexOf(report)
  if (at !== -1) reports[at] = instead
  else if (pending?.get(time) !== report) return
  else if (instead === undefined) pending.delete(time)
  else pending.set(time, instead)
}
