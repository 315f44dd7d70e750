import type { JetStreamClient, JetStreamManager, StoredMsg, StreamInfo } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { ValidationError } from 'sluice/core'
import { isAPIError, streamError } from './errors.js'
import { loadJetStream } from './library.js'
import {
  allSubjects,
  checkName,
  checkPrefix,
  DEFAULT_PREFIX,
  DEFAULT_STREAM,
  feedOf,
  subjectOf,
} from './subjects.js'

/** Which log it is. */
export interface LogOptions {
  /** A connection of NATS. */
  readonly connection: NatsConnection
  /** The stream of JetStream. @default 'SLUICE' */
  readonly stream?: string | undefined
  /** The beginning of its subjects. @default 'sluice' */
  readonly prefix?: string | undefined
}

/** The library's view of a log. */
export interface LogAccess {
  readonly client: JetStreamClient
  readonly manager: JetStreamManager
}

/** Milliseconds that the log may take to answer: a stream waits 5000 for its connection. */
const TIMEOUT = 4000
/** Milliseconds by which the clock of the log may be behind that of the observers. */
export const CLOCK_MARGIN = 10_000
/**
 * Milliseconds by which a machine's two clocks may drift apart: a machine that has slept shows
 * more.
 */
const MAX_DRIFT = 2000

/** How far the log's clock was ahead of this machine's two clocks, in milliseconds. */
interface LogClock {
  readonly ofMonotonic: number
  readonly ofWall: number
}

/** By connection: the clock of the log, as its last answer had it. */
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

/** A stream of JetStream, which holds reports. */
export class ReportLog {
  readonly connection: NatsConnection
  /** Its name. */
  readonly stream: string
  /** The beginning of its subjects. */
  readonly prefix: string

  constructor({ connection, stream = DEFAULT_STREAM, prefix = DEFAULT_PREFIX }: LogOptions) {
    this.connection = checkConnection(connection)
    this.stream = checkName('stream', stream)
    this.prefix = checkPrefix('prefix', prefix)
  }

  /** Access to the JetStream of the connection, made once. */
  access(): Promise<LogAccess> {
    const access = opened.get(this.connection) ?? open(this.connection)
    opened.set(this.connection, access)
    return access
  }

  /** Asks the log. A failure of the library becomes a RelayLogError that names the stream. */
  async ask<Answer>(request: (access: LogAccess) => Promise<Answer>): Promise<Answer> {
    const access = await this.access()
    try {
      return await request(access)
    } catch (thrown) {
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

  /** The feed's newest message, by the leader of the stream; null where it has none. */
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
   * The header with the log's time: a client that reads the log goes by it, as by that of a
   * service. There is none if the machine has slept, or its wall clock was set, since the log's
   * last answer: the age of that answer is unknown then.
   */
  dateHeader(): Record<string, string> {
    const clock = clocks.get(this.connection)
    if (clock === undefined) return {}
    const time = clock.ofMonotonic + performance.now()
    if (Math.abs(clock.ofWall + Date.now() - time) > MAX_DRIFT) return {}
    return { date: new Date(time).toUTCString() }
  }
}

/** When the log has answered, by its own clock, in milliseconds of Unix time. */
export function timeOf({ ts }: { readonly ts?: string }): number {
  const time = Date.parse(ts ?? '')
  return Number.isNaN(time) ? Date.now() : time
}

/** A connection of `@nats-io/transport-node`, or of another transport of the same library. */
export function checkConnection(value: unknown): NatsConnection {
  const { publish, subscribe, rtt } = (value ?? {}) as Partial<NatsConnection>
  if ([publish, subscribe, rtt].every(method => typeof method === 'function'))
    return value as NatsConnection
  throw new ValidationError(
    'connection must be a connection of NATS, as connect of @nats-io/transport-node opens it',
  )
}

/** Calls `act` for some items at a time, and returns the results in the order of the items. */
export async function mapSome<Item, Result>(
  items: readonly Item[],
  atATime: number,
  act: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = []
  for (let at = 0; at < items.length; at += atATime) {
    const some = items.slice(at, at + atATime).map(act)
    // If one fails, the others still wait for the log.
    await Promise.allSettled(some)
    results.push(...(await Promise.all(some)))
  }
  return results
}

/**
 * Tries again until `attempt` succeeds, fails for good, or has failed for too long; the times are
 * in milliseconds.
 */
export async function keepTrying<Value>(
  attempt: () => Promise<Value>,
  patience: number,
  pause: number,
  isFinal: (thrown: unknown) => boolean,
): Promise<Value> {
  const end = performance.now() + patience
  for (;;) {
    try {
      return await attempt()
    } catch (thrown) {
      if (isFinal(thrown) || performance.now() > end) throw thrown
      await new Promise(resolve => setTimeout(resolve, pause))
    }
  }
}
