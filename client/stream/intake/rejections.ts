import type { Log } from '../../../core/log.js'
import { WebSocketError } from '../../contract/errors.js'
import type { ConnectionFacts } from '../../contract/status.js'

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
/** Rejected messages that become `error` events of their own in one period. */
const MAX_EVENTS = 16
/** Milliseconds. */
const PERIOD = 1000

/** Makes each rejected message an `error` event, up to a limit; those beyond it become one event together. */
export function createRejections(
  { host, origin }: ConnectionFacts,
  log: Log,
  fail: (error: Error) => void,
): Rejections {
  /** Events in this period. */
  let emitted = 0
  /** Messages that no event was for yet. */
  let pending = 0
  let last: Error | undefined
  let period: ReturnType<typeof setTimeout> | undefined
  let isDropped = false

  function emit(error: Error): void {
    log.warn?.(`invalid data: ${error.message}`, { host, origin })
    fail(error)
  }

  function endPeriod(): void {
    clearTimeout(period)
    period = undefined
    emitted = 0
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
      if (isDropped || emitted === MAX_EVENTS) {
        pending++
        return
      }
      emitted++
      period ??= setTimeout(endPeriod, PERIOD)
      period.unref?.()
      emit(error)
    },
    drop() {
      isDropped = true
      clearTimeout(period)
      return dropError()
    },
    end() {
      if (!isDropped) {
        endPeriod()
        return undefined
      }
      const error = dropError()
      emit(error)
      return error
    },
  }
}
