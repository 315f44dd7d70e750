import type { Handler as AnyHandler, Layer as AnyLayer, Hooks } from '../../core/stack.js'
import type { Decoder } from '../../report/decoder.js'
import type { Report } from '../../report/report.js'
import type { Call, Reply } from './call.js'
import type { RequestScope, StreamScope } from './scope.js'

/**
 * Carries out a call. A request settles with its answer; a stream settles when its connection is
 * open.
 */
export type Handler = AnyHandler<Call, Reply>

/**
 * Wraps a handler. The layer runs once per client. The handler that it returns runs once per call.
 */
export type Layer = AnyLayer<Call, Reply>

/** Takes a report, synchronously. */
export type Sink = (report: Report) => void

/**
 * Wraps a sink. It runs once per stream or request; the sink that it returns runs once per report.
 */
export type Stage = (next: Sink, scope: StreamScope | RequestScope) => Sink

/**
 * A plugin. Its hooks decide when it runs. Its position in the array decides the order: the first
 * plugin is nearest to you.
 */
// biome-ignore lint/suspicious/noExplicitAny: another default would lose the events of a list
export interface Plugin<out Data = unknown, in Events = any> extends Hooks<Call, Reply> {
  /**
   * Runs once per stream or request. The sink that it returns runs once per report: make it fast.
   */
  readonly report?: Stage
  /** Runs when a report counts as acknowledged (see the stream's option `acknowledge`). */
  readonly acknowledged?: (report: Report) => void
  /**
   * Runs when a report will not be acknowledged: the stream dropped it, or closed before anybody
   * got it.
   */
  readonly unacknowledged?: (report: Report) => void
  /** Decoders. If two plugins decode the same version, the plugin nearest to you wins. */
  readonly decoders?: readonly Decoder<Data>[]
  /**
   * Names of the plugin's own events. It emits them in a stream's scope, for users of the stream.
   */
  readonly events?: EventNames<Events>
}

/** The names of a plugin's own events. `Events` has the type of each event's value. */
export type EventNames<Events> = readonly string[] & {
  /** Never set: it carries the types. */
  readonly types?: (events: Events) => void
}

/** A list of plugins. */
export type Plugins = readonly Plugin[]
