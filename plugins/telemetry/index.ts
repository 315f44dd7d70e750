import type { Call, Reply, WireErrorFacts } from '../../client/contract/call.js'
import type { Handler, Plugin, Sink } from '../../client/contract/plugin.js'
import {
  type PluginClient,
  type RequestScope,
  retirementKey,
  type StreamScope,
} from '../../client/contract/scope.js'
import type { ServiceKey } from '../../core/scope.js'
import {
  addCounts,
  addState,
  createBounds,
  type Measurement,
  Sums,
  sampleAges,
} from './measures.js'
import { type Attributes, type MetricName, metrics } from './metrics.js'

export type { Measurement } from './measures.js'
export {
  type Attributes,
  labelName,
  type Metric,
  type MetricKind,
  type MetricName,
  metrics,
  prometheusName,
} from './metrics.js'

/** The hooks through which telemetry collects its metrics. */
export type TelemetryHooks = Required<Pick<Plugin<never>, 'setup' | 'call' | 'attempt' | 'report'>>

/** Options of one plugin. */
export interface WatchOptions {
  /** Whether metrics have feed ids as attributes. There are then as many series as feeds. */
  readonly feedIDs: boolean
}

/** Collects the metrics of clients. */
export interface Telemetry {
  /**
   * Makes the hooks of the plugin called `name`. They watch every client whose stack has the
   * plugin.
   */
  watch(name: string, options: WatchOptions): TelemetryHooks
  /** Returns the current values of all counters and gauges, over all clients. */
  observe(): Iterable<Measurement>
}

/** The milliseconds of a day. */
const DAY = 86_400_000

/** Records a value of a histogram. */
export type AddValue = (metric: MetricName, value: number, attributes: Attributes) => void

/** A client that is watched. */
interface Watched {
  metrics: PluginClient['metrics'] | undefined
  /** The client's time, and when feeds of its streams are going to retire. */
  client: Pick<PluginClient, 'now' | 'find'> | undefined
  readonly feedIDs: boolean
  hasEnded: boolean
  /** The stale feeds, one set for each stream of the client. */
  readonly stale: Set<ReadonlySet<string>>
}

/**
 * Collects metrics. Values of histograms are recorded at once; counters and gauges are read when an
 * exporter asks for them.
 */
export function createTelemetry(addValue: AddValue): Telemetry {
  const bound = createBounds()
  /** Counted events, and the counts of clients that have ended. */
  const past = new Sums(bound)
  const clients = new Set<Watched>()
  const count = (metric: MetricName, attributes: Attributes = {}): void =>
    past.add(metric, 1, attributes)
  const addBounded: AddValue = (metric, value, attributes) =>
    addValue(metric, value, bound(attributes))

  /** Drops the clients that have ended, and keeps their counts. */
  function forgetEnded(): void {
    for (const client of clients) {
      if (!client.hasEnded) continue
      const metrics = client.metrics?.()
      if (metrics !== undefined && metrics.streams.length > 0) continue
      if (metrics !== undefined) addCounts(past, metrics)
      clients.delete(client)
    }
  }

  return {
    watch(name, { feedIDs }) {
      const key: ServiceKey<Watched> = { name: `the metrics of ${name}` }
      const meet = ({ client }: RequestScope | StreamScope): Watched | undefined => {
        // An enclave has no client.
        const watched = client?.find(key)
        if (watched === undefined) return undefined
        watched.metrics ??= client.metrics
        watched.client ??= client
        return watched
      }
      return {
        setup(scope) {
          forgetEnded()
          const watched: Watched = {
            metrics: undefined,
            client: undefined,
            feedIDs,
            hasEnded: false,
            stale: new Set(),
          }
          clients.add(watched)
          scope.provide(key, watched)
          scope.defer(() => {
            watched.hasEnded = true
          })
        },
        call: next => call => {
          meet(call.scope)
          return time(next, call, (seconds, { 'error.type': type }) => {
            const { operation, purpose } = call
            const outcome: Attributes = type === undefined ? {} : { 'error.type': type }
            const attributes = { 'sluice.operation': operation, 'sluice.call.purpose': purpose }
            addBounded('sluice.operation.duration', seconds, { ...attributes, ...outcome })
            if (purpose === 'backfill') count('sluice.backfill.pages', outcome)
          })
        },
        attempt: next => call =>
          time(next, call, (seconds, outcome) =>
            addBounded('http.client.request.duration', seconds, {
              ...requestAttributes(call),
              ...outcome,
            }),
          ),
        report(next, scope) {
          const watched = meet(scope)
          if (scope.kind === 'request') return next
          if (watched !== undefined) countEvents(scope, watched, feedIDs, count)
          const counted = feedIDs ? countByFeed(next, past) : next
          return sampleAges(counted, scope, (age, { source, feedID }) => {
            const attributes = { 'sluice.report.source': source }
            const ofFeed = feedIDs ? { ...attributes, 'sluice.feed.id': feedID } : attributes
            addBounded('sluice.report.age', age, ofFeed)
          })
        },
      }
    },
    observe() {
      forgetEnded()
      const sums = new Sums(bound)
      for (const { metric, value, attributes } of past.all) sums.add(metric, value, attributes)
      // Report zeros too: OpenTelemetry repeats the last value of a metric that is not observed.
      for (const { name, kind, attributes } of metrics)
        if (kind === 'up-down-counter' || (kind === 'gauge' && attributes.length === 0))
          sums.add(name, 0)
      for (const client of clients) {
        for (const feeds of client.stale) sums.add('sluice.feeds.stale', feeds.size)
        const counted = client.metrics?.()
        if (counted === undefined) continue
        addCounts(sums, counted)
        addState(sums, counted)
        addRetirement(sums, client)
      }
      return sums.all
    },
  }
}

