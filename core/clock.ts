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
  /**
   * A client calls it when it begins to wait for an answer or a stage of its stack, and calls the
   * returned function when the wait is over. A clock that is faster than real time can be slower
   * meanwhile, so that a wait is as long for the client as it really is. @default the clock goes on
   */
  hold?(): () => void
}

/** Time as the parts of a program see it: one clock that never steps, and calls later. */
export interface Timing {
  /** Milliseconds of a clock that never steps. */
  monotonic(): number
  /** Calls back after so many milliseconds. Returns a function that cancels the call. */
  after(ms: number, run: () => void): () => void
}
