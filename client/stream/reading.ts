import type { Log } from '../../core/log.js'
import { createOverflowGaps } from '../../report/overflow-gaps.js'
import type { Report } from '../../report/report.js'
import type { Plugins, Sink } from '../contract/plugin.js'
import type { ScopeEvents } from '../contract/scope.js'
import type { FlowControl } from './connection/flow-control.js'
import { type Cursors, createCursors } from './cursors.js'
import type { StreamHandlers } from './events.js'
import type { Lifecycle } from './lifecycle.js'
import { placeNewest } from './newest.js'
import type { CheckedStreamOptions } from './options.js'
import type { Origins } from './origins.js'
import { type Consumption, createConsumption } from './queue/consumption.js'
import { createOutstanding, type Outstanding } from './queue/outstanding.js'
import type { StalenessWatch } from './staleness.js'
import type { StreamCounters } from './stream-api.js'

/** The reading side of a stream: what becomes of a report above the last stage. */
export interface Reading<Data> {
  readonly consumption: Consumption<Data>
  readonly cursors: Cursors | undefined
  /** Above the last stage: counts a report and gives it to the reader. */
  readonly deliver: Sink
  /** Where the stream resumes, once its cursors are loaded. */
  resumed(): ReadonlyMap<string, number>
  /** Loads the cursors. */
  load(feedIDs: readonly string[]): Promise<void>
  /** Saves the cursors. */
  flush(): Promise<void>
  /** Emits gaps for the reports that came while the stream was failing. */
  emitExcess(): void
}

/** What the reading side of a stream needs. */
export interface ReadingParts<Data> {
  readonly log: Log
  /** The present, in milliseconds of Unix time. */
  readonly now: () => number
  readonly life: Lifecycle
  readonly plugins: Plugins
  readonly options: CheckedStreamOptions
  readonly handlers: StreamHandlers<Data>
  readonly events: ScopeEvents
  readonly counters: StreamCounters
  readonly origins: Origins
  readonly staleness: StalenessWatch
  readonly flowControl: FlowControl
  /** Connects the stream, unless it is connected. */
  start(): void
  close(): Promise<void>
  /** Ends the stream by itself. */
  fail(error: Error): void
}

/** Makes the reading side of a stream. */
export function createReading<Data>(parts: ReadingParts<Data>): Reading<Data> {
  const { log, life, options, handlers, events, counters, origins, staleness, flowControl } = parts
  const cursors: Cursors | undefined =
    options.cursors &&
    createCursors({
      store: options.cursors,
      saveInterval: options.saveInterval,
      now: parts.now,
      failed(error) {
        log.error?.(error.message)
        events.emit('error', error)
      },
      earliest: feedID => outstanding?.earliest(feedID),
    })
  const hooks = parts.plugins.flatMap(({ acknowledged }) => acknowledged ?? [])
  const untaken = createUntaken(parts.plugins)

  function taken(report: Report): void {
    cursors?.taken(report)
    for (const hook of hooks) hook(report)
  }

  /** Without cursors and hooks nobody asks which reports are taken, unless they are to be acknowledged. */
  const outstanding: Outstanding | undefined =
    cursors === undefined && hooks.length === 0 && options.acknowledge === 'automatic'
      ? undefined
      : createOutstanding({
          acknowledge: options.acknowledge,
          limit: options.queue,
          flowControl,
          queued: () => consumption.queued,
          arrived: report => cursors?.arrived(report),
          taken,
          slow,
          overflowed: parts.fail,
        })
  const consumption: Consumption<Data> = createConsumption<Data>({
    size: options.queue,
    overflow: options.overflow,
    flowControl,
    outstanding,
    emit: handlers.report,
    hasHandler: handlers.hasReportHandler,
    slow,
    dropped(report) {
      counters.dropped++
      untaken(report)
    },
    untaken,
    gap: gap => events.emit('gap', gap),
    overflowed(error, report) {
      leaveToAnother(report)
      parts.fail(error)
    },
    start: parts.start,
    close: parts.close,
    reason: () => life.signal.reason,
  })
  const excess = createOverflowGaps(gap => events.emit('gap', gap))
  let resumed: ReadonlyMap<string, number> = new Map()

  /** The report is lost to this stream, which is failing: another one with these cursors may do better. */
  function leaveToAnother({ feedID, observationsTimestamp: time }: Report): void {
    cursors?.lower(feedID, time)
  }

  function slow(queued: number, message: string): void {
    log.warn?.(message)
    events.emit('status', { type: 'backpressure', queued })
  }

  return {
    consumption,
    cursors,
    deliver(report: Report) {
      const feed = staleness.feeds.get(report.feedID)
      // A plugin may have kept it until its feed was no longer subscribed.
      if (handlers.isClosed || (feed === undefined && staleness.hasRemoved)) {
        untaken(report)
        return
      }
      if (life.phase === 'failing') {
        excess.add(report)
        leaveToAnother(report)
        untaken(report)
        return
      }
      counters.accepted++
      if (report.source === 'backfill') counters.backfilled++
      const traffic = origins.find(report.origin)
      if (traffic !== undefined) traffic.first++
      if (feed !== undefined && placeNewest(feed, report, parts.now)) {
        counters.outOfOrder++
        if (traffic !== undefined) traffic.outOfOrder++
      }
      consumption.deliver(report)
    },
    resumed: () => resumed,
    async load(feedIDs) {
      if (cursors === undefined) return
      resumed = await cursors.load(life.signal)
      const known = feedIDs.filter(feedID => resumed.has(feedID)).length
      log.info?.(`stream resumes: ${known} of its feeds have a cursor`)
    },
    flush: async () => cursors?.flush(),
    emitExcess: excess.flushAll,
  }
}

/** Calls the hooks for a report that will not be taken. */
function createUntaken(plugins: Plugins): Sink {
  const hooks = plugins.flatMap(({ unacknowledged }) => unacknowledged ?? [])
  return function untaken(report) {
    for (const hook of hooks) hook(report)
  }
}
