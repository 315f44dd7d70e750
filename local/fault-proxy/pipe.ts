import type { Socket } from 'node:net'
import type { Cutter, Strike } from './cutter.js'
import { createThrottle } from './throttle.js'
import type { Toxics } from './toxics.js'

/** One direction of a connection: all that happens to it happens in order, ends and resets too. */
export interface Pipe {
  /** Lets nothing through until the function returned is called, once. */
  readonly hold: () => () => void
  /** Takes a change of the toxics into account. */
  readonly update: () => void
  /** Flips a bit of each of the next so many bytes. */
  readonly corruptNext: (count: number) => void
  /** Ends it now, with a FIN: what comes later is dropped. */
  readonly end: () => void
  /** How many bytes have gone through. */
  readonly bytes: number
  /** Resets the receiver, once it has had the time to read what was written. */
  readonly reset: () => void
  /** Forgets what is under way. */
  readonly clear: () => void
}

/** What a pipe is made of. */
export interface PipeParts {
  readonly from: Socket
  readonly to: Socket
  readonly cutter: Cutter
  readonly toxics: () => Toxics
  readonly random: () => number
  /** Does what a rule says, once all before it has gone out. */
  readonly onStrike: (strike: Strike) => void
  /** Hears that the sender has sent its FIN, or is gone. */
  readonly onEnd: (error: string | undefined) => void
}

interface Item {
  readonly bytes: Buffer | undefined
  /** What happens instead of bytes. */
  readonly act: (() => void) | undefined
  readonly since: number
  /** Its part of the jitter, -1 to 1. */
  readonly luck: number
}

// Node takes a reset for a plain end if it comes while there are still bytes to read, so they are given that long.
const settleMs = 20

// More is left with the sender.
const mostQueuedBytes = 1024 * 1024
const longestWaitMs = 2 ** 31 - 1

/** A pipe between two sockets, of which neither need be open yet. */
export function createPipe(parts: PipeParts): Pipe {
  const { from, to, cutter, toxics, random, onStrike, onEnd } = parts
  const throttle = createThrottle()
  let queue: Item[] = []
  let queuedBytes = 0
  let unwritten = 0
  let holds = 0
  let passed = 0
  let wroteAt = Number.NEGATIVE_INFINITY
  let isEnded = false
  let timer: NodeJS.Timeout | undefined
  let resetting: NodeJS.Timeout | undefined

  function add(what: Buffer | (() => void)): void {
    const bytes = typeof what === 'function' ? undefined : what
    const act = typeof what === 'function' ? what : undefined
    queuedBytes += bytes?.length ?? 0
    queue.push({ bytes, act, since: performance.now(), luck: random() * 2 - 1 })
  }

  function drop(): void {
    clearTimeout(timer)
    queue = []
    queuedBytes = 0
  }

  function pumpIn(ms: number): void {
    timer = setTimeout(pump, Math.min(Math.max(1, Math.ceil(ms)), longestWaitMs))
  }

  function write(first: Item, bytes: Buffer, count: number): void {
    if (count === bytes.length) queue.shift()
    else queue[0] = { ...first, bytes: bytes.subarray(count) }
    queuedBytes -= count
    passed += count
    unwritten++
    wroteAt = performance.now()
    to.write(bytes.subarray(0, count), function written() {
      unwritten--
      pump()
    })
  }

  /** Lets the first of the queue through. Returns whether the next one may be looked at. */
  function step(first: Item): boolean {
    const { latencyMs, jitterMs, bytesPerSecond } = toxics()
    const delay = Math.max(0, latencyMs + first.luck * jitterMs)
    const left = first.since + delay - performance.now()
    if (left > 0) {
      pumpIn(left)
      return false
    }
    if (first.bytes === undefined) {
      // A reset would take what isn't written yet with it.
      if (unwritten > 0) return false
      queue.shift()
      first.act?.()
      return true
    }
    if (!to.writable) {
      queue.shift()
      queuedBytes -= first.bytes.length
      return true
    }
    if (to.writableNeedDrain) return false
    const count = throttle.take(first.bytes.length, bytesPerSecond)
    if (count === 0) pumpIn(throttle.wait(first.bytes.length, bytesPerSecond))
    else write(first, first.bytes, count)
    return count > 0
  }

  function pump(): void {
    clearTimeout(timer)
    for (let first = queue[0]; first !== undefined && holds === 0; first = queue[0]) {
      if (to.destroyed) drop()
      else if (!step(first)) break
    }
    if (queuedBytes >= mostQueuedBytes) from.pause()
    else if (from.isPaused()) from.resume()
  }

  function end(): void {
    drop()
    isEnded = true
    if (!to.destroyed) to.end()
  }

  function reset(): void {
    const wait = wroteAt + settleMs - performance.now()
    // One that isn't there yet would be reset once it is.
    if (to.pending) to.destroy()
    else if (wait <= 0) to.resetAndDestroy()
    // A receiver in this very process reads before immediates run, however late timers are.
    else resetting ??= setTimeout(() => setImmediate(() => to.resetAndDestroy()), wait)
  }

  from.on('data', function arrived(chunk: Buffer) {
    if (isEnded) return
    for (const piece of cutter.cut(chunk))
      add(Buffer.isBuffer(piece) ? piece : () => onStrike(piece))
    pump()
  })
  from.once('end', function finished() {
    onEnd(undefined)
    if (isEnded) return
    const rest = cutter.end()
    if (rest.length > 0) add(rest)
    add(end)
    pump()
  })
  from.on('error', function failed(error: NodeJS.ErrnoException) {
    onEnd(error.code ?? error.message)
    add(reset)
    pump()
  })

  return {
    hold() {
      holds++
      return function release() {
        holds--
        pump()
      }
    },
    update: pump,
    corruptNext: cutter.corruptNext,
    end,
    reset,
    get bytes() {
      return passed
    },
    clear() {
      clearTimeout(resetting)
      drop()
    },
  }
}
