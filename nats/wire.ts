import type { NatsConnection } from '@nats-io/transport-node'
import type { ClientOptions } from '../client/client.js'
import type { ResumedCursors, Socket, SocketEvents, Upgrade } from '../client/transport/socket.js'
import { ValidationError } from '../core/errors.js'
import { checkNumber, checkOptions, type OptionNames } from '../core/options.js'
import { parseFeedIDs } from '../report/feed-id.js'
import { openBroadcast } from './consumers.js'
import { checkConnection, type ReportLog } from './log.js'
import type { StreamPlaces } from './places.js'
import { openQueue } from './queue-consumer.js'
import { acknowledgesHeader } from './queue-deliveries.js'
import { openReading } from './reading.js'
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
  /** Seconds in which a worker of a queue has to deal with a report, before another gets it. @default 30 */
  readonly redeliverAfter?: number
  /** Seconds by which a missing report may be published late, where requests look for it. @default 900 */
  readonly lateness?: number
}

const names: OptionNames<NatsWireOptions> = {
  stream: true,
  prefix: true,
  share: true,
  queue: true,
  redeliverAfter: true,
  lateness: true,
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
  const queue = options.queue === undefined ? undefined : checkName('queue', options.queue)
  const redeliverAfter = checkNumber('redeliverAfter', options.redeliverAfter ?? 30, {
    min: 1,
    max: 86_400,
  })
  const lateness = checkNumber('lateness', options.lateness ?? 900, { min: 0 })
  const streams = new WeakMap<object, StreamPlaces>()

  function placesOf(cursors: ResumedCursors | undefined): StreamPlaces {
    const places = (cursors && streams.get(cursors)) ?? { cursors, feeds: new Map() }
    if (cursors !== undefined) streams.set(cursors, places)
    return places
  }

  async function connect(upgrade: Upgrade, events: SocketEvents): Promise<Socket> {
    const { url, headers, cursors } = upgrade
    const feedIDs = parseFeedIDs(new URL(url).searchParams.get('feedIDs'))
    if (share !== undefined) checkFeeds(feedIDs, share)
    if (queue !== undefined && !headers.has(acknowledgesHeader))
      throw new ValidationError('queue needs the plugin queueDeliveries, as queuePreset has it')
    if (queue !== undefined)
      return openReading(log, openQueue(log, feedIDs, { queue, redeliverAfter }), events)
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
    fetch: createLogFetch({ log, share, lateness: 1000 * lateness }),
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
