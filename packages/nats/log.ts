import type { JetStreamClient, JetStreamManager, StoredMsg, StreamInfo } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { ValidationError } from 'sluice/core'
import { isFinal, RelayLogError, streamError } from './errors.js'
import { loadJetStream } from './library.js'
import { isAPIError } from './refusals.js'
import {
  allSubjects,
  checkName,
  checkPrefix,
  DEFAULT_PREFIX,
  DEFAULT_STREAM,
  feedOf,
  subjectOf,
} from './subjects.js'

/** The options that select a log. */
export interface LogOptions {
  /** A NATS connection. */
  readonly connection: NatsConnection
  /** The name of the JetStream stream. @default 'SLUICE' */
  readonly stream?: string | undefined
  /** The prefix of the stream's subjects. @default 'sluice' */
  readonly prefix?: string | undefined
}

/** The library's objects for access to a log. */
export interface LogAccess {
  readonly client: JetStreamClient
  readonly manager: JetStreamManager
}

/**
 * Milliseconds that the log may take to answer. It is less than the 5000 that a stream waits for
 * its connection.
 */
const TIMEOUT = 4000
/** Milliseconds by which the clock of the log may be behind that of the observers. */
export const CLOCK_MARGIN = 10_000
/**
 * How many milliseconds a machine's two clocks may drift apart. The difference is larger if the
 * machine has slept.
 */
const MAX_DRIFT = 2000

/** How far the log's clock was ahead of this machine's two clocks, in milliseconds. */
interface LogClock {
  readonly ofMonotonic: number
  readonly ofWall: number
}

/** By connection: the log's clock at the time of its last answer. */
const clocks = new WeakMap<NatsConnection, LogClock>()
const opened = new WeakMap<NatsConnection, Promise<LogAccess>>()

async function open(connection: NatsConnection): Promise<LogAccess> {
  const { jetstream, jetstreamManager } = await loadJetStream()
  const options = { timeout: TIMEOUT, checkAPI: false }
  return {
    client: jetstream(connection, options),
    manager: await jetstreamManager(connection, options),
  }
}

/** A JetStream stream that contains reports. */
export class ReportLog {
  readonly connection: NatsConnection
  /** The name of the stream. */
  readonly stream: string
  /** The prefix of the stream's subjects. */
  readonly prefix: string

  constructor({ connection, stream = DEFAULT_STREAM, prefix = DEFAULT_PREFIX }: LogOptions) {
    this.connection = checkConnection(connection)
    this.stream = checkName('stream', stream)
    this.prefix = checkPrefix('prefix', prefix)
  }

  /** Access to JetStream through the connection. It is created once per connection. */
  access(): Promise<LogAccess> {
    const access = opened.get(this.connection) ?? open(this.connection)
    opened.set(this.connection, access)
    return access
  }

  /**
   * Sends a request to the log. A failure of the library becomes a RelayLogError that names the
   * stream.
   */
  async ask<Answer>(request: (access: LogAccess) => Promise<Answer>): Promise<Answer> {
    const access = await this.access()
    try {
      return await request(access)
    } catch (thrown) {
      if (isWithoutJetStream(this.connection, thrown))
        throw new RelayLogError('NATS has no JetStream: start nats-server with -js')
      throw streamError(this.stream, thrown)
    }
  }

  /** The server's description of the stream. */
  async info(): Promise<StreamInfo> {
    const info = await this.ask(({ manager }) => manager.streams.info(this.stream))
    const time = Date.parse(info.ts ?? '')
    const clock = { ofMonotonic: time - performance.now(), ofWall: time - Date.now() }
    if (!Number.isNaN(time)) clocks.set(this.connection, clock)
    return info
  }

  /** The feed's newest message, from the leader of the stream; null if the feed has no message. */
  newest(feedID: string): Promise<StoredMsg | null> {
    const query = { last_by_subj: subjectOf(this.prefix, feedID) }
    return this.ask(({ manager }) =>
      manager.streams.getMessage(this.stream, query).catch(thrown => {
        if (isAPIError(thrown, 'noMessage')) return null
        throw thrown
      }),
    )
  }

  /** The feeds that the log has, sorted. */
  async feeds(): Promise<readonly string[]> {
    const options = { subjects_filter: allSubjects(this.prefix) }
    const { state } = await this.ask(({ manager }) => manager.streams.info(this.stream, options))
    const subjects = Object.keys(state.subjects ?? {})
    return subjects.flatMap(subject => feedOf(this.prefix, subject) ?? []).sort()
  }

  /**
   * The `date` header with the log's time. A client of the log uses it like the header of the
   * service. The header is left out if the machine has slept, or its wall clock was set, since the
   * log's last answer. The age of that answer is then unknown.
   */
  dateHeader(): Record<string, string> {
    const clock = clocks.get(this.connection)
    if (clock === undefined) return {}
    const time = clock.ofMonotonic + performance.now()
    if (Math.abs(clock.ofWall + Date.now() - time) > MAX_DRIFT) return {}
    return { date: new Date(time).toUTCString() }
  }
}

/**
 * The time of an answer of the log, by the log's clock, in Unix milliseconds. If the answer has no
 * time, this is the time by the local clock.
 */
export function timeOf({ ts }: { readonly ts?: string }): number {
  const time = Date.parse(ts ?? '')
  return Number.isNaN(time) ? Date.now() : time
}

/**
 * Checks for a connection of `@nats-io/transport-node`, or of another transport of the same
 * library.
 */
export function checkConnection(value: unknown): NatsConnection {
  const { publish, subscribe, rtt } = (value ?? {}) as Partial<NatsConnection>
  if ([publish, subscribe, rtt].every(method => typeof method === 'function'))
    return value as NatsConnection
  throw new ValidationError(
    'connection must be a connection of NATS, as connect of @nats-io/transport-node opens it',
  )
}

/** Calls `act` for `atATime` items at a time. Returns the results in the order of the items. */
export async function mapSome<Item, Result>(
  items: readonly Item[],
  atATime: number,
  act: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = []
  for (let at = 0; at < items.length; at += atATime) {
    const some = items.slice(at, at + atATime).map(act)
    // If one call fails, the other calls still use the log, so wait for them.
    await Promise.allSettled(some)
    results.push(...(await Promise.all(some)))
  }
  return results
}

/**
 * True if nothing answers because the server has no JetStream. A server of a cluster can't tell,
 * because others answer for it.
 */
function isWithoutJetStream({ info }: NatsConnection, thrown: unknown): boolean {
  const isUnanswered = (thrown as Error | undefined)?.name === 'JetStreamNotEnabled'
  return isUnanswered && info !== undefined && !info.jetstream && info.cluster === undefined
}

/**
 * Retries `attempt` until it succeeds, fails for good, or has failed for longer than `patience`.
 * `patience` and `pause` are in milliseconds.
 */
export async function keepTrying<Value>(
  connection: NatsConnection,
  attempt: () => Promise<Value>,
  patience: number,
  pause: number,
): Promise<Value> {
  const end = performance.now() + patience
  for (;;) {
    try {
      return await attempt()
    } catch (thrown) {
      if (isFinal(thrown) || connection.isClosed() || performance.now() > end) throw thrown
      await new Promise(resolve => setTimeout(resolve, pause))
    }
  }
}
