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
  /** The registry for the metrics. @default the default registry of prom-client */
  readonly register?: AnyRegistry
  /**
   * A prefix for the names of all metrics, placed before `sluice_` and `http_client_`. @default ''
   */
  readonly prefix?: string
  /**
   * Whether metrics have feed ids as attributes, and the reports of each feed are counted. There
   * are then as many series as feeds. @default false
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

/** The telemetry of each registry, by prefix. The plugins of several clients share it. */
const registered = new WeakMap<AnyRegistry, Map<string, Telemetry>>()

/**
 * Exports metrics through prom-client, which you install yourself. The metrics appear on the page
 * of its registry. docs/reference/telemetry.md lists them. The plugin stands first in a stack, so
 * that it sees exactly the answers and reports that you get.
 */
export function prometheus(options?: PrometheusOptions): Plugin<never> {
  const { register, prefix, feedIDs } = readOptions('prometheus', options, schema)
  return { name: 'prometheus', ...telemetryOf(register, prefix).watch('prometheus', { feedIDs }) }
}

function telemetryOf(register: AnyRegistry, prefix: string): Telemetry {
  const byPrefix = registered.get(register) ?? new Map<string, Telemetry>()
  registered.set(register, byPrefix)
  const known = byPrefix.get(prefix)
  // The registry may have been cleared in the meantime.
  const isThere = metrics.some(each => register.getSingleMetric(prefix + prometheusName(each)))
  if (known !== undefined && isThere) return known
  const telemetry = registerAll(register, prefix)
  byPrefix.set(prefix, telemetry)
  return telemetry
}

/**
 * Registers all metrics. If the registry already has one of the names, throws ValidationError and
 * registers none.
 */
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
    // When prom-client merges several processes, counts are added up, and gauges show the largest
    // value.
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
