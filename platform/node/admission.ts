import { isIPv6 } from 'node:net'
import { onAbort } from '../../core/async.js'

/**
 * A budget that refills at a steady rate. It may be overspent: then it takes longer to become
 * positive again.
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

  /** Milliseconds until the bucket contains the amount; 0 if it already does. */
  msUntil(amount: number): number {
    // Rounded up, because otherwise a timer could fire too early.
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

/** The connection that asks for work. */
export interface Asker {
  /**
   * The caller whose authentic request the connection has brought last. Undefined for the
   * connection of a stranger.
   */
  caller(): string | undefined
  /** The address, or the network, of the connection. */
  readonly address: string
  /** True if authentic requests have come from that address. */
  isKnown(): boolean
  /** Aborts when the connection is closed. */
  readonly signal: AbortSignal
}

/** The most tasks a second, on average, of the strangers of one address. */
const PER_SECOND = 20
/** The most tasks that these strangers get at once after a quiet time. */
const BURST = 40
/**
 * Known addresses get this many times more, because several callers may share an address, such as
 * that of a reverse proxy.
 */
const KNOWN_FACTOR = 10
/** The most tasks that may wait for the strangers of one address. */
const MAX_PER_ADDRESS = 256
/** The most tasks that may wait for all strangers together. */
const MAX_WAITING = 1024
/** Above this number of addresses, idle ones are forgotten. */
const MAX_LINES = 4096

/** If strangers wait, one of this many tasks is theirs. */
const STRANGERS_EVERY = 4

/** An asker that waits. */
interface Waiting {
  begin(): void
  refuse(): void
}

/** The strangers of one address. */
interface Line {
  readonly waiting: Set<Waiting>
  readonly bucket: TokenBucket
}

/**
 * Limits how much work is done at the same time. The connections of callers come first, one caller
 * after the other: a caller with a hundred tasks delays another by one of them. Strangers get the
 * rest, and a fourth at least, one address after the other, each address at a limited rate.
 * Strangers wait and are not rejected at once, because a client that is answered at once asks again
 * at once. If too many wait, the newest of the longest line is rejected.
 */
export class Admission {
  readonly #overload: () => Error
  readonly #now: (() => number) | undefined
  /** The tasks that wait, by caller. The caller that was served last is at the end. */
  readonly #callers = new Map<string, Set<Waiting>>()
  /** The lines by address. The address that was served last is at the end. */
  readonly #lines = new Map<string, Line>()
  #free: number
  #strangers = 0
  /** How many turns have passed since the last one of a stranger. */
  #sinceStranger = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `width` is how many tasks run at once, and `overload` the error if too many wait. */
  constructor(width: number, overload: () => Error, now?: () => number) {
    this.#free = width
    this.#overload = overload
    this.#now = now
  }

  /**
   * Resolves when work may begin. The result is a function to call when the work has ended. Rejects
   * if too many strangers wait.
   */
  enter({ caller, isKnown, address, signal }: Asker): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const name = caller()
      const isStranger = name === undefined
      const queue = isStranger ? this.#lineOf(address, isKnown()).waiting : this.#queueOf(name)
      if (isStranger && !this.#hasRoom(queue)) return reject(this.#overload())
      const waiting: Waiting = {
        begin: () => {
          forget()
          resolve(() => {
            this.#free++
            this.#serve()
          })
        },
        refuse: () => {
          forget()
          reject(this.#overload())
        },
      }
      const forget = onAbort(signal, () => {
        if (queue.delete(waiting) && isStranger) this.#strangers--
        reject(signal.reason)
      })
      queue.add(waiting)
      if (isStranger) this.#strangers++
      this.#serve()
    })
  }

  #hasRoom(own: ReadonlySet<Waiting>): boolean {
    if (own.size >= MAX_PER_ADDRESS) return false
    return this.#strangers < MAX_WAITING || this.#shorten(own)
  }

  /** Rejects the newest of the longest line. Returns false if `own` is as long as that. */
  #shorten(own: ReadonlySet<Waiting>): boolean {
    let longest = own
    for (const { waiting } of this.#lines.values())
      if (waiting.size > longest.size) longest = waiting
    const newest = [...longest].at(-1)
    if (longest === own || newest === undefined) return false
    ;(longest as Set<Waiting>).delete(newest)
    this.#strangers--
    newest.refuse()
    return true
  }

  #queueOf(caller: string): Set<Waiting> {
    const queue = this.#callers.get(caller) ?? new Set()
    this.#callers.set(caller, queue)
    return queue
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
      const isTheirTurn = ++this.#sinceStranger >= STRANGERS_EVERY
      const stranger = isTheirTurn ? this.#takeStranger() : undefined
      const next = stranger ?? this.#takeCaller() ?? this.#takeStranger()
      if (next === undefined) return
      this.#free--
      next.begin()
    }
  }

  #takeCaller(): Waiting | undefined {
    for (const [caller, queue] of this.#callers) {
      this.#callers.delete(caller)
      const [next] = queue
      if (next === undefined) continue
      queue.delete(next)
      this.#callers.set(caller, queue)
      return next
    }
    return undefined
  }

  #takeStranger(): Waiting | undefined {
    let soonest = Number.POSITIVE_INFINITY
    for (const [address, line] of this.#lines) {
      const [next] = line.waiting
      if (next === undefined) continue
      const wait = line.bucket.msUntil(1)
      soonest = Math.min(soonest, wait)
      if (wait > 0) continue
      line.waiting.delete(next)
      line.bucket.spend(1)
      this.#strangers--
      this.#lines.delete(address)
      this.#lines.set(address, line)
      this.#sinceStranger = 0
      return next
    }
    clearTimeout(this.#timer)
    if (soonest < Number.POSITIVE_INFINITY)
      this.#timer = setTimeout(() => this.#serve(), soonest).unref()
    return undefined
  }
}

/**
 * The network of an address. For IPv4, also embedded in IPv6: the IPv4 address. For any other IPv6
 * address: its first 64 bits.
 */
export function networkOf(address = ''): string {
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(address)) return address
  const [head = '', tail] = (address.split('%')[0] as string).split('::')
  const groups = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : 8 - groups.length - after.length
  return [...groups, ...Array<string>(zeros).fill('0'), ...after].slice(0, 4).join(':')
}
