// Streams that are held against the ledger of the engine: what was stored is delivered once, or announced.
import {
  type DataEngine,
  type DataEngineOptions,
  type PublishedReport,
  startDataEngine,
} from '@sluice/engine'
import {
  type Config,
  type ContinuityOptions,
  continuity,
  createClient,
  haPreset,
  type Stream,
  type StreamOptions,
} from '../../../index.js'
import { closeAfterEach, failOnUnhandled } from '../closing.js'

export const feedsOf = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `0x1003${index.toString(16).padStart(60, '0')}`)
const closers = closeAfterEach()
failOnUnhandled()

export async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: feedsOf(2),
    intervalMs: 0,
    history: 0,
    compression: false,
    rateLimit: 10,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

const keyOf = ({ feedID, observationsTimestamp }: PublishedReport) =>
  `${feedID}:${observationsTimestamp}`

/** A stream and all that came of it. */
export interface Followed {
  readonly client: ReturnType<typeof createClient>
  readonly stream: Stream
  readonly delivered: ReadonlyMap<string, number>
  readonly times: ReadonlyMap<string, readonly number[]>
  readonly sources: readonly string[]
  readonly gaps: readonly { feedID: string; from: number; to: number; cause: string }[]
  readonly errors: readonly Error[]
  /** What was stored, and was neither delivered nor announced. */
  readonly lost: () => string[]
  readonly doubled: () => [string, number][]
}

/** A stream and all that came of it, held against what the engine has published. */
export function open(
  engine: DataEngine,
  config: Partial<Config> = {},
  streamOptions: StreamOptions = {},
): Followed {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    retryDelay: 20,
    ...config,
  } as Config)
  return follow(engine, client, streamOptions)
}

/** The same with a stack whose continuity has options. */
export function openWith(engine: DataEngine, options: ContinuityOptions): Followed {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const plugins = haPreset({ apiKey, userSecret, retryDelay: 20 }).map(plugin =>
    plugin.name === 'continuity' ? continuity(options) : plugin,
  )
  return follow(engine, createClient({ endpoint, wsEndpoint, plugins }), {})
}

function follow(
  engine: DataEngine,
  client: ReturnType<typeof createClient>,
  streamOptions: StreamOptions,
): Followed {
  closers.push(() => client.close())
  const stream = client.createStream(engine.feeds, {
    reconnectInterval: 50,
    maxReconnectAttempts: Number.POSITIVE_INFINITY,
    ...streamOptions,
  })
  const delivered = new Map<string, number>()
  const times = new Map<string, number[]>()
  const sources: string[] = []
  const gaps: { feedID: string; from: number; to: number; cause: string }[] = []
  const errors: Error[] = []
  stream.on('report', report => {
    const key = `${report.feedID}:${report.observationsTimestamp}`
    delivered.set(key, (delivered.get(key) ?? 0) + 1)
    const before = times.get(report.feedID)
    if (before === undefined) times.set(report.feedID, [report.observationsTimestamp])
    else before.push(report.observationsTimestamp)
    sources.push(report.source)
  })
  stream.on('gap', gap => void gaps.push(gap))
  stream.on('error', error => void errors.push(error))
  const lost = () =>
    engine
      .ledger()
      .filter(report => report.stored && !delivered.has(keyOf(report)))
      .filter(
        ({ feedID, observationsTimestamp: time }) =>
          !gaps.some(gap => gap.feedID === feedID && gap.from <= time && time <= gap.to),
      )
      .map(keyOf)
  const doubled = () => [...delivered].filter(([, count]) => count > 1)
  return { client, stream, delivered, times, sources, gaps, errors, lost, doubled }
}

export const pageRequests = (engine: DataEngine): ReturnType<DataEngine['requests']> =>
  engine.requests().filter(({ path }) => path.startsWith('/api/v1/reports/page'))

/** The most requests of one path in any second. */
export function densest(engine: DataEngine): number {
  const times = pageRequests(engine).map(({ at }) => at)
  return Math.max(
    0,
    ...times.map(start => times.filter(at => at >= start && at < start + 1000).length),
  )
}

export const publishAll = (
  engine: DataEngine,
  options: Parameters<DataEngine['publish']>[2] = {},
): void => {
  for (const feedID of engine.feeds) engine.publish(feedID, {}, options)
}

/** One report of each feed is missed; what stands in the way of fetching it is up to `hinder`. */
export async function hindered(
  hinder: (engine: DataEngine) => void,
  options: DataEngineOptions = {},
): Promise<Followed & { readonly engine: DataEngine }> {
  const engine = await start(options)
  const opened = open(engine, { retryAttempts: 1 })
  await opened.stream.connect()
  publishAll(engine)
  hinder(engine)
  publishAll(engine, { streamed: false })
  publishAll(engine, { streamed: false })
  publishAll(engine)
  return { engine, ...opened }
}
export const pagePath = '/api/v1/reports/page'
