/** The kind of a metric, as OpenTelemetry names it. */
export type MetricKind = 'counter' | 'up-down-counter' | 'gauge' | 'histogram'

/** The name of a metric. */
export type MetricName =
  | 'sluice.reports.received'
  | 'sluice.reports.accepted'
  | 'sluice.reports.deduplicated'
  | 'sluice.reports.out_of_order'
  | 'sluice.reports.superseded'
  | 'sluice.reports.ahead'
  | 'sluice.reports.signed_later'
  | 'sluice.reports.dropped'
  | 'sluice.reports.verified'
  | 'sluice.verification.failures'
  | 'sluice.decoding.failures'
  | 'sluice.messages.malformed'
  | 'sluice.messages.redelivered'
  | 'sluice.messages.dead'
  | 'sluice.conflicts'
  | 'sluice.gaps.announced'
  | 'sluice.gaps.filled'
  | 'sluice.errors'
  | 'sluice.reconnects'
  | 'sluice.backfill.pages'
  | 'sluice.streams.open'
  | 'sluice.connections.open'
  | 'sluice.connections.configured'
  | 'sluice.queue.depth'
  | 'sluice.verification.waiting'
  | 'sluice.verification.oldest'
  | 'sluice.verification.capacity'
  | 'sluice.cursors.unsaved'
  | 'sluice.cursors.held_back'
  | 'sluice.feeds.stale'
  | 'sluice.clock.offset'
  | 'sluice.origin.round_trip'
  | 'sluice.report.age'
  | 'sluice.operation.duration'
  | 'http.client.request.duration'
  | 'sluice.feed.reports'
  | 'sluice.feed.retirement'

/** One row of the table of metrics. */
export interface Metric {
  /** The name by OpenTelemetry's rules: words separated by dots. */
  readonly name: MetricName
  /**
   * How values become a series: they are added up, replace each other, or are counted in buckets.
   */
  readonly kind: MetricKind
  /** The UCUM code of the unit: `s` or `d`, or in braces the name of the counted thing. */
  readonly unit: string
  /** A short description of what the metric counts or measures. */
  readonly description: string
  /** The attributes that the metric may have. */
  readonly attributes: readonly string[]
  /**
   * The upper bounds of a histogram's buckets, except the last bucket. Only histograms have them.
   */
  readonly bounds?: readonly number[]
}

/** Values of attributes, by their names. */
export type Attributes = Readonly<Record<string, string | number>>

/** The bounds that the semantic conventions give for durations of HTTP requests. */
const durations = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const ages = [0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300, 900]
const feed = 'sluice.feed.id'
const origin = 'sluice.origin'

/** A row of the table. Without `kind` it is a counter; without `attributes` it has none. */
type Row = Omit<Metric, 'kind' | 'attributes'> & Partial<Metric>

