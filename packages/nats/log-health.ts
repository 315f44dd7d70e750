import type { StreamInfo } from '@nats-io/jetstream'
import { asError, type Lifetime, sleep } from 'sluice/core'
import type { Health, Severity } from 'sluice/health'
import { isAPIError } from './errors.js'
import type { ReportLog } from './log.js'

/** A cause of a service that uses a log. */
export type LogCause = 'log-away' | 'stream-missing' | 'read-denied' | 'copies-behind'

/** The causes of a service that uses a log. */
export const logCauses: Readonly<Record<LogCause, Severity>> = {
  /** The servers of NATS can't be reached, or do not answer. */
  'log-away': 'unready',
  /** The stream of the log does not exist. */
  'stream-missing': 'unready',
  /** The user of the connection may not read the log. */
  'read-denied': 'unready',
  /** A server's copy of the log is not up to date. */
  'copies-behind': 'warning',
}

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

  async function followConnection(): Promise<void> {
    for await (const { type } of log.connection.status()) {
      if (life.isOver) return
      if (type === 'disconnect') {
        isConnected = false
        health.set('log-away', 'the connection to NATS is lost')
      } else if (type === 'reconnect') isConnected = true
    }
  }

  async function look(): Promise<void> {
    try {
      const info = await log.info()
      health.set('copies-behind', describeCopies(info))
      await seen(info)
      if (life.isOver || !isConnected) return
      for (const cause of ['log-away', 'stream-missing', 'read-denied'] as const) health.set(cause)
    } catch (thrown) {
      if (life.isOver) return
      const cause = causeOf(thrown)
      const message = isConnected ? asError(thrown).message : 'the connection to NATS is lost'
      for (const each of ['log-away', 'stream-missing', 'read-denied'] as const)
        if (each !== cause) health.set(each)
      health.set(cause, message)
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

function causeOf(thrown: unknown): Exclude<LogCause, 'copies-behind'> {
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
