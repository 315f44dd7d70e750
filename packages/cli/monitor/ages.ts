import type { Latency } from './messages.js'

/** The upper bounds of the bars, in milliseconds; what is older is in one more. */
const BOUNDS = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 60_000]
/** Milliseconds that are looked back. */
const WINDOW = 60_000
/** More than a minute of the ages that telemetry measures, which is about 128 a second. */
const CAPACITY = 8192

/** The ages of reports at their delivery. */
export interface Ages {
  add(ageMs: number, now: number): void
  /** The ages of the last minute. */
  read(now: number): Latency
}

/** Makes a ring of ages. */
export function createAges(): Ages {
  const ages = new Float64Array(CAPACITY)
  const times = new Float64Array(CAPACITY).fill(Number.NEGATIVE_INFINITY)
  let next = 0

  return {
    add(ageMs, now) {
      ages[next] = ageMs
      times[next] = now
      next = (next + 1) % CAPACITY
    },
    read(now) {
      const recent = ages.filter((_, index) => (times[index] as number) > now - WINDOW).sort()
      const counts = new Array<number>(BOUNDS.length + 1).fill(0)
      for (const age of recent) {
        const bar = BOUNDS.findIndex(bound => age <= bound)
        const at = bar === -1 ? BOUNDS.length : bar
        counts[at] = (counts[at] as number) + 1
      }
      if (recent.length === 0) return { bounds: BOUNDS, counts }
      const quantile = (share: number): number =>
        Math.round(recent[Math.ceil(share * recent.length) - 1] as number)
      return { bounds: BOUNDS, counts, p50: quantile(0.5), p99: quantile(0.99) }
    },
  }
}
