import { ValidationError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'

/** A moment by this machine's clock, and its correction. */
export interface Moment {
  /** In Unix milliseconds. */
  readonly at: number
  /** Milliseconds to add. */
  readonly offset: number
  /** The confirmed offset at that moment. */
  readonly usual: number
  /** The same moment, in milliseconds of `performance.now`. */
  readonly since: number
}

/** This machine's clock, corrected by the service's where the two differ. */
export interface ServiceClock {
  read(): Moment
  /**
   * The offset for the next attempt, after one signed for a moment was rejected at the service's time: the offset that was
   * confirmed since, or the one that this time shows.
   */
  offsetAfter(rejected: Moment, serverTime: number | undefined): number
  /** Called when the service has accepted a signature with this offset. */
  confirm(offset: number, log: Log): void
}

/** Milliseconds by which a clock may be off without being corrected. */
const TOLERANCE = 2000
/** Milliseconds; a wrong `Date` must not get signatures for distant times. */
const MAX_OFFSET = 86_400_000

/** Creates a clock without a correction. */
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
      // The header has whole seconds; this is the middle of one.
      const time = serverTime + 500
      // The service answered between the signing and now, so a time within these shows no difference.
      const took = performance.now() - since
      if (time > at + used - TOLERANCE && time < at + used + took + TOLERANCE) return used
      const found = Math.round(time - at - took / 2)
      if (Math.abs(found) > MAX_OFFSET) return used
      return Math.abs(found) > TOLERANCE ? found : 0
    },
    confirm(right, log) {
      // Requests that are rejected at the same time find slightly different offsets.
      if (Math.abs(right - offset) <= TOLERANCE) return
      offset = right
      log.info?.(describe(offset))
    },
  }
}

function describe(offset: number): string {
  if (offset === 0)
    return "this machine's clock agrees with the service's again: requests are signed by it"
  const seconds = Math.round(Math.abs(offset) / 1000)
  return `this machine's clock is ${seconds} s ${offset > 0 ? 'behind' : 'ahead of'} the service's: requests are signed by the service's`
}
