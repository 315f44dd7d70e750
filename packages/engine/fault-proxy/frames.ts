/** Where a data frame lies among the bytes of its direction. */
export interface FrameSpan {
  readonly number: number
  readonly start: number
  readonly payload: number
  readonly end: number
}

/** Finds the frames among a server's bytes. */
export interface FrameReader {
  /** Adds bytes; returns those that belong to known frames, and the frames that begin in them. */
  readonly read: (chunk: Buffer) => { bytes: Buffer; frames: FrameSpan[] }
  /** Returns and clears the bytes still buffered: an incomplete head of a response or a frame. */
  readonly rest: () => Buffer
  /** Whether the server has answered with 101. */
  readonly isWebSocket: boolean
  readonly count: number
}

const empty = Buffer.alloc(0)
const upgrade = Buffer.from('HTTP/1.1 101')
const headEnd = Buffer.from('\r\n\r\n')
const maxHeadBytes = 65_536

const minHeaderBytes = 2
const maskBytes = 4
const firstControlOpcode = 8

/** The lengths of a frame's header and payload (RFC 6455, 5.2); undefined while the header is incomplete. */
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

/** A reader at the beginning of the response. A response other than 101 has no frames. */
export function createFrameReader(): FrameReader {
  let state: 'head' | 'frames' | 'other' = 'head'
  let buffered: Buffer = empty
  let position = 0
  // The bytes of the current frame that are still to come.
  let left = 0
  let count = 0

  /** The length of the head; undefined while it is incomplete. */
  function headLength(bytes: Buffer): number | undefined {
    const known = Math.min(bytes.length, upgrade.length)
    const isUpgrade = bytes.compare(upgrade, 0, known, 0, known) === 0
    const end = bytes.indexOf(headEnd)
    if (isUpgrade && end >= 0 && known === upgrade.length) {
      state = 'frames'
      return end + headEnd.length
    }
    if (isUpgrade && bytes.length < maxHeadBytes) return undefined
    state = 'other'
    return bytes.length
  }

  /** Finds the frames from an index on; `to` is the end of the bytes whose frames are known. */
  function findFrames(bytes: Buffer, from: number): { to: number; frames: FrameSpan[] } {
    const frames: FrameSpan[] = []
    let at = from
    for (;;) {
      const step = Math.min(left, bytes.length - at)
      at += step
      left -= step
      const size = measure(bytes.subarray(at))
      if (left > 0 || size === undefined) return { to: at, frames }
      const isData = ((bytes[at] as number) & 0x0f) < firstControlOpcode
      const payload = position + at + size.header
      if (isData) {
        count++
        frames.push({ number: count, start: position + at, payload, end: payload + size.payload })
      }
      left = size.header + size.payload
    }
  }

  function read(chunk: Buffer): { bytes: Buffer; frames: FrameSpan[] } {
    const all = buffered.length > 0 ? Buffer.concat([buffered, chunk]) : chunk
    const head = state === 'head' ? headLength(all) : 0
    const { to, frames } =
      head === undefined
        ? { to: 0, frames: [] }
        : state === 'frames'
          ? findFrames(all, head)
          : { to: all.length, frames: [] }
    position += to
    buffered = all.subarray(to)
    return { bytes: all.subarray(0, to), frames }
  }

  return {
    read,
    rest() {
      const rest = buffered
      buffered = empty
      position += rest.length
      return rest
    },
    get isWebSocket() {
      return state === 'frames'
    },
    get count() {
      return count
    },
  }
}
