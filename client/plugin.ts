import type { Handler as AnyHandler, Layer as AnyLayer, Hooks } from '../core/hooks.js'
import type { ClientScope } from '../core/scope.js'
import type { Decoder } from '../report/decoder.js'
import type { Report } from '../report/report.js'
import type { ReportVerifier } from '../report/verifier.js'
import type { Call, Reply } from './call.js'
import type { RequestScope, StreamScope } from './scope.js'

/**
 * Carries a call out. For a request it settles with the answer, for a stream when the connection has ended: it
 * rejects when none could be opened.
 */
export type Handler = AnyHandler<Call, Reply>

/** Wraps a handler. Runs once per client; the handler it returns runs per call. */
export type Layer = AnyLayer<Call, Reply>

/** Takes one report, synchronously. */
export type Sink = (report: Report) => void

/** Wraps a sink. Runs once per stream and once per request; the sink it returns runs per report. */
export type Stage = (next: Sink, scope: StreamScope | RequestScope) => Sink

/**
 * One part of a stack. The hook is the phase, the place in the array is the order: the first plugin is the one nearest
 * you, for calls going down and for reports coming up.
 */
export interface Plugin<out Data = unknown> extends Hooks<Call, Reply> {
  /** Runs once per report: the hot path. */
  readonly report?: Stage
  /** Joined with those of the other plugins into one table; where two have a version, the plugin nearest you wins. */
  readonly decoders?: readonly Decoder<Data>[]
  /** Makes what `report.verify` asks, once per client; one plugin of a stack has it. */
  readonly verifier?: (scope: ClientScope) => ReportVerifier
}

/** A list of plugins, whatever they decode. */
export type Plugins = readonly Plugin[]

/** The decoded reports that a stack of plugins can produce; unknown where the plugins don't say. */
export type DataOf<Stack extends Plugins> = [DataOfEach<Stack[number]>] extends [never]
  ? unknown
  : DataOfEach<Stack[number]>

type DataOfEach<Each> =
  Each extends Plugin<infer Data> ? (unknown extends Data ? never : Data) : never
