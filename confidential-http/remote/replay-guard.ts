import { Rejection } from './rejection.js'

/** Remembers the requests since the enclave's start, so that none is carried out twice. */
export interface ReplayGuard {
  /** Throws Rejection unless the request may be carried out, which is at most once. */
  check(id: string, issuedAt: number): void
}

/** The allowed difference of the clocks, and the allowed time on the way, in milliseconds. */
export const MAX_SKEW = 30_000
/** Bounds memory: more requests within twice MAX_SKEW are rejected. */
const MAX_IDS = 100_000
const WRONG_TIME = `the request was issued more than ${MAX_SKEW / 1000} s before or after the enclave's time: are both clocks right?`

/**
 * Accepts a request only for a while around the time it was issued, and remembers its id for that while. Requests from before
 * the start can't be opened and do not come here.
 */
export function createReplayGuard(now: () => number = Date.now): ReplayGuard {
  const seen = new Map<string, { readonly until: number; readonly issuedAt: number }>()
  /** Ids of requests issued up to then may have been forgotten. */
  let forgottenUntil = Number.NEGATIVE_INFINITY
  /** Requests issued up to then may have been rejected as too old, and not carried out. */
  let rejectedUntil = Number.NEGATIVE_INFINITY

  function forget(time: number): void {
    for (const [id, { until, issuedAt }] of seen) {
      if (until >= time) return
      seen.delete(id)
      forgottenUntil = Math.max(forgottenUntil, issuedAt)
    }
  }

  return {
    check(id, issuedAt) {
      const time = now()
      forget(time)
      if (seen.has(id)) throw new Rejection(409, 'the request was seen before')
      if (issuedAt < time - MAX_SKEW) rejectedUntil = Math.max(rejectedUntil, issuedAt)
      // Both stay rejected if the clock is set back.
      if (issuedAt <= forgottenUntil || issuedAt <= rejectedUntil)
        throw new Rejection(409, WRONG_TIME, issuedAt <= forgottenUntil)
      // The same request may be carried out when its time has come.
      if (issuedAt > time + MAX_SKEW) throw new Rejection(409, WRONG_TIME)
      if (seen.size >= MAX_IDS) throw new Rejection(503, 'the enclave is overloaded')
      // It may be issued up to MAX_SKEW from now, and is valid for MAX_SKEW after that.
      seen.set(id, { until: time + 2 * MAX_SKEW, issuedAt })
    },
  }
}
