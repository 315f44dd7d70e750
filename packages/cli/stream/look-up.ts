import type { Config } from 'sluice'
import type { Feed, Rest } from 'sluice/client'
import { isStreamsError, sleep } from 'sluice/core'
import { Delays } from 'sluice/internal'
import { findFeeds } from '../input/feeds.js'
import { type IO, warn } from '../io.js'
import { connect, type Service } from '../service/service.js'
import { describeAttempt, describeAway } from './events.js'

/** Milliseconds before the first new attempt: the default of a stream. */
const RECONNECT_INTERVAL = 1000

/** How often the service is asked, and whether that is said. */
export interface LookUp {
  /** New attempts in a row. */
  readonly maxAttempts: number
  readonly isQuiet: boolean
}

/**
 * Finds the feeds of a command that streams. While the service is away, names are looked up again as a stream connects again:
 * as often, after the same delays and with the same messages.
 */
export function lookUpFeeds(
  given: readonly string[],
  service: Service,
  config: Partial<Config>,
  how: LookUp,
  io: IO,
): Promise<readonly Feed[]> {
  const client = feedLister(service, config)
  return keepAsking(() => findFeeds(given, client, service, io), hostOf(service), how, io)
}

/** Lists the feeds of a service by a client of its own: each attempt is one request. */
export function feedLister(service: Service, config: Partial<Config>): Pick<Rest, 'listFeeds'> {
  return {
    async listFeeds(options) {
      await using client = await connect(service, { ...config, retryAttempts: 0 })
      return await client.listFeeds(options)
    },
  }
}

/** Asks again while the error is one of a service that is away. `name` says in messages who is asked. */
export async function keepAsking<Answer>(
  ask: () => Promise<Answer>,
  name: string,
  { maxAttempts, isQuiet }: LookUp,
  io: IO,
): Promise<Answer> {
  const delays = new Delays()
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask()
    } catch (thrown) {
      const isAway = isStreamsError(thrown) && thrown.isRetryable
      if (!isAway || attempt > maxAttempts || io.signal.aborted) throw thrown
      const delayMs = delays.beforeConnecting(attempt, RECONNECT_INTERVAL, thrown)
      if (!isQuiet) {
        warn(io, describeAway(name, thrown))
        warn(io, describeAttempt(name, { attempt, maxAttempts, delayMs }))
      }
      await sleep(delayMs, io.signal)
    }
  }
}

/** The host of a service, as messages name it. */
export function hostOf({ endpoint }: Pick<Service, 'endpoint'>): string {
  return new URL(endpoint).host
}
