import type { NatsConnection } from '@nats-io/transport-node'
import { type Config, createClient } from 'sluice'
import type { Client, Stream } from 'sluice/client'
import {
  asError,
  checkFunction,
  createLifetime,
  type Log,
  number,
  optional,
  readOptions,
  type Schema,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import {
  asyncDispose,
  Health,
  inMilliseconds,
  type Measure,
  type Severity,
  type StreamCause,
  streamCauses,
  watchStream,
} from 'sluice/internal'
import { parseFeedIDs, type Report } from 'sluice/report'
import type { CursorStore } from 'sluice/stores'
import { natsCursors } from './cursors.js'
import { createErrorLimit } from './errors.js'
import { frameOf, messageID, readFrame } from './frame.js'
import { checkConnection, mapSome, ReportLog } from './log.js'
import { type LogCause, logCauses, watchLog } from './log-health.js'
import { Publisher, type PublisherCause, publisherCauses } from './publisher.js'
import { type CreateOptions, checkCreate, prepareStream } from './stream-settings.js'
import { checkName, checkPrefix, subjectOf } from './subjects.js'

/** The feeds that a relay reads, and the log that it stores their reports in. */
export interface RelayOptions {
  /** A client of the service. The relay does not close it. Give either `client` or `config`. */
  readonly client?: Client
  /**
   * The configuration of the relay's own client. `haMode` is on, unless the configuration turns it
   * off.
   */
  readonly config?: Config
  /** A NATS connection. The relay does not close it. */
  readonly connection: NatsConnection
  /** The feeds: one id, several separated by commas, or a list. */
  readonly feedIDs: string | readonly string[]
  /** The name of the JetStream stream. @default 'SLUICE' */
  readonly stream?: string
  /** The prefix of the stream's subjects. @default 'sluice' */
  readonly prefix?: string
  /**
   * Whether the stream is created if it does not exist: true, or your own settings for it.
   * @default false
   */
  readonly create?: boolean | CreateOptions
  /** Distinguishes this relay's cursors from the cursors of other relays. @default 'relay' */
  readonly name?: string
  /** Where the relay stores its cursors. @default natsCursors with the relay's name as the key */
  readonly cursors?: CursorStore
  /**
   * How many published reports may wait for the log's acknowledgement. At this limit, the relay
   * pauses its connections. @default 1024
   */
  readonly maxUnacknowledged?: number
  /** Receives a line when something goes wrong, and when it is over. @default nothing is logged */
  readonly log?: Log
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
  log: withDefault({}, unchecked<Log>),
} satisfies Schema<RelayOptions>

/** Counts of a relay. */
export interface RelayMetrics {
  /** Reports that the log has acknowledged. */
  readonly stored: number
  /**
   * Acknowledged reports that the log already had: another relay was faster, or this relay sent
   * them twice.
   */
  readonly duplicates: number
  /** Reports that were published but not yet acknowledged. */
  readonly unacknowledged: number
  /** How often the log has rejected a report. The relay sends it again. */
  readonly rejected: number
  /**
   * How many seconds the log is behind the present: the age of the newest report that was stored.
   * 0 while there is nothing to store.
   */
  readonly lagSeconds: number
}

/** A cause of a relay. */
export type RelayCause = StreamCause | LogCause | PublisherCause | 'lagging'

const causes: Readonly<Record<RelayCause, Severity>> = {
  ...streamCauses,
  ...logCauses,
  ...publisherCauses,
  /** The log is more than 30 seconds behind the present. */
  lagging: 'unready',
}

/** A relay that is running. */
export interface Relay extends AsyncDisposable {
  /**
   * The stream that the relay reads. Its `error` event also reports messages that the log rejects.
   * The relay retries these messages until it succeeds.
   */
  readonly stream: Stream
  /** Resolves when the relay was closed. Rejects with the error that ended the relay. */
  readonly closed: Promise<void>
  /** What is wrong with the relay at present, and its numbers. */
  readonly health: Health<RelayCause>
  /** The counts so far, as a copy. */
  getMetrics(): RelayMetrics
  /**
   * Closes the relay. The next relay fetches the reports that the log has not acknowledged.
   * Idempotent.
   */
  close(): Promise<void>
}

/**
 * How many milliseconds of missing reports a relay fetches, unless its configuration sets another
 * limit.
 */
const MAX_BACKFILL = 86_400_000
/** Milliseconds that a closing relay waits for the log's acknowledgements. */
const FLUSH = 2000
/** Milliseconds of lag above which a relay is not ready. */
const MAX_LAG = 30_000
/** At how many looks in a row a stream must be missing until it is created again. */
const CREATE_AFTER = 3

/** For how many feeds at a time the newest message is read. */
const AT_A_TIME = 32

/**
 * Starts a relay. It receives the reports of feeds and publishes each report to the log. Its
 * cursors move only after the log has acknowledged, so a relay that was killed resumes where the
 * log ends. Resolves once the relay is connected.
 */
export async function createRelay(given: RelayOptions): Promise<Relay> {
  const options = checkedOptions(given)
  const { feedIDs, name, maxUnacknowledged } = options
  const log = new ReportLog(options)
  const { client, own } = clientOf(options)
  try {
    await prepareStream(log, options.create)
    const { connection, stream: logName } = log
    const saved = options.cursors ?? natsCursors(connection, { key: name, stream: logName })
    const cursors = cursorsFromLog(log, feedIDs, saved)
    // A stream continues without its cursors if they can't be read. A relay would then lose
    // reports, so a failure to load ends it here. The cursors are saved at once, because a relay
    // that is killed early has stored new reports but fetched no missing ones. The next relay then
    // begins at the same cursors.
    await cursors.save(await cursors.load())
    const stream = client.createStream(feedIDs, {
      acknowledge: 'manual',
      queue: maxUnacknowledged,
      cursors,
      maxReconnectAttempts: Number.POSITIVE_INFINITY,
    })
    return await run(log, stream, options, async () => own?.close())
  } catch (thrown) {
    await own?.close()
    throw thrown
  }
}

function checkedOptions(given: RelayOptions) {
  return readOptions('createRelay', given, schema)
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
  { log: lines, create }: Pick<ReturnType<typeof checkedOptions>, 'log' | 'create'>,
  closeClient: () => Promise<void>,
): Promise<Relay> {
  let stored = 0
  let duplicates = 0
  /** The time of the newest report that the log has stored, in Unix milliseconds. */
  let newest = 0
  const health = new Health({
    service: 'relay',
    causes,
    measures: measuresOf(getMetrics),
    log: lines,
  })
  const publisher = await Publisher.open(log, health, error => stream.emit('error', error))
  const life = createLifetime()
  const lag = new Lag()
  const maySay = createErrorLimit()

  function getMetrics(): RelayMetrics {
    const { pending: unacknowledged, rejected } = publisher
    return { stored, duplicates, unacknowledged, rejected, lagSeconds: lag.ms / 1000 }
  }

  function publish(report: Report): void {
    const { feedID, observationsTimestamp } = report
    const subject = subjectOf(log.prefix, feedID)
    publisher.publish(subject, frameOf(report), messageID(report), isDuplicate => {
      stored++
      if (isDuplicate) duplicates++
      newest = Math.max(newest, inMilliseconds(feedID, observationsTimestamp))
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
    life.end()
    health.end()
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
  watchStream(health, stream)
  watchLog(health, log, life, {
    missing(looks) {
      // Not at once: somebody may be restoring the stream, and others shall see that it is gone.
      if (create === undefined || looks < CREATE_AFTER) return
      prepareStream(log, create).catch(thrown => {
        if (maySay('create')) stream.emit('error', asError(thrown))
      })
    },
  })
  health.watch(() => {
    const present = Date.now() + stream.getMetrics().clockOffsetMs
    lag.look(present, newest, stored, publisher)
    const seconds = Math.round(lag.ms / 1000)
    const behind = `the newest report in the log is ${seconds} s old, and ${publisher.pending} reports wait for the log`
    health.set('lagging', lag.ms > MAX_LAG ? behind : undefined)
  })
  return { stream, closed, health, getMetrics, close, [asyncDispose]: close }
}

/** How far the log is behind the present. */
class Lag {
  /** In milliseconds; 0 while there is nothing to store. */
  ms = 0
  #stored = 0

  /** Called each second. `newest` is the time of the newest report in the log; 0 without one. */
  look(present: number, newest: number, stored: number, publisher: Publisher): void {
    const { pending, oldestMs } = publisher
    const isIdle = stored === this.#stored && pending === 0
    const age = isIdle || newest === 0 ? 0 : present - newest
    this.ms = Math.max(0, age, oldestMs)
    this.#stored = stored
  }
}

/** The numbers of a relay. */
function measuresOf(getMetrics: () => RelayMetrics): readonly Measure[] {
  const report = { unit: '{report}' } as const
  return [
    {
      ...report,
      name: 'sluice.relay.stored',
      kind: 'counter',
      description: 'Reports that the log has acknowledged',
      read: () => getMetrics().stored,
    },
    {
      ...report,
      name: 'sluice.relay.duplicates',
      kind: 'counter',
      description: 'Acknowledged reports that the log already had',
      read: () => getMetrics().duplicates,
    },
    {
      ...report,
      name: 'sluice.relay.rejected',
      kind: 'counter',
      description: 'How often the log has rejected a report; the relay sends it again',
      read: () => getMetrics().rejected,
    },
    {
      ...report,
      name: 'sluice.relay.unacknowledged',
      kind: 'gauge',
      description: 'Reports that were published and not yet acknowledged',
      read: () => getMetrics().unacknowledged,
    },
    {
      name: 'sluice.relay.lag',
      kind: 'gauge',
      unit: 's',
      description: 'Age of the newest report in the log; 0 while there is nothing to store',
      read: () => getMetrics().lagSeconds,
    },
  ]
}

/**
 * The cursor store of a relay. For a feed without a saved cursor, it loads the time of the feed's
 * newest report in the log.
 */
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