const rows: readonly Row[] = [
  {
    name: 'sluice.reports.received',
    unit: '{report}',
    description: 'Reports that connections have received, duplicates included',
    attributes: [origin],
  },
  {
    name: 'sluice.reports.accepted',
    unit: '{report}',
    description: 'Reports that streams have delivered, or have queued for delivery',
    attributes: ['sluice.report.source'],
  },
  {
    name: 'sluice.reports.deduplicated',
    unit: '{report}',
    description: 'Duplicates of reports that were delivered before',
  },
  {
    name: 'sluice.reports.out_of_order',
    unit: '{report}',
    description: 'Accepted reports that came after a newer report of their feed',
  },
  {
    name: 'sluice.reports.superseded',
    unit: '{report}',
    description: 'Reports that were not delivered, because their feed had a newer report',
  },
  {
    name: 'sluice.reports.ahead',
    unit: '{report}',
    description:
      'Reports whose time, at their arrival, was more than five seconds after the present',
  },
  {
    name: 'sluice.reports.signed_later',
    unit: '{report}',
    description: 'Reports that their network signed later than their time',
  },
  {
    name: 'sluice.reports.dropped',
    unit: '{report}',
    description: 'Accepted reports that were dropped because their queue was full',
  },
  {
    name: 'sluice.reports.verified',
    unit: '{report}',
    description: 'Reports that passed the verification of a stream',
  },
  {
    name: 'sluice.verification.failures',
    unit: '{report}',
    description: 'Reports that failed the verification of a stream',
  },
  {
    name: 'sluice.decoding.failures',
    unit: '{report}',
    description: 'Reports that could not be decoded when their fields were read',
  },
  {
    name: 'sluice.messages.malformed',
    unit: '{message}',
    description: 'Received messages that were not a valid report',
  },
  {
    name: 'sluice.messages.redelivered',
    unit: '{message}',
    description: 'Queue messages that a worker had already received',
  },
  {
    name: 'sluice.messages.dead',
    unit: '{message}',
    description: 'Queue messages that became dead letters',
  },
  {
    name: 'sluice.conflicts',
    unit: '{conflict}',
    description: 'Reports that differ from another report of the same observation',
    attributes: [feed],
  },
  {
    name: 'sluice.gaps.announced',
    unit: '{gap}',
    description: 'Ranges of time whose reports the stream could not get, by cause',
    attributes: ['sluice.gap.cause', feed],
  },
  {
    name: 'sluice.gaps.filled',
    unit: '{report}',
    description: 'Reports that came after their gap was announced',
    attributes: [feed],
  },
  {
    name: 'sluice.errors',
    unit: '{error}',
    description: 'Errors of streams, by code',
    attributes: ['error.type'],
  },
  {
    name: 'sluice.reconnects',
    unit: '{reconnect}',
    description:
      'Lost connections that were opened again: partial if another connection was open, otherwise full',
    attributes: ['sluice.reconnect.kind'],
  },
  {
    name: 'sluice.backfill.pages',
    unit: '{page}',
    description: 'Requests for pages of missing reports, with the error if a request failed',
    attributes: ['error.type'],
  },
  {
    name: 'sluice.streams.open',
    kind: 'up-down-counter',
    unit: '{stream}',
    description: 'Streams that have not ended',
  },
  {
    name: 'sluice.connections.open',
    kind: 'up-down-counter',
    unit: '{connection}',
    description: 'Open connections of streams',
  },
  {
    name: 'sluice.connections.configured',
    kind: 'up-down-counter',
    unit: '{connection}',
    description: 'Connections that streams should have, open or not',
  },
  {
    name: 'sluice.queue.depth',
    kind: 'up-down-counter',
    unit: '{report}',
    description: 'Accepted reports that wait in a queue',
  },
  {
    name: 'sluice.verification.waiting',
    kind: 'up-down-counter',
    unit: '{report}',
    description: 'Reports that wait in streams for their signers or for verification',
  },
  {
    name: 'sluice.verification.oldest',
    kind: 'gauge',
    unit: 's',
    description: 'Waiting time of the report that waits longest for verification',
  },
  {
    name: 'sluice.verification.capacity',
    kind: 'gauge',
    unit: '{report}',
    description: 'Reports that the threads of one client can verify in a second, as measured',
    attributes: ['sluice.verification.curve_library'],
  },
  {
    name: 'sluice.cursors.unsaved',
    kind: 'gauge',
    unit: 's',
    description: 'Longest time, over all streams, that a change of cursors has waited to be saved',
  },
  {
    name: 'sluice.cursors.held_back',
    kind: 'gauge',
    unit: 's',
    description:
      'Longest time, over all feeds, by which the cursor of a feed is behind its newest report',
  },
  {
    name: 'sluice.feeds.stale',
    kind: 'up-down-counter',
    unit: '{feed}',
    description: 'Feeds that have had no report for longer than staleAfter',
  },
  {
    name: 'sluice.clock.offset',
    kind: 'gauge',
    unit: 's',
    description:
      "Time by which this machine's clock is behind the present; negative if the clock is ahead",
  },
  {
    name: 'sluice.origin.round_trip',
    kind: 'gauge',
    unit: 's',
    description: 'Time from the last ping to its pong; over several streams, the longest time',
    attributes: [origin],
  },
  {
    name: 'sluice.report.age',
    kind: 'histogram',
    unit: 's',
    description:
      'Time from the observation of a report to its delivery; a fast stream measures only some reports',
    attributes: ['sluice.report.source', feed],
    bounds: ages,
  },
  {
    name: 'sluice.operation.duration',
    kind: 'histogram',
    unit: 's',
    description:
      'Duration of operations, retries included; for a stream, the time until its connection is open',
    attributes: ['sluice.operation', 'sluice.call.purpose', 'error.type'],
    bounds: durations,
  },
  {
    name: 'http.client.request.duration',
    kind: 'histogram',
    unit: 's',
    description: 'Duration of single attempts, including attempts to open a connection',
    attributes: [
      'http.request.method',
      'server.address',
      'server.port',
      'url.scheme',
      'http.response.status_code',
      'error.type',
    ],
    bounds: durations,
  },
  {
    name: 'sluice.feed.reports',
    unit: '{report}',
    description: 'Reports that went through the plugin, by feed; only with the option feedIDs',
    attributes: [feed],
  },
  {
    name: 'sluice.feed.retirement',
    kind: 'gauge',
    unit: 'd',
    description:
      'Days until the service retires a feed; without the option feedIDs, days until it retires the first feed',
    attributes: [feed],
  },
]

/**
 * Every metric of this library. All plugins export their metrics from this table. A metric has
 * `sluice.feed.id` only if the user asks for it.
 */
export const metrics: readonly Metric[] = rows.map(row => ({
  kind: 'counter',
  attributes: [],
  ...row,
}))

/**
 * Returns the name under which OpenTelemetry exporters show a metric to Prometheus, such as
 * `sluice_reports_received_total`.
 */
export function prometheusName({
  name,
  kind,
  unit,
}: { readonly name: string } & Pick<Metric, 'kind' | 'unit'>): string {
  const base = labelName(name)
  const suffix = { s: '_seconds', d: '_days' }[unit] ?? ''
  return `${base}${suffix}${kind === 'counter' ? '_total' : ''}`
}

/** Returns the Prometheus label of an attribute, such as `sluice_origin`. */
export function labelName(attribute: string): string {
  return attribute.replace(/\W/g, '_')
}
