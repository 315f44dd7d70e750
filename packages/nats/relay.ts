import type { NatsConnection } from '@nats-io/transport-node'
import { type Config, createClient } from 'sluice'
import type { Client, Stream } from 'sluice/client'
import {
  checkFunction,
  checkNumber,
  checkOptions,
  type OptionNames,
  ValidationError,
} from 'sluice/core'
import { asyncDispose } from 'sluice/internal'
import type { Report } from 'sluice/report'
import { parseFeedIDs } from 'sluice/report'
import type { CursorStore } from 'sluice/stores'
import { natsCursors } from './cursors.js'
import { frameOf, messageID } from './frame.js'
import { checkConnection, type ReportLog } from './log.js'
import { cursorsFromLog } from './log-end.js'
import { createPublisher, type Publisher } from './publisher.js'
import { type CreateOptions, checkCreate, prepareStream } from './stream-settings.js'
import { checkName, checkPrefix, DEFAULT_PREFIX, DEFAULT_STREAM, subjectOf } from './subjects.js'

/** What a relay reads, and where it stores that. */
export interface RelayOptions {
  /** A client of the service; the relay does not close it. Give it, or `config`. */
  readonly client?: Client
  /** The configuration of a client of the relay's own, with `haMode` unless it says otherwise. */
  readonly config?: Config
  /** A connection of NATS; the relay does not close it. */
  readonly connection: NatsConnection
  /** The feeds: one id, several separated by commas, or a list. */
  readonly feedIDs: string | readonly string[]
  /** The stream of JetStream. @default 'SLUICE' */
  readonly stream?: string
  /** What its subjects begin with. @default 'sluice' */
  readonly prefix?: string
  /** Creates the stream where it does not exist; with settings of your own, or true. @default false */
  readonly create?: boolean | CreateOptions
  /** Tells this relay's cursors from those of others. @default 'relay' */
  readonly name?: string
  /** Where the relay stores how far it has come. @default natsCursors with the relay's name as the key */
  readonly cursors?: CursorStore
  /** Reports that may be published and not be acknowledged, before the connections are paused. @default 1024 */
  readonly maxUnacknowledged?: number
}

const names: OptionNames<RelayOptions> = {
  client: true,
  config: true,
  connection: true,
  feedIDs: true,
  stream: true,
  prefix: true,
  create: true,
  name: true,
  cursors: true,
  maxUnacknowledged: true,
}

/** Counts of a relay. */
export interface RelayMetrics {
  /** Reports that the log has acknowledged. */
  readonly stored: number
  /** Those of them that the log had before: another relay was faster, or this one sent them twice. */
  readonly duplicates: number
  /** Reports that were published, and not acknowledged yet. */
  readonly unacknowledged: number
}

/** A relay that is running. */
export interface Relay extends AsyncDisposable {
  /** The stream that it reads. Its `error` event also has what the log refuses; that is tried again until it succeeds. */
  readonly stream: Stream
  /** Resolves when the relay was closed, rejects with the error that ended it. */
  readonly closed: Promise<void>
  /** What has been counted so far, as a copy. */
  getMetrics(): RelayMetrics
  /** Ends it: what the log has not acknowledged is fetched by the next one. Idempotent. */
  close(): Promise<void>
}

/** Milliseconds of missing reports that a relay fetches, unless its configuration says otherwise. */
const MAX_BACKFILL = 86_400_000
/** Milliseconds that a relay which closes waits for the log's acknowledgements. */
const FLUSH = 2000

/**
 * Starts a relay: it receives the reports of feeds once, and publishes each to the log. Its cursors move when the log has
 * acknowledged, so one that was killed goes on where the log ends. Resolves once it is connected.
 */
export async function createRelay(given: RelayOptions): Promise<Relay> {
  const options = checkOptions('createRelay', given, names)
  const log: ReportLog = {
    connection: checkConnection(options.connection),
    stream: checkName('stream', options.stream ?? DEFAULT_STREAM),
    prefix: checkPrefix('prefix', options.prefix ?? DEFAULT_PREFIX),
  }
  const feedIDs = parseFeedIDs(options.feedIDs)
  const name = checkName('name', options.name ?? 'relay')
  const limit = checkNumber('maxUnacknowledged', options.maxUnacknowledged ?? 1024, {
    min: 1,
    max: 65_536,
    whole: true,
  })
  const create = checkCreate(options.create)
  const { client, own } = clientOf(options)
  try {
    const { config } = await prepareStream(log, create)
    const saved =
      options.cursors ?? natsCursors(log.connection, { key: name, replicas: config.num_replicas })
    const cursors = cursorsFromLog(log, feedIDs, saved)
    // A stream goes on without cursors that can't be read; a relay would lose what came since. One that is killed at once has
    // stored new reports, and fetched none of the missing ones: the next begins where it did.
    await cursors.save(await cursors.load())
    const stream = client.createStream(feedIDs, {
      acknowledge: 'manual',
      queue: limit,
      cursors,
      maxReconnectAttempts: Number.POSITIVE_INFINITY,
    })
    return await run(log, stream, async () => own?.close())
  } catch (thrown) {
    await own?.close()
    throw thrown
  }
}

function clientOf({ client, config }: RelayOptions): {
  readonly client: Client
  readonly own: Client | undefined
} {
  if ((client === undefined) === (config === undefined))
    throw new ValidationError('createRelay needs client or config, and not both')
  if (client !== undefined) {
    checkFunction('client.createStream', client.createStream)
    return { client, own: undefined }
  }
  const given = config as Config
  const continuity = { maxBackfill: MAX_BACKFILL, ...given.continuity }
  const own = createClient({ haMode: true, ...given, continuity })
  return { client: own, own }
}

async function run(
  log: ReportLog,
  stream: Stream,
  closeClient: () => Promise<void>,
): Promise<Relay> {
  let stored = 0
  let duplicates = 0
  const publisher: Publisher = await createPublisher(log.connection, log.stream, error =>
    stream.emit('error', error),
  )

  function publish(report: Report): void {
    const subject = subjectOf(log.prefix, report.feedID)
    publisher.publish(subject, frameOf(report), messageID(report), isDuplicate => {
      stored++
      if (isDuplicate) duplicates++
      report.acknowledge()
    })
  }

  async function flush(): Promise<void> {
    const end = performance.now() + FLUSH
    while (publisher.pending > 0 && performance.now() < end)
      await new Promise(resolve => setTimeout(resolve, 10))
  }

  let closing: Promise<void> | undefined
  async function end(): Promise<void> {
    await stream.close()
    await flush()
    publisher.close()
    await closeClient()
  }

  function close(): Promise<void> {
    closing ??= end()
    return closing
  }

  // Without a handler of the user's, an error is none that ends the process.
  stream.on('error', () => undefined)
  stream.on('report', publish)
  // The workers verify which of two is good.
  stream.on('conflict', ({ other }) => publish(other))
  const closed = stream.closed.finally(() => void close())
  closed.catch(() => undefined)
  try {
    await stream.connect()
  } catch (thrown) {
    await close()
    throw thrown
  }
  return {
    stream,
    closed,
    getMetrics: () => ({ stored, duplicates, unacknowledged: publisher.pending }),
    close,
    [asyncDispose]: close,
  }
}
