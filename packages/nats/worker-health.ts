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
  type Measure,
  type Severity,
  type StreamCause,
  streamCauses,
  watchStream,
} from 'sluice/health'
import { inMilliseconds } from 'sluice/internal'
import { isAPIError } from './errors.js'
import { checkConnection, ReportLog } from './log.js'
import { type LogCause, logCauses, watchLog } from './log-health.js'
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
  | 'dead-letters'
  | 'lagging'

const causes: Readonly<Record<WorkerCause, Severity>> = {
  ...streamCauses,
  ...logCauses,
  /** The consumer of the queue does not exist. */
  'queue-missing': 'unready',
  /** The worker has reports, and has acknowledged none for 30 seconds. */
  'queue-stuck': 'unready',
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
  const measures = measuresOf(state, queue !== undefined)
  const health = new Health({ service: 'worker', causes, measures, log: lines })
  watchStream(health, stream)
  watchLog(health, log, life, async info => {
    await state.look(info)
    health.set('queue-missing', state.isMissing ? `queue ${queue} does not exist` : undefined)
    health.set('queue-stuck', state.stuck)
    health.set(
      'lagging',
      state.lagMs > MAX_LAG
        ? `the worker is ${Math.round(state.lagMs / 1000)} s behind the log`
        : undefined,
    )
  })
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
  /** Why the queue counts as stuck; undefined if it does not. */
  stuck: string | undefined
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
    const { num_pending, num_ack_pending, ack_floor } = consumer
    this.pending = num_pending
    this.unacknowledged = num_ack_pending
    const now = performance.now()
    if (ack_floor.consumer_seq !== this.#floor || num_ack_pending === 0) this.#movedAt = now
    this.#floor = ack_floor.consumer_seq
    const waited = Math.round((now - this.#movedAt) / 1000)
    this.stuck =
      now - this.#movedAt > STUCK_AFTER
        ? `queue ${queue}: ${num_ack_pending} reports are with workers, and none was acknowledged for ${waited} s`
        : undefined
    this.lagMs =
      num_pending + num_ack_pending === 0
        ? 0
        : Date.parse(state.last_ts) - (await this.#timeOf(ack_floor.stream_seq + 1, state))
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

/** The numbers of a worker. */
function measuresOf(state: WorkerState, hasQueue: boolean): readonly Measure[] {
  const lag: Measure = {
    name: 'sluice.worker.lag',
    kind: 'gauge',
    unit: 's',
    description: 'Time by which the worker, or its queue, is behind the log',
    read: () => state.lagMs / 1000,
  }
  if (!hasQueue) return [lag]
  return [
    lag,
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
