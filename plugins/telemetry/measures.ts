import type { Sink } from '../../client/contract/plugin.js'
import type { PluginClient, StreamScope } from '../../client/contract/scope.js'
import { feedResolution } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import type { Attributes, MetricName } from './metrics.js'

/** A value of a metric, for some attributes. */
export interface Measurement {
  /** The metric to which the value belongs. */
  readonly metric: MetricName
  /** The attributes that distinguish this value from other values of the metric. */
  readonly attributes: Attributes
  /** The count or measurement, in the unit of the metric. */
  readonly value: number
}

/** The values of metrics, by metric and attributes. Empty at first. */
export class Sums {
  readonly #bound: Bound
  readonly #sums = new Map<string, { -readonly [Name in keyof Measurement]: Measurement[Name] }>()

  constructor(bound: Bound) {
    this.#bound = bound
  }

  /** All sums. */
  get all(): Iterable<Measurement> {
    return this.#sums.values()
  }

  /** Returns the sum of a metric for these attributes. It is 0 at first. */
  of(metric: MetricName, given: Attributes = {}): { value: number } {
    const attributes = this.#bound(given)
    const key = [metric, ...Object.entries(attributes).flat()].join('\n')
    const sum = this.#sums.get(key) ?? { metric, attributes, value: 0 }
    this.#sums.set(key, sum)
    return sum
  }

  add(metric: MetricName, value: number, attributes?: Attributes): void {
    this.of(metric, attributes).value += value
  }

  /** Replaces the value by this time if the time is longer. The time is given in milliseconds. */
  lengthen(metric: MetricName, ms: number, attributes?: Attributes): void {
    const longest = this.of(metric, attributes)
    longest.value = Math.max(longest.value, ms / 1000)
  }
}

/**
 * The most values of one attribute that are kept apart, since each value is a series of its own.
 */
const MAX_VALUES = 100
/** The most feed ids that are kept apart. Metrics have feed ids only if the user asks for them. */
const MAX_FEEDS = 1000
/** The name for all values beyond these limits, from the OpenTelemetry semantic conventions. */
const OTHER = '_OTHER'

/** Bounds how many values each attribute has. */
export type Bound = (attributes: Attributes) => Attributes

/**
 * Returns a function that bounds how many values each attribute has. Once the limit is reached,
 * each new value becomes `_OTHER`.
 */
export function createBounds(): Bound {
  const known = new Map<string, Set<string | number>>()

  function bound(name: string, value: string | number): string | number {
    let values = known.get(name)
    if (values === undefined) {
      values = new Set()
      known.set(name, values)
    }
    if (values.has(value)) return value
    if (values.size === (name === 'sluice.feed.id' ? MAX_FEEDS : MAX_VALUES)) return OTHER
    values.add(value)
    return value
  }

  return function boundAll(attributes) {
    const bounded: Record<string, string | number> = {}
    for (const [name, value] of Object.entries(attributes)) bounded[name] = bound(name, value)
    return bounded
  }
}

type ClientMetrics = ReturnType<PluginClient['metrics']>

/** Adds a client's counts. These sums never fall. */
export function addCounts(sums: Sums, metrics: ClientMetrics): void {
  const { accepted, backfilled, undecoded } = metrics
  for (const [origin, { received }] of Object.entries(metrics.origins))
    sums.add('sluice.reports.received', received, { 'sluice.origin': origin })
  const source = (name: string) => ({ 'sluice.report.source': name })
  sums.add('sluice.reports.accepted', accepted - backfilled, source('live'))
  sums.add('sluice.reports.accepted', backfilled, source('backfill'))
  sums.add('sluice.reports.deduplicated', metrics.deduplicated)
  sums.add('sluice.reports.out_of_order', metrics.outOfOrder)
  sums.add('sluice.reports.superseded', metrics.superseded)
  sums.add('sluice.reports.ahead', metrics.ahead)
  sums.add('sluice.reports.signed_later', metrics.signedLater)
  sums.add('sluice.reports.dropped', metrics.dropped)
  sums.add('sluice.reports.verified', metrics.verified)
  sums.add('sluice.verification.failures', metrics.verificationFailed)
  sums.add('sluice.decoding.failures', undecoded)
  sums.add('sluice.messages.malformed', metrics.malformed)
  sums.add('sluice.messages.redelivered', metrics.redelivered)
  sums.add('sluice.messages.dead', metrics.deadLetters)
  const kind = (name: string) => ({ 'sluice.reconnect.kind': name })
  sums.add('sluice.reconnects', metrics.partialReconnects, kind('partial'))
  sums.add('sluice.reconnects', metrics.fullReconnects, kind('full'))
}

