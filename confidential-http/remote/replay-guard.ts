import { Refusal } from './refusal.js'

/** Knows which requests have been seen since the enclave's start, so that none is carried out twice. */
export interface ReplayGuard {
  /** Throws Refusal where a request must not be carried out. It may be carried out once. */
  check(id: string, issuedAt: number): void
}

/** How far the caller's clock may be off, and a request be on its way, in milliseconds. */
export const MAX_SKEW = 30_000
/** More requests than this within twice that time are refused, so that the memory they take is bounded. */
const MAX_IDS = 100_000
const WRONG_TIME = `the request was issued more than ${MAX_SKEW / 1000} s before or after the enclave's time: are both clocks right?`

/**
 * A request is only good for a while around the time it was issued, and its id is remembered for that while. Requests of
 * before the start are not its affair: they can't be opened.
 */
export function createReplayGuard(now: () => number = Date.now): ReplayGuard {
  const seen = new Map<string, { readonly until: number; readonly issuedAt: number }>()
  /** What was issued up to then may have been seen and forgotten. */
  let forgottenUntil = Number.NEGATIVE_INFINITY
  /** Of what was issued up to then, a caller was told that it is too old and was not sent. */
  let refusedUntil = Number.NEGATIVE_INFINITY

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
      if (seen.has(id)) throw new Refusal(409, 'the request was seen before')
      if (issuedAt < time - MAX_SKEW) refusedUntil = Math.max(refusedUntil, issuedAt)
      // Neither is good again where the clock is set back.
      if (issuedAt <= forgottenUntil || issuedAt <= refusedUntil)
        throw new Refusal(409, WRONG_TIME, issuedAt <= forgottenUntil)
      // Sent once more when its time has come, it may be carried out.
      if (issuedAt > time + MAX_SKEW) throw new Refusal(409, WRONG_TIME)
      if (seen.size >= MAX_IDS) throw new Refusal(503, 'the enclave has too much to do')
      // It may have been issued as late as MAX_SKEW from now, and is good for as long after that.
      seen.set(id, { until: time + 2 * MAX_SKEW, issuedAt })
    },
  }
}
