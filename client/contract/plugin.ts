import type { Handler as AnyHandler, Layer as AnyLayer, Hooks } from '../../core/stack.js'
import type { Decoder } from '../../report/decoder.js'
import type { Report } from '../../report/report.js'
import type { Call, Reply } from './call.js'
import type { RequestScope, StreamScope } from './scope.js'

/** Carries a call out: a request settles with its answer, a stream when its connection is open. */
export type Handler = AnyHandler<Call, Reply>

/** Wraps a handler. Runs once per client; the handler it returns runs per call. */
export type Layer = AnyLayer<Call, Reply>

/** Takes one report, synchronously. */
export type Sink = (report: Report) => void

/** Wraps a sink. Runs once per stream and once per request; the sink it returns runs per report. */
export type Stage = (next: Sink, scope: StreamScope | RequestScope) => Sink

/** One part of a stack: the hook is the phase, the place in the array the order, and the first plugin is nearest you. */
export interface Plugin<out Data = unknown> extends Hooks<Call, Reply> {
  /** Runs once per report: the hot path. */
  readonly report?: Stage
  /** Runs when a report counts as acknowledged, as the stream's option `acknowledge` says. */
  readonly acknowledged?: (report: Report) => void
  /** Runs when a report will not be acknowledged: the stream dropped it, or closed before anybody got it. */
  readonly unacknowledged?: (report: Report) => void
  /** Joined with those of the other plugins into one table; where two have a version, the plugin nearest you wins. */
  readonly decoders?: readonly Decoder<Data>[]
  /** Names of events of its own, which it emits in the scope of a stream, and users of the stream may listen to. */
  readonly events?: readonly string[]
}

/** A list of plugins, whatever they decode. */
export type Plugins = readonly Plugin[]
