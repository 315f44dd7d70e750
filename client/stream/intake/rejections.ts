import type { Log } from '../../../core/log.js'
import { WebSocketError } from '../../errors.js'
import type { ConnectionFacts } from '../../status.js'

/** The rejected messages of one connection. */
export interface Rejections {
  add(error: Error): void
  /** Stops emitting errors, since the connection is dropped; returns why. */
  drop(): WebSocketError
  /** The connection has ended: emits what is left, and returns the error that it was dropped for. */
  end(): WebSocketError | undefined
}

/** Messages in a row that are no reports, before the connection is dropped: the peer can't be the service. */
export const MAX_JUNK = 16
/** Rejected messages of a connection that become `error` events of their own, in so many milliseconds. */
const MAX_EVENTS = 16
const PERIOD = 1000

/** Makes each rejected message an `error` event, up to a limit; those beyond it become one event together. */
export function createRejections(
  { host, origin }: ConnectionFacts,
  log: Log,
  fail: (error: Error) => void,
): Rejections {
  let periodStart = Number.NEGATIVE_INFINITY
  /** Events in this period. */
  let emitted = 0
  /** Messages that no event was for yet. */
  let pending = 0
  let last: Error | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let isDropped = false

  function emit(error: Error): void {
    log.warn?.(`invalid data: ${error.message}`, { host, origin })
    fail(error)
  }

  function emitPending(): void {
    clearTimeout(timer)
    timer = undefined
    if (pending === 0 || last === undefined) return
    const message = `${pending} more messages of ${host} were rejected; the last: ${last.message}`
    pending = 0
    emit(new WebSocketError(message, { code: 'WS_FRAME', cause: last }))
  }

  function dropError(): WebSocketError {
    const others = pending === 0 ? '' : `; ${pending} more were rejected`
    return new WebSocketError(
      `connection to ${host} was dropped: ${MAX_JUNK} messages in a row were no reports${others}`,
      { code: 'WS_FRAME', ...(last === undefined ? {} : { cause: last }) },
    )
  }

  return {
    add(error) {
      last = error
      if (isDropped) {
        pending++
        return
      }
      const now = performance.now()
      if (now - periodStart >= PERIOD) {
        emitPending()
        periodStart = now
        emitted = 0
      }
      if (emitted < MAX_EVENTS) {
        emitted++
        emit(error)
        return
      }
      pending++
      timer ??= setTimeout(emitPending, PERIOD)
      timer.unref?.()
    },
    drop() {
      isDropped = true
      clearTimeout(timer)
      return dropError()
    },
    end() {
      if (!isDropped) {
        emitPending()
        return undefined
      }
      const error = dropError()
      emit(error)
      return error
    },
  }
}
