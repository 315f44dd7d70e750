import type { Strike } from './script.js'

/** Which bits of a direction flip. Positions count the bytes of the direction. */
export interface BitFlips {
  /** Flips a bit of each of `count` bytes from `at` on. */
  readonly plan: (at: number, count: number, strike?: Strike) => void
  /** Flips a bit of each of `count` random bytes from `start` up to `end`. */
  readonly planWithin: (start: number, end: number, count: number, strike: Strike) => void
  /** Applies the planned flips of these bytes and those of the corruption rate. */
  readonly apply: (bytes: Buffer, position: number) => Buffer
}

/** No flips yet. `onFlip` is called with the position of each flipped byte. */
export function createBitFlips(
  random: () => number,
  corruptRate: () => number,
  onFlip: (at: number, strike: Strike | undefined) => void,
): BitFlips {
  const flips = new Map<number, { readonly mask: number; readonly strike: Strike | undefined }>()
  // The next flip of the rate is drawn ahead, so that it does not depend on how bytes are chunked.
  let rate = 0
  let nextFlip = Number.POSITIVE_INFINITY

  function set(at: number, strike: Strike | undefined): void {
    flips.set(at, { mask: 1 << Math.floor(random() * 8), strike })
  }

  function plan(at: number, count: number, strike?: Strike): void {
    for (let i = 0; i < count; i++) set(at + i, strike)
  }

  function drawNextFlip(from: number): void {
    const gap = rate === 0 ? Number.POSITIVE_INFINITY : Math.log(1 - random()) / Math.log(1 - rate)
    nextFlip = from + Math.floor(gap)
  }

  /** Adds the flips of the rate, except where a rule flips already: the log names the rule. */
  function planRate(from: number, to: number): void {
    if (rate !== corruptRate()) {
      rate = corruptRate()
      drawNextFlip(from)
    }
    for (; nextFlip < to; drawNextFlip(nextFlip + 1))
      if (!flips.has(nextFlip)) set(nextFlip, undefined)
  }

  return {
    plan,
    planWithin(start, end, count, strike) {
      for (let i = 0; i < count; i++) set(start + Math.floor(random() * (end - start)), strike)
    },
    apply(bytes, position) {
      planRate(position, position + bytes.length)
      const due = [...flips].filter(([at]) => at < position + bytes.length)
      if (due.length === 0) return bytes
      const flipped = Buffer.from(bytes)
      for (const [at, { mask, strike }] of due) {
        flips.delete(at)
        flipped[at - position] = (flipped[at - position] as number) ^ mask
        onFlip(at, strike)
      }
      return flipped
    },
  }
}
