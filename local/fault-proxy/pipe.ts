import type { Socket } from 'node:net'
import type { Cutter, Strike } from './cutter.js'
import { createSendQueue } from './send-queue.js'
import type { Toxics } from './toxics.js'

/** One direction of a connection. Bytes, faults, ends and resets keep their order. */
export interface Pipe {
  /** Lets nothing through until the returned function is called, once. */
  readonly hold: () => () => void
  /** Applies changed toxics. */
  readonly update: () => void
  /** Flips a bit of each of the next `count` bytes. */
  readonly corruptNext: (count: number) => void
  /** Sends a FIN now and drops what comes later. */
  readonly end: () => void
  /** How many bytes have gone through. */
  readonly bytes: number
  /** Resets the receiver, after it has had time to read what was written. */
  readonly reset: () => void
  /** Discards what is queued. */
  readonly clear: () => void
}

/** The parts of a pipe. */
export interface PipeParts {
  readonly from: Socket
  readonly to: Socket
  readonly cutter: Cutter
  readonly toxics: () => Toxics
  readonly random: () => number
  /** Applies a rule, once everything before it is written. */
  readonly onStrike: (strike: Strike) => void
  /** Called when the sender has sent its FIN, or is gone. */
  readonly onEnd: (error: string | undefined) => void
}

// Node reports a reset as a plain end if bytes are still unread when it comes.
const readMs = 20

/** A pipe between two sockets, which need not be open yet. */
export function createPipe(parts: PipeParts): Pipe {
  const { from, to, cutter, toxics, random, onStrike, onEnd } = parts
  const queue = createSendQueue(to, toxics, random, function limitQueue() {
    if (queue.isFull) from.pause()
    else if (from.isPaused()) from.resume()
  })
  let isEnded = false
  let resetting: NodeJS.Timeout | undefined

  function end(): void {
    queue.clear()
    isEnded = true
    if (!to.destroyed) to.end()
  }

  function reset(): void {
    const wait = queue.lastWrite + readMs - performance.now()
    // A socket that is still connecting would be reset only once it is connected.
    if (to.pending) to.destroy()
    else if (wait <= 0) to.resetAndDestroy()
    // A receiver in this process reads before immediates run, however late timers are.
    else resetting ??= setTimeout(() => setImmediate(() => to.resetAndDestroy()), wait)
  }

  from.on('data', function onData(chunk: Buffer) {
    if (isEnded) return
    for (const piece of cutter.cut(chunk))
      queue.add(Buffer.isBuffer(piece) ? piece : () => onStrike(piece))
    queue.pump()
  })
  from.once('end', function onFIN() {
    onEnd(undefined)
    if (isEnded) return
    const rest = cutter.end()
    if (rest.length > 0) queue.add(rest)
    queue.add(end)
    queue.pump()
  })
  from.on('error', function onError(error: NodeJS.ErrnoException) {
    onEnd(error.code ?? error.message)
    queue.add(reset)
    queue.pump()
  })

  return {
    hold: queue.hold,
    update: queue.pump,
    corruptNext: cutter.corruptNext,
    end,
    reset,
    get bytes() {
      return queue.sentBytes
    },
    clear() {
      clearTimeout(resetting)
      queue.clear()
    },
  }
}
