import { Refusal } from './refusal.js'

/** Knows which requests have been seen, so that none is carried out twice. */
export interface ReplayGuard {
  /** Throws Refusal where a request must not be carried out. It may be carried out once. */
  check(id: string, issuedAt: number): void
}

/** How far the caller's clock may be off, and a request be on its way, in milliseconds. */
export const MAX_SKEW = 30_000
/** More requests than this within twice that time are refused, so that the memory they take is bounded. */
const MAX_IDS = 100_000

/**
 * A request is only good for a while around the time it was issued, and its id is remembered for that while. What was
 * issued before this enclave started may have been seen by the one before it.
 */
export function createReplayGuard(now: () => number = Date.now): ReplayGuard {
  const startedAt = now()
  /** Until when each id is remembered, the oldest first. */
  const seen = new Map<string, number>()

  function forget(time: number): void {
    for (const [id, until] of seen) {
      if (until >= time) return
      seen.delete(id)
    }
  }

  return {
    check(id, issuedAt) {
      const time = now()
      forget(time)
      if (seen.has(id)) throw new Refusal(409, 'the request was seen before')
      if (issuedAt < startedAt)
        throw new Refusal(409, 'the request was issued before the enclave started')
      if (Math.abs(time - issuedAt) > MAX_SKEW)
        throw new Refusal(
          409,
          `the request was issued more than ${MAX_SKEW / 1000} s before or after the enclave's time`,
        )
      if (seen.size >= MAX_IDS) throw new Refusal(503, 'too many requests')
      seen.set(id, time + 2 * MAX_SKEW)
    },
  }
}
