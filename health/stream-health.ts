import type { Status } from '../client/contract/status.js'
import type { Stream } from '../client/stream/stream-api.js'
import type { Log } from '../core/log.js'
import { checkText, readOptions, type Schema, unchecked, withDefault } from '../core/options.js'
import { Health, type Severity } from './health.js'

/** A cause of a stream. */
export type StreamCause =
  | 'no-connection'
  | 'connection-lost'
  | 'feeds-stale'
  | 'verification-behind'
  | 'cursors-unsaved'
  | 'cursors-held-back'
  | 'stream-ended'

/** The causes of a stream. A service that reads a stream has them among its own. */
export const streamCauses: Readonly<Record<StreamCause, Severity>> = {
  /** No connection is open. */
  'no-connection': 'unready',
  /** Some connections are open, and some are not. */
  'connection-lost': 'warning',
  /** Feeds have brought no report for longer than the stream allows. */
  'feeds-stale': 'warning',
  /** Reports wait for verification, the oldest for more than two seconds. */
  'verification-behind': 'warning',
  /** Changes of cursors have waited to be saved for more than 30 seconds. */
  'cursors-unsaved': 'warning',
  /** A cursor is more than five minutes behind the newest report of its feed. */
  'cursors-held-back': 'warning',
  /** The stream has failed for good. */
  'stream-ended': 'dead',
}

/** Options of `streamHealth`. */
export interface StreamHealthOptions {
  /** The name of the service. @default 'stream' */
  readonly service?: string
  /** Receives a line when something goes wrong, and when it is over. @default nothing is logged */
  readonly log?: Log
}

const schema = {
  service: withDefault('stream', checkText),
  log: withDefault({}, unchecked<Log>),
} satisfies Schema<StreamHealthOptions>

/** Milliseconds that a change of cursors may wait to be saved. */
const MAX_UNSAVED = 30_000
/** Milliseconds by which a cursor may be behind the newest report of its feed. */
const MAX_HELD_BACK = 300_000
/** How many feeds a message names at most. */
const MAX_NAMED = 3

/**
 * Makes the health of a stream. It ends with the stream.
 *
 * @example
 * const health = streamHealth(stream, { log: { error: console.error } })
 */
export function streamHealth(stream: Stream, options?: StreamHealthOptions): Health<StreamCause> {
  const { service, log } = readOptions('streamHealth', options, schema)
  const health = new Health({ service, causes: streamCauses, log })
  watchStream(health, stream)
  stream.closed.then(
    () => health.end(),
    () => health.end(),
  )
  return health
}

/** How a stream is watched. */
export interface WatchStreamOptions {
  /**
   * True if the stream gets some of the reports of its feeds, such as that of a queue's worker. It
   * then never has the cause `feeds-stale`.
   * @default false
   */
  readonly ignoresFeeds?: boolean
}

/** Watches a stream for a health that has the causes of streams among its own. */
export function watchStream(
  health: Health<StreamCause>,
  stream: Stream,
  { ignoresFeeds = false }: WatchStreamOptions = {},
): void {
  const stale = new Set<string>()
  stream.on('status', (status: Status) => {
    if (status.type === 'stale') for (const feedID of status.feedIDs) stale.add(feedID)
    else if (status.type === 'fresh' || status.type === 'unsubscribed')
      for (const feedID of status.feedIDs) stale.delete(feedID)
    else if (status.type === 'behind') {
      const { waiting, oldestMs, cause } = status
      const why = cause === 'signers' ? 'the signers are not known yet' : 'recovery is too slow'
      health.set(
        'verification-behind',
        `${waiting} reports wait for verification, the oldest for ${seconds(oldestMs)}: ${why}`,
      )
    } else if (status.type === 'caught-up') health.set('verification-behind')
  })
  let hasEnded = false
  stream.closed.then(
    () => {
      hasEnded = true
    },
    (error: Error) => {
      hasEnded = true
      health.set('stream-ended', `the stream has failed: ${error.message}`)
    },
  )
  health.watch(() => {
    if (hasEnded) return
    const { activeConnections: open, configuredConnections: wanted, cursors } = stream.getMetrics()
    const why = open < wanted ? reasonOf(stream) : ''
    health.set('no-connection', open === 0 ? `no connection of ${wanted} is open${why}` : undefined)
    health.set(
      'connection-lost',
      open > 0 && open < wanted ? `${open} of ${wanted} connections are open${why}` : undefined,
    )
    const { unsavedMs = 0, heldBackMs = 0 } = cursors ?? {}
    health.set(
      'cursors-unsaved',
      unsavedMs > MAX_UNSAVED
        ? `cursors have not been saved for ${seconds(unsavedMs)}: a restart would begin there`
        : undefined,
    )
    health.set(
      'cursors-held-back',
      heldBackMs > MAX_HELD_BACK
        ? `a cursor is ${seconds(heldBackMs)} behind the newest report of its feed: a report is missing, or was not acknowledged`
        : undefined,
    )
    health.set(
      'feeds-stale',
      stale.size === 0 || ignoresFeeds ? undefined : describeStale([...stale]),
    )
  })
}

/** The last error of the connections that are not open, with the host. */
function reasonOf(stream: Stream): string {
  const lost = stream
    .getConnectionDetails()
    .find(({ state, lastError }) => state !== 'connected' && lastError !== undefined)
  // Without the query, which names every feed.
  return lost === undefined ? '' : `: ${lost.lastError?.message.replace(/\?\S*:/, ':')}`
}

function describeStale(feedIDs: readonly string[]): string {
  const more = feedIDs.length > MAX_NAMED ? ' and others' : ''
  const feeds = feedIDs.length === 1 ? '1 feed brings' : `${feedIDs.length} feeds bring`
  return `${feeds} no reports: ${feedIDs.slice(0, MAX_NAMED).join(', ')}${more}`
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`
}
