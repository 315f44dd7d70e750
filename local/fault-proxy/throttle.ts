/** A limit of bytes per second. */
export interface Throttle {
  /** How many bytes of those wanted may go now; 0 is none yet. */
  readonly take: (wanted: number, bytesPerSecond: number) => number
  /** After how many ms it is worth asking again. */
  readonly wait: (wanted: number, bytesPerSecond: number) => number
}

// Bytes go in portions of so many ms, and what time was left unused adds up to so many ms at most.
const portionMs = 20
const savedMs = 100

/** A throttle that has let nothing through yet. */
export function createThrottle(): Throttle {
  let saved = 0
  let since = performance.now()

  /** As many bytes as are worth a write of their own. */
  const portionOf = (wanted: number, perMs: number): number =>
    Math.max(1, Math.min(wanted, Math.floor(portionMs * perMs)))

  return {
    take(wanted, bytesPerSecond) {
      if (bytesPerSecond === Number.POSITIVE_INFINITY) return wanted
      const now = performance.now()
      const perMs = bytesPerSecond / 1000
      saved = Math.min(saved + (now - since) * perMs, Math.max(1, savedMs * perMs))
      since = now
      if (saved < portionOf(wanted, perMs)) return 0
      const taken = Math.min(wanted, Math.floor(saved))
      saved -= taken
      return taken
    },
    wait(wanted, bytesPerSecond) {
      const perMs = bytesPerSecond / 1000
      return (portionOf(wanted, perMs) - saved) / perMs
    },
  }
}
