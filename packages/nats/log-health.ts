import type { StreamInfo } from '@nats-io/jetstream'
import { asError, type Lifetime, sleep } from 'sluice/core'
import type { Health, Severity } from 'sluice/health'
import { isAPIError } from './errors.js'
import type { ReportLog } from './log.js'

/** A cause of a service that uses a log. */
export type LogCause =
  | 'log-away'
  | 'login-refused'
  | 'log-closed'
  | 'stream-missing'
  | 'read-denied'
  | 'copies-behind'

/** The causes of a service that uses a log. */
export const logCauses: Readonly<Record<LogCause, Severity>> = {
  /** The servers of NATS can't be reached, or do not answer. */
  'log-away': 'unready',
  /** The servers of NATS do not accept the user of the connection. */
  'login-refused': 'unready',
  /** The connection to NATS was closed for good. */
  'log-closed': 'dead',
  /** The stream of the log does not exist. */
  'stream-missing': 'unready',
  /** The user of the connection may not read the log. */
  'read-denied': 'unready',
  /** A server's copy of the log is not up to date. */
  'copies-behind': 'warning',
}

/** The causes of which a log has one at a time: why it can't be read. */
const unreadable = ['log-away', 'login-refused', 'stream-missing', 'read-denied'] as const
type Unreadable = (typeof unreadable)[number]

/** Milliseconds between two looks at the log. */
const LOOK_INTERVAL = 2000

/**
 * Looks at a log every two seconds, until the lifetime ends. `seen` gets what the log says of
 * itself. If `seen` throws, the log counts as away.
 */
export function watchLog(
  health: Health<LogCause>,
  log: ReportLog,
  life: Lifetime,
  seen: (info: StreamInfo) => unknown = () => undefined,
): void {
  let isConnected = true
  /** Why the servers refuse the user; undefined if they have not since the last connection. */
  let refusal: string | undefined

  /** Begins the problem of a log that can't be read, in place of another one. */
  function begin(cause: Unreadable, message: string): void {
    for (const each of unreadable) if (each !== cause) health.set(each)
    health.set(cause, message)
  }

  function beginLost(): void {
    if (refusal === undefined) begin('log-away', 'the connection to NATS is lost')
    else begin('login-refused', `NATS refuses the user of this connection: ${refusal}`)
  }

  async function followConnection(): Promise<void> {
    for await (const status of log.connection.status()) {
      if (life.isOver) return
      if (status.type === 'error' && isRefused(status.error)) {
        refusal = status.error.message
        isConnected = false
        beginLost()
      } else if (status.type === 'disconnect') {
        isConnected = false
        beginLost()
      } else if (status.type === 'reconnect') {
        isConnected = true
        refusal = undefined
      }
    }
    if (!log.connection.isClosed() || life.isOver) return
    const why = refusal === undefined ? '' : `: NATS refuses its user: ${refusal}`
    health.set('log-closed', `the connection to NATS is closed for good${why}`)
  }

  async function look(): Promise<void> {
    try {
      const info = await log.info()
      health.set('copies-behind', describeCopies(info))
      await seen(info)
      if (life.isOver || !isConnected) return
      for (const cause of unreadable) health.set(cause)
    } catch (thrown) {
      if (life.isOver) return
      if (isConnected) begin(causeOf(thrown), asError(thrown).message)
      else beginLost()
    }
  }

  async function lookAgain(): Promise<void> {
    while (!life.isOver) {
      await look()
      await sleep(LOOK_INTERVAL, life.signal)
    }
  }

  void followConnection()
  lookAgain().catch(() => undefined)
}

/** True if the servers of NATS do not accept the user of the connection. */
function isRefused({ name }: Error): boolean {
  return name === 'AuthorizationError' || name === 'UserAuthenticationExpiredError'
}

function causeOf(thrown: unknown): Unreadable {
  const { message, cause } = asError(thrown)
  if (isAPIError(cause, 'noStream') || /does not exist/.test(message)) return 'stream-missing'
  return isDenied(message) ? 'read-denied' : 'log-away'
}

/** True if the message says that the servers of NATS do not permit something. */
export function isDenied(message: string): boolean {
  return /permissions violation/i.test(message)
}

function describeCopies({ cluster, config }: StreamInfo): string | undefined {
  const behind = (cluster?.replicas ?? []).filter(
    ({ current, offline }) => !current || offline === true,
  )
  if (behind.length === 0) return undefined
  const names = behind.map(({ name, offline }) => `${name}${offline ? ' (away)' : ''}`)
  return `${behind.length} of ${config.num_replicas} copies of the log are not up to date: ${names.join(', ')}`
}
