import { afterAll, afterEach, beforeAll } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import {
  type Client,
  createClient,
  type DecodedReport,
  type Status,
  type Stream,
  type StreamOptions,
} from '../../../index.js'
import { failOnUnhandled } from '../closing.js'

export const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'

export const btcUsd: string = `0x0003${'ab'.repeat(30)}`

export const fast: StreamOptions = { reconnectInterval: 50 }

export let engine: DataEngine

export const closers: (() => Promise<void>)[] = []

beforeAll(async () => {
  engine = await startDataEngine({ feeds: [ethUsd, btcUsd], intervalMs: 0, history: 0 })
})

afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  engine.blackhole(false)
})

afterAll(() => engine.close())

failOnUnhandled()

export interface Opened {
  client: Client<DecodedReport>
  stream: Stream<DecodedReport>
  seen: { reports: string[]; errors: Error[]; events: string[]; statuses: Status[] }
}

/** A stream and all that came of it. */
export function open(
  options: StreamOptions = {},
  config: object = {},
  feeds: string | string[] = [ethUsd, btcUsd],
): Opened {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, ...config })
  const stream = client.createStream(feeds, options)
  const seen = {
    reports: [] as string[],
    errors: [] as Error[],
    events: [] as string[],
    statuses: [] as Status[],
  }
  stream.on(
    'report',
    report => void seen.reports.push(`${report.feedID}:${report.observationsTimestamp}`),
  )
  stream.on('error', error => void seen.errors.push(error))
  stream.on('status', status => void seen.statuses.push(status))
  for (const name of ['connected', 'disconnected', 'reconnecting'] as const) {
    stream.on(name, () => void seen.events.push(name))
  }
  closers.push(() => client.close())
  return { client, stream, seen }
}
