import { DataStreamsError } from '../../../core/errors.js'
import { onAcknowledge, type Report } from '../../../report/report.js'
import type { FlowControl } from '../connection/flow-control.js'

/** The values of the option `acknowledge`. */
export const acknowledgeModes = ['automatic', 'manual'] as const
/**
 * When a report counts as acknowledged: once its handlers have returned and the promises they returned have settled, or its reader
 * has asked for the next one (`automatic`), or when you call `report.acknowledge()` (`manual`).
 */
export type AcknowledgeMode = (typeof acknowledgeModes)[number]

/** The reports of a stream that were delivered and are not taken yet. */
export interface Outstanding {
  /** A report is about to be delivered. */
  begin(report: Report): void
  /** It was delivered: unless a holder is left, it is taken. */
  delivered(report: Report): void
  /** Adds a holder of a report: a reader, or a promise of a handler. */
  retain(report: Report): void
  /** Removes a holder; after the last one the report is taken. */
  release(report: Report): void
  /** The report was dropped: it is neither outstanding nor taken. */
  drop(report: Report): void
  /** The time of a feed's earliest outstanding report. */
  earliest(feedID: string): number | undefined
  /** Resolves when fewer than the limit are given out. */
  room(): Promise<void>
}

/** The limit and the listeners of outstanding reports. */
export interface OutstandingOptions {
  readonly acknowledge: AcknowledgeMode
  /** Reports that may be given out before the connections are paused; 0 for any number. */
  readonly limit: number
  readonly flowControl: FlowControl
  /** How many outstanding reports are not given out yet. */
  queued(): number
  /** A report is outstanding. */
  arrived(report: Report): void
  taken(report: Report): void
  /** The limit is reached: called once, until half of the reports are taken. */
  slow(count: number, message: string): void
  /** The stream has to end. */
  overflowed(error: DataStreamsError): void
}

/** Tracks which reports are outstanding. A report without a holder after its delivery leaves no trace. */
export function createOutstanding(options: OutstandingOptions): Outstanding {
  const { limit, flowControl } = options
  const isManual = options.acknowledge === 'manual'
  /** For each report of each feed, its number of holders. */
  const feeds = new Map<string, Map<Report, number>>()
  const waitingForRoom: (() => void)[] = []
  let count = 0
  let isFull = false

  function retain(report: Report): void {
    const feed = feeds.get(report.feedID) ?? new Map<Report, number>()
    if (feed.size === 0) feeds.set(report.feedID, feed)
    const holders = feed.get(report) ?? 0
    feed.set(report, holders + 1)
    if (holders > 0) return
    count++
    options.arrived(report)
    if (limit > 0) checkLimit(count - options.queued())
  }

  function checkLimit(givenOut: number): void {
    if (givenOut >= 2 * limit && flowControl.hasUnpausable) {
      const message = `the stream has ${givenOut} reports that were given out and not taken, and a connection that cannot be paused`
      options.overflowed(new DataStreamsError(message, { code: 'OVERFLOW' }))
    }
    if (givenOut < limit || isFull) return
    isFull = true
    flowControl.pause(outstanding)
    const lack = isManual ? 'acknowledged' : 'taken, since promises of handlers have not settled'
    options.slow(
      givenOut,
      `${givenOut} reports were given out and are not ${lack}: the connections are paused until half of them are`,
    )
  }

  function release(report: Report): void {
    const feed = feeds.get(report.feedID)
    const holders = feed?.get(report)
    if (feed === undefined || holders === undefined) return
    if (holders > 1) {
      feed.set(report, holders - 1)
      return
    }
    drop(report)
    options.taken(report)
  }

  function drop(report: Report): void {
    const feed = feeds.get(report.feedID)
    if (feed?.delete(report) !== true) return
    if (feed.size === 0) feeds.delete(report.feedID)
    count--
    if (!isFull || count - options.queued() > limit >> 1) return
    isFull = false
    flowControl.resume(outstanding)
    for (const resolve of waitingForRoom.splice(0)) resolve()
  }

  const outstanding: Outstanding = {
    begin(report) {
      if (!isManual) return
      retain(report)
      onAcknowledge(report, release)
    },
    delivered(report) {
      if (isManual || (count > 0 && feeds.get(report.feedID)?.has(report))) return
      options.taken(report)
    },
    // In manual mode only an acknowledgement takes a report.
    retain(report) {
      if (!isManual) retain(report)
    },
    release(report) {
      if (!isManual) release(report)
    },
    drop,
    earliest(feedID) {
      let earliest: number | undefined
      for (const { observationsTimestamp: time } of feeds.get(feedID)?.keys() ?? [])
        if (earliest === undefined || time < earliest) earliest = time
      return earliest
    },
    room: () =>
      isFull ? new Promise<void>(resolve => void waitingForRoom.push(resolve)) : Promise.resolve(),
  }
  return outstanding
}
