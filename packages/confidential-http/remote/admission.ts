import { onAbort } from 'sluice/core'
import { Rejection } from './protocol.js'

/**
 * A budget that refills at a steady rate. It may be overspent: then it takes longer to be positive
 * again.
 */
export class TokenBucket {
  readonly #perSecond: number
  readonly #capacity: number
  readonly #now: () => number
  #balance: number
  #updatedAt: number

  /** Makes a full bucket. */
  constructor(perSecond: number, capacity: number, now: () => number = () => performance.now()) {
    this.#perSecond = perSecond
    this.#capacity = capacity
    this.#now = now
    this.#balance = capacity
    this.#updatedAt = now()
  }

  /** Milliseconds until the bucket holds the amount; 0 if it does. */
  msUntil(amount: number): number {
    // Less than a millisecond would be a timer that comes too early.
    return Math.max(0, Math.ceil(((amount - this.#refill()) / this.#perSecond) * 1000))
  }

  spend(amount: number): void {
    this.#balance = this.#refill() - amount
  }

  isFull(): boolean {
    return this.#refill() >= this.#capacity
  }

  #refill(): number {
    const time = this.#now()
    const refilled = this.#balance + ((time - this.#updatedAt) / 1000) * this.#perSecond
    this.#balance = Math.min(this.#capacity, refilled)
    this.#updatedAt = time
    return this.#balance
  }
}

/** Who asks for curve work. */
export interface Asker {
  /** Whether the connection has brought an authentic request before. */
  isProven(): boolean
  /** The address, or the network, of the connection. */
  readonly address: string
  /** Whether authentic requests have come from that address. */
  isKnown(): boolean
  /** Aborts when the connection is closed. */
  readonly signal: AbortSignal
}

/**
 * How many pieces of work a second strangers of one address get, and so many at once after a quiet
 * while.
 */
const PER_SECOND = 20
const BURST = 40
/** Callers may be behind the same address, as that of a reverse proxy. */
const KNOWN_FACTOR = 10
/** How many pieces of work of strangers wait, of one address and of all. */
const MAX_PER_ADDRESS = 256
const MAX_WAITING = 1024
/** How many addresses are remembered. */
const MAX_LINES = 4096

/** Begins the work of somebody who waits. */
type Begin = () => void

/** The strangers of an address. */
interface Line {
  readonly waiting: Set<Begin>
  readonly bucket: TokenBucket
}

/**
 * Admits so much work at once. Proven connections come first. Strangers get the rest, one address
 * after the other, at a bounded rate each: they wait rather than being rejected, because who is
 * answered at once asks again at once.
 */
export class Admission {
  readonly #now: (() => number) | undefined
  readonly #proven = new Set<Begin>()
  /** By address; the address that was served last comes last. */
  readonly #lines = new Map<string, Line>()
  #free: number
  #strangers = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(width: number, now?: () => number) {
    this.#free = width
    this.#now = now
  }

  /**
   * Resolves when work may begin, with a function to call when it has ended. Rejects with Rejection
   * where too many wait.
   */
  enter({ isProven, isKnown, address, signal }: Asker): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const isStranger = !isProven()
      const queue = isStranger ? this.#lineOf(address, isKnown()).waiting : this.#proven
      if (isStranger && (this.#strangers >= MAX_WAITING || queue.size >= MAX_PER_ADDRESS))
        return reject(new Rejection(503, 'the enclave is overloaded', false))
      const begin = (): void => {
        forget()
        resolve(() => {
          this.#free++
          this.#serve()
        })
      }
      const forget = onAbort(signal, () => {
        if (queue.delete(begin) && isStranger) this.#strangers--
        reject(signal.reason)
      })
      queue.add(begin)
      if (isStranger) this.#strangers++
      this.#serve()
    })
  }

  #lineOf(network: string, isKnown: boolean): Line {
    const address = isKnown ? `known ${network}` : network
    const found = this.#lines.get(address)
    if (found !== undefined) return found
    if (this.#lines.size >= MAX_LINES)
      for (const [each, { waiting, bucket }] of this.#lines)
        if (waiting.size === 0 && bucket.isFull()) this.#lines.delete(each)
    const factor = isKnown ? KNOWN_FACTOR : 1
    const bucket = new TokenBucket(PER_SECOND * factor, BURST * factor, this.#now)
    const line: Line = { waiting: new Set(), bucket }
    this.#lines.set(address, line)
    return line
  }

  #serve(): void {
    while (this.#free > 0) {
      const [first] = this.#proven
      if (first !== undefined) this.#proven.delete(first)
      const begin = first ?? this.#takeStranger()
      if (begin === undefined) return
      this.#free--
      begin()
    }
  }

  #takeStranger(): Begin | undefined {
    let soonest = Number.POSITIVE_INFINITY
    for (const [address, line] of this.#lines) {
      const [begin] = line.waiting
      if (begin === undefined) continue
      const wait = line.bucket.msUntil(1)
      soonest = Math.min(soonest, wait)
      if (wait > 0) continue
      line.waiting.delete(begin)
      line.bucket.spend(1)
      this.#strangers--
      this.#lines.delete(address)
      this.#lines.set(address, line)
      return begin
    }
    clearTimeout(this.#timer)
    if (soonest < Number.POSITIVE_INFINITY)
      this.#timer = setTimeout(() => this.#serve(), soonest).unref()
    return undefined
  }
}
