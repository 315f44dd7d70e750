import { connect, type NatsConnection } from '@nats-io/transport-node'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '@sluice/engine'
import {
  createRelay,
  type NatsWireOptions,
  natsWire,
  type Relay,
  type RelayOptions,
  workerPreset,
} from '@sluice/nats'
import { createClient, type Report, type Stream } from 'sluice'
import type { Client, Plugin, StreamOptions } from 'sluice/client'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { closeAfterEach } from '../closing.js'
import { type NatsServers, startNats } from './server.mjs'

/** A feed in milliseconds. */
export const feed = (index: number): string => `0x1003${index.toString(16).padStart(60, '0')}`

/** What tests with a log have. */
export interface LogWorld {
  readonly servers: NatsServers
  connect(): Promise<NatsConnection>
  engine(options?: DataEngineOptions): Promise<DataEngine>
  relay(engine: DataEngine, options?: Partial<RelayOptions>): Promise<Relay>
  worker(options?: WorkerOptions): Promise<Worker>
}

/** What a worker reads, and how. */
export interface WorkerOptions {
  readonly feeds?: readonly string[]
  readonly wire?: NatsWireOptions
  readonly plugins?: readonly Plugin<DecodedReport>[]
  readonly stream?: StreamOptions
  /** Its wall clock. */
  readonly now?: () => number
  /** Its own, which the test closes. */
  readonly connection?: NatsConnection
}

/** A worker, and what it got. */
export interface Worker {
  readonly client: Client<DecodedReport>
  readonly stream: Stream<DecodedReport>
  readonly reports: Report[]
  readonly errors: Error[]
  readonly gaps: unknown[]
  /** Requests that it has sent to the log. */
  readonly requests: string[]
}

export const closers: (() => unknown)[] = closeAfterEach()

/** Starts a server, and makes what is connected to it. All ends with the test. */
export async function startWorld(options: Parameters<typeof startNats>[0] = {}): Promise<LogWorld> {
  const servers = await startNats(options)
  closers.push(() => servers.close())

  async function open(): Promise<NatsConnection> {
    const connection = await connect({
      servers: servers.servers,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 100,
    })
    closers.push(() => connection.close())
    return connection
  }

  return {
    servers,
    connect: open,
    async engine(given) {
      const engine = await startDataEngine({
        feeds: [feed(1), feed(2)],
        intervalMs: 0,
        history: 0,
        ...given,
      })
      closers.push(() => engine.close())
      return engine
    },
    async relay(engine, given) {
      const { apiKey, userSecret, endpoint, wsEndpoint, feeds } = engine
      const relay = await createRelay({
        config: { apiKey, userSecret, endpoint, wsEndpoint, haMode: engine.origins.length > 1 },
        connection: await open(),
        feedIDs: feeds,
        create: true,
        ...given,
      } as RelayOptions)
      closers.push(() => relay.close())
      return relay
    },
    async worker({ feeds = [feed(1), feed(2)], wire, plugins = workerPreset(), ...more } = {}) {
      const log = natsWire(more.connection ?? (await open()), wire)
      const requests: string[] = []
      const fetchNoted: typeof fetch = (input, init) => {
        requests.push(String(input))
        return log.fetch(input, init)
      }
      const clock = more.now === undefined ? {} : { now: more.now }
      const client = createClient({ ...log, ...clock, fetch: fetchNoted, plugins })
      closers.push(() => client.close())
      const stream = client.createStream(feeds, {
        maxReconnectAttempts: Number.POSITIVE_INFINITY,
        ...more.stream,
      })
      const worker: Worker = { client, stream, reports: [], errors: [], gaps: [], requests }
      stream.on('report', report => void worker.reports.push(report))
      stream.on('error', error => void worker.errors.push(error))
      stream.on('gap', gap => void worker.gaps.push(gap))
      await stream.connect()
      return worker
    },
  }
}

/** A report by its feed and time. */
export function keyOf(report: {
  readonly feedID: string
  readonly observationsTimestamp: number
}): string {
  return `${report.feedID.slice(-2)}@${report.observationsTimestamp}`
}
