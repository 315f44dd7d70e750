import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { setImmediate } from '../globals.js'
import { createAnswerReader } from './answer.js'
import { createFrameReader } from './frames.js'

/**
 * A stream between a socket and ws. ws reads from it the answer to the upgrade, and of what follows all but the messages in
 * plain frames, which are read where they lie: ws takes as long for one as all the rest of the client does.
 */
export interface Carrier {
  /** What ws reads and writes. */
  readonly stream: Duplex
  /** Writes to the socket, and reads what it emits as data. */
  carry(socket: Socket): void
  /** Reads the first bytes of a buffer, which may change when the call returns; true, to go on. */
  readonly read: (bytes: number, buffer: Uint8Array) => true
  /** ws has accepted the upgrade: messages in plain frames go to `message` from now on. */
  readMessages(message: (data: Uint8Array) => void): void
  /** ws has all that comes from now on. */
  handOverAll(): void
  /** Stops reading from the socket. */
  pause(): void
  /** Reads on after `pause`. */
  resume(): void
}

const NONE: Buffer = Buffer.alloc(0)

/** Makes a carrier of messages with at most so many bytes. */
export function createCarrier(maxMessageBytes: number): Carrier {
  let socket: Socket | undefined
  let take: (bytes: Uint8Array) => void = createAnswerReader(handOver, rest => {
    take = hold
    held = rest
  })
  /** What came behind the answer, until ws has accepted it. */
  let held = NONE
  /** What ended the connection while ws had not accepted the upgrade, or what came with it was not read yet. */
  let end: (() => void) | undefined
  let isPaused = false
  /** ws takes no more for now. */
  let isFull = false
  const stream = createStream(() => socket, readOn)

  function flow(): void {
    if (isPaused || isFull) socket?.pause()
    else socket?.resume()
  }

  function readOn(): void {
    isFull = false
    flow()
  }

  /** Hands ws a copy, since it may take it later. */
  function handOver(bytes: Uint8Array): void {
    if (stream.push(Buffer.from(bytes)) || isFull) return
    isFull = true
    flow()
  }

  function hold(bytes: Uint8Array): void {
    held = Buffer.concat([held, bytes])
  }

  /** What came with the answer is read once the listeners know that it is open. */
  function continueWith(taker: (bytes: Uint8Array) => void): void {
    setImmediate(() => {
      take = taker
      const first = held
      held = NONE
      if (first.length > 0) read(first.length, first)
      end?.()
    })
  }

  /** Ends the stream, once what came with the answer is read. */
  function endBy(work: () => void): void {
    if (take === hold) end ??= work
    else work()
  }

  function read(bytes: number, buffer: Uint8Array): true {
    if (!stream.destroyed) take(buffer.subarray(0, bytes))
    return true
  }

  return {
    stream,
    read,
    carry(opened) {
      socket = opened
      opened.setNoDelay()
      opened.on('data', (data: Buffer) => read(data.length, data))
      opened.on('error', error => endBy(() => stream.destroy(error)))
      opened.on('end', () => endBy(() => stream.push(null)))
      opened.on('close', () => {
        if (!opened.readableEnded) endBy(() => stream.destroy())
      })
      flow()
    },
    readMessages(message) {
      const isBehind = (): boolean => stream.readableLength > 0
      continueWith(createFrameReader(maxMessageBytes, { message, other: handOver, isBehind }))
    },
    handOverAll() {
      if (take === hold) continueWith(handOver)
      else take = handOver
    },
    pause() {
      isPaused = true
      flow()
    },
    resume() {
      isPaused = false
      flow()
    },
  }
}

/** Makes the stream that writes to a socket and ends with it. */
function createStream(socketOf: () => Socket | undefined, readOn: () => void): Duplex {
  return new Duplex({
    allowHalfOpen: false,
    read: readOn,
    writev(chunks, done) {
      const socket = socketOf()
      socket?.cork()
      for (const [index, { chunk }] of chunks.entries())
        socket?.write(chunk, index === chunks.length - 1 ? done : undefined)
      socket?.uncork()
    },
    final(done) {
      const socket = socketOf()
      if (socket?.destroyed === false) socket.end(() => done())
      else done()
    },
    destroy(error, done) {
      socketOf()?.destroy()
      done(error)
    },
  })
}
