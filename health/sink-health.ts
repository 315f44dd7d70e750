import type { Log } from '../core/log.js'
import { checkText, readOptions, type Schema, unchecked, withDefault } from '../core/options.js'
import type { ReportSink } from '../plugins/sink/index.js'
import { Health, type Measure, type Severity } from './health.js'

/** A cause of a sink. */
export type SinkCause = 'store-away' | 'reports-refused'

const causes: Readonly<Record<SinkCause, Severity>> = {
  /** The store has failed for more than ten seconds. Reports wait, and nothing is lost. */
  'store-away': 'unready',
  /** The store has refused reports in the last minute, because it can't hold them. */
  'reports-refused': 'warning',
}

/** Options of `sinkHealth`. */
export interface SinkHealthOptions {
  /** The name of the service. @default 'sink' */
  readonly service?: string
  /** Receives a line when something goes wrong, and when it is over. @default nothing is logged */
  readonly log?: Log
}

const schema = {
  service: withDefault('sink', checkText),
  log: withDefault({}, unchecked<Log>),
} satisfies Schema<SinkHealthOptions>

/** Milliseconds for which a store may be away: a restart takes a few seconds. */
const MAX_AWAY = 10_000
/** Milliseconds for which refused reports are a problem. */
const REFUSED_FOR = 60_000

/**
 * Makes the health of a sink. `end` ends it.
 *
 * @example
 * const health = sinkHealth(prices, { log: { error: console.error } })
 */
export function sinkHealth(sink: ReportSink, options?: SinkHealthOptions): Health<SinkCause> {
  const { service, log } = readOptions('sinkHealth', options, schema)
  const health = new Health({ service, causes, measures: measuresOf(sink), log })
  let refused = 0
  let refusedAt = Number.NEGATIVE_INFINITY
  health.watch(() => {
    const now = Date.now()
    const metrics = sink.metrics()
    const awayMs = now - (metrics.awaySince ?? now)
    const seconds = Math.round(awayMs / 1000)
    health.set(
      'store-away',
      awayMs > MAX_AWAY
        ? `the store has been away for ${seconds} s, and ${metrics.pending} reports wait`
        : undefined,
    )
    if (metrics.refused > refused) {
      refused = metrics.refused
      refusedAt = now
    }
    health.set(
      'reports-refused',
      now - refusedAt < REFUSED_FOR
        ? `the store has refused ${refused} reports, which it can't hold`
        : undefined,
    )
  })
  return health
}

function measuresOf(sink: ReportSink): readonly Measure[] {
  const counter = (
    name: string,
    unit: string,
    description: string,
    read: () => number,
  ): Measure => ({ name: `sluice.sink.${name}`, kind: 'counter', unit, description, read })
  return [
    counter(
      'written',
      '{report}',
      'Reports that the store has taken',
      () => sink.metrics().written,
    ),
    counter(
      'candles',
      '{candle}',
      'Candles that the store has taken',
      () => sink.metrics().candles,
    ),
    counter(
      'refused',
      '{report}',
      'Reports that the store refused, because it can not hold them',
      () => sink.metrics().refused,
    ),
    counter('failures', '{call}', 'Calls of the store that failed', () => sink.metrics().failures),
    {
      name: 'sluice.sink.pending',
      kind: 'gauge',
      unit: '{report}',
      description: 'Reports that are not written',
      read: () => sink.metrics().pending,
    },
    {
      name: 'sluice.sink.write.duration',
      kind: 'gauge',
      unit: 's',
      description: 'How long the last write took',
      read: () => {
        const { lastWriteMs } = sink.metrics()
        return lastWriteMs === undefined ? undefined : lastWriteMs / 1000
      },
    },
  ]
}
