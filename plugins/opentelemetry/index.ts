import {
  type Histogram,
  type MeterProvider,
  metrics as meters,
  type Observable,
  ROOT_CONTEXT,
  type TracerProvider,
  trace,
} from '@opentelemetry/api'
import type { Plugin } from '../../client/contract/plugin.js'
import {
  checkBoolean,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from '../../core/options.js'
import { VERSION } from '../../core/version.js'
import { createTelemetry, metrics, type Telemetry } from '../telemetry/index.js'
import { traceCalls } from './spans.js'

/** Options of `opentelemetry`. */
export interface OpenTelemetryOptions {
  /**
   * Provides the meter for the metrics. @default the provider registered with the API when the
   * plugin is made
   */
  readonly meterProvider?: MeterProvider
  /** Provides the tracer for the spans. @default the provider registered with the API */
  readonly tracerProvider?: TracerProvider
  /**
   * Whether requests and the upgrades of streams carry the trace context. The propagator that is
   * registered with the API writes it. Baggage is never sent. @default true
   */
  readonly propagate?: boolean
  /**
   * Whether metrics have feed ids as attributes, and the reports of each feed are counted. There
   * are then as many series as feeds. @default false
   */
  readonly feedIDs?: boolean
}

const schema = {
  meterProvider: unchecked<MeterProvider | undefined>,
  tracerProvider: unchecked<TracerProvider | undefined>,
  propagate: withDefault(true, checkBoolean),
  feedIDs: withDefault(false, checkBoolean),
} satisfies Schema<OpenTelemetryOptions>

/**
 * Exports traces and metrics through the OpenTelemetry API to your registered SDK. Each operation
 * and each of its attempts has a span. docs/reference/telemetry.md lists the metrics. The plugin
 * stands first in a stack, so that it sees exactly the answers and reports that you get.
 */
export function opentelemetry(options?: OpenTelemetryOptions): Plugin<never> {
  const given = readOptions('opentelemetry', options, schema)
  const meterProvider = given.meterProvider ?? meters.getMeterProvider()
  const tracer = (given.tracerProvider ?? trace).getTracer('sluice', VERSION)
  const measured = telemetryOf(meterProvider).watch('opentelemetry', given)
  const traced = traceCalls(tracer, given.propagate)
  return {
    name: 'opentelemetry',
    ...measured,
    call: next => traced.call(measured.call(next)),
    attempt: next => traced.attempt(measured.attempt(next)),
  }
}

/** The telemetry of each provider. The plugins of several clients share it. */
const known = new WeakMap<MeterProvider, Telemetry>()

/** Returns the telemetry whose metrics a provider exports. */
function telemetryOf(provider: MeterProvider): Telemetry {
  const telemetry = known.get(provider) ?? createInstruments(provider)
  known.set(provider, telemetry)
  return telemetry
}

function createInstruments(provider: MeterProvider): Telemetry {
  const meter = provider.getMeter('sluice', VERSION)
  const histograms = new Map<string, Histogram>()
  const observables = new Map<string, Observable>()
  // The root context links no value to a trace, so there are no exemplars.
  const telemetry = createTelemetry((metric, value, attributes) =>
    histograms.get(metric)?.record(value, attributes, ROOT_CONTEXT),
  )
  for (const { name, kind, unit, description, bounds } of metrics) {
    const options = { unit, description }
    if (kind === 'histogram') {
      const advice = { explicitBucketBoundaries: [...(bounds ?? [])] }
      histograms.set(name, meter.createHistogram(name, { ...options, advice }))
    } else if (kind === 'counter')
      observables.set(name, meter.createObservableCounter(name, options))
    else if (kind === 'up-down-counter')
      observables.set(name, meter.createObservableUpDownCounter(name, options))
    else observables.set(name, meter.createObservableGauge(name, options))
  }
  meter.addBatchObservableCallback(
    result => {
      for (const { metric, value, attributes } of telemetry.observe()) {
        const observable = observables.get(metric)
        if (observable !== undefined) result.observe(observable, value, attributes)
      }
    },
    [...observables.values()],
  )
  return telemetry
}
