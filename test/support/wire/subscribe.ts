import { expect } from '@jest/globals'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '@sluice/engine'
import type { Plugin } from '../../../client/index.js'
import {
  type Client,
  createClient,
  decoders,
  dedup,
  haDiscovery,
  hmacAuth,
  retry,
  type Status,
  type Stream,
  type StreamOptions,
  v3,
} from '../../../index.js'
import { closeAfterEach, failOnUnhandled } from '../closing.js'
import { pause } from '../waiting.js'

/** A feed in milliseconds. */
export const feed = (index: number): string => `0x1003${index.toString(16).padStart(60, '0')}`

export const a: string = feed(1)
export const b: string = feed(2)
export const c: string = feed(3)
export const d: string = feed(4)

export const closers: (() => unknown)[] = closeAfterEach()
failOnUnhandled()

export async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: [a, b, c, d],
    intervalMs: 20,
    history: 0,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

export interface Opened {
  client: Client<unknown>
  stream: Stream<unknown>
  seen: {
    reports: string[]
    errors: Error[]
    events: string[]
    statuses: Status[]
    callbacks: boolean[]
  }
}

/** A stream and all that came of it. The stack has nothing that would fetch what is lost. */
export function open(
  engine: DataEngine,
  feeds: readonly string[] = [a, b],
  options: StreamOptions = {},
  config: { readonly wsEndpoint?: string; readonly plugins?: readonly Plugin[] } = {},
): Opened {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const callbacks: boolean[] = []
  const client: Client = createClient({
    endpoint,
    wsEndpoint: config.wsEndpoint ?? wsEndpoint,
    connectionStatusCallback: isConnected => void callbacks.push(isConnected),
    plugins: [
      decoders(v3),
      ...(config.plugins ?? []),
      dedup(),
      ...(engine.origins.length > 1 ? [haDiscovery({ stagger: 20 })] : []),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ],
  })
  closers.push(() => client.close())
  const stream = client.createStream(feeds, { reconnectInterval: 200, ...options })
  const seen = {
    reports: [] as string[],
    errors: [] as Error[],
    events: [] as string[],
    statuses: [] as Status[],
    callbacks,
  }
  stream.on('report', report => void seen.reports.push(keyOf(report)))
  stream.on('error', error => void seen.errors.push(error))
  stream.on('status', status => void seen.statuses.push(status))
  for (const name of ['connected', 'disconnected', 'reconnecting'] as const)
    stream.on(name, () => void seen.events.push(name))
  return { client, stream, seen }
}

export function keyOf(report: {
  readonly feedID: string
  readonly observationsTimestamp: number
}): string {
  return `${report.feedID}:${report.observationsTimestamp}`
}

/** The reports of a feed that were published from one length of the ledger to another. */
export function published(engine: DataEngine, feedID: string, from = 0, to?: number): string[] {
  return engine
    .ledger()
    .slice(from, to)
    .filter(report => report.feedID === feedID)
    .map(keyOf)
}

export const of = (feedID: string, reports: readonly string[]): string[] =>
  reports.filter(key => key.startsWith(feedID))

/** All of these have come, and no report of a stream has come twice. */
export function expectExact(reports: readonly string[], wanted: readonly string[]): void {
  const came = new Set(reports)
  expect({
    lost: wanted.filter(key => !came.has(key)),
    doubled: reports.length - came.size,
  }).toEqual({ lost: [], doubled: 0 })
}

/** Stops publishing and waits for what is on its way. */
export async function settle(engine: DataEngine): Promise<void> {
  engine.pause()
  await pause(300)
}

export const isOpen =
  (engine: DataEngine, stream: Stream): (() => boolean) =>
  () =>
    stream.getMetrics().activeConnections === engine.origins.length
