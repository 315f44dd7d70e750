import type { Config } from 'sluice'
import type { Feed, Rest } from 'sluice/client'
import { isStreamsError, sleep, ValidationError } from 'sluice/core'
import { Delays } from 'sluice/internal'
import { findFeeds } from '../input/feeds.js'
import { type IO, warn } from '../io.js'
import { connect, type Service } from '../service/service.js'
import { describeAway } from './events.js'

/** Milliseconds before the first retry. The number is the default of a stream. */
const RECONNECT_INTERVAL = 1000

/** How often a command retries to find feeds, and whether it prints the retries. */
export interface LookUp {
  /** The most retries in a row. @default Infinity */
  readonly maxReconnects?: number
  readonly quiet?: boolean
}

/**
 * Finds the feeds of a command that streams. While the service is unreachable, the command retries
 * as a stream reconnects: as often, after the same delays and with the same messages.
 */
export function lookUpFeeds(
  given: readonly string[],
  service: Service,
  config: Partial<Config>,
  how: LookUp,
  io: Pick<IO, 'stderr' | 'signal'>,
): Promise<readonly Feed[]> {
  const client = feedLister(service, config)
  return keepAsking(() => findFeeds(given, client, service, io), hostOf(service), how, io)
}

/** Lists all feeds that a service has for the credentials, with the retries of `lookUpFeeds`. */
export async function lookUpAllFeeds(service: Service, io: IO): Promise<readonly Feed[]> {
  const { signal } = io
  const list = (): Promise<readonly Feed[]> => feedLister(service, {}).listFeeds({ signal })
  const found = await keepAsking(list, hostOf(service), {}, io)
  if (found.length === 0)
    throw new ValidationError(`${hostOf(service)} lists no feed for these credentials`)
  return found
}

/**
 * Lists the feeds of a service. Each call makes its own client, and sends one request without
 * retries.
 */
export function feedLister(
  service: Service,
  config: Partial<Config>,
): Pick<Rest, 'listFeeds' | 'discover'> {
  return {
    async discover(filters) {
      await using client = connect(service, { ...config, retryAttempts: 0 })
      return await client.discover(filters)
    },
    async listFeeds(options) {
      await using client = connect(service, { ...config, retryAttempts: 0 })
      return await client.listFeeds(options)
    },
  }
}

/**
 * Calls `ask`, and retries while the service is unreachable. `name` stands for the service in
 * messages.
 */
export async function keepAsking<Answer>(
  ask: () => Promise<Answer>,
  name: string,
  { maxReconnects: maxAttempts = Number.POSITIVE_INFINITY, quiet }: LookUp,
  io: Pick<IO, 'stderr' | 'signal'>,
): Promise<Answer> {
  const delays = new Delays()
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask()
    } catch (thrown) {
      const isAway = isStreamsError(thrown) && thrown.isRetryable
      if (!isAway || attempt > maxAttempts || io.signal.aborted) throw thrown
      const delayMs = delays.beforeConnecting(attempt, RECONNECT_INTERVAL, thrown)
      const next = { attempt, maxAttempts, delayMs }
      if (!quiet) for (const line of describeAway(name, thrown, next)) warn(io, line)
      await sleep(delayMs, io.signal)
    }
  }
}

/** The host of a service, which stands for the service in messages. */
export function hostOf({ endpoint }: Pick<Service, 'endpoint'>): string {
  return new URL(endpoint).host
}
