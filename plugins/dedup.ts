import { blobDigits } from '../core/full-report.js'
import { checkNumber } from '../core/options.js'
import type { Report } from '../core/report.js'
import type { Plugin } from '../core/types.js'

/** Options of `dedup`. */
export interface DedupOptions {
  /**
   * How many observations of each feed are remembered, at 8 bytes each: a copy that comes after that many newer reports
   * is delivered again. @default 512
   */
  readonly window?: number
}

/** How many of the newest reports of a feed are kept whole, to hold copies against them. */
const KEPT = 8

/** What was seen of one feed; both lists are written round and round. */
interface Seen {
  readonly times: Float64Array
  readonly reports: (Report | undefined)[]
  count: number
  latest: number
}

/**
 * Delivers each report once, however many copies come and in whatever order: a report is known by its feed and its time
 * of observation. One that is merely late is no copy; it is delivered, and counted as late. Only what was seen is held
 * back, so no report, whatever its time, can mute those behind it.
 *
 * Two reports of one observation whose values differ raise a `conflict`; the one that came first is delivered.
 */
export function dedup(options: DedupOptions = {}): Plugin<never> {
  const window = checkNumber('window', options.window ?? 512, {
    min: KEPT,
    max: 1_000_000,
    whole: true,
  })

  return {
    name: 'dedup',
    report(next, scope) {
      if (scope.kind === 'request') return next
      const feeds = new Map<string, Seen>()
      return function passOnce(report) {
        const { feedID, observationsTimestamp: time } = report
        let seen = feeds.get(feedID)
        if (seen === undefined) {
          seen = {
            times: new Float64Array(window),
            reports: [],
            count: 0,
            latest: Number.NEGATIVE_INFINITY,
          }
          feeds.set(feedID, seen)
        }
        if (time <= seen.latest && hasSeen(seen, time)) {
          scope.count('deduplicated', report)
          const first = seen.reports.find(each => each?.observationsTimestamp === time)
          if (first !== undefined && !isCopy(first, report)) scope.conflict(first, report)
          return
        }
        if (time > seen.latest) seen.latest = time
        else scope.count('late', report)
        seen.times[seen.count % window] = time
        seen.reports[seen.count % KEPT] = report
        seen.count++
        next(report)
      }
    },
  }
}

/** Copies follow one another closely, so the newest are looked at first. */
function hasSeen({ times, count }: Seen, time: number): boolean {
  const oldest = Math.max(0, count - times.length)
  for (let index = count - 1; index >= oldest; index--)
    if (times[index % times.length] === time) return true
  return false
}

/** Signatures may differ between copies: each node signs, and any f + 1 of them will do. The signed blob may not. */
function isCopy(one: Report, other: Report): boolean {
  return (
    one.fullReport === other.fullReport ||
    blobDigits(one.fullReport) === blobDigits(other.fullReport)
  )
}
