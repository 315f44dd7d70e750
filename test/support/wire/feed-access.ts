import { expect } from '@jest/globals'
import {
  type DataEngine,
  type DataEngineOptions,
  type RequestRecord,
  startDataEngine,
} from '@sluice/engine'
import { connectSocket } from '../../../client/transport/socket.js'
import {
  EntitlementError,
  type Client,
  type Config,
  createClient,
  type DecodedReport,
  type Gap,
  type Status,
  type Stream,
  type StreamOptions,
} from '../../../index.js'
import { closeAfterEach } from '../closing.js'
import { until } from '../waiting.js'

/** A feed in milliseconds. */
export const feed = (index: number): string => `0x1003${index.toString(16).padStart(59, '0')}f`

export const a: string = feed(1)
export const b: string = feed(2)
export const c: string = feed(3)
export const d: string = feed(4)

/** The number of feeds that a URL holds. */
export const CAPACITY = 111

export const closers: (() => unknown)[] = closeAfterEach()

/** An engine whose user may not read `b`. */
export async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: [a, { feedID: b, entitled: false }, c, d],
    intervalMs: 20,
    history: 0,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

export interface Opened {
  client: Client<DecodedReport>
  stream: Stream<DecodedReport>
  seen: { reports: string[]; errors: Error[]; statuses: Status[]; gaps: Gap[]; events: string[] }
}

/** A stream of the preset stack, and all that came of it. */
export function open(
  engine: DataEngine,
  feedIDs: readonly string[] = [a, b, c],
  options: StreamOptions = {},
  config: Partial<Config> = {},
): Opened {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const haMode = engine.origins.length > 1
  const client = createClient({
    ...{ apiKey, userSecret, endpoint, wsEndpoint, haMode, retryDelay: 10 },
    ...config,
  })
  closers.push(() => client.close())
  const stream = client.createStream(feedIDs, { reconnectInterval: 200, ...options })
  const seen = {
    reports: [] as string[],
    errors: [] as Error[],
    statuses: [] as Status[],
    gaps: [] as Gap[],
    events: [] as string[],
  }
  stream.on('report', report => void seen.reports.push(keyOf(report)))
  stream.on('error', error => void seen.errors.push(error))
  stream.on('status', status => void seen.statuses.push(status))
  stream.on('gap', gap => void seen.gaps.push(gap))
  for (const name of ['connected', 'disconnected'] as const)
    stream.on(name, () => void seen.events.push(name))
  return { client, stream, seen }
}

export function keyOf(report: {
  readonly feedID: string
  readonly observationsTimestamp: number
}): string {
  return `${report.feedID}:${report.observationsTimestamp}`
}

export const upgrades = (engine: DataEngine): RequestRecord[] =>
  engine.requests().filter(({ path }) => path.startsWith('/api/v1/ws'))

export const looks = (engine: DataEngine): RequestRecord[] =>
  engine.requests().filter(({ path }) => path === '/api/v1/feeds')

/** Has the list of feeds come once so many connections are refused: all of them want to know at the same time. */
export function listAfter(refusals: number): Pick<Config, 'connect' | 'fetch'> {
  let refused = 0
  return {
    connect: (target, events) =>
      connectSocket(target, {
        ...events,
        refused(...refusal) {
          refused++
          events.refused(...refusal)
        },
      }),
    async fetch(input, init) {
      if (String(input).endsWith('/feeds')) await until(() => refused === refusals)
      return fetch(input, init)
    },
  }
}

/** One report of each; resolves when they have come. */
export async function expectFlow(
  engine: DataEngine,
  feedIDs: readonly string[],
  reports: readonly string[],
): Promise<void> {
  const keys = feedIDs.map(feedID => keyOf(engine.publish(feedID)))
  await until(() => keys.every(key => reports.includes(key)))
}

/** The one error there was, which names these feeds. */
export function expectUnauthorised(errors: readonly Error[], feedIDs: readonly string[]): void {
  expect(errors).toHaveLength(1)
  const [error] = errors
  expect(error).toBeInstanceOf(EntitlementError)
  expect(error).toMatchObject({ code: 'ENTITLEMENT', statusCode: 401, feedIDs })
  for (const feedID of feedIDs) expect(error?.message).toContain(feedID)
}
