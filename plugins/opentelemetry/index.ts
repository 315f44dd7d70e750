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
  /** @default the one that is registered with the API when the plugin is made */
  readonly meterProvider?: MeterProvider
  /** @default the one that is registered with the API */
  readonly tracerProvider?: TracerProvider
  /**
   * Whether requests and the upgrades of streams carry the trace context, by the propagator that is registered with the API;
   * baggage is never sent. @default true
   */
  readonly propagate?: boolean
  /**
   * Whether metrics have the ids of feeds, and each feed's reports are counted: there are as many series as feeds then.
   * @default false
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
 * Exports traces and metrics through the API of OpenTelemetry, to the SDK that you have registered: a span for each operation
 * and for each attempt of it, and the metrics in docs/telemetry.md. The plugin stands first in a stack, so that it sees
 * what reaches you.
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

/** The metrics of each provider: plugins of several clients share them. */
const known = new WeakMap<MeterProvider, Telemetry>()

/** The telemetry whose metrics a provider exports. */
function telemetryOf(provider: MeterProvider): Telemetry {
  const telemetry = known.get(provider) ?? createInstruments(provider)
  known.set(provider, telemetry)
  return telemetry
}

function createInstruments(provider: MeterProvider): Telemetry {
  const meter = provider.getMeter('sluice', VERSION)
  const histograms = new Map<string, Histogram>()
  const observables = new Map<string, Observable>()
  // Without a context no value is linked to a trace: there are no exemplars.
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
