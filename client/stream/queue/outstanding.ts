import { DataStreamsError } from '../../../core/errors.js'
import { onAcknowledge, type Report } from '../../../report/report.js'
import type { FlowControl } from '../connection/flow-control.js'

/** Who says that a report is taken. */
export const acknowledgeModes = ['automatic', 'manual'] as const
/**
 * When a report counts as taken: once its handlers have returned, and what they promised has settled, or the reader has
 * asked for the next one (`automatic`), or when you call `report.acknowledge()` (`manual`).
 */
export type AcknowledgeMode = (typeof acknowledgeModes)[number]

/** The reports of a stream that were delivered and are not taken yet. */
export interface Outstanding {
  /** A report is about to be delivered. */
  begin(report: Report): void
  /** It was delivered: unless somebody holds it, it is taken. */
  delivered(report: Report): void
  /** Somebody has still to deal with it: a reader, or a handler that promised to. */
  hold(report: Report): void
  /** One of those who held it is done; after the last of them it is taken. */
  release(report: Report): void
  /** It was thrown away: it is neither outstanding nor taken. */
  drop(report: Report): void
  /** The time of the earliest one of a feed. */
  earliest(feedID: string): number | undefined
  /** Resolves when fewer are out than may be. */
  room(): Promise<void>
}

/** What is told of outstanding reports, and how many there may be. */
export interface OutstandingOptions {
  readonly acknowledge: AcknowledgeMode
  /** So many may have been given out before the connections are held back; 0 for any number. */
  readonly limit: number
  readonly flowControl: FlowControl
  /** How many of them have not been given out yet. */
  queued(): number
  /** A report is outstanding. */
  arrived(report: Report): void
  taken(report: Report): void
  /** So many are given out, and what that means: once, until half of them are taken. */
  slow(count: number, message: string): void
  /** The stream has to end. */
  overflowed(error: DataStreamsError): void
}

/** Keeps account of what is outstanding. A report that nobody holds after its delivery leaves no trace. */
export function createOutstanding(options: OutstandingOptions): Outstanding {
  const { limit, flowControl } = options
  const isManual = options.acknowledge === 'manual'
  /** By feed; for each report, by how many it is held. */
  const feeds = new Map<string, Map<Report, number>>()
  const wantRoom: (() => void)[] = []
  let count = 0
  let isFull = false

  function hold(report: Report): void {
    const feed = feeds.get(report.feedID) ?? new Map<Report, number>()
    if (feed.size === 0) feeds.set(report.feedID, feed)
    const holders = feed.get(report) ?? 0
    feed.set(report, holders + 1)
    if (holders > 0) return
    count++
    options.arrived(report)
    if (limit > 0) limitGivenOut()
  }

  function limitGivenOut(): void {
    const givenOut = count - options.queued()
    if (givenOut >= 2 * limit && flowControl.leaks) {
      options.overflowed(
        new DataStreamsError(
          `the stream has ${givenOut} reports that were given out and not taken, and a connection that cannot be paused`,
          { code: 'OVERFLOW' },
        ),
      )
    }
    if (givenOut < limit || isFull) return
    isFull = true
    flowControl.pause(outstanding)
    const lack = isManual ? 'acknowledged' : 'taken, since what handlers promised has not settled'
    options.slow(
      givenOut,
      `${givenOut} reports were given out and are not ${lack}: the connections are held back until half of them are`,
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
    for (const resolve of wantRoom.splice(0)) resolve()
  }

  const outstanding: Outstanding = {
    begin(report) {
      if (!isManual) return
      hold(report)
      onAcknowledge(report, release)
    },
    delivered(report) {
      if (isManual || (count > 0 && feeds.get(report.feedID)?.has(report))) return
      options.taken(report)
    },
    hold(report) {
      if (!isManual) hold(report)
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
      isFull ? new Promise<void>(resolve => void wantRoom.push(resolve)) : Promise.resolve(),
  }
  return outstanding
}
