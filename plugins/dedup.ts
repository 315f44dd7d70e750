import type { Plugin, Sink } from '../client/plugin.js'
import type { StreamScope } from '../client/scope.js'
import { checkNumber } from '../core/options.js'
import { isSameBlob } from '../report/full-report.js'
import type { Report } from '../report/report.js'

/** Options of `dedup`. */
export interface DedupOptions {
  /**
   * How many observations of each feed are remembered, at 8 bytes each: a copy that arrives after that many newer reports
   * is delivered again. Eight times as many are remembered of fetched reports. @default 512
   */
  readonly window?: number
}

/**
 * How many of the newest reports of a feed are cached, to compare copies with them. Reports cost memory and time of the
 * garbage collector, so only one is cached until copies can arrive.
 */
const CACHED = 4

/** How many times more fetched reports are remembered: many arrive at a time, and their copies later. */
const FETCHED = 8

/** Times of observation in a ring buffer. */
interface Times {
  readonly ring: Float64Array
  count: number
}

/** The observations of one feed that were delivered. */
interface Seen {
  readonly live: Times
  /** Separate, so that fetched reports do not displace live ones. */
  fetched: Times | undefined
  /** A ring buffer in step with `live`. */
  readonly reports: (Report | undefined)[]
  latest: number
}

/**
 * Delivers each report once, however many copies arrive and in whatever order. Feed and time of observation identify a
 * report. A late report is not a copy: it is delivered, and counted as late. Only observations that were delivered are
 * dropped, so no report, whatever its time, suppresses later ones.
 *
 * Two reports of one observation with different values are a `conflict`; the first of them is delivered.
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

  function addFeed(feedID: string): Seen {
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
    const seen = feeds.get(report.feedID) ?? addFeed(report.feedID)
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

/** Searches from the newest time, as copies follow one another closely. */
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