/** Adds the state of a client's streams. */
export function addState(sums: Sums, { streams }: ClientMetrics): void {
  sums.add('sluice.streams.open', streams.length)
  for (const {
    activeConnections,
    configuredConnections,
    queued,
    verification,
    clockOffsetMs,
    cursors,
    origins,
  } of streams) {
    sums.of('sluice.clock.offset').value = clockOffsetMs / 1000
    sums.add('sluice.connections.open', activeConnections)
    sums.add('sluice.connections.configured', configuredConnections)
    sums.add('sluice.queue.depth', queued)
    for (const [origin, { roundTripMs }] of Object.entries(origins))
      if (roundTripMs !== undefined)
        sums.lengthen('sluice.origin.round_trip', roundTripMs, { 'sluice.origin': origin })
    if (cursors !== undefined) {
      sums.lengthen('sluice.cursors.unsaved', cursors.unsavedMs)
      sums.lengthen('sluice.cursors.held_back', cursors.heldBackMs)
    }
    if (verification === undefined) continue
    const { waiting, oldestMs, curveLibrary, reportsPerSecond } = verification
    sums.add('sluice.verification.waiting', waiting)
    sums.lengthen('sluice.verification.oldest', oldestMs)
    if (curveLibrary === undefined || reportsPerSecond === undefined) continue
    const attributes = { 'sluice.verification.curve_library': curveLibrary }
    sums.of('sluice.verification.capacity', attributes).value = reportsPerSecond
  }
}

/**
 * How many reports of a stream are measured in one period, which is enough for a histogram. In a
 * faster stream, only every n-th report is measured.
 */
const MOST = 128
/** The length of a period, in milliseconds. */
const PERIOD = 1000
/** The factor by which n grows if reports arrive faster than expected. */
const GROWTH = 8
/** The largest n. */
const MAX_STEP = 2 ** 20

/**
 * Measures the age of every report, or of a sample in a fast stream. `addValue` is called with each
 * age, in seconds.
 */
export function sampleAges(
  next: Sink,
  scope: StreamScope,
  addValue: (age: number, report: Report) => void,
): Sink {
  const { client } = scope
  let timer: ReturnType<typeof setInterval> | undefined
  let step = 1
  /** How many reports remain until the next measured report, counting that report. */
  let left = 1
  let measured = 0
  /** How many reports the current period has had, estimated from the measured ones. */
  let seen = 0

  function startPeriod(): void {
    step = Math.max(1, Math.ceil(seen / MOST))
    left = Math.min(left, step)
    measured = 0
    seen = 0
  }

  function measure(report: Report): void {
    if (timer === undefined) {
      timer = setInterval(startPeriod, PERIOD)
      timer.unref?.()
      scope.defer(() => clearInterval(timer))
    }
    const { observationsTimestamp: time, feedID } = report
    const observed = feedResolution(feedID) === 's' ? time : time / 1000
    // The clocks of the service and of this machine may differ, so the age could be negative.
    addValue(Math.max(0, client.now() / 1000 - observed), report)
    seen += step
    if (++measured % MOST === 0) step = Math.min(MAX_STEP, step * GROWTH)
    left = step
  }

  return function measureAge(report) {
    if (--left === 0) measure(report)
    next(report)
  }
}
