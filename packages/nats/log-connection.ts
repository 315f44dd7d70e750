import type { JsMsg } from '@nats-io/jetstream'
import type { Socket, SocketEvents } from 'sluice/client'
import { asError, createDeferred, type Deferred } from 'sluice/core'
import { setImmediate } from 'sluice/internal'
import { type OpenConsumer, watchConsumer } from './consumers.js'
import { logError } from './errors.js'
import { dateHeader, type ReportLog } from './log.js'
import type { Place } from './log-positions.js'

const NORMAL = 1000
const LOST = 1006

/** Opens a consumer of the log as a connection, whose messages are the service's frames. Calls `left` once it was closed by us. */
export async function openReading(
  log: ReportLog,
  open: OpenConsumer,
  events: SocketEvents,
  left: (place: Place) => void,
): Promise<Socket> {
  const { connection, stream } = log
  const { messages, place, isTaken } = await open()
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
    if (isClosed) left(place)
    events.ended(code, failure)
  }

  function deliver(message: JsMsg): void {
    watch.sign()
    place.next = message.seq + 1
    if (!isTaken(message)) events.message(message.data)
  }

  async function read(): Promise<void> {
    try {
      for await (const message of messages) {
        if (gate !== undefined) await gate.promise
        if (isOver) return
        deliver(message)
      }
    } catch (thrown) {
      failure ??= logError(`stream ${stream} can no longer be read`, asError(thrown))
    }
    end(isClosed ? NORMAL : LOST)
  }

  const watch = watchConsumer(messages, error => {
    failure ??= error
    end(LOST)
  })
  setImmediate(() => {
    if (isOver) return
    events.opened(new Headers(dateHeader(log)))
    void read()
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
      // What has come by now is read to the end.
      messages.close().catch(() => undefined)
    },
    terminate: () => end(LOST),
  }
}
