import type { JetStreamClient, JetStreamManager, StreamInfo } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { ValidationError } from 'sluice/core'
import { RelayLogError, logError } from './errors.js'
import { loadJetStream } from './library.js'

/** A stream of JetStream, which holds reports. */
export interface ReportLog {
  readonly connection: NatsConnection
  /** Its name. */
  readonly stream: string
  /** What its subjects begin with. */
  readonly prefix: string
}

/** The library's view of a log. */
export interface LogAccess {
  readonly client: JetStreamClient
  readonly manager: JetStreamManager
}

/** Milliseconds that the log may take to answer: a stream waits 5000 for its connection. */
const TIMEOUT = 4000

/** What the log's clock was ahead of this machine's two clocks, in milliseconds. */
interface LogClock {
  readonly ofMonotonic: number
  readonly ofWall: number
}

/** Milliseconds by which the two may drift apart: a machine that has slept shows more. */
const MAX_DRIFT = 2000
/** By connection: the clock of the log, as its last answer had it. */
const clocks = new WeakMap<NatsConnection, LogClock>()
const opened = new WeakMap<NatsConnection, Promise<LogAccess>>()

/** Access to the JetStream of a connection, made once. */
export function accessLog(connection: NatsConnection): Promise<LogAccess> {
  let access = opened.get(connection)
  if (access === undefined) {
    access = open(connection)
    opened.set(connection, access)
  }
  return access
}

async function open(connection: NatsConnection): Promise<LogAccess> {
  const { jetstream, jetstreamManager } = await loadJetStream()
  const options = { timeout: TIMEOUT, checkAPI: false }
  return {
    client: jetstream(connection, options),
    manager: await jetstreamManager(connection, options),
  }
}

/** What the server says of the stream. Throws RelayLogError where it is missing, or the log is away. */
export async function readInfo({ connection, stream }: ReportLog): Promise<StreamInfo> {
  const { manager } = await accessLog(connection)
  try {
    const info = await manager.streams.info(stream)
    const time = Date.parse(info.ts ?? '')
    if (!Number.isNaN(time))
      clocks.set(connection, {
        ofMonotonic: time - performance.now(),
        ofWall: time - Date.now(),
      })
    return info
  } catch (thrown) {
    throw streamError(stream, thrown)
  }
}

/** When the log has answered, by its own clock, in milliseconds of Unix time. */
export function timeOf({ ts }: StreamInfo): number {
  const time = Date.parse(ts ?? '')
  return Number.isNaN(time) ? Date.now() : time
}

/**
 * The header with the log's time: a client that reads the log goes by it, as by that of a service. None where the machine has slept
 * or its wall clock was set since the log's last answer: nobody knows how long ago that was.
 */
export function dateHeader({ connection }: ReportLog): Record<string, string> {
  const clock = clocks.get(connection)
  if (clock === undefined) return {}
  const time = clock.ofMonotonic + performance.now()
  if (Math.abs(clock.ofWall + Date.now() - time) > MAX_DRIFT) return {}
  return { date: new Date(time).toUTCString() }
}

/** The error of a request about a stream. */
export function streamError(stream: string, thrown: unknown): RelayLogError {
  if (isAPIError(thrown, 10_059))
    return new RelayLogError(`stream ${stream} does not exist: a relay creates it with create`, {
      isRetryable: true,
    })
  return logError(`stream ${stream} did not answer`, thrown)
}

/** True for an answer of the server with this code of error. */
export function isAPIError(thrown: unknown, code: number): boolean {
  return (thrown as { readonly code?: unknown } | null)?.code === code
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
