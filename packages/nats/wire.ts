import type { NatsConnection } from '@nats-io/transport-node'
import type {
  ClientOptions,
  ResumedCursors,
  Socket,
  SocketEvents,
  StreamScope,
  Upgrade,
} from 'sluice/client'
import { checkNumber, checkOptions, type OptionNames, ValidationError } from 'sluice/core'
import { parseFeedIDs } from 'sluice/report'
import { openBroadcast } from './consumers.js'
import { checkConnection, type ReportLog } from './log.js'
import type { StreamPlaces } from './log-positions.js'
import { createQueue, type OpenQueue } from './queue-consumer.js'
import { queueScope } from './queue-deliveries.js'
import { openQueueReading } from './queue-reading.js'
import { createQueueWorker, type QueueSettings, type QueueWorker } from './queue-worker.js'
import { openReading } from './log-connection.js'
import { createLogFetch } from './rest.js'
import {
  checkName,
  checkPrefix,
  checkShare,
  DEFAULT_PREFIX,
  DEFAULT_STREAM,
  feedsOfShare,
  type Share,
} from './subjects.js'

/** How a client reads the log. */
export interface NatsWireOptions {
  /** The stream of JetStream that a relay fills. @default 'SLUICE' */
  readonly stream?: string
  /** What its subjects begin with. @default 'sluice' */
  readonly prefix?: string
  /** Which of several shares of the feeds this worker reads. @default all feeds */
  readonly share?: Share
  /** The name of a queue: each report goes to one of its workers. @default every worker gets every report */
  readonly queue?: string
  /** Seconds after which a report of a worker of a queue that has died is given to another. @default 30 */
  readonly redeliverAfter?: number
  /** Seconds that a worker of a queue may work on a report, before it is given to a worker again. @default 10 times redeliverAfter */
  readonly handlingTimeout?: number
  /** How often a report of a queue is given to a worker, before it becomes a dead letter. @default 10 */
  readonly maxDeliveries?: number
  /** Reports that a worker of a queue may have and not have acknowledged, before it takes others. @default 32 */
  readonly maxUnacknowledged?: number
  /** Seconds by which a missing report may be published late, where requests look for it. @default 900 */
  readonly maxPublishDelay?: number
}

const names: OptionNames<NatsWireOptions> = {
  stream: true,
  prefix: true,
  share: true,
  queue: true,
  redeliverAfter: true,
  handlingTimeout: true,
  maxDeliveries: true,
  maxUnacknowledged: true,
  maxPublishDelay: true,
}

/** What makes a client of the log: to spread into the options of `createClient`. */
export type NatsWire = Required<
  Pick<ClientOptions, 'endpoint' | 'wsEndpoint' | 'connect' | 'fetch'>
>

/**
 * The log in place of the service: connections bring the messages of a stream of JetStream, and requests are answered from it.
 *
 * @example
 * ```ts
 * const client = createClient({ ...natsWire(connection), plugins: workerPreset() })
 * ```
 */
export function natsWire(connection: NatsConnection, given?: NatsWireOptions): NatsWire {
  const options = checkOptions('natsWire', given, names)
  const log: ReportLog = {
    connection: checkConnection(connection),
    stream: checkName('stream', options.stream ?? DEFAULT_STREAM),
    prefix: checkPrefix('prefix', options.prefix ?? DEFAULT_PREFIX),
  }
  const share = options.share && checkShare(options.share)
  const queue = checkQueue(options)
  const maxPublishDelay = checkNumber('maxPublishDelay', options.maxPublishDelay ?? 900, { min: 0 })
  const streams = new WeakMap<object, StreamPlaces>()
  const workers = new WeakMap<StreamScope, QueueParts>()

  function placesOf(cursors: ResumedCursors | undefined): StreamPlaces {
    const places = (cursors && streams.get(cursors)) ?? { cursors, feeds: new Map() }
    if (cursors !== undefined) streams.set(cursors, places)
    return places
  }

  /** All connections of a stream share a worker. */
  function partsOf(settings: QueueSettings, cursors: ResumedCursors | undefined): QueueParts {
    const scope = queueScope(cursors)
    if (scope === undefined)
      throw new ValidationError('queue needs the plugin queueDeliveries, as queuePreset has it')
    const known = workers.get(scope)
    if (known !== undefined) return known
    const worker = createQueueWorker(log, scope, settings)
    const parts = { worker, open: createQueue(log, worker) }
    workers.set(scope, parts)
    return parts
  }

  async function connect(upgrade: Upgrade, events: SocketEvents): Promise<Socket> {
    const { url, cursors } = upgrade
    const feedIDs = parseFeedIDs(new URL(url).searchParams.get('feedIDs'))
    if (share !== undefined) checkFeeds(feedIDs, share)
    if (queue !== undefined) {
      const { open, worker } = partsOf(queue, cursors)
      return openQueueReading(log, () => open(feedIDs), worker, events)
    }
    const places = placesOf(cursors)
    return openReading(log, openBroadcast(log, feedIDs, places), events, place => {
      for (const feedID of feedIDs)
        if (places.feeds.get(feedID) === place) places.feeds.set(feedID, undefined)
    })
  }

  return {
    endpoint: `https://nats.invalid/${log.stream}`,
    wsEndpoint: `wss://nats.invalid/${log.stream}`,
    connect,
    fetch: createLogFetch({ log, share, maxPublishDelay: 1000 * maxPublishDelay }),
  }
}

/** What one stream has of a queue. */
interface QueueParts {
  readonly worker: QueueWorker
  readonly open: OpenQueue
}

function checkQueue(options: NatsWireOptions): QueueSettings | undefined {
  const { redeliverAfter = 30, maxDeliveries = 10, maxUnacknowledged = 32 } = options
  checkNumber('redeliverAfter', redeliverAfter, { min: 1, max: 86_400 })
  const settings = {
    redeliverAfter,
    handlingTimeout: checkNumber(
      'handlingTimeout',
      options.handlingTimeout ?? 10 * redeliverAfter,
      {
        min: 1,
        max: 864_000,
      },
    ),
    maxDeliveries: checkNumber('maxDeliveries', maxDeliveries, { min: 1, whole: true }),
    maxUnacknowledged: checkNumber('maxUnacknowledged', maxUnacknowledged, {
      min: 1,
      max: 10_000,
      whole: true,
    }),
  }
  if (options.queue === undefined) return undefined
  return { ...settings, queue: checkName('queue', options.queue) }
}

function checkFeeds(feedIDs: readonly string[], share: Share): void {
  const own = new Set(feedsOfShare(feedIDs, share))
  const other = feedIDs.find(feedID => !own.has(feedID))
  if (other !== undefined)
    throw new ValidationError(
      `feed ${other} is not of share ${share.index} of ${share.of}: feedsOfShare and listFeeds give those that are`,
    )
}
