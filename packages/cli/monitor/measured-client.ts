import { type Config, createClient, type RetirementEvents } from 'sluice'
import type { Client, ClientOptions, Layer, Plugin, Plugins, Stage } from 'sluice/client'
import type { CandleEvents } from 'sluice/plugins/candles'
import type { DecodedReport } from 'sluice/plugins/decoders'
import type { MarketEvents } from 'sluice/plugins/market-guard'
import { createTelemetry } from 'sluice/plugins/telemetry'
import { haPreset } from 'sluice/presets/ha'
import { given } from '../command.js'
import type { Latency } from './messages.js'

/** The configuration of a measured client. */
type MeasuredConfig = Pick<
  Config,
  'apiKey' | 'userSecret' | 'endpoint' | 'wsEndpoint' | 'proxy' | 'tls' | 'verify' | 'haMode'
>

/**
 * The events of plugins that the watch listens to. It listens only to those whose plugin is in the
 * stack.
 */
export type WatchedEvents = CandleEvents & MarketEvents & RetirementEvents

/**
 * A client that counts the reports and calls of its plugins, and measures the ages of its reports.
 */
export interface MeasuredClient {
  readonly client: Client<DecodedReport, WatchedEvents>
  /** The names of all plugins. */
  readonly names: ReadonlySet<string>
  readonly counts: ReadonlyMap<string, PluginCounts>
  readonly ages: Ages
}

/**
 * Makes a client from a stack of plugins. Adds counters around each plugin, and a plugin that
 * measures ages at the top. The plugins `first` stand above it, and are not counted.
 */
export function measureClient(
  options: Omit<ClientOptions, 'plugins'>,
  stack: readonly Plugin<DecodedReport>[],
  first: readonly Plugin<never>[] = [],
): MeasuredClient {
  const ages = new Ages()
  const telemetry = createTelemetry((metric, value, attributes) => {
    if (metric === 'sluice.report.age' && attributes['sluice.report.source'] === 'live')
      ages.add(value * 1000, Date.now())
  })
  const own: Plugin<never> = { name: 'monitor', ...telemetry.watch('monitor', { feedIDs: false }) }
  const { plugins, counts } = countPlugins(stack)
  return {
    client: createClient({ ...options, plugins: [...first, own, ...plugins] }),
    names: new Set([...first, own, ...plugins].map(({ name }) => name)),
    counts,
    ages,
  }
}

/**
 * Makes a measured client with the same plugins that `createClient` chooses for a configuration.
 */
export function measurePreset(
  { haMode, ...config }: MeasuredConfig,
  first: readonly Plugin<never>[] = [],
): MeasuredClient {
  const { apiKey, userSecret, verify, ...options } = config
  const stack = haPreset({ apiKey, userSecret, ...given({ verify }) })
  const plugins = haMode ? stack : stack.filter(({ name }) => name !== 'ha-discovery')
  return measureClient(options, plugins, first)
}

/** The reports and calls that have passed a plugin. */
export interface PluginCounts {
  /** Reports that the plugin got from below and passed on; undefined if the plugin has no stage. */
  readonly reports: { in: number; out: number } | undefined
  /**
   * Calls that the plugin got from above, and failed calls; undefined if the plugin has no layer.
   */
  readonly calls: { made: number; failed: number } | undefined
}

/**
 * Returns the same stack with a counter on either side of each plugin. The names of plugins are
 * unique in a stack.
 */
export function countPlugins<Data>(plugins: readonly Plugin<Data>[]): {
  readonly plugins: readonly Plugin<Data>[]
  readonly counts: ReadonlyMap<string, PluginCounts>
}
export function countPlugins(plugins: Plugins): {
  readonly plugins: Plugins
  readonly counts: ReadonlyMap<string, PluginCounts>
} {
  const counts = new Map<string, PluginCounts>()
  const counted = plugins.map((plugin): Plugin => {
    const { name, report, call, attempt } = plugin
    const reports = report && { in: 0, out: 0 }
    const calls = (call ?? attempt) && { made: 0, failed: 0 }
    counts.set(name, { reports, calls })
    return {
      ...plugin,
      ...(report && reports && { report: countReports(report, reports) }),
      ...(call && calls && { call: countCalls(call, calls) }),
      ...(attempt && calls && { attempt: countCalls(attempt, calls) }),
    }
  })
  return { plugins: counted, counts }
}

function countReports(stage: Stage, counts: { in: number; out: number }): Stage {
  return function countStage(next, scope) {
    // Reports of requests don't belong to the stream.
    if (scope.kind === 'request') return stage(next, scope)
    const inner = stage(function countOut(report) {
      counts.out++
      next(report)
    }, scope)
    return function countIn(report) {
      counts.in++
      inner(report)
    }
  }
}

function countCalls(layer: Layer, counts: { made: number; failed: number }): Layer {
  return function countLayer(next) {
    const inner = layer(next)
    return async function countCall(call) {
      counts.made++
      try {
        return await inner(call)
      } catch (error) {
        counts.failed++
        throw error
      }
    }
  }
}

/**
 * The upper bounds of the bars in the chart of ages, in milliseconds. One more bar counts older
 * reports.
 */
const BOUNDS = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 60_000]
/** The chart shows the ages of the last minute, which has this many milliseconds. */
const WINDOW = 60_000
/**
 * How many ages are stored: more than a minute of them, because telemetry measures about 128 a
 * second.
 */
const CAPACITY = 8192

/** The ages of reports at their delivery, in a ring buffer. */
export class Ages {
  readonly #ages = new Float64Array(CAPACITY)
  readonly #times = new Float64Array(CAPACITY).fill(Number.NEGATIVE_INFINITY)
  #next = 0

  add(ageMs: number, now: number): void {
    this.#ages[this.#next] = ageMs
    this.#times[this.#next] = now
    this.#next = (this.#next + 1) % CAPACITY
  }

  /** Counts the ages of the last minute by bar. */
  read(now: number): Latency {
    const isRecent = (_: number, index: number) => (this.#times[index] as number) > now - WINDOW
    const recent = this.#ages.filter(isRecent).sort()
    const counts = new Array<number>(BOUNDS.length + 1).fill(0)
    for (const age of recent) {
      const bar = BOUNDS.findIndex(bound => age <= bound)
      const at = bar === -1 ? BOUNDS.length : bar
      counts[at] = (counts[at] as number) + 1
    }
    if (recent.length === 0) return { bounds: BOUNDS, counts }
    const quantile = (share: number): number =>
      Math.round(recent[Math.ceil(share * recent.length) - 1] as number)
    const [p50, p95, p99] = [quantile(0.5), quantile(0.95), quantile(0.99)]
    return { bounds: BOUNDS, counts, p50, p95, p99 }
  }
}
