import type { ConsumerMessages, JsMsg, OrderedConsumerOptions } from '@nats-io/jetstream'
import type { Socket, SocketEvents } from 'sluice/client'
import { asError, createDeferred, createLifetime, type Deferred, sleep } from 'sluice/core'
import { setImmediate } from 'sluice/internal'
import { watchDenials } from './denials.js'
import { logError, RelayLogError, streamError } from './errors.js'
import type { ReportLog } from './log.js'
import { createTakenCheck, findPlace, type Place, type StreamPlaces } from './log-positions.js'
import { withRemedy } from './refusals.js'
import { allSubjects, subjectOf } from './subjects.js'

/** The close code of a connection that the stream has closed. */
export const NORMAL = 1000
/** The close code of a connection that was lost. */
export const LOST = 1006
/** How many messages are requested ahead. A paused connection holds at most this many. */
const AHEAD = 1000
/**
 * Milliseconds until a request for messages expires. The server gives a sign of life in half of
 * this time.
 */
export const EXPIRES = 4000
/**
 * Milliseconds without a message or a sign of life after which a connection abandons its consumer.
 */
const CONNECTION_QUIET_LIMIT = 10_000
/**
 * The same limit for a tail. It is shorter, because a tail has no connection that could be reopened
 * meanwhile.
 */
const TAIL_QUIET_LIMIT = 6000
const CHECK_INTERVAL = 500
/** Milliseconds after which a tail retries to create a consumer. */
const RETRY_AFTER = 500
/** Milliseconds after which the server removes the consumer of a tail that is gone. */
const FORGOTTEN_AFTER = 30_000

const MISSED = 'heartbeats_missed'
/** The statuses of a consumer that will deliver nothing more. */
const fatal: ReadonlySet<string> = new Set([MISSED, 'stream_not_found', 'consumer_deleted'])

/** Reads the log in order, from a message number on, with a separate consumer for each reader. */
function consume(
  log: ReportLog,
  from: number,
  options: Partial<OrderedConsumerOptions>,
  callback?: (message: JsMsg) => void,
): Promise<ConsumerMessages> {
  return log.ask(async ({ client }) => {
    const consumer = await client.consumers.get(log.stream, {
      deliver_policy: 'by_start_sequence',
      opt_start_seq: Math.max(1, from),
      ...options,
    })
    const wanted = { max_messages: AHEAD, expires: EXPIRES }
    return consumer.consume(callback === undefined ? wanted : { ...wanted, callback })
  })
}

/**
 * Watches a consumer. Calls back once if the server no longer has the consumer or gives no sign of
 * life. If a consumer was lost with its server, the library waits until that server is back. With
 * the callback, a new consumer can be created at once.
 */
class ConsumerWatch {
  /** True while reading is paused. Then nothing is requested, so no sign of life is expected. */
  isPaused = false
  readonly #quietLimit: number
  readonly #lost: (why: string) => void
  readonly #timer: ReturnType<typeof setInterval>
  #seenAt = performance.now()

  constructor(messages: ConsumerMessages, quietLimit: number, lost: (why: string) => void) {
    this.#quietLimit = quietLimit
    this.#lost = lost
    this.#timer = setInterval(() => {
      if (!this.isPaused && !this.isLive) this.#lose('no sign of life')
    }, CHECK_INTERVAL)
    this.#timer.unref?.()
    void this.#follow(messages)
  }

  get isLive(): boolean {
    return performance.now() - this.#seenAt < this.#quietLimit
  }

  /** Records a sign of life: a message or heartbeat came, or reading resumed after a pause. */
  sign(): void {
    this.#seenAt = performance.now()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async #follow(messages: ConsumerMessages): Promise<void> {
    for await (const { type } of messages.status()) {
      if (type === 'heartbeat') this.sign()
      else if (fatal.has(type) && !(this.isPaused && type === MISSED))
        this.#lose(type.replaceAll('_', ' '))
    }
  }

  #lose(why: string): void {
    this.stop()
    this.#lost(why)
  }
}

/** Pings the NATS server. */
export function ping({ connection }: ReportLog, alive: () => void): void {
  connection.rtt().then(alive, () => undefined)
}

/**
 * Opens a connection that delivers the reports of some feeds, as the service's frames, in the order
 * of the log. `findPlace` decides where it begins.
 */
