import type { Log } from '../../core/types.js'

/** A moment by this machine's clock, and what it is corrected by. */
export interface Moment {
  /** In Unix milliseconds. */
  readonly at: number
  /** Milliseconds to add. */
  readonly offset: number
  /** The same moment, in milliseconds of `performance.now`. */
  readonly since: number
}

/** This machine's clock, corrected by the service's where that has turned out to be another. */
export interface ServiceClock {
  /** Milliseconds that are added to this machine's clock. */
  readonly offset: number
  read(): Moment
  /** Compares the moment a request was signed for with the service's time when it was refused, which is just now. */
  learn(signedFor: Moment, serverTime: number | undefined, log: Log): void
}

/** Milliseconds by which a clock may be off without being corrected. */
const TOLERANCE = 2000
/** A wrong `Date` must not get signatures for distant times. */
const MAX_OFFSET = 86_400_000

/** A clock that is corrected by nothing yet. */
export function createServiceClock(now: () => number): ServiceClock {
  let offset = 0
  return {
    get offset() {
      return offset
    },
    read: () => ({ at: now(), offset, since: performance.now() }),
    learn({ at, offset: used, since }, serverTime, log) {
      // What was corrected otherwise since then teaches nothing more.
      if (serverTime === undefined || used !== offset) return
      // The header counts whole seconds: this is the middle.
      const time = serverTime + 500
      // The service answered at some time between the signing and now, so within that there is no difference.
      const took = performance.now() - since
      if (time > at + used - TOLERANCE && time < at + used + took + TOLERANCE) return
      const found = Math.round(time - at - took / 2)
      if (Math.abs(found) > MAX_OFFSET) return
      offset = Math.abs(found) > TOLERANCE ? found : 0
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
