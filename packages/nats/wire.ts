import type { NatsConnection } from '@nats-io/transport-node'
import type {
  ClientOptions,
  ResumedCursors,
  Socket,
  SocketEvents,
  StreamScope,
  Upgrade,
} from 'sluice/client'
import {
  number,
  optional,
  readOptions,
  type Schema,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { parseFeedIDs } from 'sluice/report'
import { ReportLog } from './log.js'
import { openLogConnection } from './log-connection.js'
import type { StreamPlaces } from './log-positions.js'
import { Queue } from './queue.js'
import { openQueueConnection } from './queue-connection.js'
import { QueueWorker, queueScope } from './queue-worker.js'
import { createLogFetch } from './rest.js'
import { checkName, checkPrefix, checkShare, feedsOfShare, type Share } from './subjects.js'

/** How a client reads the log. */
export interface NatsWireOptions {
  /** The stream of JetStream that a relay fills. @default 'SLUICE' */
  readonly stream?: string
  /** The beginning of its subjects. @default 'sluice' */
  readonly prefix?: string
  /** Which of several shares of the feeds this worker reads. @default all feeds */
  readonly share?: Share
  /**
   * The name of a queue: each report goes to one of its workers. @default every worker gets every
   * report
   */
  readonly queue?: string
  /**
   * Seconds after which a report of a worker of a queue that has died is given to another. @default
   * 30
   */
  readonly redeliverAfter?: number
  /**
   * Seconds that a worker of a queue may work on a report, before it is given to a worker again.
   * @default 10 times redeliverAfter
   */
  readonly handlingTimeout?: number
  /**
   * How often a report of a queue is given to a worker, before it becomes a dead letter. @default
   * 10
   */
  readonly maxDeliveries?: number
  /**
   * Reports that a worker of a queue may have and not have acknowledged, before it takes others.
   * @default 32
   */
  readonly maxUnacknowledged?: number
  /**
   * Seconds by which a missing report may be published late, where requests look for it. @default
   * 900
   */
  readonly maxPublishDelay?: number
}

const schema = {
  stream: optional(checkName),
  prefix: optional(checkPrefix),
  share: optional((_field, value) => checkShare(value as Share)),
  queue: optional(checkName),
  redeliverAfter: withDefault(30, number({ min: 1, max: 86_400 })),
  handlingTimeout: optional(number({ min: 1, max: 864_000 })),
  maxDeliveries: withDefault(10, number({ min: 1, whole: true })),
  maxUnacknowledged: withDefault(32, number({ min: 1, max: 10_000, whole: true })),
  maxPublishDelay: withDefault(900, number({ min: 0 })),
} satisfies Schema<NatsWireOptions>

/** The options that make a client of the log: spread them into those of `createClient`. */
export type NatsWire = Required<
  Pick<ClientOptions, 'endpoint' | 'wsEndpoint' | 'connect' | 'fetch'>
>

/**
 * The log in place of the service: connections bring the messages of a stream of JetStream, and
 * requests are answered from it.
 *
 * @example
 * ```ts
 * const client = createClient({ ...natsWire(connection), plugins: workerPreset() })
 * ```
 */
export function natsWire(connection: NatsConnection, given?: NatsWireOptions): NatsWire {
  const options = readOptions('natsWire', given, schema)
  const { share, queue, redeliverAfter, handlingTimeout = 10 * redeliverAfter } = options
  const log = new ReportLog({ ...options, connection })
  const streams = new WeakMap<object, StreamPlaces>()
  const queues = new WeakMap<StreamScope, Queue>()

  function placesOf(cursors: ResumedCursors | undefined): StreamPlaces {
    const places = (cursors && streams.get(cursors)) ?? { cursors, feeds: new Map() }
    if (cursors !== undefined) streams.set(cursors, places)
    return places
  }

  /** All connections of a stream share a worker. */
  function queueOf(name: string, cursors: ResumedCursors | undefined): Queue {
    const scope = queueScope(cursors)
    if (scope === undefined)
      throw new ValidationError('queue needs the plugin queueDeliveries, as queuePreset has it')
    const settings = { ...options, queue: name, handlingTimeout }
    const known = queues.get(scope) ?? new Queue(log, new QueueWorker(log, scope, settings))
    queues.set(scope, known)
    return known
  }

  async function connect({ url, cursors }: Upgrade, events: SocketEvents): Promise<Socket> {
    const feedIDs = parseFeedIDs(new URL(url).searchParams.get('feedIDs'))
    if (share !== undefined) checkFeeds(feedIDs, share)
    return queue === undefined
      ? openLogConnection(log, feedIDs, placesOf(cursors), events)
      : openQueueConnection(queueOf(queue, cursors), feedIDs, events)
  }

  return {
    endpoint: `https://nats.invalid/${log.stream}`,
    wsEndpoint: `wss://nats.invalid/${log.stream}`,
    connect,
    fetch: createLogFetch({ log, share, maxPublishDelay: 1000 * options.maxPublishDelay }),
  }
}

function checkFeeds(feedIDs: readonly string[], share: Share): void {
  const own = new Set(feedsOfShare(feedIDs, share))
  const other = feedIDs.find(feedID => !own.has(feedID))
  if (other !== undefined)
    throw new ValidationError(
      `feed ${other} is not of share ${share.index} of ${share.of}: feedsOfShare and listFeeds give those that are`,
    )
}
