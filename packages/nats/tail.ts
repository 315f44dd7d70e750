import type { ConsumerMessages, JsMsg } from '@nats-io/jetstream'
import { asError, createLifetime, sleep } from 'sluice/core'
import type { RelayLogError } from './errors.js'
import { accessLog, type ReportLog, readInfo, streamError } from './log.js'
import { allSubjects } from './subjects.js'

/** The reports of all feeds, as they are stored. */
export interface LogTail {
  /** True while the log gives signs of life. */
  readonly isLive: boolean
  close(): void
}

/** What a tail brings. */
export interface TailEvents {
  /** The bytes are valid until the call returns. */
  report(subject: string, data: Uint8Array): void
  /** The log is away; it is asked again until it is back. */
  failed(error: RelayLogError): void
}

/** Messages that are requested ahead. */
const AHEAD = 1000
/** Milliseconds of one request for messages. The server gives a sign of life in half of them. */
const EXPIRES = 4000
/** Milliseconds without a message and without a sign of life, after which another consumer is made. */
const QUIET_LIMIT = 6000
const CHECK_INTERVAL = 500
const RETRY_AFTER = 500
/** Milliseconds after which the server forgets a consumer that nobody reads. */
const FORGOTTEN_AFTER = 30_000

/**
 * Follows a log from now on, with one consumer for all feeds. Where that is lost, another goes on behind the last report.
 * Rejects where the log can't be read to begin with.
 */
export async function followLog(log: ReportLog, events: TailEvents): Promise<LogTail> {
  const life = createLifetime()
  let next = (await readInfo(log)).state.last_seq + 1
  let seenAt = Number.NEGATIVE_INFINITY

  function receive(message: JsMsg): void {
    next = message.seq + 1
    seenAt = performance.now()
    events.report(message.subject, message.data)
  }

  /** Resolves when the consumer is lost. */
  async function read(messages: ConsumerMessages): Promise<void> {
    const reading = createLifetime(life.signal)
    const timer = setInterval(() => {
      if (!isLive()) reading.end()
    }, CHECK_INTERVAL)
    reading.defer(() => clearInterval(timer))
    reading.defer(() => messages.close())
    for await (const { type } of messages.status()) {
      if (type === 'heartbeat') seenAt = performance.now()
      else if (lost.has(type)) reading.end()
    }
    reading.end()
    if (life.signal.aborted) return
    events.failed(streamError(log.stream, new Error('no sign of life')))
  }

  async function run(first: ConsumerMessages): Promise<void> {
    await read(first)
    while (!life.signal.aborted) {
      try {
        await read(await open())
      } catch (thrown) {
        if (life.signal.aborted) return
        events.failed(asError(thrown) as RelayLogError)
        await sleep(RETRY_AFTER, life.signal)
      }
    }
  }

  async function open(): Promise<ConsumerMessages> {
    const { state } = await readInfo(log)
    // The log has been emptied since, or is another.
    if (next > state.last_seq + 1) next = state.first_seq
    try {
      const { client } = await accessLog(log.connection)
      const consumer = await client.consumers.get(log.stream, {
        filter_subjects: allSubjects(log.prefix),
        deliver_policy: 'by_start_sequence',
        opt_start_seq: Math.max(1, next),
        inactive_threshold: FORGOTTEN_AFTER,
      })
      seenAt = performance.now()
      return await consumer.consume({ max_messages: AHEAD, expires: EXPIRES, callback: receive })
    } catch (thrown) {
      throw streamError(log.stream, thrown)
    }
  }

  const isLive = (): boolean => performance.now() - seenAt < QUIET_LIMIT

  run(await open()).catch(() => undefined)
  return {
    get isLive() {
      return isLive()
    },
    close: () => life.end(),
  }
}

/** What the library says of a consumer that will bring nothing. */
const lost: ReadonlySet<string> = new Set([
  'heartbeats_missed',
  'stream_not_found',
  'consumer_deleted',
])
