import type { Plugin, Sink } from '../client/contract/plugin.js'
import type { StreamScope } from '../client/contract/scope.js'
import { number, readOptions, type Schema, withDefault } from '../core/options.js'
import { isSameBlob } from '../report/full-report.js'
import { markSignedLater, type Report } from '../report/report.js'
import { provideSeen, seenIn } from '../report/seen-times.js'
import { findSignedLater } from '../report/signing-order.js'

/** Options of `dedup`. */
export interface DedupOptions {
  /**
   * At least this many of the newest observations of each feed are remembered exactly. An
   * observation takes 8 bytes, or 16 if its feed counts in milliseconds. Older observations are
   * remembered only as runs. In a run, each report begins where the report before it ended.
   * @default 512
   */
  readonly window?: number
}

const schema = {
  window: withDefault(512, number({ min: 8, max: 1_000_000, whole: true })),
} satisfies Schema<DedupOptions>

/**
 * Delivers each report once, however many duplicates arrive and in whatever order. The feed and the
 * time of observation identify a report. A report that arrives out of order is not a duplicate, and
 * is delivered.
 *
 * Two reports of one observation with different contents cause a `conflict` event. Only the first
 * report is delivered.
 */
export function dedup(options?: DedupOptions): Plugin<never> {
  const { window } = readOptions('dedup', options, schema)
  return {
    name: 'dedup',
    setup(scope) {
      scope.place({
        provides: ['unique'],
        below: ['verified'],
        because: 'takes each report that it has seen for delivered',
      })
      provideSeen(scope)
    },
    report: (next, scope) => (scope.kind === 'request' ? next : passOnce(next, scope, window)),
  }
}

function passOnce(next: Sink, scope: StreamScope, window: number): Sink {
  const feeds = seenIn(scope)
  feeds.window = window
  let firstOrigin: string | undefined
  scope.defer(
    scope.connections.watch(({ type, origin }) => {
      if (type !== 'connected') return
      firstOrigin ??= origin
      feeds.hasDuplicates ||= origin !== firstOrigin
    }),
  )
  scope.defer(
    scope.events.on('status', status => {
      if (status.type === 'unsubscribed') feeds.forget(status.feedIDs)
    }),
  )

  /** Compares a report with a report of a later time that came before it. */
  function compare(report: Report, newest: Report): void {
    findSignedLater([report, newest], (found, facts) => {
      if (found === report && report.signedLater === undefined) markSignedLater(report, facts)
    })
    if (report.signedLater !== undefined) scope.count('signedLater', report)
  }

  return function passFirst(report) {
    const { observationsTimestamp: time, validFromTimestamp: since } = report
    const seen = feeds.of(report.feedID)
    if (seen.add(seen.hasRanges ? since : time, time)) {
      const { newestReport: newest } = seen
      if (newest !== undefined && time < newest.observationsTimestamp) compare(report, newest)
      seen.cache(report, feeds.hasDuplicates)
      next(report)
      return
    }
    feeds.hasDuplicates = true
    scope.count('deduplicated', report)
    const first = seen.cached(time)
    if (first !== undefined && !isSameBlob(first.fullReport, report.fullReport))
      scope.events.emit('conflict', { first, other: report })
  }
}
