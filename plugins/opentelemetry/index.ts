import { type MeterProvider, metrics, type TracerProvider, trace } from '@opentelemetry/api'
import type { Plugin } from '../../client/contract/plugin.js'
import { checkBoolean, checkOptions, type OptionNames } from '../../core/options.js'
import { VERSION } from '../../core/version.js'
import { telemetryOf } from './instruments.js'
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

const names: OptionNames<OpenTelemetryOptions> = {
  meterProvider: true,
  tracerProvider: true,
  propagate: true,
  feedIDs: true,
}

/**
 * Exports traces and metrics through the API of OpenTelemetry, to the SDK that you have registered: a span for each operation
 * and for each attempt of it, and the metrics in docs/telemetry.md. The plugin stands first in a stack, so that it sees
 * what reaches you.
 */
export function opentelemetry(options?: OpenTelemetryOptions): Plugin<never> {
  const given = checkOptions('opentelemetry', options, names)
  const propagate = checkBoolean('opentelemetry.propagate', given.propagate ?? true)
  const feedIDs = checkBoolean('opentelemetry.feedIDs', given.feedIDs ?? false)
  const meterProvider = given.meterProvider ?? metrics.getMeterProvider()
  const tracer = (given.tracerProvider ?? trace).getTracer('sluice', VERSION)
  const measured = telemetryOf(meterProvider).watch('opentelemetry', { feedIDs })
  const traced = traceCalls(tracer, propagate)
  return {
    name: 'opentelemetry',
    ...measured,
    call: next => traced.call(measured.call(next)),
    attempt: next => traced.attempt(measured.attempt(next)),
  }
}
