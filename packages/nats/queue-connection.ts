import type { ConsumerMessages, JsMsg } from '@nats-io/jetstream'
import type { Socket, SocketEvents } from 'sluice/client'
import { asError, createDeferred, type Deferred } from 'sluice/core'
import { setImmediate } from 'sluice/internal'
import { logError } from './errors.js'
import { EXPIRES, LOST, NORMAL, ping } from './log-connection.js'
import type { Queue, QueueSource } from './queue.js'
import type { Held } from './queue-worker.js'

/**
 * Opens a connection that delivers the messages of a queue, as the service's frames. It requests as
 * many messages as the worker has room for. When these have arrived, it requests more.
 */
export async function openQueueConnection(
  queue: Queue,
  feedIDs: readonly string[],
  events: SocketEvents,
): Promise<Socket> {
  const sources = await queue.open(feedIDs)
  const { log, worker } = queue
  const { hand, settings } = worker
  const requests = new Set<ConsumerMessages>()
  /** The messages that arrived while the connection is paused. */
  const waiting: Held[] = []
  let failure: Error | undefined
  let isOver = false
  let gate: Deferred | undefined

  function end(code: number): void {
    if (isOver) return
    isOver = true
    gate?.resolve()
    for (const messages of requests) messages.close().catch(() => undefined)
    for (const held of waiting.splice(0)) worker.handBack(held)
    events.ended(code, failure)
  }

  function receive(message: JsMsg): void {
    const held = worker.hold(message)
    if (held === undefined) return
    if (isOver) worker.handBack(held)
    else if (gate !== undefined) waiting.push(held)
    else deliver(held)
  }

  function deliver(held: Held): void {
    worker.deliver(held, () => events.message(held.message.data))
  }

  async function read(source: QueueSource): Promise<void> {
    const most = Math.ceil(settings.maxUnacknowledged / sources.length)
    try {
      while (!isOver) {
        await gate?.promise
        const count = isOver ? 0 : await hand.reserve(most)
        if (isOver || count === 0) return hand.unreserve(count)
        await request(source, count)
        if ((await source.isDrained?.()) === true) return
      }
    } catch (thrown) {
      failure ??= logError(`stream ${log.stream} can no longer be read`, asError(thrown))
      end(LOST)
    }
  }

  /**
   * Sends one request for messages. Resolves when the messages have arrived, or the request has
   * expired.
   */
  async function request({ consumer, skips }: QueueSource, count: number): Promise<void> {
    let left = count
    function callback(message: JsMsg): void {
      left--
      if (skips?.(message) === true) message.ack()
      else receive(message)
      hand.unreserve(1)
    }

    try {
      const options = { max_messages: count, expires: EXPIRES, callback }
      const messages = await consumer.fetch(options)
      requests.add(messages)
      if (isOver) messages.close().catch(() => undefined)
      const failed = await messages.closed()
      requests.delete(messages)
      if (failed instanceof Error) throw failed
    } finally {
      hand.unreserve(left)
    }
  }

  setImmediate(() => {
    if (isOver) return
    events.opened()
    for (const source of sources) void read(source)
  })

  return {
    ping: () => ping(log, () => isOver || events.alive()),
    pause() {
      gate ??= createDeferred()
    },
    resume() {
      gate?.resolve()
      gate = undefined
      for (let held = waiting.shift(); held !== undefined; held = waiting.shift()) {
        deliver(held)
        // `deliver` may have paused the connection again.
        if (gate !== undefined) return
      }
    },
    close: () => end(NORMAL),
    terminate: () => end(LOST),
  }
}
