import { type Config, createClient } from 'sluice'
import type { Client, ClientOptions, Plugin } from 'sluice/client'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { createTelemetry } from 'sluice/plugins/telemetry'
import { haPreset } from 'sluice/presets/ha'
import { type Ages, createAges } from './ages.js'
import { countPlugins, type PluginCounts } from './count-plugins.js'

/** What a command gives to a client. */
export type MeasuredConfig = Pick<
  Config,
  'apiKey' | 'userSecret' | 'endpoint' | 'wsEndpoint' | 'proxy' | 'tls' | 'verify' | 'haMode'
>

/** A client whose plugins are counted and whose reports are measured. */
export interface MeasuredClient {
  readonly client: Client<DecodedReport>
  readonly counts: ReadonlyMap<string, PluginCounts>
  readonly ages: Ages
}

/** Makes a client of a stack, with counters between the plugins, and above them the plugin that measures ages. */
export function measureClient(
  options: Omit<ClientOptions, 'plugins'>,
  stack: readonly Plugin<DecodedReport>[],
): MeasuredClient {
  const ages = createAges()
  const telemetry = createTelemetry((metric, value, attributes) => {
    if (metric === 'sluice.report.age' && attributes['sluice.report.source'] === 'live')
      ages.add(value * 1000, Date.now())
  })
  const own: Plugin<never> = { name: 'monitor', ...telemetry.watch('monitor', { feedIDs: false }) }
  const { plugins, counts } = countPlugins(stack)
  return { client: createClient({ ...options, plugins: [own, ...plugins] }), counts, ages }
}

/** The client that `createClient` makes of a configuration, measured. */
export function measurePreset({ haMode, ...config }: MeasuredConfig): MeasuredClient {
  const { apiKey, userSecret, verify, ...options } = config
  const stack = haPreset({ apiKey, userSecret, ...(verify === undefined ? {} : { verify }) })
  const plugins = haMode ? stack : stack.filter(({ name }) => name !== 'ha-discovery')
  return measureClient(options, plugins)
}
