import type { Consumer, ConsumerMessages, JsMsg } from '@nats-io/jetstream'
import type { Socket, SocketEvents } from 'sluice/client'
import { asError, createDeferred, type Deferred } from 'sluice/core'
import { setImmediate } from 'sluice/internal'
import { logError } from './errors.js'
import type { ReportLog } from './log.js'
import type { Held } from './queue-hand.js'
import type { QueueWorker } from './queue-worker.js'

/** A consumer of a queue. */
export interface QueueSource {
  readonly consumer: Consumer
  /** True for a message that another consumer of the queue brings. */
  skips?(message: JsMsg): boolean
  /** True once it will bring nothing more. */
  isDrained?(): Promise<boolean>
}

const NORMAL = 1000
const LOST = 1006
/** Milliseconds of one request for messages. The server gives a sign of life in half of them. */
const EXPIRES = 4000

/**
 * Opens a queue as a connection, whose messages are the service's frames. It asks for as many as the worker has room for, and
 * for the next when those have come.
 */
export async function openQueueReading(
  { connection, stream }: ReportLog,
  open: () => Promise<readonly QueueSource[]>,
  worker: QueueWorker,
  events: SocketEvents,
): Promise<Socket> {
  const sources = await open()
  const requests = new Set<ConsumerMessages>()
  /** What came while nothing is read. */
  const waiting: Held[] = []
  let failure: Error | undefined
  let isOver = false
  let gate: Deferred | undefined

  function end(code: number): void {
    if (isOver) return
    isOver = true
    gate?.resolve()
    for (const messages of requests) messages.close().catch(() => undefined)
    for (const held of waiting.splice(0)) worker.untaken(held)
    events.ended(code, failure)
  }

  function receive(message: JsMsg): void {
    const held = worker.hold(message)
    if (held === undefined) return
    if (isOver) worker.untaken(held)
    else if (gate !== undefined) waiting.push(held)
    else deliver(held)
  }

  function deliver(held: Held): void {
    worker.deliver(held, () => events.message(held.message.data))
  }

  async function read(source: QueueSource): Promise<void> {
    const most = Math.ceil(worker.settings.maxUnacknowledged / sources.length)
    try {
      while (!isOver) {
        await gate?.promise
        const count = isOver ? 0 : await worker.reserve(most)
        if (isOver || count === 0) return worker.unreserve(count)
        await request(source, count, worker, receive, messages => {
          requests.add(messages)
          void messages.closed().then(() => requests.delete(messages))
          return !isOver
        })
        if ((await source.isDrained?.()) === true) return
      }
    } catch (thrown) {
      failure ??= logError(`stream ${stream} can no longer be read`, asError(thrown))
      end(LOST)
    }
  }

  setImmediate(() => {
    if (isOver) return
    events.opened()
    for (const source of sources) void read(source)
  })

  return {
    ping() {
      connection.rtt().then(
        () => isOver || events.alive(),
        () => undefined,
      )
    },
    pause() {
      gate ??= createDeferred()
    },
    resume() {
      gate?.resolve()
      gate = undefined
      for (let held = waiting.shift(); held !== undefined; held = waiting.shift()) {
        deliver(held)
        // It may have been paused anew.
        if (gate !== undefined) return
      }
    },
    close: () => end(NORMAL),
    terminate: () => end(LOST),
  }
}

/** Asks for messages once, and resolves when they have come, or the time is up. `begun` returns false where nobody reads them. */
async function request(
  { consumer, skips }: QueueSource,
  count: number,
  worker: QueueWorker,
  receive: (message: JsMsg) => void,
  begun: (messages: ConsumerMessages) => boolean,
): Promise<void> {
  let left = count
  function callback(message: JsMsg): void {
    left--
    if (skips?.(message) === true) message.ack()
    else receive(message)
    worker.unreserve(1)
  }

  try {
    const options = { max_messages: count, expires: EXPIRES, callback }
    const messages = await consumer.fetch(options)
    if (!begun(messages)) messages.close().catch(() => undefined)
    const failed = await messages.closed()
    if (failed instanceof Error) throw failed
  } finally {
    worker.unreserve(left)
  }
}
