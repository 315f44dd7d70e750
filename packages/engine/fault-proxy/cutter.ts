import type { ConnectionScript, Direction, Strike } from './rules.js'

/** The position of a data frame in the bytes of its direction. */
interface FrameSpan {
  readonly number: number
  readonly start: number
  readonly payload: number
  readonly end: number
}

const empty = Buffer.alloc(0)
const upgrade = Buffer.from('HTTP/1.1 101')
const headEnd = Buffer.from('\r\n\r\n')
/** The longest HTTP head, in bytes. If no head ends within it, the bytes do not count as HTTP. */
const maxHeadBytes = 65_536

const minHeaderBytes = 2
const maskBytes = 4
const firstControlOpcode = 8

/**
 * The lengths of a frame's header and payload (RFC 6455, 5.2); undefined while the header is
 * incomplete.
 */
function measure(bytes: Buffer): { header: number; payload: number } | undefined {
  if (bytes.length < minHeaderBytes) return undefined
  const second = bytes[1] as number
  const length = second & 0x7f
  const lengthBytes = length === 127 ? 8 : length === 126 ? 2 : 0
  const header = minHeaderBytes + lengthBytes + (second & 0x80 ? maskBytes : 0)
  if (bytes.length < header) return undefined
  if (lengthBytes === 0) return { header, payload: length }
  const payload =
    lengthBytes === 2
      ? bytes.readUInt16BE(minHeaderBytes)
      : Number(bytes.readBigUInt64BE(minHeaderBytes))
  return { header, payload }
}

/**
 * Finds the frames in a server's bytes, which begin with the HTTP response. Frames follow only a
 * 101 response.
 */
export class FrameReader {
  #state: 'head' | 'frames' | 'other' = 'head'
  #buffered: Buffer = empty
  #position = 0
  /** The bytes of the current frame that are still to come. */
  #left = 0
  #count = 0

  /** Whether the server has answered with 101. */
  get isWebSocket(): boolean {
    return this.#state === 'frames'
  }

  /** How many data frames have begun. */
  get count(): number {
    return this.#count
  }

