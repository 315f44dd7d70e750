import type { BitFlips } from './bit-flips.js'
import type { FrameReader, FrameSpan } from './frames.js'
import type { Direction } from './rules.js'
import type { ConnectionScript, Strike } from './script.js'

/** Cuts the bytes of a direction where rules strike, and flips their bits. */
export interface Cutter {
  /** Bytes and strikes in their order. */
  readonly cut: (chunk: Buffer) => (Buffer | Strike)[]
  /** The bytes that were still buffered when the direction ended. */
  readonly end: () => Buffer
  readonly corruptNext: (count: number) => void
}

/** A cutter at the beginning of a connection. Without a frame reader there are no frames. */
export function createCutter(
  direction: Direction,
  script: ConnectionScript,
  flips: BitFlips,
  reader: FrameReader | undefined,
): Cutter {
  const pending: { readonly at: number; readonly strike: Strike }[] = []
  let position = 0
  // A rule that would strike after a reset saves its strikes for the next connection.
  let isClosing = false

  function addStrike(at: number, strike: Strike): void {
    const { do: kind, direction: ended } = strike.rule
    isClosing ||=
      kind === 'reset' || (kind === 'half-close' && (ended === direction || ended === 'both'))
    const later = pending.findIndex(other => other.at > at)
    pending.splice(later < 0 ? pending.length : later, 0, { at, strike })
  }

  function planFrame({ number, start, payload, end }: FrameSpan): void {
    const places = { start, middle: payload + Math.floor((end - payload) / 2), end }
    for (const rule of script.frame(number)) {
      const strike = { rule, frame: number }
      if (rule.do === 'corrupt') flips.planWithin(payload, end, rule.bits, strike)
      else addStrike(places[rule.at], strike)
    }
  }

  function planBytes(to: number): void {
    for (const { at, rule } of script.bytes(direction, position, to)) {
      const strike = { rule, frame: reader?.count ?? 0 }
      if (rule.do === 'corrupt') flips.plan(at, rule.bits, strike)
      else addStrike(at, strike)
    }
  }

  return {
    cut(chunk) {
      const { bytes, frames } = reader?.read(chunk) ?? { bytes: chunk, frames: [] }
      const start = position
      const end = start + bytes.length
      for (const frame of frames) if (!isClosing) planFrame(frame)
      if (!isClosing) planBytes(end)
      const flipped = flips.apply(bytes, start)
      const pieces: (Buffer | Strike)[] = []
      const passTo = (at: number): void => {
        if (at > position) pieces.push(flipped.subarray(position - start, at - start))
        position = Math.max(position, at)
      }
      for (let first = pending[0]; first !== undefined && first.at <= end; first = pending[0]) {
        passTo(first.at)
        pieces.push(first.strike)
        pending.shift()
      }
      passTo(end)
      return pieces
    },
    end: () => reader?.rest() ?? Buffer.alloc(0),
    corruptNext: count => flips.plan(position, count),
  }
}
