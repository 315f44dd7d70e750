/**
 * Where time comes from, and what calls back later. `globalThis` is one, and so are the fake timers
 * of a test.
 */
export interface Clock {
  /** Tells the time. */
  readonly Date: {
    /** The time, in milliseconds of Unix time. */
    now(): number
  }
  /** Calls `run` after so many milliseconds. Returns a timer. */
  setTimeout(run: () => void, ms: number): unknown
  /** Cancels a timer. */
  clearTimeout(timer: unknown): void
}

/** Time as the parts of a program see it: one clock that never steps, and calls later. */
export interface Timing {
  /** Milliseconds of a clock that never steps. */
  monotonic(): number
  /** Calls back after so many milliseconds. Returns a function that cancels the call. */
  after(ms: number, run: () => void): () => void
}

/** The timing of the platform. The globals are looked up at each call, for fake timers. */
export const platformTiming: Timing = {
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

/** The timing of a given clock. */
export function timingOf(clock: Clock): Timing {
  return {
    monotonic: () => clock.Date.now(),
    after(ms, run) {
      const timer = clock.setTimeout(run, ms)
      return () => clock.clearTimeout(timer)
    },
  }
}
