import type { StreamConfig } from '@nats-io/jetstream'
import { asError } from 'sluice/core'
import { type LogOptions, ReportLog } from './log.js'
import { isDenied } from './refusals.js'
import { findLatest } from './scan.js'
import { wrongForReaders, wrongSettings } from './stream-settings.js'

/** The state of a log. */
export interface Inspection {
  readonly messages: number
  readonly bytes: number
  /** How many servers each hold a copy of the log. */
  readonly replicas: number
  /** The settings that break a rule of the log, each with the rule. */
  readonly wrong: readonly string[]
  /** The servers whose copy is not up to date. */
  readonly behind: readonly { readonly name: string; readonly lag: number }[]
  readonly feeds: readonly InspectedFeed[]
  /** How many feeds of the log were not inspected. */
  readonly otherFeeds: number
  /** The consumers that have a position in the log. */
  readonly readers: readonly InspectedReader[]
  /** The parts that the user of the connection may not inspect. */
  readonly denied: readonly Denial[]
}

/** A part of a log that the user of the connection may not inspect. */
export interface Denial {
  readonly part: 'feeds' | 'readers'
  /** The subject that the user may not publish to, or the message of the server. */
  readonly subject: string
}

/**
 * A feed, and the time of its latest report in the feed's unit. The time is undefined if the log
 * has no report of the feed.
 */
export interface InspectedFeed {
  readonly feedID: string
  readonly latest: number | undefined
}

/** A consumer of the stream. */
export interface InspectedReader {
  readonly name: string
  /** How many reports were not yet delivered to it, or not yet acknowledged by it. */
  readonly lag: number
  /** How many reports were delivered to it, but not yet acknowledged. */
  readonly unacknowledged: number
}

/**
 * Inspects a log and the given feeds. If no feeds are given, it inspects the first `limit` feeds of
 * the log.
 */
export async function inspectLog(
  given: LogOptions,
  feedIDs: readonly string[],
  limit: number,
): Promise<Inspection> {
  const log = new ReportLog(given)
  const { config, state, cluster } = await log.info()
  const stored = feedIDs.length > 0 ? feedIDs : await log.feeds()
  const inspected = feedIDs.length > 0 ? stored : stored.slice(0, limit)
  const denied: Denial[] = []
  const permitted = async <Item>(
    part: Denial['part'],
    inspect: () => Promise<readonly Item[]>,
  ): Promise<readonly Item[]> => {
    try {
      return await unlessDenied(log, inspect)
    } catch (thrown) {
      const { message } = asError(thrown)
      if (!isDenied(message)) throw thrown
      denied.push({ part, subject: /"([^"]+)"/.exec(message)?.[1] ?? message })
      return []
    }
  }
  const feeds = await permitted('feeds', () =>
    Promise.all(
      inspected.map(async feedID => ({
        feedID,
        latest: (await findLatest(log, feedID))?.observationsTimestamp,
      })),
    ),
  )
  const readers = await permitted('readers', () => inspectReaders(log, limit))
  return {
    messages: state.messages,
    bytes: state.bytes,
    replicas: config.num_replicas,
    wrong: isCopy(config) ? wrongForReaders(config) : wrongSettings(config, log.prefix),
    behind: (cluster?.replicas ?? [])
      .filter(({ current, offline }) => !current || offline === true)
      .map(({ name, lag = 0 }) => ({ name, lag })),
    feeds,
    otherFeeds: stored.length - inspected.length,
    readers,
    denied,
  }
}

/**
 * Resolves as `inspect` does. Rejects at once if the servers deny something meanwhile, because some
 * requests get no answer then.
 */
async function unlessDenied<Value>(
  { connection }: ReportLog,
  inspect: () => Promise<Value>,
): Promise<Value> {
  const statuses = connection.status()[Symbol.asyncIterator]()
  const denial = new Promise<never>((_resolve, reject) => {
    async function follow(): Promise<void> {
      for (;;) {
        const { value, done } = await statuses.next()
        if (done === true) return
        if (value.type === 'error' && isDenied(value.error.message)) reject(value.error)
      }
    }
    follow().catch(() => undefined)
  })
  denial.catch(() => undefined)
  try {
    return await Promise.race([inspect(), denial])
  } finally {
    void statuses.return?.()
  }
}

/** True if a stream gets its messages from other streams, and not from relays. */
function isCopy({ mirror, sources = [] }: StreamConfig): boolean {
  return mirror !== undefined || sources.length > 0
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
