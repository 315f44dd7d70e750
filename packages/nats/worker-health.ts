import type { ConsumerInfo, StreamInfo } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Stream } from 'sluice/client'
import {
  createLifetime,
  type Log,
  optional,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from 'sluice/core'
import {
  Health,
  inMilliseconds,
  type Measure,
  type Severity,
  type StreamCause,
  streamCauses,
  watchStream,
} from 'sluice/internal'
import { checkConnection, ReportLog } from './log.js'
import {
  type LogCause,
  logCauses,
  newestReportAge,
  type WatchedLog,
  watchLog,
} from './log-health.js'
import { findHolding, type Holding } from './queue-worker.js'
import { isAPIError } from './refusals.js'
import { checkName, checkPrefix } from './subjects.js'

/** Options of `workerHealth`. */
export interface WorkerHealthOptions {
  /** The worker's connection to NATS. */
  readonly connection: NatsConnection
  /** The JetStream stream that the worker reads. @default 'SLUICE' */
  readonly stream?: string
  /** The prefix of the stream's subjects. @default 'sluice' */
  readonly prefix?: string
  /** The queue that the worker belongs to. @default none */
  readonly queue?: string
  /** Receives a line when something goes wrong, and when it is over. @default nothing is logged */
  readonly log?: Log
}

const schema = {
  connection: (_field, value) => checkConnection(value),
  stream: optional(checkName),
  prefix: optional(checkPrefix),
  queue: optional(checkName),
  log: withDefault({}, unchecked<Log>),
} satisfies Schema<WorkerHealthOptions>

/** A cause of a worker. */
export type WorkerCause =
  | StreamCause
  | LogCause
  | 'queue-missing'
  | 'queue-stuck'
  | 'held-elsewhere'
  | 'dead-letters'
  | 'lagging'

const causes: Readonly<Record<WorkerCause, Severity>> = {
  ...streamCauses,
  ...logCauses,
  /** The consumer of the queue does not exist. */
  'queue-missing': 'unready',
  /** This worker holds reports, and has acknowledged none for 30 seconds. */
  'queue-stuck': 'unready',
  /** Another worker of the queue holds reports, and the queue has waited for it for 30 seconds. */
  'held-elsewhere': 'warning',
  /** Reports have become dead letters in the last minute. */
  'dead-letters': 'warning',
  /** The worker is more than 30 seconds behind the log. */
  lagging: 'unready',
}

/** Milliseconds of lag above which a worker is not ready. */
const MAX_LAG = 30_000
/** Milliseconds without an acknowledgement after which a queue counts as stuck. */
const STUCK_AFTER = 30_000
/** Milliseconds for which dead letters are a problem. */
const DEAD_LETTERS_FOR = 60_000

/**
 * Makes the health of a worker: its stream, the log, and how far the worker is behind the log. It
 * ends with the stream.
 *
 * @example
 * const health = workerHealth(stream, { connection, queue: 'pricing', log: console })
 */
export function workerHealth(stream: Stream, given: WorkerHealthOptions): Health<WorkerCause> {
  const { queue, log: lines, ...options } = readOptions('workerHealth', given, schema)
  const log = new ReportLog(options)
  const life = createLifetime()
  const state = new WorkerState(stream, log, queue)
  let watched: WatchedLog | undefined
  const measures = [
    ...measuresOf(state, queue !== undefined),
    newestReportAge('worker', () => watched),
  ]
  const health = new Health({ service: 'worker', causes, measures, log: lines })
  // A worker of a queue gets some reports of each feed, so a feed without reports means nothing.
  watchStream(health, stream, { ignoresFeeds: queue !== undefined })
  async function seen(info: StreamInfo): Promise<void> {
    await state.look(info)
    health.set('queue-missing', state.isMissing ? `queue ${queue} does not exist` : undefined)
    health.set('queue-stuck', state.stuck)
    health.set('held-elsewhere', state.elsewhere)
    health.set(
      'lagging',
      state.lagMs > MAX_LAG
        ? `the worker is ${Math.round(state.lagMs / 1000)} s behind the log`
        : undefined,
    )
  }
  watched = watchLog(health, log, life, { seen })
  let dead = 0
  let deadAt = Number.NEGATIVE_INFINITY
  health.watch(() => {
    const { deadLetters } = stream.getMetrics()
    if (deadLetters > dead) deadAt = performance.now()
    dead = deadLetters
    const isRecent = performance.now() - deadAt < DEAD_LETTERS_FOR
    health.set(
      'dead-letters',
      isRecent
        ? `${dead} reports have become dead letters: sluice dead-letters lists them`
        : undefined,
    )
  })
  const end = (): void => {
    life.end()
    health.end()
  }
  stream.closed.then(end, end)
  return health
}

/** How far a worker is behind the log. */
class WorkerState {
  /** How far the worker, or its queue, is behind the log, in milliseconds. */
  lagMs = 0
  /** Reports of the queue that no worker has been given. */
  pending = 0
  /** Reports of the queue that were given to workers, and not acknowledged. */
  unacknowledged = 0
  isMissing = false
  /** The reports that the workers of this connection hold. */
  holding: Holding | undefined
  /** Why this worker counts as stuck; undefined if it does not. */
  stuck: string | undefined
  /** How many reports other workers hold for too long; undefined if they don't. */
  elsewhere: string | undefined
  readonly #stream: Stream
  readonly #log: ReportLog
  readonly #queue: string | undefined
  #floor = -1
  #movedAt = performance.now()

  constructor(stream: Stream, log: ReportLog, queue: string | undefined) {
    this.#stream = stream
    this.#log = log
    this.#queue = queue
  }

  async look(info: StreamInfo): Promise<void> {
    if (this.#queue === undefined) this.lagMs = this.#behindNewest(info)
    else await this.#lookAtQueue(this.#queue, info)
  }

  /** The time from the newest delivered report to the newest message of the log. */
  #behindNewest({ state: { last_ts } }: StreamInfo): number {
    let newest = 0
    for (const feedID of this.#stream.feedIDs) {
      const time = this.#stream.latest(feedID)?.observationsTimestamp
      if (time !== undefined) newest = Math.max(newest, inMilliseconds(feedID, time))
    }
    return newest === 0 ? 0 : Math.max(0, Date.parse(last_ts) - newest)
  }

  async #lookAtQueue(queue: string, { state }: StreamInfo): Promise<void> {
    const consumer = await this.#consumer(queue)
    this.isMissing = consumer === undefined
    if (consumer === undefined) return
    const { num_pending, num_ack_pending, ack_floor, delivered } = consumer
    this.pending = num_pending
    this.unacknowledged = num_ack_pending
    const now = performance.now()
    if (ack_floor.consumer_seq !== this.#floor || num_ack_pending === 0) this.#movedAt = now
    this.#floor = ack_floor.consumer_seq
    const waitedMs = now - this.#movedAt
    // Another connection than that of `natsWire` says nothing of this worker.
    const own = findHolding(this.#log, queue) ?? { count: 0, storedAt: undefined, unsettledMs: 0 }
    this.holding = own
    const since = new Date(Date.now() - own.unsettledMs).toISOString()
    this.stuck =
      own.unsettledMs > STUCK_AFTER
        ? `this worker holds ${countOf(own.count, 'report')} of queue ${queue}, and has acknowledged none since ${since}`
        : undefined
    const others = num_ack_pending - own.count
    this.elsewhere =
      waitedMs > STUCK_AFTER && this.stuck === undefined && others > 0
        ? `another worker of queue ${queue} holds ${countOf(others, 'report')}, and the oldest has not been acknowledged for ${Math.round(waitedMs / 1000)} s`
        : undefined
    const end = Date.parse(state.last_ts)
    // Reports that others hold are theirs to answer for.
    const waiting = num_pending === 0 ? end : await this.#timeOf(delivered.stream_seq + 1, state)
    this.lagMs = Math.max(0, end - Math.min(waiting, own.storedAt ?? end))
  }

  async #consumer(queue: string): Promise<ConsumerInfo | undefined> {
    try {
      const { stream } = this.#log
      return await this.#log.ask(({ manager }) => manager.consumers.info(stream, queue))
    } catch (thrown) {
      if (isAPIError((thrown as Error).cause, 'noConsumer')) return undefined
      throw thrown
    }
  }

  /** The time of the first message from a number on that the log still has. */
  async #timeOf(
    seq: number,
    { first_seq, last_seq, last_ts }: StreamInfo['state'],
  ): Promise<number> {
    const from = Math.max(seq, first_seq)
    if (from > last_seq) return Date.parse(last_ts)
    const found = await this.#log.ask(({ manager }) =>
      manager.direct.getMessage(this.#log.stream, { seq: from }),
    )
    return found?.time.getTime() ?? Date.parse(last_ts)
  }
}

