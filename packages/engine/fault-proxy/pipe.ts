import type { Socket } from 'node:net'
import { seededRandom } from '../random.js'
import { createBitFlips } from './bit-flips.js'
import { createCutter } from './cutter.js'
import type { FrameReader } from './frames.js'
import type { EventDetails, ProxyEventName } from './log.js'
import type { Direction } from './rules.js'
import type { ConnectionScript, Strike } from './script.js'
import { createSendQueue } from './send-queue.js'
import { sumToxics, type Toxics } from './toxics.js'

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
  /** Discards the queued bytes and actions. */
  readonly clear: () => void
}

/** Both directions of a connection. */
export interface Pipes extends Readonly<Record<Direction, Pipe>> {
  /** Applies changed toxics. */
  readonly update: () => void
  /** Resets both sockets. */
  readonly reset: () => void
  readonly clear: () => void
}

/** What the pipes of a connection are made from. */
export interface PipeParts {
  readonly number: number
  readonly seed: number
  readonly script: ConnectionScript
  /** The toxics of the proxy as a whole. */
  readonly toxics: Readonly<Record<Direction, Toxics>>
}

/** The context of the pipes of a connection. */
export interface PipeContext {
  readonly parts: PipeParts
  /** The toxics of this connection alone. */
  readonly toxics: Readonly<Record<Direction, Set<Partial<Toxics>>>>
  readonly note: (event: ProxyEventName, details: EventDetails) => void
  /** Applies a rule, once everything before it is written. */
  readonly onStrike: (strike: Strike) => void
}

// Node reports a reset as a plain end if bytes are still unread when it comes.
const readMs = 20

/** A pipe between two sockets, which need not be open yet; `reader` finds its frames, if it has any. */
export function createPipe(
  direction: Direction,
  from: Socket,
  to: Socket,
  { parts, toxics: own, note, onStrike }: PipeContext,
  reader?: FrameReader,
): Pipe {
  const random = (purpose: string): (() => number) =>
    seededRandom(parts.seed, `${purpose} ${direction} connection ${parts.number}`)
  const toxics = (): Toxics => sumToxics([parts.toxics[direction], ...own[direction]])
  const queue = createSendQueue(to, toxics, random('jitter'), function limitQueue() {
    if (queue.isFull) from.pause()
    else if (from.isPaused()) from.resume()
  })
  const flips = createBitFlips(
    random('corrupt'),
    () => toxics().corruptRate,
    function onFlip(bytes, strike) {
      const cause = strike && { rule: strike.rule.index, frame: strike.frame }
      note('corrupt', { direction, bytes, ...cause })
    },
  )
  const cutter = createCutter(direction, parts.script, flips, reader)
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
    note('end', { direction })
    if (isEnded) return
    const rest = cutter.end()
    if (rest.length > 0) queue.add(rest)
    queue.add(end)
    queue.pump()
  })
  from.on('error', function onError(error: NodeJS.ErrnoException) {
    note('error', { direction, error: error.code ?? error.message })
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
