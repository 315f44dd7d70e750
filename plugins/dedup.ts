import type { Plugin, Sink } from '../client/plugin.js'
import type { StreamScope } from '../client/scope.js'
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
 * The newest reports of a feed that are cached, to compare copies with them. They are what a feed costs of memory and of the
 * collector's time, so it is one alone until copies can come.
 */
const CACHED = 4

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
}

/**
 * Delivers each report once, however many copies come and in whatever order: a report is identified by its feed and its time
 * of observation. One that is merely late is no copy; it is delivered, and counted as late. Only what was seen is dropped, so
 * no report, whatever its time, can mute those behind it.
 *
 * Two reports of one observation whose values differ are a `conflict`; the one that came first is delivered.
 */
export function dedup(options: DedupOptions = {}): Plugin<never> {
  const window = checkNumber('window', options.window ?? 512, {
    min: 8,
    max: 1_000_000,
    whole: true,
  })

  return {
    name: 'dedup',
    report: (next, scope) => (scope.kind === 'request' ? next : passOnce(next, scope, window)),
  }
}

function passOnce(next: Sink, scope: StreamScope, window: number): Sink {
  const feeds = new Map<string, Seen>()
  let hasCopies = false
  let firstOrigin: string | undefined
  scope.defer(
    scope.connections.watch(({ type, origin }) => {
      if (type !== 'connected') return
      firstOrigin ??= origin
      hasCopies ||= origin !== firstOrigin
    }),
  )

  function seenOf(feedID: string): Seen {
    const known = feeds.get(feedID)
    if (known !== undefined) return known
    const seen: Seen = {
      live: createTimes(window),
      fetched: undefined,
      reports: [],
      latest: Number.NEGATIVE_INFINITY,
    }
    feeds.set(feedID, seen)
    return seen
  }

  function remember(seen: Seen, report: Report): void {
    const { observationsTimestamp: time } = report
    if (time > seen.latest) seen.latest = time
    else if (report.source === 'live') scope.count('late', report)
    if (report.source === 'backfill') {
      seen.fetched ??= createTimes(FETCHED * window)
      add(seen.fetched, time)
    } else {
      const { count } = seen.live
      seen.reports[count % CACHED] = report
      if (!hasCopies) seen.reports[(count + CACHED - 1) % CACHED] = undefined
      add(seen.live, time)
    }
  }

  return function passFirst(report) {
    const seen = seenOf(report.feedID)
    const { observationsTimestamp: time } = report
    const { live, fetched, latest } = seen
    const isCopy =
      time <= latest && (hasSeen(live, time) || (fetched !== undefined && hasSeen(fetched, time)))
    if (!isCopy) {
      remember(seen, report)
      next(report)
      return
    }
    hasCopies = true
    scope.count('deduplicated', report)
    const first = findAt(seen.reports, time)
    if (first !== undefined && !isSameBlob(first.fullReport, report.fullReport))
      scope.events.emit('conflict', { first, other: report })
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
