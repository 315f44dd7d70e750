/** Where a frame of data lies among the bytes of its direction. */
export interface FrameSpan {
  /** From 1. */
  readonly number: number
  readonly start: number
  readonly payload: number
  readonly end: number
}

/** Finds the frames among a server's bytes. */
export interface FrameReader {
  /** Takes bytes in, and gives those whose frames are known, with the frames that begin in them. */
  readonly read: (chunk: Buffer) => { bytes: Buffer; frames: FrameSpan[] }
  /** The bytes still held back: no more than the head of an answer or of a frame. */
  readonly rest: () => Buffer
  /** Whether the server has answered with 101. */
  readonly isWebSocket: boolean
  /** How many frames of data have begun. */
  readonly count: number
}

const empty = Buffer.alloc(0)
const upgrade = Buffer.from('HTTP/1.1 101')
const headEnd = Buffer.from('\r\n\r\n')
const mostHeadBytes = 65_536

const shortestHeader = 2
const maskBytes = 4
const firstControlOpcode = 8

/** The lengths of a frame's header and payload; undefined if there is too little of it to tell. */
function measure(bytes: Buffer): { header: number; payload: number } | undefined {
  if (bytes.length < shortestHeader) return undefined
  const second = bytes[1] as number
  const length = second & 0x7f
  const lengthBytes = length === 127 ? 8 : length === 126 ? 2 : 0
  const header = shortestHeader + lengthBytes + (second & 0x80 ? maskBytes : 0)
  if (bytes.length < header) return undefined
  if (lengthBytes === 0) return { header, payload: length }
  const payload =
    lengthBytes === 2
      ? bytes.readUInt16BE(shortestHeader)
      : Number(bytes.readBigUInt64BE(shortestHeader))
  return { header, payload }
}

/** A reader that is at the beginning of the answer. What does not begin with 101 has no frames. */
export function createFrameReader(): FrameReader {
  let state: 'head' | 'frames' | 'other' = 'head'
  let held: Buffer = empty
  // The bytes given out, and of the frame at hand those still to come.
  let passed = 0
  let left = 0
  let count = 0

  /** How many bytes the head has; undefined while it isn't whole. */
  function headLength(bytes: Buffer): number | undefined {
    const known = Math.min(bytes.length, upgrade.length)
    const isUpgrade = bytes.compare(upgrade, 0, known, 0, known) === 0
    const end = bytes.indexOf(headEnd)
    if (isUpgrade && end >= 0 && known === upgrade.length) {
      state = 'frames'
      return end + headEnd.length
    }
    if (isUpgrade && bytes.length < mostHeadBytes) return undefined
    state = 'other'
    return bytes.length
  }

  /** Walks over the frames from a place on; returns them, and up to where they are known. */
  function walk(bytes: Buffer, from: number): { to: number; frames: FrameSpan[] } {
    const frames: FrameSpan[] = []
    let at = from
    for (;;) {
      const step = Math.min(left, bytes.length - at)
      at += step
      left -= step
      const size = measure(bytes.subarray(at))
      if (left > 0 || size === undefined) return { to: at, frames }
      const isData = ((bytes[at] as number) & 0x0f) < firstControlOpcode
      const payload = passed + at + size.header
      if (isData) {
        count++
        frames.push({ number: count, start: passed + at, payload, end: payload + size.payload })
      }
      left = size.header + size.payload
    }
  }

  function read(chunk: Buffer): { bytes: Buffer; frames: FrameSpan[] } {
    const all = held.length > 0 ? Buffer.concat([held, chunk]) : chunk
    const head = state === 'head' ? headLength(all) : 0
    const { to, frames } =
      head === undefined
        ? { to: 0, frames: [] }
        : state === 'frames'
          ? walk(all, head)
          : { to: all.length, frames: [] }
    passed += to
    held = all.subarray(to)
    return { bytes: all.subarray(0, to), frames }
  }

  return {
    read,
    rest() {
      const rest = held
      held = empty
      passed += rest.length
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
