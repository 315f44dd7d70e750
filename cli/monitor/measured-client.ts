import type { Client, ClientOptions } from '../../client/client.js'
import type { Plugin } from '../../client/plugin.js'
import { createTelemetry } from '../../plugins/telemetry.js'
import { createClient } from '../../presets/create-client.js'
import type { DecodedReport } from '../../presets/versions.js'
import { type Ages, createAges } from './ages.js'
import { countPlugins, type PluginCounts } from './count-plugins.js'

/** A client whose plugins are counted and whose reports are measured. */
export interface MeasuredClient {
  readonly client: Client<DecodedReport>
  readonly counts: ReadonlyMap<string, PluginCounts>
  readonly ages: Ages
}

/** Makes a client of a stack, with counters between the plugins, and above them the plugin that measures ages. */
export function createMeasuredClient(
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
