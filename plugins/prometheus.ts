import {
  Counter,
  register as defaultRegister,
  Gauge,
  Histogram,
  type OpenMetricsContentType,
  type PrometheusContentType,
  type Registry,
} from 'prom-client'
import type { Plugin } from '../client/contract/plugin.js'
import { ValidationError } from '../core/errors.js'
import { checkBoolean, readOptions, type Schema, withDefault } from '../core/options.js'
import {
  type Attributes,
  createTelemetry,
  labelName,
  metrics,
  prometheusName,
  type Telemetry,
} from './telemetry/index.js'

type AnyRegistry = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>

/** Options of `prometheus`. */
export interface PrometheusOptions {
  /** Where the metrics are registered. @default the default registry of prom-client */
  readonly register?: AnyRegistry
  /** The names of metrics begin with it, before `sluice_` and `http_client_`. @default '' */
  readonly prefix?: string
  /**
   * Whether metrics have the ids of feeds, and each feed's reports are counted: there are as many series as feeds then.
   * @default false
   */
  readonly feedIDs?: boolean
}

const schema = {
  register: withDefault(defaultRegister, checkRegistry),
  prefix: withDefault('', checkPrefix),
  feedIDs: withDefault(false, checkBoolean),
} satisfies Schema<PrometheusOptions>

function checkRegistry(field: string, value: unknown): AnyRegistry {
  const registry = value as AnyRegistry | null
  if (typeof registry?.getSingleMetric !== 'function')
    throw new ValidationError(`${field} must be a Registry of prom-client`)
  return registry
}

function checkPrefix(field: string, value: unknown): string {
  if (typeof value !== 'string' || !/^([a-zA-Z_:][\w:]*)?$/.test(value))
    throw new ValidationError(`${field} must be letters, digits and underscores`)
  return value
}

/** The metrics of each registry, by their prefix: plugins of several clients share them. */
const registered = new WeakMap<AnyRegistry, Map<string, Telemetry>>()

/**
 * Exports metrics through prom-client, which is a package of yours: the page of its registry shows them. The table of metrics
 * is in docs/telemetry.md. The plugin stands first in a stack, so that it sees what reaches you.
 */
export function prometheus(options?: PrometheusOptions): Plugin<never> {
  const { register, prefix, feedIDs } = readOptions('prometheus', options, schema)
  return { name: 'prometheus', ...telemetryOf(register, prefix).watch('prometheus', { feedIDs }) }
}

function telemetryOf(register: AnyRegistry, prefix: string): Telemetry {
  const byPrefix = registered.get(register) ?? new Map<string, Telemetry>()
  registered.set(register, byPrefix)
  const known = byPrefix.get(prefix)
  // A registry may have been cleared since.
  const isThere = metrics.some(each => register.getSingleMetric(prefix + prometheusName(each)))
  if (known !== undefined && isThere) return known
  const telemetry = registerAll(register, prefix)
  byPrefix.set(prefix, telemetry)
  return telemetry
}

/** Registers all metrics. Throws ValidationError, and registers none, where the registry has one of these names. */
function registerAll(register: AnyRegistry, prefix: string): Telemetry {
  const taken = metrics
    .map(metric => prefix + prometheusName(metric))
    .find(name => register.getSingleMetric(name) !== undefined)
  if (taken !== undefined)
    throw new ValidationError(
      `prefix: the registry of prometheus has a metric ${taken} already; give a prefix that keeps them apart`,
    )
  const histograms = new Map<string, Histogram>()
  const telemetry = createTelemetry((metric, value, attributes) =>
    histograms.get(metric)?.observe(labelsOf(attributes), value),
  )
  for (const metric of metrics) {
    const { name, kind } = metric
    const settings = {
      name: prefix + prometheusName(metric),
      help: metric.description,
      labelNames: metric.attributes.map(labelName),
      registers: [register],
    }
    if (kind === 'histogram') {
      const buckets = [...(metric.bounds ?? [])]
      histograms.set(name, new Histogram({ ...settings, buckets }))
      continue
    }
    const Kind = kind === 'counter' ? Counter : Gauge
    // Of several processes, counts are added up, and of round trips the longest is shown.
    const aggregator = kind === 'gauge' ? 'max' : 'sum'
    const shown: Counter | Gauge = new Kind({ ...settings, aggregator, collect })

    function collect(): void {
      shown.reset()
      for (const each of telemetry.observe())
        if (each.metric === name) shown.inc(labelsOf(each.attributes), each.value)
    }
  }
  return telemetry
}

function labelsOf(attributes: Attributes): Record<string, string | number> {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [labelName(name), value]),
  )
}
