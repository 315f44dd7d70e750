import type { Socket } from 'node:net'
import { MAX_TIMER } from 'sluice/core'
import { BitFlips, Cutter, type FrameReader } from './cutter.js'
import type { EventDetails, ProxyEventName } from './log.js'
import { sumToxics, type Toxics } from './options.js'
import type { ConnectionScript, Direction, Strike } from './rules.js'

/**
 * How long a receiver has to read its bytes before a reset: so many waits, each of so many
 * milliseconds and a turn of the event loop. Otherwise, Node would report the reset as a plain end.
 */
const [readWaits, readWaitMs] = [4, 5]
/** How many bytes a pipe queues at most. Further bytes stay with the sender. */
const maxQueuedBytes = 1024 * 1024
/**
 * A throttled direction sends its bytes in portions. One portion takes this many milliseconds at
 * the allowed rate.
 */
const portionMs = 20
/** A throttled direction can save unused time, up to this many milliseconds. */
const savedMs = 100

/** Creates a token bucket that starts empty. */
function createThrottle() {
  let saved = 0
  let since = performance.now()

  /** How many bytes are enough for a separate write. */
  const portionOf = (wanted: number, perMs: number): number =>
    Math.max(1, Math.min(wanted, Math.floor(portionMs * perMs)))

  return {
    /** How many of the wanted bytes may be sent now. */
    take(wanted: number, bytesPerSecond: number): number {
      if (bytesPerSecond === Number.POSITIVE_INFINITY) return wanted
      const now = performance.now()
      const perMs = bytesPerSecond / 1000
      saved = Math.min(saved + (now - since) * perMs, Math.max(1, savedMs * perMs))
      since = now
      if (saved < portionOf(wanted, perMs)) return 0
      const taken = Math.min(wanted, Math.floor(saved))
      saved -= taken
      return taken
    },
    /** Milliseconds until `take` may return more than 0. */
    wait(wanted: number, bytesPerSecond: number): number {
      const perMs = bytesPerSecond / 1000
      return (portionOf(wanted, perMs) - saved) / perMs
    },
  }
}

/** Bytes, or an action to run once everything before it is written. */
type Content = Buffer | (() => void)

interface Item {
  readonly content: Content
  readonly since: number
  /** This item's share of the jitter, -1 to 1. */
  readonly jitter: number
}

/** The connection that a pipe belongs to. */
export interface PipeOwner {
  readonly script: ConnectionScript
  /** The toxics of the proxy as a whole. */
  readonly toxics: Readonly<Record<Direction, Toxics>>
  random(purpose: string): () => number
  note(event: ProxyEventName, details: EventDetails): void
  /** Applies a rule, once everything before it is written. */
  strike(strike: Strike): void
}

/** One direction of a connection. Bytes, faults, ends and resets keep their order. */
export class Pipe {
  /** The toxics of this direction of this connection, in addition to the toxics of the proxy. */
  readonly toxics: Set<Partial<Toxics>> = new Set()
  /** How many bytes have gone through. */
  bytes = 0
  readonly #direction: Direction
  readonly #from: Socket
  readonly #to: Socket
  readonly #owner: PipeOwner
  readonly #jitter: () => number
  readonly #cutter: Cutter
  readonly #throttle = createThrottle()
  #items: Item[] = []
  #queuedBytes = 0
  #pendingWrites = 0
  #holds = 0
  #timer: NodeJS.Timeout | undefined
  #resetting: NodeJS.Timeout | undefined
  #isEnded = false

