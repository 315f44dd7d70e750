import type { Writable } from 'node:stream'
import * as ws from 'ws'
import { createFrameReader } from '../../../platform/node/fast-socket.js'
import type { Target } from '../../support/fuzz/fuzz.js'
import { mutateBytes } from '../../support/fuzz/mutations.js'
import { assert, ofBytes } from '../../support/fuzz/target.js'
import type { Dice } from '../dice.js'

/** The receiver of ws, which its types leave out. */
const { Receiver } = ws as unknown as {
  readonly Receiver: new (options: object) => Writable
}

const MAX_MESSAGE_BYTES = 1000
const MAX_HEAD_BYTES = 14

interface Connection {
  readonly bytes: Uint8Array
  /** Where its chunks end. */
  readonly cuts: readonly number[]
  /** One plain message in so many finds ws behind. */
  readonly behind: number
}

/** Frames of all kinds, in chunks of any size: our reader and the receiver of ws together see what that receiver sees alone. */
export const connections: Target<Connection> = {
  name: 'frames of a connection',
  make(dice) {
    const frames = Array.from({ length: 1 + dice.below(6) }, () => makeFrame(dice))
    const whole = Buffer.concat(frames)
    const mutated = dice.once(6) ? mutateBytes([whole], dice) : whole
    // ws reports what is wrong with a head before all of it has come.
    const bytes = Buffer.concat([mutated, new Uint8Array(MAX_HEAD_BYTES)])
    const cuts = Array.from({ length: dice.length(4) }, () => dice.below(bytes.length + 1))
    cuts.sort((one, other) => one - other)
    return { bytes, cuts, behind: dice.once(2) ? 0 : 1 + dice.below(4) }
  },
  read({ bytes, cuts, behind }) {
    const { receiver, events } = openReceiver()
    let plain = 0
    let isOver = false
    const read = createFrameReader(MAX_MESSAGE_BYTES, {
      message(data) {
        if (!isOver) events.push(eventOf('message', data))
      },
      other(data) {
        if (!receiver.writableEnded) receiver.write(Buffer.from(data))
      },
      isBehind: () => behind > 0 && ++plain % behind === 0,
    })
    for (const chunk of chunksOf(bytes, cuts)) {
      // ws emits an error after the chunk.
      isOver = receiver.errored !== null
      read(chunk)
    }
    return [...events, `${receiver.errored}`]
  },
  check(result, { bytes }) {
    const { receiver, events } = openReceiver()
    receiver.write(bytes)
    events.push(`${receiver.errored}`)
    assert(String(result) === String(events), `what the receiver of ws reads: ${events}\n${result}`)
  },
  isTotal: true,
  show: ({ bytes, cuts, behind }) => `${ofBytes.show(bytes)}, cut at ${cuts}, behind ${behind}`,
  sizeOf: ({ bytes }) => bytes.length,
}

/** One buffer for all chunks, as a socket has it: what is not copied in time is lost. */
function* chunksOf(bytes: Uint8Array, cuts: readonly number[]): Generator<Uint8Array> {
  const buffer = new Uint8Array(bytes.length)
  let start = 0
  for (const end of [...cuts, bytes.length]) {
    buffer.fill(0xee)
    buffer.set(bytes.subarray(start, end))
    yield buffer.subarray(0, end - start)
    start = end
  }
}

function eventOf(name: string, data: Uint8Array): string {
  return `${name} ${Buffer.from(data).toString('hex')}`
}

function openReceiver() {
  const receiver = new Receiver({
    allowSynchronousEvents: true,
    isServer: false,
    maxPayload: MAX_MESSAGE_BYTES,
    skipUTF8Validation: true,
  })
  const events: string[] = []
  for (const name of ['message', 'ping', 'pong'])
    receiver.on(name, data => void events.push(eventOf(name, data)))
  receiver.on('conclude', code => void events.push(`conclude ${code}`))
  receiver.on('error', () => undefined)
  return { receiver, events }
}

function makeFrame(dice: Dice): Uint8Array {
  const control = dice.once(5)
  const opcode = control ? dice.pick([9, 10, 9, 10, 8, 11]) : dice.pick([1, 2, 1, 2, 0, 0, 3])
  const isFinal = control ? !dice.once(20) : !dice.once(4)
  const reserved = dice.once(40) ? 1 << (4 + dice.below(3)) : 0
  const length = control && !dice.once(20) ? dice.length(7) % 126 : dice.length(11)
  const payload = new Uint8Array(length).fill(dice.below(256))
  if (opcode === 8 && length >= 2) payload.set([3, 232])
  const mask = dice.once(30) ? [1, 2, 3, 4] : []
  const first = (isFinal ? 0x80 : 0) | reserved | opcode
  return Buffer.concat([
    headOf(first, length, mask.length > 0, dice),
    new Uint8Array(mask),
    payload,
  ])
}

/** Lengths are mostly written as short as they can be. */
function headOf(first: number, length: number, isMasked: boolean, dice: Dice): Uint8Array {
  const mask = isMasked ? 0x80 : 0
  const size = dice.once(20) ? 8 : length < 126 && !dice.once(20) ? 0 : 2
  if (size === 0) return Uint8Array.of(first, mask | length)
  if (size === 2) return Uint8Array.of(first, mask | 126, length >> 8, length & 255)
  const head = Buffer.alloc(10)
  head.set([first, mask | 127])
  head.writeBigUInt64BE(dice.once(8) ? 1n << BigInt(dice.below(64)) : BigInt(length), 2)
  return head
}
