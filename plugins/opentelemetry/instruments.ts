import {
  type Histogram,
  type MeterProvider,
  type Observable,
  ROOT_CONTEXT,
} from '@opentelemetry/api'
import { VERSION } from '../../core/version.js'
import { createTelemetry, metrics, type Telemetry } from '../telemetry/index.js'

/** The metrics of each provider: plugins of several clients share them. */
const known = new WeakMap<MeterProvider, Telemetry>()

/** The telemetry whose metrics a provider exports. */
export function telemetryOf(provider: MeterProvider): Telemetry {
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