function countOf(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`
}

/** The numbers of a worker. */
function measuresOf(state: WorkerState, hasQueue: boolean): readonly Measure[] {
  const lag: Measure = {
    name: 'sluice.worker.lag',
    kind: 'gauge',
    unit: 's',
    description:
      'Time by which the worker is behind the log, or a report that no worker of its queue has',
    read: () => state.lagMs / 1000,
  }
  if (!hasQueue) return [lag]
  return [
    lag,
    {
      name: 'sluice.worker.held',
      kind: 'gauge',
      unit: '{report}',
      description: 'Reports of the queue that this worker has, and has not acknowledged',
      read: () => state.holding?.count ?? 0,
    },
    {
      name: 'sluice.worker.unsettled',
      kind: 'gauge',
      unit: 's',
      description: 'Time for which this worker has had reports and acknowledged none',
      read: () => (state.holding?.unsettledMs ?? 0) / 1000,
    },
    {
      name: 'sluice.queue.pending',
      kind: 'gauge',
      unit: '{report}',
      description: 'Reports of the queue that no worker has been given',
      read: () => state.pending,
    },
    {
      name: 'sluice.queue.unacknowledged',
      kind: 'gauge',
      unit: '{report}',
      description: 'Reports of the queue that workers have, and have not acknowledged',
      read: () => state.unacknowledged,
    },
  ]
}
