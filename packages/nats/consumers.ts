import type { Consumer, ConsumerMessages } from '@nats-io/jetstream'
import { RelayLogError } from './errors.js'
import { accessLog, type ReportLog, readInfo, streamError } from './log.js'
import { createTakenCheck, type IsTaken, type Place, type StreamPlaces } from './log-positions.js'
import { findPlace } from './start.js'
import { subjectOf } from './subjects.js'

/** Opens a consumer of JetStream. */
export type OpenConsumer = () => Promise<OpenedConsumer>

/** A consumer that is read. */
export interface OpenedConsumer {
  readonly messages: ConsumerMessages
  /** Where it is, for the next one. */
  readonly place: Place
  readonly isTaken: IsTaken
}

/** Messages that are requested ahead. They bound what a paused connection holds. */
const AHEAD = 1000
/** Milliseconds of one request for messages. The server gives a sign of life in half of them. */
const EXPIRES = 4000

/** A consumer of one reader's own, in the order of the log: from where the stream was, or from now on. */
export function openBroadcast(
  log: ReportLog,
  feedIDs: readonly string[],
  places: StreamPlaces,
): OpenConsumer {
  return async function open() {
    const info = await readInfo(log)
    const place = await findPlace(log, feedIDs, places, info)
    const isTaken = createTakenCheck(feedIDs, places, info)
    const { client } = await accessLog(log.connection)
    try {
      const consumer: Consumer = await client.consumers.get(log.stream, {
        filter_subjects: feedIDs.map(feedID => subjectOf(log.prefix, feedID)),
        deliver_policy: 'by_start_sequence',
        opt_start_seq: Math.max(1, place.next),
      })
      const messages = await consumer.consume({ max_messages: AHEAD, expires: EXPIRES })
      for (const feedID of feedIDs) places.feeds.set(feedID, place)
      return { messages, place, isTaken }
    } catch (thrown) {
      throw streamError(log.stream, thrown)
    }
  }
}

/** Milliseconds without a message and without a sign of life, after which a consumer is given up. */
const QUIET_LIMIT = 10_000
const CHECK_INTERVAL = 1000

/** Watches over a consumer that is read. */
export interface ConsumerWatch {
  /** A message came, or reading goes on after a pause. */
  sign(): void
  /** Nothing is read, so no sign is awaited. */
  isPaused: boolean
  stop(): void
}

/**
 * Calls back when the server no longer has the consumer, or gives no sign of it. The library waits for a consumer that was lost with
 * its server until that is back; another can be had at once.
 */
export function watchConsumer(
  messages: ConsumerMessages,
  lost: (error: RelayLogError) => void,
): ConsumerWatch {
  let seenAt = performance.now()
  const timer = setInterval(() => {
    if (!watch.isPaused && performance.now() - seenAt > QUIET_LIMIT) lose('no sign of life')
  }, CHECK_INTERVAL)
  timer.unref?.()

  function lose(why: string): void {
    watch.stop()
    lost(new RelayLogError(`the log no longer brings reports: ${why}`, { isRetryable: true }))
  }

  async function follow(): Promise<void> {
    for await (const { type } of messages.status()) {
      if (type === 'heartbeat') seenAt = performance.now()
      // While nothing is read, nothing is asked for, and nothing is missed.
      else if (fatal.has(type) && !(watch.isPaused && type === MISSED))
        lose(type.replaceAll('_', ' '))
    }
  }

  const watch: ConsumerWatch = {
    sign() {
      seenAt = performance.now()
    },
    isPaused: false,
    stop: () => clearInterval(timer),
  }
  void follow()
  return watch
}

const MISSED = 'heartbeats_missed'
/** What the library says of a consumer that will bring nothing. */
const fatal: ReadonlySet<string> = new Set([MISSED, 'stream_not_found', 'consumer_deleted'])
