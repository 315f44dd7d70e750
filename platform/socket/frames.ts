/** What a reader of frames does with what it reads. Bytes are valid until the call returns. */
export interface FrameEvents {
  /** A whole message in one frame, unmasked and uncompressed. */
  message(data: Uint8Array): void
  /** The next bytes of every other frame: control frames, fragments, and whatever breaks the protocol. */
  other(bytes: Uint8Array): void
  /** True while the receiver of `other` has not taken all of it. */
  isBehind(): boolean
}

/** Reads the bytes of a connection from the first frame on, in chunks of any size. */
export type FrameReader = (chunk: Uint8Array) => void

/** The first byte of a whole message: FIN and the opcode of text or binary, and no other bit. */
const [TEXT, BINARY] = [0x81, 0x82] as const
const [PING, PONG] = [0x89, 0x8a] as const
/** The first opcode of a control frame is that of the close handshake. */
const CLOSE = 8
const [FIN, OPCODE, MASKED, LENGTH] = [0x80, 0x0f, 0x80, 0x7f] as const
/** A length that stands for one in the next 2 bytes; 127 stands for one in the next 8. */
const IN_2_BYTES = 126
/** Of a head, without the mask. */
const MAX_HEAD_BYTES = 10
const MASK_BYTES = 4

/** The head that was read last, without its mask. */
const head = { bytes: 0, isMasked: false, payloadBytes: 0 }

/** Reads the head of the frame at `at`; false where it is cut. */
function readHead(bytes: Uint8Array, at: number, end: number): boolean {
  if (at + 2 > end) return false
  const second = bytes[at + 1] as number
  const length = second & LENGTH
  head.isMasked = (second & MASKED) !== 0
  head.bytes = 2
  head.payloadBytes = length
  if (length < IN_2_BYTES) return true
  head.bytes = length === IN_2_BYTES ? 4 : MAX_HEAD_BYTES
  if (at + head.bytes > end) return false
  head.payloadBytes = 0
  for (let index = at + 2; index < at + head.bytes; index++)
    head.payloadBytes = head.payloadBytes * 256 + (bytes[index] as number)
  return true
}

/**
 * Makes a reader of the frames that a server sends (RFC 6455, section 5.2). A message of up to `maxMessageBytes` in one plain
 * frame is read where it lies; ws has everything else, in its order, and decides what breaks the protocol.
 */
export function createFrameReader(maxMessageBytes: number, events: FrameEvents): FrameReader {
  const cut = createCutFrame()
  /** Bytes of the present frame that are still to be handed on. */
  let left = 0
  let isInFragments = false
  let isClosed = false
  /** In the chunk came what ws may find wrong, which it says once the chunk is read: it has the rest of it as well. */
  let isDoubtful = false

  /** Whether the frame at `at`, whose head was read last, is a message that can be read where it lies. */
  function isMessage(bytes: Uint8Array, at: number): boolean {
    const first = bytes[at]
    return (
      (first === TEXT || first === BINARY) &&
      !head.isMasked &&
      head.payloadBytes <= maxMessageBytes &&
      !isInFragments &&
      !isClosed &&
      !isDoubtful &&
      !events.isBehind()
    )
  }

  /** Begins to hand on the frame at `at`, whose head was read last. */
  function handOn(bytes: Uint8Array, at: number): void {
    const first = bytes[at] as number
    const opcode = first & OPCODE
    const isSign = (first === PING || first === PONG) && head.bytes === 2 && !head.isMasked
    isDoubtful ||= !isSign
    if (opcode < CLOSE) isInFragments = (first & FIN) === 0
    else if (opcode === CLOSE) isClosed = true
    left = head.bytes + (head.isMasked ? MASK_BYTES : 0) + head.payloadBytes
  }

  function pass(bytes: Uint8Array, at: number, end: number): number {
    const until = Math.min(at + left, end)
    left -= until - at
    events.other(bytes.subarray(at, until))
    return until
  }

  /** Goes on with the cut frame; returns the place of the next one. */
  function complete(chunk: Uint8Array): number {
    let at = 0
    while (!readHead(cut.bytes, 0, cut.length)) {
      if (at === chunk.length) return at
      at = cut.extend(chunk, at, cut.length < 2 ? 2 : head.bytes)
    }
    if (isMessage(cut.bytes, 0)) {
      const { bytes, payloadBytes } = head
      at = cut.extend(chunk, at, bytes + payloadBytes)
      if (cut.length < bytes + payloadBytes) return at
      cut.length = 0
      events.message(cut.bytes.subarray(bytes, bytes + payloadBytes))
    } else {
      handOn(cut.bytes, 0)
      pass(cut.bytes, 0, cut.length)
      cut.length = 0
    }
    return at
  }

  return function read(chunk) {
    isDoubtful = false
    const end = chunk.length
    let at = cut.length === 0 ? 0 : complete(chunk)
    while (at < end) {
      if (left > 0) at = pass(chunk, at, end)
      else if (!readHead(chunk, at, end)) at = cut.extend(chunk, at, end - at)
      else if (!isMessage(chunk, at)) handOn(chunk, at)
      else {
        const start = at + head.bytes
        const until = start + head.payloadBytes
        if (until > end) at = cut.extend(chunk, at, end - at)
        else {
          at = until
          events.message(chunk.subarray(start, until))
        }
      }
    }
  }
}

/** A frame, or its head, that the end of a chunk has cut. */
interface CutFrame {
  readonly bytes: Uint8Array
  length: number
  /** Adds what lies at `at` in a chunk, up to a length of `size`; returns the place behind it. */
  extend(chunk: Uint8Array, at: number, size: number): number
}

function createCutFrame(): CutFrame {
  let bytes = new Uint8Array(4096)
  return {
    get bytes() {
      return bytes
    },
    length: 0,
    extend(chunk, at, size) {
      const until = Math.min(at + size - this.length, chunk.length)
      const length = this.length + until - at
      if (length > bytes.length) {
        // A length alone makes no memory be taken: the bytes have to come.
        const longer = new Uint8Array(2 * length)
        longer.set(bytes.subarray(0, this.length))
        bytes = longer
      }
      bytes.set(chunk.subarray(at, until), this.length)
      this.length = length
      return until
    },
  }
}