export async function openLogConnection(
  log: ReportLog,
  feedIDs: readonly string[],
  places: StreamPlaces,
  events: SocketEvents,
): Promise<Socket> {
  const info = await log.info()
  const place: Place = await findPlace(log, feedIDs, places, info)
  const isTaken = createTakenCheck(feedIDs, places, info)
  const subjects = feedIDs.map(feedID => subjectOf(log.prefix, feedID))
  const messages = await consume(log, place.next, { filter_subjects: subjects })
  for (const feedID of feedIDs) places.feeds.set(feedID, place)
  let failure: Error | undefined
  let isClosed = false
  let isOver = false
  let gate: Deferred<void> | undefined

  function end(code: number): void {
    if (isOver) return
    isOver = true
    watch.stop()
    forget()
    messages.close().catch(() => undefined)
    gate?.resolve()
    if (isClosed)
      for (const feedID of feedIDs)
        if (places.feeds.get(feedID) === place) places.feeds.set(feedID, undefined)
    events.ended(code, failure)
  }

  async function read(): Promise<void> {
    try {
      for await (const message of messages) {
        if (gate !== undefined) await gate.promise
        if (isOver) return
        watch.sign()
        place.next = message.seq + 1
        if (!isTaken(message)) events.message(message.data)
      }
    } catch (thrown) {
      failure ??= logError(`stream ${log.stream} can no longer be read`, asError(thrown))
    }
    end(isClosed ? NORMAL : LOST)
  }

  function lose(why: string): void {
    const message = `the log no longer brings reports: ${why}`
    failure ??= new RelayLogError(message, { isRetryable: true })
    end(LOST)
  }

  const watch = new ConsumerWatch(messages, CONNECTION_QUIET_LIMIT, lose)
  const forget = watchDenials(log, undefined, error => lose(withRemedy(error.message, error)))
  setImmediate(() => {
    if (isOver) return
    events.opened(new Headers(log.dateHeader()))
    void read()
  })

  return {
    ping: () => ping(log, () => isOver || events.alive()),
    pause() {
      gate ??= createDeferred()
      watch.isPaused = true
    },
    resume() {
      gate?.resolve()
      gate = undefined
      watch.isPaused = false
      watch.sign()
    },
    close() {
      isClosed = true
      // The messages that have already arrived are still delivered.
      messages.close().catch(() => undefined)
    },
    terminate: () => end(LOST),
  }
}

/** Follows the reports of all feeds as they are stored. */
export interface LogTail {
  /** True while the log gives signs of life. */
  readonly isLive: boolean
  /** The number of the next message. */
  readonly next: number
  /** The log's time of the last message that was read; undefined before the first. */
  readonly readAt: number | undefined
  close(): void
}

/** The events of a tail. */
export interface TailEvents {
  /** A report was stored. `data` is only valid until the call returns. */
  report(subject: string, data: Uint8Array): void
  /** The log does not answer. The tail retries until it does. */
  failed(error: Error): void
}

/**
 * Follows a log from now on, with one consumer for all feeds. If the consumer is lost, a new
 * consumer continues after the last report. Rejects if the first attempt to read the log fails.
 */
export async function followLog(log: ReportLog, events: TailEvents): Promise<LogTail> {
  const life = createLifetime()
  let next = (await log.info()).state.last_seq + 1
  let readAt: number | undefined
  let watch: ConsumerWatch | undefined

  async function open(): Promise<ConsumerMessages> {
    const { state } = await log.info()
    // The log has been emptied since then, or another log has its name.
    if (next > state.last_seq + 1) next = state.first_seq
    const subjects = allSubjects(log.prefix)
    const options = { filter_subjects: subjects, inactive_threshold: FORGOTTEN_AFTER }
    return consume(log, next, options, message => {
      next = message.seq + 1
      readAt = message.info.timestampNanos / 1e6
      watch?.sign()
      events.report(message.subject, message.data)
    })
  }

  /** Resolves when the consumer is lost. */
  async function read(messages: ConsumerMessages): Promise<void> {
    const lost = createDeferred()
    let reason = new Error('no sign of life')
    const forgetDenials = watchDenials(log, undefined, error => {
      reason = error
    })
    const current = new ConsumerWatch(messages, TAIL_QUIET_LIMIT, () => lost.resolve())
    watch = current
    const forget = life.onEnd(() => lost.resolve())
    if (life.isOver) lost.resolve()
    await lost.promise
    forget()
    forgetDenials()
    current.stop()
    messages.close().catch(() => undefined)
    if (!life.isOver) events.failed(streamError(log.stream, reason))
  }

  async function run(first: ConsumerMessages): Promise<void> {
    await read(first)
    while (!life.isOver) {
      try {
        await read(await open())
      } catch (thrown) {
        if (life.isOver) return
        events.failed(asError(thrown))
        await sleep(RETRY_AFTER, life.signal)
      }
    }
  }

  run(await open()).catch(() => undefined)
  return {
    get isLive() {
      return watch?.isLive === true
    },
    get next() {
      return next
    },
    get readAt() {
      return readAt
    },
    close: () => life.end(),
  }
}