/** Adds the days until feeds retire: of each feed, or the fewest of all. */
function addRetirement(sums: Sums, { client, feedIDs }: Watched): void {
  for (const dates of client?.find(retirementKey) ?? []) {
    for (const [feedID, at] of dates) {
      const days = (at - (client?.now() ?? 0)) / DAY
      const sum = sums.of('sluice.feed.retirement', feedIDs ? { 'sluice.feed.id': feedID } : {})
      sum.value = sum.value === 0 ? days : Math.min(sum.value, days)
    }
  }
}

type Count = (metric: MetricName, attributes?: Attributes) => void

/** Counts the events of a stream. */
function countEvents(
  { events, defer }: StreamScope,
  { stale }: Watched,
  feedIDs: boolean,
  count: Count,
): void {
  const feeds = new Set<string>()
  const feedOf = (feedID: string): Attributes => (feedIDs ? { 'sluice.feed.id': feedID } : {})
  const countError = (error: Error): void => count('sluice.errors', { 'error.type': codeOf(error) })
  stale.add(feeds)
  defer(() => stale.delete(feeds))
  defer(
    events.on('gap', ({ cause, feedID }) =>
      count('sluice.gaps.announced', { 'sluice.gap.cause': cause, ...feedOf(feedID) }),
    ),
  )
  defer(events.on('gap-filled', ({ gap }) => count('sluice.gaps.filled', feedOf(gap.feedID))))
  defer(events.on('conflict', ({ first }) => count('sluice.conflicts', feedOf(first.feedID))))
  defer(events.on('error', countError))
  defer(events.on('ending', countError))
  defer(
    events.on('status', status => {
      if (status.type === 'stale') for (const feedID of status.feedIDs) feeds.add(feedID)
      else if (status.type === 'fresh' || status.type === 'unsubscribed')
        for (const feedID of status.feedIDs) feeds.delete(feedID)
    }),
  )
}

/** Counts the reports of each feed. */
function countByFeed(next: Sink, past: Sums): Sink {
  const sums = new Map<string, { value: number }>()
  return function countReport(report) {
    const { feedID } = report
    let sum = sums.get(feedID)
    if (sum === undefined) {
      sum = past.of('sluice.feed.reports', { 'sluice.feed.id': feedID })
      sums.set(feedID, sum)
    }
    sum.value++
    next(report)
  }
}

/** Calls `end` with the seconds that a call took, and the attributes of its outcome. */
async function time(
  next: Handler,
  call: Call,
  end: (seconds: number, outcome: Attributes) => void,
): Promise<Reply> {
  const begun = performance.now()
  let outcome: Attributes = {}
  try {
    const reply = await next(call)
    outcome = { 'http.response.status_code': statusOf(reply) }
    return reply
  } catch (thrown) {
    outcome = failureAttributes(thrown, call)
    throw thrown
  } finally {
    end((performance.now() - begun) / 1000, outcome)
  }
}

/** The `error.type` of a call that its caller has aborted. */
const ABORTED = 'aborted'

/**
 * Returns the attributes of the HTTP semantic conventions that are known before a call is answered.
 */
export function requestAttributes({ method, url }: Call): Attributes {
  const { hostname, port, protocol } = new URL(url)
  const scheme = protocol.slice(0, -1)
  const usual = scheme === 'https' || scheme === 'wss' ? 443 : 80
  return {
    'http.request.method': method,
    'server.address': hostname,
    'server.port': port === '' ? usual : Number(port),
    'url.scheme': scheme,
  }
}

/** Returns the HTTP status of an answer. */
export function statusOf(reply: Reply): number {
  return reply.kind === 'request' ? reply.status : 101
}

/** Returns the attributes of a call or attempt that has failed. */
export function failureAttributes(thrown: unknown, { signal }: Call): Attributes {
  const { statusCode } = (thrown ?? {}) as WireErrorFacts
  const error = { 'error.type': signal.aborted ? ABORTED : errorTypeOf(thrown) }
  return typeof statusCode === 'number'
    ? { 'http.response.status_code': statusCode, ...error }
    : error
}

/**
 * Returns the `error.type` of a call: the HTTP status if the service has answered, or else the
 * error's code.
 */
function errorTypeOf(thrown: unknown): string {
  const { statusCode } = (thrown ?? {}) as WireErrorFacts
  return typeof statusCode === 'number' ? String(statusCode) : codeOf(thrown)
}

/** Returns the code of an error, or its name if it has no code. */
function codeOf(thrown: unknown): string {
  const { code, name } = (thrown ?? {}) as Record<string, unknown>
  const type = code ?? name
  return typeof type === 'string' ? type : '_OTHER'
}
