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
  isStreamsError,
  number,
  optional,
  readOptions,
  type Schema,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { parseFeedIDs } from 'sluice/report'
import { passing } from './errors.js'
import { ReportLog } from './log.js'
import { openLogConnection } from './log-connection.js'
import type { StreamPlaces } from './log-positions.js'
import { Queue } from './queue.js'
import { openQueueConnection } from './queue-connection.js'
import { QueueWorker, queueScope } from './queue-worker.js'
import { createLogFetch } from './rest.js'
import { checkName, checkPrefix, checkShare, feedsOfShare, type Share } from './subjects.js'

/** The options of `natsWire`: how a client reads the log. */
export interface NatsWireOptions {
  /** The JetStream stream that a relay fills. @default 'SLUICE' */
  readonly stream?: string
  /** The prefix of the stream's subjects. @default 'sluice' */
  readonly prefix?: string
  /**
   * The share of the feeds that this worker reads, if several workers divide the feeds.
   * @default all feeds
   */
  readonly share?: Share
  /**
   * The name of a queue. Each report goes to one worker of the queue. @default every worker gets
   * every report
   */
  readonly queue?: string
  /**
   * For queues: if a worker dies, another worker gets its reports after this many seconds.
   * @default 30
   */
  readonly redeliverAfter?: number
  /**
   * For queues: how many seconds a worker may work on a report. After that, the report is delivered
   * again. @default 10 times redeliverAfter
   */
  readonly handlingTimeout?: number
  /** For queues: how often a report is delivered before it becomes a dead letter. @default 10 */
  readonly maxDeliveries?: number
  /**
   * For queues: how many reports a worker may have that it has not acknowledged. At this limit, the
   * worker requests no more. @default 32
   */
  readonly maxUnacknowledged?: number
  /**
   * How many seconds after its observation a report may be published to the log. Requests for
   * missing reports search the log up to this delay. @default 900
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

/** The options that make a client read the log. Spread them into the options of `createClient`. */
export type NatsWire = Required<
  Pick<ClientOptions, 'endpoint' | 'wsEndpoint' | 'connect' | 'fetch'>
>

/**
 * Makes a client use the log instead of the service. Its connections deliver the messages of a
 * JetStream stream, and its requests are answered from that stream.
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
  const host = hostOf(connection)
  const streams = new WeakMap<object, StreamPlaces>()
  const queues = new WeakMap<StreamScope, Queue>()
  /** The cursors of the streams that have had a connection, which all connections share. */
  const known = new WeakSet<object>()

  function placesOf(cursors: ResumedCursors | undefined): StreamPlaces {
    const places = (cursors && streams.get(cursors)) ?? { cursors, feeds: new Map() }
    if (cursors !== undefined) streams.set(cursors, places)
    return places
  }

  /** All connections of one client stream share one worker. */
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
    const key = cursors ?? known
    try {
      const socket = await (queue === undefined
        ? openLogConnection(log, feedIDs, placesOf(cursors), events)
        : openQueueConnection(queueOf(queue, cursors), feedIDs, events))
      known.add(key)
      return socket
    } catch (thrown) {
      // A refusal ends a stream at its start. A log that has served it may serve it again.
      if (known.has(key) && isStreamsError(thrown, 'RELAY_LOG')) throw passing(thrown)
      throw thrown
    }
  }

  return {
    endpoint: `https://${host}/${log.stream}`,
    wsEndpoint: `wss://${host}/${log.stream}`,
    connect,
    fetch: createLogFetch({ log, share, maxPublishDelay: 1000 * options.maxPublishDelay }),
  }
}

/**
 * The server that the connection has now, which stands for the log in logs and metrics. Nothing is
 * sent to URLs with this host.
 */
function hostOf(connection: NatsConnection): string {
  const server = connection.getServer?.() ?? ''
  return URL.canParse(`https://${server}`) ? server : 'nats.invalid'
}

function checkFeeds(feedIDs: readonly string[], share: Share): void {
  const own = new Set(feedsOfShare(feedIDs, share))
  const other = feedIDs.find(feedID => !own.has(feedID))
  if (other !== undefined)
    throw new ValidationError(
      `feed ${other} is not of share ${share.index} of ${share.of}: feedsOfShare and listFeeds give those that are`,
    )
}
