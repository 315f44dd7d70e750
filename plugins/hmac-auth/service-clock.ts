import { ValidationError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'

/** A moment by this machine's clock, and what it is corrected by. */
export interface Moment {
  /** In Unix milliseconds. */
  readonly at: number
  /** Milliseconds to add. */
  readonly offset: number
  /** The offset that was in use then. */
  readonly usual: number
  /** The same moment, in milliseconds of `performance.now`. */
  readonly since: number
}

/** This machine's clock, corrected by the service's where that has turned out to be another. */
export interface ServiceClock {
  read(): Moment
  /**
   * What to correct by instead, where something signed for a moment has just been refused at the service's time: what has
   * turned out since to be right, or what that time says.
   */
  offsetAfter(refused: Moment, serverTime: number | undefined): number
  /** Confirms that the service has accepted a signature with this offset. */
  confirm(offset: number, log: Log): void
}

/** Milliseconds by which a clock may be off without being corrected. */
const TOLERANCE = 2000
/** A wrong `Date` must not get signatures for distant times. */
const MAX_OFFSET = 86_400_000

/** A clock that is corrected by nothing yet. */
export function createServiceClock(now: () => number): ServiceClock {
  let offset = 0
  return {
    read() {
      const at = Math.round(now())
      if (!Number.isSafeInteger(at) || at < 0)
        throw new ValidationError('now must return Unix milliseconds')
      return { at, offset, usual: offset, since: performance.now() }
    },
    offsetAfter({ at, offset: used, usual, since }, serverTime) {
      if (usual !== offset) return offset
      if (serverTime === undefined) return used
      // The header counts whole seconds: this is the middle.
      const time = serverTime + 500
      // The service answered at some time between the signing and now, so within that there is no difference.
      const took = performance.now() - since
      if (time > at + used - TOLERANCE && time < at + used + took + TOLERANCE) return used
      const found = Math.round(time - at - took / 2)
      if (Math.abs(found) > MAX_OFFSET) return used
      return Math.abs(found) > TOLERANCE ? found : 0
    },
    confirm(right, log) {
      // Of requests that are refused at once, each has found its own.
      if (Math.abs(right - offset) <= TOLERANCE) return
      offset = right
      log.warn?.(describe(offset))
    },
  }
}

function describe(offset: number): string {
  if (offset === 0)
    return "this machine's clock agrees with the service's again: requests are signed by it"
  const seconds = Math.round(Math.abs(offset) / 1000)
  return `this machine's clock is ${seconds} s ${offset > 0 ? 'behind' : 'ahead of'} the service's: requests are signed by the service's`
}
