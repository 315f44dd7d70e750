import { HTTPError } from 'sluice/internal'

/** Milliseconds between two payments into the accounts. */
const INTERVAL = 100
/** The longest `Retry-After`, in seconds. */
const MAX_WAIT = 60
/** A holder is busy if less than this share of its account is left. */
const BUSY_BELOW = 0.75
/** Each holder gets at least this share of the messages of a second. */
const LEAST_SHARE = 1 / 16

/**
 * How many messages of the log the holders of tokens may read. Each holder has an account, from
 * which its requests pay for each message. Half a second's messages may be read at once. Holders
 * that have spent a quarter of that are busy. They share the messages of the next seconds. Each
 * gets a sixteenth of them at least, so many holders together read about as much as one.
 */
export class ReadBudget {
  readonly perSecond: number
  readonly #most: number
  /** What is left to each holder, by name. A holder without an entry has the most. */
  readonly #left = new Map<string, number>()
  #paidAt = performance.now()
  /** How many messages per second each holder gets. */
  #rate: number

  constructor(perSecond: number) {
    this.perSecond = perSecond
    this.#most = perSecond / 2
    this.#rate = perSecond
  }

  leftOf(name: string): number {
    return this.#left.get(name) ?? this.#most
  }

  isBusy(name: string): boolean {
    this.#pay()
    return this.leftOf(name) < BUSY_BELOW * this.#most
  }

  spend(name: string, messages: number): void {
    if (messages > 0) this.#left.set(name, this.leftOf(name) - messages)
  }

  /** Throws HTTPError if the holder has nothing left. */
  check(name: string): void {
    this.#pay()
    const left = this.leftOf(name)
    if (left > 0) return
    const wait = Math.ceil((1 - left) / this.#rate)
    throw new HTTPError(429, 'the token has read too much of the log', undefined, {
      'retry-after': String(Math.min(MAX_WAIT, wait)),
    })
  }

  #pay(): void {
    const now = performance.now()
    const seconds = (now - this.#paidAt) / 1000
    if (1000 * seconds < INTERVAL) return
    this.#paidAt = now
    let busy = 0
    for (const left of this.#left.values()) if (left < BUSY_BELOW * this.#most) busy++
    this.#rate = this.perSecond * Math.max(LEAST_SHARE, 1 / Math.max(1, busy))
    for (const [name, left] of this.#left) {
      const paid = left + seconds * this.#rate
      if (paid >= this.#most) this.#left.delete(name)
      else this.#left.set(name, paid)
    }
  }
}