  /**
   * Connects two sockets, which need not be open yet. `reader` finds the frames, if this direction
   * has frames.
   */
  constructor(
    direction: Direction,
    from: Socket,
    to: Socket,
    owner: PipeOwner,
    reader?: FrameReader,
  ) {
    this.#direction = direction
    this.#from = from
    this.#to = to
    this.#owner = owner
    this.#jitter = owner.random(`jitter ${direction}`)
    const flips = new BitFlips(
      owner.random(`corrupt ${direction}`),
      () => this.#allToxics().corruptRate,
      (bytes, strike) => {
        const cause = strike && { rule: strike.rule.index, frame: strike.frame }
        owner.note('corrupt', { direction, bytes, ...cause })
      },
    )
    this.#cutter = new Cutter(direction, owner.script, flips, reader)
    from.on('data', (chunk: Buffer) => {
      if (this.#isEnded) return
      for (const piece of this.#cutter.cut(chunk))
        this.#add(Buffer.isBuffer(piece) ? piece : () => owner.strike(piece))
      this.pump()
    })
    from.once('end', () => {
      owner.note('end', { direction })
      if (this.#isEnded) return
      const rest = reader?.rest()
      if (rest !== undefined && rest.length > 0) this.#add(rest)
      this.#add(() => this.end())
      this.pump()
    })
    from.on('error', (error: NodeJS.ErrnoException) => {
      owner.note('error', { direction, error: error.code ?? error.message })
      this.#add(() => this.reset())
      this.pump()
    })
  }

  /** Flips a bit of each of the next `count` bytes. */
  corruptNext(count: number): void {
    this.#cutter.corruptNext(count)
  }

  /** Lets nothing through until the returned function is called. Call that function only once. */
  hold(): () => void {
    this.#holds++
    return () => {
      this.#holds--
      this.pump()
    }
  }

  /** Sends a FIN now, and drops queued and later bytes. */
  end(): void {
    this.#clearQueue()
    this.#isEnded = true
    if (!this.#to.destroyed) this.#to.end()
  }

  /** Resets the receiver, after it has had time to read what was written. */
  reset(): void {
    const to = this.#to
    // A socket that is still connecting would be reset only once it is connected.
    if (to.pending) to.destroy()
    else if (this.bytes === 0) to.resetAndDestroy()
    else if (this.#resetting === undefined) this.#resetAfter(readWaits)
  }

  /**
   * Resets the receiver after so many waits. The process may have stood still, so the time alone
   * says nothing: a receiver in this process reads before the immediates of a turn run.
   */
  #resetAfter(waits: number): void {
    this.#resetting = setTimeout(
      () =>
        setImmediate(() => {
          if (this.#to.destroyed) return
          if (waits > 1) this.#resetAfter(waits - 1)
          else this.#to.resetAndDestroy()
        }),
      readWaitMs,
    )
  }

  /** Discards the queued bytes and actions. */
  clear(): void {
    clearTimeout(this.#resetting)
    this.#clearQueue()
  }

  /** Sends as much as toxics and holds allow now. */
  pump(): void {
    clearTimeout(this.#timer)
    for (
      let first = this.#items[0];
      first !== undefined && this.#holds === 0;
      first = this.#items[0]
    ) {
      if (this.#to.destroyed) this.#clearQueue()
      else if (!this.#sendFirst(first)) break
    }
    if (this.#queuedBytes >= maxQueuedBytes) this.#from.pause()
    else if (this.#from.isPaused()) this.#from.resume()
  }

  #allToxics(): Toxics {
    return sumToxics([this.#owner.toxics[this.#direction], ...this.toxics])
  }

  #add(content: Content): void {
    if (typeof content !== 'function') this.#queuedBytes += content.length
    this.#items.push({ content, since: performance.now(), jitter: this.#jitter() * 2 - 1 })
  }

  #clearQueue(): void {
    clearTimeout(this.#timer)
    this.#items = []
    this.#queuedBytes = 0
  }

  /** Calls `pump` after `ms`. Returns false, because nothing else may be sent until then. */
  #pumpIn(ms: number): false {
    const wait = Math.min(Math.max(1, Math.ceil(ms)), MAX_TIMER)
    this.#timer = setTimeout(() => this.pump(), wait)
    return false
  }

  /** Sends the first item, or a part of it. Returns whether the next one may follow now. */
  #sendFirst(first: Item): boolean {
    const { latencyMs, jitterMs, bytesPerSecond } = this.#allToxics()
    const delay = Math.max(0, latencyMs + first.jitter * jitterMs)
    const left = first.since + delay - performance.now()
    if (left > 0) return this.#pumpIn(left)
    const { content } = first
    if (typeof content === 'function') {
      // A reset would discard bytes that are not written yet.
      if (this.#pendingWrites > 0) return false
      this.#items.shift()
      content()
      return true
    }
    if (!this.#to.writable) {
      this.#remove(first, content, content.length)
      return true
    }
    if (this.#to.writableNeedDrain) return false
    const count = this.#throttle.take(content.length, bytesPerSecond)
    if (count === 0) return this.#pumpIn(this.#throttle.wait(content.length, bytesPerSecond))
    this.#remove(first, content, count)
    this.#write(content.subarray(0, count))
    return true
  }

  #remove(first: Item, bytes: Buffer, count: number): void {
    if (count === bytes.length) this.#items.shift()
    else this.#items[0] = { ...first, content: bytes.subarray(count) }
    this.#queuedBytes -= count
  }

  #write(bytes: Buffer): void {
    this.bytes += bytes.length
    this.#pendingWrites++
    this.#to.write(bytes, () => {
      this.#pendingWrites--
      this.pump()
    })
  }
}
