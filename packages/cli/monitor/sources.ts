import type { Config } from 'sluice'
import type { Feed, Rest } from 'sluice/client'
import { asyncDispose } from 'sluice/internal'
import { factsOf, findFeeds } from '../input/feeds.js'
import type { IO } from '../io.js'
import type { LogOptions } from '../service/nats.js'
import { configOf, findService, type Service } from '../service/service.js'
import { findSigners } from '../service/signers.js'
import { feedLister, hostOf, keepAsking } from '../stream/look-up.js'
import { type MeasuredClient, measureClient, measurePreset } from './measured-client.js'
import type { MonitorOptions } from './options.js'

/** What is watched: a client, and the feeds of its stream. */
export interface Source extends MeasuredClient, AsyncDisposable {
  readonly feeds: readonly Feed[]
  /** What is watched, in words, and what stands below the stack. */
  readonly name: string
  readonly wire: string
}

type Verify = Pick<Config, 'verify'>

/** Opens the source that the options name: the service, a log, or a local engine with faults. */
export async function openSource(
  given: readonly string[],
  options: MonitorOptions,
  io: IO,
): Promise<Source> {
  const signers = await findSigners(options)
  const verify: Verify = signers === undefined ? {} : { verify: { signers } }
  const { client, network, close, lister = client, ...source } = await open(options, verify, io)
  async function closeAll(): Promise<void> {
    await client.close()
    await close?.()
  }
  try {
    const how = { maxAttempts: Number.POSITIVE_INFINITY, isQuiet: false }
    const choose = () => chooseFeeds(given, lister, { network }, io)
    const feeds = await keepAsking(choose, source.name, how, io)
    return { ...source, client, feeds, [asyncDispose]: closeAll }
  } catch (error) {
    await closeAll()
    throw error
  }
}

async function chooseFeeds(
  given: readonly string[],
  client: Pick<Rest, 'listFeeds'>,
  service: Pick<Service, 'network'>,
  io: IO,
): Promise<readonly Feed[]> {
  if (given.length > 0) return findFeeds(given, client, service, io)
  const listed = await client.listFeeds({ signal: io.signal })
  return listed.map(feed => ({ ...factsOf(feed.feedID), ...feed }))
}

interface Opened extends MeasuredClient, Pick<Source, 'name' | 'wire'>, Pick<Service, 'network'> {
  /** Lists the feeds; the client where there is none. */
  readonly lister?: Pick<Rest, 'listFeeds'>
  /** Closes what stands below the client. */
  close?(): Promise<void>
}

function open(options: MonitorOptions, verify: Verify, io: IO): Promise<Opened> {
  if (options.demo) return openDemo(verify)
  const { nats } = options
  if (nats !== undefined) return openLog({ ...options, nats }, verify)
  return openService(options, verify, io)
}

async function openService(options: MonitorOptions, verify: Verify, io: IO): Promise<Opened> {
  const service = findService(options, io)
  const { wsEndpoint, network } = service
  return {
    ...measurePreset({ ...configOf(service), ...verify, haMode: options.ha === true }),
    name: hostOf(service),
    wire: wsEndpoint,
    network,
    lister: feedLister(service, {}),
  }
}

async function openDemo(verify: Verify): Promise<Opened> {
  const { startDemoEngine } = await import('./demo-engine.js')
  const { engine, close } = await startDemoEngine()
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  return {
    ...measurePreset({ apiKey, userSecret, endpoint, wsEndpoint, ...verify, haMode: true }),
    name: 'a local engine with faults',
    wire: wsEndpoint,
    network: 'mainnet',
    close,
  }
}

async function openLog(options: LogOptions, verify: Verify): Promise<Opened> {
  const { stream, prefix } = options
  const { connectNats } = await import('../service/nats.js')
  const { natsWire, workerPreset } = await import('@sluice/nats')
  const connection = await connectNats(options)
  const wire = natsWire(connection, {
    ...(stream === undefined ? {} : { stream }),
    ...(prefix === undefined ? {} : { prefix }),
  })
  return {
    ...measureClient(wire, workerPreset(verify)),
    name: `the log ${stream ?? 'SLUICE'} at ${connection.getServer()}`,
    wire: 'NATS JetStream',
    network: undefined,
    close: () => connection.close(),
  }
}
