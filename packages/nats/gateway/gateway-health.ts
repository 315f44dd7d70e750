import type { StreamInfo } from '@nats-io/jetstream'
import type { Lifetime, Log } from 'sluice/core'
import { Health, type Measure, type Severity } from 'sluice/internal'
import type { ReportLog } from '../log.js'
import type { LogTail } from '../log-connection.js'
import {
  type LogCause,
  logCauses,
  newestReportAge,
  type WatchedLog,
  watchLog,
} from '../log-health.js'
import type { PageCounts } from './pages.js'

/** Counts of a gateway. */
export interface GatewayMetrics extends PageCounts {
  /** Requests and upgrades that were answered with an error status. */
  readonly rejected: number
  /** Tokens of the option `tokens`, or of its file when it was last read. */
  readonly tokens: number
  /**
   * Why the file of tokens was refused when it was last read. Until it is accepted, tokens that
   * were removed from it stay valid. Undefined if the file was not refused.
   */
  readonly tokensRefused: string | undefined
}

/** A cause of a gateway. */
export type GatewayCause =
  | LogCause
  | 'tail-lost'
  | 'lagging'
  | 'tokens-refused'
  | 'streams-full'
  | 'ending'

const causes: Readonly<Record<GatewayCause, Severity>> = {
  ...logCauses,
  /** The consumer that reads the log for all streams gives no sign of life. */
  'tail-lost': 'unready',
  /** The gateway is more than 30 seconds behind the log. */
  lagging: 'unready',
  /** The file of tokens was refused, so tokens that were removed from it are still accepted. */
  'tokens-refused': 'warning',
  /** There are as many streams as are allowed. */
  'streams-full': 'warning',
  /** The gateway ends. */
  ending: 'unready',
}

/** Milliseconds of lag above which a gateway is not ready. */
const MAX_LAG = 30_000

/** The parts of a gateway that its health looks at. */
interface GatewayParts {
  readonly reports: ReportLog
  readonly tail: LogTail
  readonly maxConnections: number
  readonly getMetrics: () => GatewayMetrics
  readonly isEnding: () => boolean
}

/** Makes the health of a gateway. It ends with the lifetime. */
export function gatewayHealth(
  { reports, tail, maxConnections, getMetrics, isEnding }: GatewayParts,
  life: Lifetime,
  log: Log,
): Health<GatewayCause> {
  let lagMs = 0
  let watched: WatchedLog | undefined
  const measures = [
    ...measuresOf(getMetrics, () => lagMs),
    newestReportAge('gateway', () => watched),
  ]
  const health = new Health({ service: 'gateway', causes, measures, log })
  function seen({ state: { last_seq, last_ts } }: StreamInfo): void {
    const isBehind = tail.readAt !== undefined && tail.next <= last_seq
    lagMs = isBehind ? Math.max(0, Date.parse(last_ts) - (tail.readAt ?? 0)) : 0
    const seconds = Math.round(lagMs / 1000)
    health.set(
      'lagging',
      lagMs > MAX_LAG ? `the gateway is ${seconds} s behind the log` : undefined,
    )
  }
  watched = watchLog(health, reports, life, { seen })
  health.watch(() => {
    const { connections, tokensRefused } = getMetrics()
    health.set(
      'tail-lost',
      tail.isLive ? undefined : 'the consumer of the log gives no sign of life',
    )
    health.set('tokens-refused', tokensRefused)
    health.set(
      'streams-full',
      connections >= maxConnections
        ? `${connections} streams are open, which is the limit`
        : undefined,
    )
    health.set('ending', isEnding() ? 'the gateway ends' : undefined)
  })
  life.defer(() => health.end())
  return health
}

/** The numbers of a gateway. */
function measuresOf(getMetrics: () => GatewayMetrics, lagMs: () => number): readonly Measure[] {
  return [
    {
      ...{ name: 'sluice.gateway.streams', kind: 'gauge', unit: '{stream}' },
      description: 'Streams of pages that are open',
      read: () => getMetrics().connections,
    },
    {
      ...{ name: 'sluice.gateway.sent', kind: 'counter', unit: '{report}' },
      description: 'Reports that were sent to streams; a report counts once for each stream',
      read: () => getMetrics().sent,
    },
    {
      ...{ name: 'sluice.gateway.slow', kind: 'counter', unit: '{stream}' },
      description: 'Streams that were closed because they read too slowly',
      read: () => getMetrics().slow,
    },
    {
      ...{ name: 'sluice.gateway.rejected', kind: 'counter', unit: '{request}' },
      description: 'Requests and upgrades that were answered with an error status',
      read: () => getMetrics().rejected,
    },
    {
      ...{ name: 'sluice.gateway.tokens', kind: 'gauge', unit: '{token}' },
      description: 'Tokens of the option tokens, or of its file',
      read: () => getMetrics().tokens,
    },
    {
      ...{ name: 'sluice.gateway.lag', kind: 'gauge', unit: 's' },
      description: 'Time by which the gateway is behind the log',
      read: () => lagMs() / 1000,
    },
  ]
}
