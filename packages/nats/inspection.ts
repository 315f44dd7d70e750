import { type LogOptions, ReportLog } from './log.js'
import { findLatest } from './scan.js'
import { wrongSettings } from './stream-settings.js'

/** How a log stands. */
export interface Inspection {
  readonly messages: number
  readonly bytes: number
  /** Servers that each hold a copy. */
  readonly replicas: number
  /** The settings that do not serve. */
  readonly wrong: readonly string[]
  /** The servers whose copy is not up to date. */
  readonly behind: readonly { readonly name: string; readonly lag: number }[]
  readonly feeds: readonly InspectedFeed[]
  /** Feeds of the log that were not looked at. */
  readonly otherFeeds: number
  /** The consumers that have a place in the log. */
  readonly readers: readonly InspectedReader[]
}

/** A feed, and the time of its last report, in the feed's unit; undefined where it has none. */
export interface InspectedFeed {
  readonly feedID: string
  readonly latest: number | undefined
}

/** A consumer of the stream. */
export interface InspectedReader {
  readonly name: string
  /** Reports that it has not been given, or has not acknowledged. */
  readonly lag: number
  /** Reports that it has been given and not acknowledged. */
  readonly unacknowledged: number
}

/** Looks at a log: at the given feeds or, without any, at the first `limit` that are in it. */
export async function inspectLog(
  given: LogOptions,
  feedIDs: readonly string[],
  limit: number,
): Promise<Inspection> {
  const log = new ReportLog(given)
  const { config, state, cluster } = await log.info()
  const stored = feedIDs.length > 0 ? feedIDs : await log.feeds()
  const inspected = feedIDs.length > 0 ? stored : stored.slice(0, limit)
  return {
    messages: state.messages,
    bytes: state.bytes,
    replicas: config.num_replicas,
    wrong: wrongSettings(config, log.prefix),
    behind: (cluster?.replicas ?? [])
      .filter(({ current, offline }) => !current || offline === true)
      .map(({ name, lag = 0 }) => ({ name, lag })),
    feeds: await Promise.all(
      inspected.map(async feedID => ({
        feedID,
        latest: (await findLatest(log, feedID))?.observationsTimestamp,
      })),
    ),
    otherFeeds: stored.length - inspected.length,
    readers: await inspectReaders(log, limit),
  }
}

async function inspectReaders(log: ReportLog, limit: number): Promise<readonly InspectedReader[]> {
  const { manager } = await log.access()
  const readers: InspectedReader[] = []
  for await (const { name, num_pending, num_ack_pending } of manager.consumers.list(log.stream)) {
    if (readers.length === limit) break
    const lag = num_pending + num_ack_pending
    readers.push({ name, lag, unacknowledged: num_ack_pending })
  }
  return readers
}