  /**
   * Adds bytes. Returns the bytes whose frames are known, and the frames that begin in these bytes.
   */
  read(chunk: Buffer): { bytes: Buffer; frames: FrameSpan[] } {
    const all = this.#buffered.length > 0 ? Buffer.concat([this.#buffered, chunk]) : chunk
    const frames: FrameSpan[] = []
    const head = this.#state === 'head' ? this.#headLength(all) : 0
    let to = head ?? 0
    if (this.#state === 'frames') to = this.#findFrames(all, to, frames)
    else if (this.#state === 'other') to = all.length
    this.#position += to
    this.#buffered = all.subarray(to)
    return { bytes: all.subarray(0, to), frames }
  }

  /**
   * Returns and clears the bytes that are still buffered: the incomplete head of a response or of a
   * frame.
   */
  rest(): Buffer {
    const rest = this.#buffered
    this.#buffered = empty
    this.#position += rest.length
    return rest
  }

  /**
   * The length of the head of a 101 response. Undefined while the head is incomplete, and for other
   * responses.
   */
  #headLength(bytes: Buffer): number | undefined {
    const known = Math.min(bytes.length, upgrade.length)
    const isUpgrade = bytes.compare(upgrade, 0, known, 0, known) === 0
    const end = bytes.indexOf(headEnd)
    if (isUpgrade && end >= 0 && known === upgrade.length) {
      this.#state = 'frames'
      return end + headEnd.length
    }
    if (!isUpgrade || bytes.length >= maxHeadBytes) this.#state = 'other'
    return undefined
  }

  /**
   * Adds the frames that begin at or after an index to `frames`. Returns the end of the bytes whose
   * frames are known.
   */
  #findFrames(bytes: Buffer, from: number, frames: FrameSpan[]): number {
    let at = from
    for (;;) {
      const step = Math.min(this.#left, bytes.length - at)
      at += step
      this.#left -= step
      const size = measure(bytes.subarray(at))
      if (this.#left > 0 || size === undefined) return at
      const start = this.#position + at
      const payload = start + size.header
      if (((bytes[at] as number) & 0x0f) < firstControlOpcode)
        frames.push({ number: ++this.#count, start, payload, end: payload + size.payload })
      this.#left = size.header + size.payload
    }
  }
}

/** Decides which bits of a direction flip. Positions count the bytes of that direction. */
export class BitFlips {
  readonly #random: () => number
  readonly #corruptRate: () => number
  readonly #onFlip: (at: number, strike: Strike | undefined) => void
  readonly #flips = new Map<number, { mask: number; strike: Strike | undefined }>()
  /**
   * The position of the next flip by the corruption rate. It is drawn ahead, so that it does not
   * depend on how bytes are split into chunks.
   */
  #nextFlip = Number.POSITIVE_INFINITY
  #rate = 0

  /** At first, no flips are planned. `onFlip` is called with the position of each flipped byte. */
  constructor(
    random: () => number,
    corruptRate: () => number,
    onFlip: (at: number, strike: Strike | undefined) => void,
  ) {
    this.#random = random
    this.#corruptRate = corruptRate
    this.#onFlip = onFlip
  }

  /** Plans to flip a bit in each of `count` bytes from `at` on. */
  plan(at: number, count: number, strike?: Strike): void {
    for (let i = 0; i < count; i++) this.#set(at + i, strike)
  }

  /** Plans to flip a bit in each of `count` random bytes from `start` up to `end`. */
  planWithin(start: number, end: number, count: number, strike: Strike): void {
    for (let i = 0; i < count; i++)
      this.#set(start + Math.floor(this.#random() * (end - start)), strike)
  }

  /** Applies the planned flips of these bytes, and the flips by the corruption rate. */
  apply(bytes: Buffer, position: number): Buffer {
    this.#planRate(position, position + bytes.length)
    const due = [...this.#flips].filter(([at]) => at < position + bytes.length)
    if (due.length === 0) return bytes
    const flipped = Buffer.from(bytes)
    for (const [at, { mask, strike }] of due) {
      this.#flips.delete(at)
      flipped[at - position] = (flipped[at - position] as number) ^ mask
      this.#onFlip(at, strike)
    }
    return flipped
  }

  #set(at: number, strike: Strike | undefined): void {
    this.#flips.set(at, { mask: 1 << Math.floor(this.#random() * 8), strike })
  }

  #drawNextFlip(from: number): void {
    const rate = this.#rate
    const gap =
      rate === 0 ? Number.POSITIVE_INFINITY : Math.log(1 - this.#random()) / Math.log(1 - rate)
    this.#nextFlip = from + Math.floor(gap)
  }

  /**
   * Plans the flips by the corruption rate. It leaves out a byte that a rule already flips, so that
   * the log names the rule.
   */
  #planRate(from: number, to: number): void {
    if (this.#rate !== this.#corruptRate()) {
      this.#rate = this.#corruptRate()
      this.#drawNextFlip(from)
    }
    for (; this.#nextFlip < to; this.#drawNextFlip(this.#nextFlip + 1))
      if (!this.#flips.has(this.#nextFlip)) this.#set(this.#nextFlip, undefined)
  }
}

/** Cuts the bytes of a direction at the places where rules strike, and flips bits. */
export class Cutter {
  readonly #direction: Direction
  readonly #script: ConnectionScript
  readonly #flips: BitFlips
  readonly #reader: FrameReader | undefined
  readonly #pending: { readonly at: number; readonly strike: Strike }[] = []
  #position = 0
  /**
   * True once a rule will reset the connection or end this direction. Rules no longer strike then,
   * so that they keep their remaining strikes for the next connection.
   */
  #isClosing = false

  /** Starts at the beginning of a connection. Without a frame reader, no frames are found. */
  constructor(
    direction: Direction,
    script: ConnectionScript,
    flips: BitFlips,
    reader: FrameReader | undefined,
  ) {
    this.#direction = direction
    this.#script = script
    this.#flips = flips
    this.#reader = reader
  }

  /** Cuts a chunk. Returns its bytes and the strikes between them, in order. */
  cut(chunk: Buffer): (Buffer | Strike)[] {
    const { bytes, frames } = this.#reader?.read(chunk) ?? { bytes: chunk, frames: [] }
    const start = this.#position
    const end = start + bytes.length
    for (const frame of frames) if (!this.#isClosing) this.#planFrame(frame)
    if (!this.#isClosing) this.#planBytes(end)
    const flipped = this.#flips.apply(bytes, start)
    const pieces: (Buffer | Strike)[] = []
    const passTo = (at: number): void => {
      if (at > this.#position) pieces.push(flipped.subarray(this.#position - start, at - start))
      this.#position = Math.max(this.#position, at)
    }
    const pending = this.#pending
    for (let first = pending[0]; first !== undefined && first.at <= end; first = pending[0]) {
      passTo(first.at)
      pieces.push(first.strike)
      pending.shift()
    }
    passTo(end)
    return pieces
  }

  /** Plans to flip a bit in each of the next `count` bytes. */
  corruptNext(count: number): void {
    this.#flips.plan(this.#position, count)
  }

  #planFrame({ number, start, payload, end }: FrameSpan): void {
    const places = { start, middle: payload + Math.floor((end - payload) / 2), end }
    for (const rule of this.#script.frame(number)) {
      const strike = { rule, frame: number }
      if (rule.do === 'corrupt') this.#flips.planWithin(payload, end, rule.bits, strike)
      else this.#addStrike(places[rule.at], strike)
    }
  }

  #planBytes(to: number): void {
    for (const { at, rule } of this.#script.bytes(this.#direction, this.#position, to)) {
      const strike = { rule, frame: this.#reader?.count ?? 0 }
      if (rule.do === 'corrupt') this.#flips.plan(at, rule.bits, strike)
      else this.#addStrike(at, strike)
    }
  }

  #addStrike(at: number, strike: Strike): void {
    const { do: kind, direction } = strike.rule
    const ends = direction === this.#direction || direction === 'both'
    this.#isClosing ||= kind === 'reset' || (kind === 'half-close' && ends)
    const later = this.#pending.findIndex(other => other.at > at)
    this.#pending.splice(later < 0 ? this.#pending.length : later, 0, { at, strike })
  }
}
