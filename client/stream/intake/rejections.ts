import type { Log } from '../../../core/log.js'
import { WebSocketError } from '../../errors.js'
import type { ConnectionFacts } from '../../status.js'

/** The messages of one connection that were refused: how they are made known, and when they are too many. */
export interface Rejections {
  /** A message was refused. */
  add(error: Error): void
  /** Why the connection is dropped, from now on. */
  drop(): WebSocketError
  /** The connection has ended. Says what was not said yet; the error it is dropped for, if it is. */
  end(): WebSocketError | undefined
}

/** Messages in a row that are no reports, before the connection is dropped: by then the peer is none of the service. */
export const MAX_JUNK = 16
/** So many refused messages of a connection are `error` events of their own, in so many milliseconds. */
const EACH = 16
const PERIOD = 1000

/** Makes each refused message an `error` event, up to a limit; those beyond it are counted in one. */
export function createRejections(
  { host, origin }: ConnectionFacts,
  log: Log,
  fail: (error: Error) => void,
): Rejections {
  let since = Number.NEGATIVE_INFINITY
  let announced = 0
  let counted = 0
  let last: Error | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let isDropped = false

  function announce(error: Error): void {
    log.warn?.(`invalid data: ${error.message}`, { host, origin })
    fail(error)
  }

  function announceCounted(): void {
    clearTimeout(timer)
    timer = undefined
    if (counted === 0 || last === undefined) return
    const message = `${counted} more messages of ${host} were refused; of the last: ${last.message}`
    counted = 0
    announce(new WebSocketError(message, { code: 'WS_FRAME', cause: last }))
  }

  function dropError(): WebSocketError {
    const others = counted === 0 ? '' : `; ${counted} more were refused`
    return new WebSocketError(
      `connection to ${host} was dropped: ${MAX_JUNK} messages in a row were no reports${others}`,
      { code: 'WS_FRAME', ...(last === undefined ? {} : { cause: last }) },
    )
  }

  return {
    add(error) {
      last = error
      if (isDropped) {
        counted++
        return
      }
      const now = performance.now()
      if (now - since >= PERIOD) {
        announceCounted()
        since = now
        announced = 0
      }
      if (announced < EACH) {
        announced++
        announce(error)
        return
      }
      counted++
      timer ??= setTimeout(announceCounted, PERIOD)
      timer.unref?.()
    },
    drop() {
      isDropped = true
      clearTimeout(timer)
      return dropError()
    },
    end() {
      if (!isDropped) {
        announceCounted()
        return undefined
      }
      clearTimeout(timer)
      const error = dropError()
      announce(error)
      return error
    },
  }
}
