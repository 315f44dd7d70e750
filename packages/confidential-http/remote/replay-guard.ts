import { Rejection } from './rejection.js'

/** Remembers the requests since the enclave's start, so that none is carried out twice. */
export interface ReplayGuard {
  /** Throws Rejection unless the request may be carried out, which is at most once. */
  check(caller: string, id: string, issuedAt: number): void
}

/** The allowed difference of the clocks, and the allowed time on the way, in milliseconds. */
export const MAX_SKEW = 30_000
/** Bounds memory: more requests of a caller within twice MAX_SKEW are rejected. Those of others are not its share. */
const MAX_IDS = 100_000
const WRONG_TIME = `the request was issued more than ${MAX_SKEW / 1000} s before or after the enclave's time: are both clocks right?`

const TOO_MANY = `this caller has sent ${MAX_IDS} requests within ${(2 * MAX_SKEW) / 1000} s, and no more are taken`

interface Seen {
  readonly caller: string
  readonly until: number
  readonly issuedAt: number
}

/**
 * Accepts a request only for a while around the time it was issued, and remembers its id for that while. Requests from before
 * the start can't be opened and do not come here.
 */
export function createReplayGuard(now: () => number = Date.now): ReplayGuard {
  const seen = new Map<string, Seen>()
  /** How many of them are of each caller. */
  const counts = new Map<string, number>()
  /** Ids of requests issued up to then may have been forgotten. */
  let forgottenUntil = Number.NEGATIVE_INFINITY
  /** Requests issued up to then may have been rejected as too old, and not carried out. */
  let rejectedUntil = Number.NEGATIVE_INFINITY

  function countOf(caller: string): number {
    return counts.get(caller) ?? 0
  }

  function forget(time: number): void {
    for (const [key, { caller, until, issuedAt }] of seen) {
      if (until >= time) return
      seen.delete(key)
      counts.set(caller, countOf(caller) - 1)
      forgottenUntil = Math.max(forgottenUntil, issuedAt)
    }
  }

  return {
    check(caller, id, issuedAt) {
      const time = now()
      forget(time)
      const key = `${caller} ${id}`
      if (seen.has(key)) throw new Rejection(409, 'the request was seen before')
      if (issuedAt < time - MAX_SKEW) rejectedUntil = Math.max(rejectedUntil, issuedAt)
      // Both stay rejected if the clock is set back.
      if (issuedAt <= forgottenUntil || issuedAt <= rejectedUntil)
        throw new Rejection(409, WRONG_TIME, issuedAt <= forgottenUntil)
      // The same request may be carried out when its time has come.
      if (issuedAt > time + MAX_SKEW) throw new Rejection(409, WRONG_TIME)
      const count = countOf(caller)
      if (count >= MAX_IDS) throw new Rejection(503, TOO_MANY)
      // It may be issued up to MAX_SKEW from now, and is valid for MAX_SKEW after that.
      seen.set(key, { caller, until: time + 2 * MAX_SKEW, issuedAt })
      counts.set(caller, count + 1)
    },
  }
}
