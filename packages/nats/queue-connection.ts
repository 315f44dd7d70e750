import type { ConsumerMessages, JsMsg } from '@nats-io/jetstream'
import type { Subscription } from '@nats-io/transport-node'
import type { Socket, SocketEvents } from 'sluice/client'
import { asError, createDeferred, type Deferred } from 'sluice/core'
import { setImmediate } from 'sluice/internal'
import { watchDenials } from './denials.js'
import { logError, RelayLogError } from './errors.js'
import { EXPIRES, LOST, NORMAL, ping } from './log-connection.js'
import type { Queue, QueueSource } from './queue.js'
import type { Held } from './queue-worker.js'
import { withRemedy } from './refusals.js'

/**
 * Opens a connection that delivers the messages of a queue, as the service's frames. It requests as
 * many messages as the worker has room for. When these have arrived, it requests more.
 *
 * A connection that is closed first cancels its requests. The server of NATS may have sent messages
 * before it learns of that, so the connection still takes them. Otherwise these messages would be
 * delivered again only after `redeliverAfter`. In a cluster, a message that is on its way between
 * two servers still waits so long.
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
  /** The requests that have not ended, from the moment at which they are made. */
  const pending = new Set<Promise<void>>()
  /** The messages that arrived while the connection is paused. */
  const waiting: Held[] = []
  let failure: Error | undefined
  let isClosing = false
  let isOver = false
  let gate: Deferred | undefined

  function end(code: number): void {
    if (isOver) return
    isOver = true
    forget()
    stopRequests()
    for (const held of waiting.splice(0)) worker.handBack(held)
    events.ended(code, failure)
  }

  function stopRequests(): void {
    isClosing = true
    gate?.resolve()
    for (const messages of requests) void cancel(messages)
  }

  /** The close handshake: the stream takes the messages that arrive until it has ended. */
  async function close(): Promise<void> {
    stopRequests()
    await Promise.allSettled(pending)
    end(NORMAL)
  }

  function receive(message: JsMsg): void {
    const held = worker.hold(message)
    if (held === undefined) return
    // A stream that has ended takes no message.
    if (isOver || worker.scope.signal.aborted) worker.handBack(held)
    else if (gate !== undefined) waiting.push(held)
    else deliver(held)
  }

  function deliver(held: Held): void {
    worker.deliver(held, () => events.message(held.message.data))
  }

  async function read(source: QueueSource): Promise<void> {
    const most = Math.ceil(settings.maxUnacknowledged / sources.length)
    try {
      while (!isClosing) {
        await gate?.promise
        const count = isClosing ? 0 : await hand.reserve(most)
        if (isClosing || count === 0) return hand.unreserve(count)
        const made = request(source, count)
        pending.add(made)
        await made.finally(() => pending.delete(made))
        if (!isClosing && (await source.isDrained?.()) === true) return
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
      if (isClosing) void cancel(messages)
      const failed = await messages.closed()
      requests.delete(messages)
      if (failed instanceof Error) throw failed
    } finally {
      hand.unreserve(left)
    }
  }

  const forget = watchDenials(log, settings.queue, error => {
    const reason = withRemedy(error.message, error)
    // Without a cause: the message of a connection that was lost is that of the last cause.
    failure ??= new RelayLogError(`stream ${log.stream} can no longer be read: ${reason}`)
    end(LOST)
  })
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
    close: () => void close(),
    terminate: () => end(LOST),
  }
}

/**
 * Cancels a request for messages. The messages that are on their way from the worker's server are
 * still received: that server sends nothing more once it has answered the drain.
 */
async function cancel(messages: ConsumerMessages): Promise<void> {
  // The subscription is a member of the library's class, but not of its type.
  const { sub } = messages as { readonly sub?: Partial<Subscription> }
  await sub?.drain?.().catch(() => undefined)
  await messages.close().catch(() => undefined)
}
