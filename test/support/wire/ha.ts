import { type DataEngine, type DataEngineOptions, startDataEngine } from '@sluice/engine'
import {
  type Client,
  createClient,
  type DecodedReport,
  dedup,
  haDiscovery,
  hmacAuth,
  type Report,
  type RetryOptions,
  retry,
  type Status,
  type Stream,
  type StreamOptions,
} from '../../../index.js'
import { closeAfterEach } from '../closing.js'

export const ethUsd = '0x10035a7b9c1d3e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7'

export const closers: (() => unknown)[] = closeAfterEach()

export async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: [ethUsd],
    intervalMs: 0,
    history: 0,
    origins: 2,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

export interface Opened {
  client: Client<DecodedReport>
  stream: Stream<DecodedReport>
  seen: {
    times: number[]
    errors: (Error & Record<string, unknown>)[]
    events: string[]
    statuses: Status[]
    conflicts: { first: Report<DecodedReport>; other: Report<DecodedReport> }[]
  }
}

/** A highly available stream and all that came of it. */
export function open(engine: DataEngine, options: StreamOptions = {}, config: object = {}): Opened {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    haMode: true,
    retryDelay: 20,
    ...config,
  })
  closers.push(() => client.close())
  const stream = client.createStream(engine.feeds, { reconnectInterval: 50, ...options })
  const seen = {
    times: [] as number[],
    errors: [] as (Error & Record<string, unknown>)[],
    events: [] as string[],
    statuses: [] as Status[],
    conflicts: [] as { first: Report<DecodedReport>; other: Report<DecodedReport> }[],
  }
  stream.on('report', report => void seen.times.push(report.observationsTimestamp))
  stream.on('error', error => void seen.errors.push(error as (typeof seen.errors)[number]))
  stream.on('status', status => void seen.statuses.push(status))
  stream.on('conflict', conflict => void seen.conflicts.push(conflict))
  for (const name of ['connected', 'disconnected', 'reconnecting'] as const)
    stream.on(name, () => void seen.events.push(name))
  return { client, stream, seen }
}

/** The name of the engine's origin in reports and metrics. */
export const of = (engine: DataEngine, originID: string): string =>
  `${engine.wsEndpoint}#${originID}`

export const names = (errors: readonly Error[]): string[] => errors.map(error => error.name)

export const status =
  (type: string): ((each: Status) => boolean) =>
  (each: Status) =>
    each.type === type

/** A stream with a stack of its own. */
export async function own(
  engine: DataEngine,
  options: object,
  streamOptions: StreamOptions = {},
  retryOptions: RetryOptions = {},
): Promise<{ stream: Stream; errors: (Error & Record<string, unknown>)[]; types: string[] }> {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const plugins = [
    dedup(),
    haDiscovery({ stagger: 5, ...options }),
    retry({ delay: 5, ...retryOptions }),
    hmacAuth({ apiKey, userSecret }),
  ]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const stream = client.createStream(engine.feeds, { reconnectInterval: 50, ...streamOptions })
  const errors: (Error & Record<string, unknown>)[] = []
  const types: string[] = []
  stream.on('error', error => void errors.push(error as (typeof errors)[number]))
  stream.on('status', status => {
    if ('origin' in status) types.push(`${status.originID} ${status.type}`)
  })
  return { stream, errors, types }
}
