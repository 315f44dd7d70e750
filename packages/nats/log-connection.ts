import type { ConsumerMessages, JsMsg, OrderedConsumerOptions } from '@nats-io/jetstream'
import type { Socket, SocketEvents } from 'sluice/client'
import { asError, createDeferred, createLifetime, type Deferred, sleep } from 'sluice/core'
import { setImmediate } from 'sluice/internal'
import { logError, RelayLogError, streamError } from './errors.js'
import type { ReportLog } from './log.js'
import { createTakenCheck, findPlace, type Place, type StreamPlaces } from './log-positions.js'
import { allSubjects, subjectOf } from './subjects.js'

/** Close codes: the stream has closed the connection, or the connection was lost. */
export const NORMAL = 1000
export const LOST = 1006
/** Messages that are requested ahead. They bound what a paused connection holds. */
const AHEAD = 1000
/** Milliseconds of one request for messages. The server gives a sign of life in half of them. */
export const EXPIRES = 4000
/**
 * Milliseconds without a message or a sign of life, after which the consumer of a connection is
 * given up.
 */
const CONNECTION_QUIET_LIMIT = 10_000
/** The same for a tail: it has no connection that would be opened again meanwhile. */
const TAIL_QUIET_LIMIT = 6000
const CHECK_INTERVAL = 500
/** Milliseconds after which a tail tries again to make a consumer. */
const RETRY_AFTER = 500
/** Milliseconds after which the server forgets the consumer of a tail that is gone. */
const FORGOTTEN_AFTER = 30_000

const MISSED = 'heartbeats_missed'
/** The statuses of a consumer that will bring nothing more. */
const fatal: ReadonlySet<string> = new Set([MISSED, 'stream_not_found', 'consumer_deleted'])

/** Reads the log in its order from a number on, with a consumer of the reader's own. */
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
 * Watches a consumer, and calls back once when the server no longer has it, or gives no sign of it.
 * The library waits for a consumer that was lost with its server until that server is back; another
 * consumer can be made at once.
 */
class ConsumerWatch {
  /** While nothing is read, nothing is requested, and no sign is awaited. */
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

  /** A message came, or reading goes on after a pause. */
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

/** Pings the server of NATS. */
export function ping({ connection }: ReportLog, alive: () => void): void {
  connection.rtt().then(alive, () => undefined)
}

/**
 * Opens a connection that brings the reports of some feeds, as the service's frames, in the order
 * of the log. It begins where the stream was, or now.
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

  const watch = new ConsumerWatch(messages, CONNECTION_QUIET_LIMIT, why => {
    const message = `the log no longer brings reports: ${why}`
    failure ??= new RelayLogError(message, { isRetryable: true })
    end(LOST)
  })
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
      // The messages that have come by now are still delivered.
      messages.close().catch(() => undefined)
    },
    terminate: () => end(LOST),
  }
}

/** The reports of all feeds, as they are stored. */
export interface LogTail {
  /** True while the log gives signs of life. */
  readonly isLive: boolean
  close(): void
}

/** The events of a tail. */
export interface TailEvents {
  /** The bytes are valid until the call returns. */
  report(subject: string, data: Uint8Array): void
  /** The log is away; it is asked again until it is back. */
  failed(error: Error): void
}

/**
 * Follows a log from now on, with one consumer for all feeds. If the consumer is lost, another one
 * goes on behind the last report. Rejects if the log can't be read to begin with.
 */
export async function followLog(log: ReportLog, events: TailEvents): Promise<LogTail> {
  const life = createLifetime()
  let next = (await log.info()).state.last_seq + 1
  let watch: ConsumerWatch | undefined

  async function open(): Promise<ConsumerMessages> {
    const { state } = await log.info()
    // The log has been emptied since, or is another.
    if (next > state.last_seq + 1) next = state.first_seq
    const subjects = allSubjects(log.prefix)
    const options = { filter_subjects: subjects, inactive_threshold: FORGOTTEN_AFTER }
    return consume(log, next, options, ({ seq, subject, data }) => {
      next = seq + 1
      watch?.sign()
      events.report(subject, data)
    })
  }

  /** Resolves when the consumer is lost. */
  async function read(messages: ConsumerMessages): Promise<void> {
    const lost = createDeferred()
    const current = new ConsumerWatch(messages, TAIL_QUIET_LIMIT, () => lost.resolve())
    watch = current
    const forget = life.onEnd(() => lost.resolve())
    if (life.isOver) lost.resolve()
    await lost.promise
    forget()
    current.stop()
    messages.close().catch(() => undefined)
    if (!life.isOver) events.failed(streamError(log.stream, new Error('no sign of life')))
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
    close: () => life.end(),
  }
}
