import type { Config } from 'sluice'
import type { Feed, Plugin, Rest } from 'sluice/client'
import { asyncDispose } from 'sluice/internal'
import { candles } from 'sluice/plugins/candles'
import { marketGuard } from 'sluice/plugins/market-guard'
import { given } from '../command.js'
import { factsOf, findFeeds } from '../input/feeds.js'
import type { IO } from '../io.js'
import { connectNats, type LogOptions, serversOf } from '../service/nats.js'
import {
  configOf,
  environmentOf,
  findService,
  type Service,
  type ServiceOptions,
} from '../service/service.js'
import { findSigners, type SignerOptions } from '../service/signers.js'
import { feedLister, hostOf, keepAsking } from '../stream/look-up.js'
import { type MeasuredClient, measureClient, measurePreset } from './measured-client.js'

type MonitorOptions = ServiceOptions &
  SignerOptions &
  Partial<LogOptions> & {
    readonly ha?: boolean
    readonly demo?: boolean
    readonly market?: boolean
  }

/** A measured client, and the feeds of its stream. */
export interface Source extends MeasuredClient, AsyncDisposable {
  readonly feeds: readonly Feed[]
  /** The source in words. */
  readonly name: string
  /** The wire below the stack: its URL or its name. */
  readonly wire: string
}

/** Plugins that stand above the counted ones. */
type Plugins = readonly Plugin<never>[]
type Verify = Pick<Config, 'verify'>

/**
 * Opens the source that the options name: the service, a log, or a local engine with faults. The
 * plugins `first` stand above all others, and are neither counted nor shown.
 */
export async function openSource(
  names: readonly string[],
  options: MonitorOptions,
  first: Plugins,
  io: IO,
): Promise<Source> {
  // The guard judges what all other plugins pass on.
  const bars = candles({ intervals: ['1m', '5m'], warmUp: 0 })
  const above = [...first, bars, ...(options.market ? [marketGuard()] : [])]
  const signers = await findSigners(options)
  const verify: Verify = given({ verify: signers && { signers } })
  const {
    client,
    network,
    close,
    lister = client,
    ...source
  } = await open(options, verify, above, io)
  async function closeAll(): Promise<void> {
    await client.close()
    await close?.()
  }
  try {
    const choose = () => chooseFeeds(names, lister, { network }, io)
    const feeds = await keepAsking(choose, source.name, {}, io)
    return { ...source, client, feeds, [asyncDispose]: closeAll }
  } catch (error) {
    await closeAll()
    throw error
  }
}

async function chooseFeeds(
  names: readonly string[],
  client: Pick<Rest, 'listFeeds'>,
  service: Pick<Service, 'network'>,
  io: IO,
): Promise<readonly Feed[]> {
  if (names.length > 0) return findFeeds(names, client, service, io)
  const listed = await client.listFeeds({ signal: io.signal })
  return listed.map(feed => ({ ...factsOf(feed.feedID), ...feed }))
}

interface Opened extends MeasuredClient, Pick<Source, 'name' | 'wire'>, Pick<Service, 'network'> {
  /** Lists the feeds. If it is absent, the client lists them. */
  readonly lister?: Pick<Rest, 'listFeeds'>
  /** Closes the engine or the connection below the client. */
  close?(): Promise<void>
}

function open(options: MonitorOptions, verify: Verify, first: Plugins, io: IO): Promise<Opened> {
  if (options.demo) return openDemo(verify, first)
  const { nats } = options
  if (nats !== undefined)
    return openLog(
      { ...options, nats },
      { env: environmentOf(options, io), signal: io.signal, stderr: io.stderr },
      verify,
      first,
    )
  return openService(options, verify, first, io)
}

async function openService(
  options: MonitorOptions,
  verify: Verify,
  first: Plugins,
  io: IO,
): Promise<Opened> {
  const service = findService(options, io)
  const { wsEndpoint, network } = service
  return {
    ...measurePreset({ ...configOf(service), ...verify, haMode: options.ha === true }, first),
    name: hostOf(service),
    wire: wsEndpoint,
    network,
    lister: feedLister(service, {}),
  }
}

async function openDemo(verify: Verify, first: Plugins): Promise<Opened> {
  const { startDemoEngine } = await import('./demo-engine.js')
  const { engine, close } = await startDemoEngine()
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  return {
    ...measurePreset({ apiKey, userSecret, endpoint, wsEndpoint, ...verify, haMode: true }, first),
    name: 'a local engine with faults',
    wire: wsEndpoint,
    network: 'mainnet',
    close,
  }
}

async function openLog(
  options: LogOptions,
  io: Pick<IO, 'env' | 'signal' | 'stderr'>,
  verify: Verify,
  first: Plugins,
): Promise<Opened> {
  const { stream, prefix } = options
  const { natsWire, workerPreset } = await import('@sluice/nats')
  const connection = await connectNats(options, io)
  const wire = natsWire(connection, given({ stream, prefix }))
  return {
    ...measureClient(wire, workerPreset(verify), first),
    name: `the log ${stream ?? 'SLUICE'} at ${serversOf(options).join(', ')}`,
    wire: 'NATS JetStream',
    network: undefined,
    close: () => connection.close(),
  }
}
