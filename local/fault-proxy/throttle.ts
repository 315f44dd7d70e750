/** A limit of bytes per second. */
export interface Throttle {
  /** How many of the wanted bytes may be sent now. */
  readonly take: (wanted: number, bytesPerSecond: number) => number
  /** Milliseconds until `take` may return more than 0. */
  readonly wait: (wanted: number, bytesPerSecond: number) => number
}

// Bytes are sent in portions worth 20 ms; unused time adds up to 100 ms at most.
const portionMs = 20
const savedMs = 100

/** A token bucket that starts empty. */
export function createThrottle(): Throttle {
  let saved = 0
  let since = performance.now()

  /** The bytes that are worth a write of their own. */
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
