import type { Clock, Timing } from '../core/clock.js'

/** Does work, and holds a clock until the work has settled. */
export function held<Result>(
  clock: Clock | undefined,
  work: () => Promise<Result>,
): Promise<Result> {
  if (clock?.hold === undefined) return work()
  const release = clock.hold()
  return work().finally(release)
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
