import type { NatsConnection } from '@nats-io/transport-node'
import { type Config, createClient } from 'sluice'
import type { Client, Stream } from 'sluice/client'
import {
  checkFunction,
  number,
  optional,
  readOptions,
  type Schema,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { asyncDispose } from 'sluice/internal'
import type { Report } from 'sluice/report'
import { parseFeedIDs } from 'sluice/report'
import type { CursorStore } from 'sluice/stores'
import { natsCursors } from './cursors.js'
import { frameOf, messageID, readFrame } from './frame.js'
import { checkConnection, mapSome, ReportLog } from './log.js'
import { Publisher } from './publisher.js'
import { type CreateOptions, checkCreate, prepareStream } from './stream-settings.js'
import { checkName, checkPrefix, subjectOf } from './subjects.js'

/** The feeds that a relay reads, and the log that it stores their reports in. */
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
  /** The beginning of its subjects. @default 'sluice' */
  readonly prefix?: string
  /**
   * Creates the stream where it does not exist; with settings of your own, or true. @default false
   */
  readonly create?: boolean | CreateOptions
  /** Tells this relay's cursors from those of others. @default 'relay' */
  readonly name?: string
  /**
   * Where the relay stores how far it has come. @default natsCursors with the relay's name as the
   * key
   */
  readonly cursors?: CursorStore
  /**
   * Reports that may be published and not be acknowledged, before the connections are paused.
   * @default 1024
   */
  readonly maxUnacknowledged?: number
}

const schema = {
  client: unchecked<Client | undefined>,
  config: unchecked<Config | undefined>,
  connection: (_field, value) => checkConnection(value),
  feedIDs: (_field, value) => parseFeedIDs(value as RelayOptions['feedIDs']),
  stream: optional(checkName),
  prefix: optional(checkPrefix),
  create: (_field, value) => checkCreate(value as RelayOptions['create']),
  name: withDefault('relay', checkName),
  cursors: unchecked<CursorStore | undefined>,
  maxUnacknowledged: withDefault(1024, number({ min: 1, max: 65_536, whole: true })),
} satisfies Schema<RelayOptions>

/** Counts of a relay. */
export interface RelayMetrics {
  /** Reports that the log has acknowledged. */
  readonly stored: number
  /**
   * Those of them that the log had before: another relay was faster, or this one sent them twice.
   */
  readonly duplicates: number
  /** Reports that were published, and not acknowledged yet. */
  readonly unacknowledged: number
}

/** A relay that is running. */
export interface Relay extends AsyncDisposable {
  /**
   * The stream that it reads. Its `error` event also has what the log refuses; that is tried again
   * until it succeeds.
   */
  readonly stream: Stream
  /** Resolves when the relay was closed, rejects with the error that ended it. */
  readonly closed: Promise<void>
  /** The counts so far, as a copy. */
  getMetrics(): RelayMetrics
  /** Ends it: what the log has not acknowledged is fetched by the next one. Idempotent. */
  close(): Promise<void>
}

/**
 * Milliseconds of missing reports that a relay fetches, unless its configuration says otherwise.
 */
const MAX_BACKFILL = 86_400_000
/** Milliseconds that a relay which closes waits for the log's acknowledgements. */
const FLUSH = 2000

/** Feeds whose newest message is read at a time. */
const AT_A_TIME = 32

/**
 * Starts a relay: it receives the reports of feeds once, and publishes each to the log. Its cursors
 * move when the log has acknowledged, so one that was killed goes on where the log ends. Resolves
 * once it is connected.
 */
export async function createRelay(given: RelayOptions): Promise<Relay> {
  const options = readOptions('createRelay', given, schema)
  const { feedIDs, name, maxUnacknowledged } = options
  const log = new ReportLog(options)
  const { client, own } = clientOf(options)
  try {
    const { config } = await prepareStream(log, options.create)
    const saved =
      options.cursors ?? natsCursors(log.connection, { key: name, replicas: config.num_replicas })
    const cursors = cursorsFromLog(log, feedIDs, saved)
    // A stream goes on without cursors that can't be read; a relay would lose what came since. A
    // relay that is killed at once has stored new reports, and fetched none of the missing ones:
    // the next begins where it did.
    await cursors.save(await cursors.load())
    const stream = client.createStream(feedIDs, {
      acknowledge: 'manual',
      queue: maxUnacknowledged,
      cursors,
      maxReconnectAttempts: Number.POSITIVE_INFINITY,
    })
    return await run(log, stream, async () => own?.close())
  } catch (thrown) {
    await own?.close()
    throw thrown
  }
}

function clientOf({ client, config }: Pick<RelayOptions, 'client' | 'config'>): {
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
  const publisher = await Publisher.open(log, error => stream.emit('error', error))

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

  // A listener that does nothing: an `error` event without a listener would end the process.
  stream.on('error', () => undefined)
  stream.on('report', publish)
  // Publish the other report as well: the workers' `verify` decides which is genuine.
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

/** Cursors of a relay: of a feed that the store has none of, that is where the log ends. */
function cursorsFromLog(
  log: ReportLog,
  feedIDs: readonly string[],
  store: CursorStore,
): CursorStore {
  return {
    ...(store.lock && { lock: store.lock.bind(store) }),
    async load() {
      const saved = await store.load()
      const others = feedIDs.filter(feedID => saved[feedID] === undefined)
      const ends = await mapSome(others, AT_A_TIME, async feedID => {
        const newest = await log.newest(feedID)
        const report = newest === null ? undefined : readFrame(newest.data, feedID)
        return report === undefined ? [] : [[feedID, report.observationsTimestamp] as const]
      })
      return { ...saved, ...Object.fromEntries(ends.flat()) }
    },
    save: cursors => store.save(cursors),
  }
}
