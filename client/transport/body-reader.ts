/**
 * How many pieces a body may have, whatever their size. Servers that send one event or one line in
 * each piece stay below: half a megabyte in 16,384 pieces is 30 bytes in each.
 */
const MAX_PIECES = 16_384
/** How many bytes each further piece must have on average. Every packet of a network has more. */
const MIN_PIECE_BYTES = 256
/** How much longer than its bytes the buffer is at least. */
const FIRST_BYTES = 4096

/** What a body has too many of. */
export type Excess = 'bytes' | 'pieces'

/**
 * Counts the pieces in which data arrives. Each piece costs about the same, however small it is, so
 * data in tiny pieces costs far more than its size says.
 */
export class PieceCounter {
  /** How many bytes have arrived. */
  size = 0
  #pieces = 0
  #excess: 'pieces' | undefined

  /** Counts a piece. Tells whether there have been too many. */
  add(bytes: number): 'pieces' | undefined {
    this.size += bytes
    this.#pieces++
    if (this.#pieces > MAX_PIECES && this.size < this.#pieces * MIN_PIECE_BYTES)
      this.#excess = 'pieces'
    return this.#excess
  }
}

/**
 * Collects a body that arrives in pieces. All pieces are in one buffer, because a list of small
 * pieces takes many times the memory of their bytes. A buffer that is too small is wiped when a
 * larger one replaces it.
 */
export class BodyReader {
  readonly #maxBytes: number
  readonly #counter = new PieceCounter()
  #buffer: Uint8Array = new Uint8Array()

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** How many bytes the pieces have together. */
  get size(): number {
    return this.#counter.size
  }

  /** Adds a copy of a piece. Of a body that is not acceptable, wipes all, and says why. */
  add(piece: Uint8Array): Excess | undefined {
    const at = this.size
    const hasRoom = at + piece.byteLength <= this.#maxBytes
    const excess = this.#counter.add(piece.byteLength) ?? (hasRoom ? undefined : 'bytes')
    if (excess !== undefined) {
      this.wipe()
      return excess
    }
    // A body in one piece, which is the usual case, gets memory of its size.
    if (this.size > this.#buffer.byteLength)
      this.#grow(at === 0 ? this.size : Math.min(this.#maxBytes, 2 * this.size + FIRST_BYTES))
    this.#buffer.set(piece, at)
    return undefined
  }

  /** Says what the body does, as the end of a sentence. */
  describe(excess: Excess): string {
    return excess === 'pieces'
      ? `comes in more than ${MAX_PIECES} small pieces`
      : `is longer than ${this.#maxBytes} bytes`
  }

  /** Returns the body in memory of its own, and wipes the buffer. */
  take(): Uint8Array {
    const buffer = this.#buffer
    this.#buffer = new Uint8Array()
    if (buffer.byteLength === this.size) return buffer
    const body = buffer.slice(0, this.size)
    buffer.fill(0)
    return body
  }

  /** Wipes the bytes that have arrived. */
  wipe(): void {
    this.#buffer.fill(0)
    this.#buffer = new Uint8Array()
  }

  #grow(length: number): void {
    const longer = new Uint8Array(length)
    longer.set(this.#buffer)
    this.#buffer.fill(0)
    this.#buffer = longer
  }
}
