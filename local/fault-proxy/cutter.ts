import type { FrameReader, FrameSpan } from './frames.js'
import type { Direction, Rule } from './rules.js'
import type { ConnectionScript } from './script.js'

/** A rule whose place has come. */
export interface Strike {
  readonly rule: Rule
  /** The frame it strikes, or the last that had begun. */
  readonly frame: number
}

/** Cuts the bytes of a direction where faults strike, and flips their bits. */
export interface Cutter {
  /** Bytes and strikes in their order. */
  readonly cut: (chunk: Buffer) => (Buffer | Strike)[]
  /** What was still held back when the direction ended. */
  readonly end: () => Buffer
  /** Flips a bit of each of the next so many bytes. */
  readonly corruptNext: (count: number) => void
}

/** What a cutter works with. */
export interface CutterParts {
  readonly direction: Direction
  readonly script: ConnectionScript
  /** Finds the frames; without one there are none. */
  readonly frames: FrameReader | undefined
  readonly random: () => number
  /** The share of bytes of which a bit flips. */
  readonly corruptRate: () => number
  /** Hears of each byte of which a bit was flipped, by the bytes before it. */
  readonly onFlip: (at: number, strike: Strike | undefined) => void
}

interface Flip {
  readonly mask: number
  readonly strike: Strike | undefined
}

/** A cutter at the beginning of a connection. */
export function createCutter(parts: CutterParts): Cutter {
  const { direction, script, frames: reader, random, corruptRate, onFlip } = parts
  const waiting: { readonly at: number; readonly strike: Strike }[] = []
  const flips = new Map<number, Flip>()
  let passed = 0
  // The flips of a rate are drawn ahead, so that they don't depend on how bytes come in chunks.
  let rate = 0
  let nextFlip = Number.POSITIVE_INFINITY

  // What would strike behind a reset is left for the next connection.
  let isOver = false

  const anyBit = (): number => 1 << Math.floor(random() * 8)

  function flipFrom(at: number, count: number, strike?: Strike): void {
    for (let i = 0; i < count; i++) flips.set(at + i, { mask: anyBit(), strike })
  }

  function flipWithin({ payload, end }: FrameSpan, count: number, strike: Strike): void {
    for (let i = 0; i < count; i++)
      flips.set(payload + Math.floor(random() * (end - payload)), { mask: anyBit(), strike })
  }

  function wait(at: number, strike: Strike): void {
    const { do: what, direction: way } = strike.rule
    isOver ||= what === 'reset' || (what === 'half-close' && (way === direction || way === 'both'))
    const later = waiting.findIndex(other => other.at > at)
    waiting.splice(later < 0 ? waiting.length : later, 0, { at, strike })
  }

  function planFrame(frame: FrameSpan): void {
    const { start, payload, end } = frame
    const places = { start, middle: payload + Math.floor((end - payload) / 2), end }
    for (const rule of script.frame(frame.number)) {
      const strike = { rule, frame: frame.number }
      if (rule.do === 'corrupt') flipWithin(frame, rule.bits, strike)
      else wait(places[rule.at], strike)
    }
  }

  function planBytes(to: number): void {
    for (const { at, rule } of script.bytes(direction, passed, to)) {
      const strike = { rule, frame: reader?.count ?? 0 }
      if (rule.do === 'corrupt') flipFrom(at, rule.bits, strike)
      else wait(at, strike)
    }
  }

  function drawNextFlip(from: number): void {
    const gap = rate === 0 ? Number.POSITIVE_INFINITY : Math.log(1 - random()) / Math.log(1 - rate)
    nextFlip = from + Math.floor(gap)
  }

  /** The flips of the rate. Those of rules win over them, so that theirs are told as theirs. */
  function planRate(to: number): void {
    if (rate !== corruptRate()) {
      rate = corruptRate()
      drawNextFlip(passed)
    }
    for (; nextFlip < to; drawNextFlip(nextFlip + 1))
      if (!flips.has(nextFlip)) flipFrom(nextFlip, 1)
  }

  function flipped(bytes: Buffer): Buffer {
    const due = [...flips].filter(([at]) => at < passed + bytes.length)
    if (due.length === 0) return bytes
    const copy = Buffer.from(bytes)
    for (const [at, { mask, strike }] of due) {
      flips.delete(at)
      copy[at - passed] = (copy[at - passed] as number) ^ mask
      onFlip(at, strike)
    }
    return copy
  }

  function cut(chunk: Buffer): (Buffer | Strike)[] {
    const { bytes, frames } = reader?.read(chunk) ?? { bytes: chunk, frames: [] }
    const to = passed + bytes.length
    for (const frame of frames) if (!isOver) planFrame(frame)
    if (!isOver) planBytes(to)
    planRate(to)
    const whole = flipped(bytes)
    const pieces: (Buffer | Strike)[] = []
    let from = passed
    const passTo = (at: number): void => {
      if (at > from) pieces.push(whole.subarray(from - passed, at - passed))
      from = Math.max(from, at)
    }
    for (let first = waiting[0]; first !== undefined && first.at <= to; first = waiting[0]) {
      passTo(first.at)
      pieces.push(first.strike)
      waiting.shift()
    }
    passTo(to)
    passed = to
    return pieces
  }

  return {
    cut,
    end: () => reader?.rest() ?? Buffer.alloc(0),
    corruptNext: count => flipFrom(passed, count),
  }
}
