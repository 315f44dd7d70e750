import type { ReadBudget } from './budget.js'

/** How many queries of one holder may be on their way to the log, as a share of all. */
const OWN_SHARE = 2

/**
 * Lets a bounded number of queries run at once. Of the holders that wait, the one that has read
 * least is next. So a holder with a thousand queries delays another holder by none of them. Busy
 * holders share one slow queue: one query at a time, and together no more messages per second than
 * the budget says.
 */
export class Turns {
  readonly #atOnce: number
  readonly #budget: ReadBudget
  /** The waiting queries, by the names of their holders. */
  readonly #waiting = new Map<string, ((isSlow: boolean) => void)[]>()
  /** How many queries run, by the names of their holders. */
  readonly #running = new Map<string, number>()
  #total = 0
  /** Whether a query of the slow queue runs. */
  #isSlowBusy = false
  /** When the next query of the slow queue may start, as `performance.now()`. */
  #slowFrom = 0
  #timer: NodeJS.Timeout | undefined

  constructor(atOnce: number, budget: ReadBudget) {
    this.#atOnce = atOnce
    this.#budget = budget
  }

  /** Runs a query of a holder when its turn has come. The holder pays for each message. */
  async take<Answer extends readonly unknown[]>(
    name: string,
    query: () => Promise<Answer>,
  ): Promise<Answer> {
    const isSlow = await this.#enter(name)
    let messages = 0
    try {
      const answer = await query()
      messages = answer.length
      return answer
    } finally {
      this.#end(name, messages, isSlow)
    }
  }

  /** Resolves when a query may start, with whether it is one of the slow queue. */
  #enter(name: string): boolean | Promise<boolean> {
    if (this.#hasRoom(name)) return this.#start(name)
    return new Promise<boolean>(resolve => {
      const queue = this.#waiting.get(name) ?? []
      queue.push(resolve)
      this.#waiting.set(name, queue)
      this.#wakeForSlow()
    })
  }

  #hasRoom(name: string): boolean {
    const own = this.#running.get(name) ?? 0
    if (this.#total >= this.#atOnce || own >= Math.max(1, this.#atOnce / OWN_SHARE)) return false
    if (!this.#budget.isBusy(name)) return true
    return !this.#isSlowBusy && performance.now() >= this.#slowFrom
  }

  #start(name: string): boolean {
    const isSlow = this.#budget.isBusy(name)
    if (isSlow) this.#isSlowBusy = true
    this.#total++
    this.#running.set(name, (this.#running.get(name) ?? 0) + 1)
    return isSlow
  }

  #end(name: string, messages: number, isSlow: boolean): void {
    this.#budget.spend(name, messages)
    if (isSlow) {
      this.#isSlowBusy = false
      this.#slowFrom = performance.now() + (1000 * messages) / this.#budget.perSecond
    }
    this.#total--
    const left = (this.#running.get(name) ?? 1) - 1
    if (left === 0) this.#running.delete(name)
    else this.#running.set(name, left)
    this.#next()
  }

  /** Starts the queries that have room. The holder that has read least is first. */
  #next(): void {
    for (let name = this.#first(); name !== undefined; name = this.#first()) {
      const queue = this.#waiting.get(name) ?? []
      this.#waiting.delete(name)
      const start = queue.shift()
      // Of holders that have read as much, the one that waits longest is next.
      if (queue.length > 0) this.#waiting.set(name, queue)
      start?.(this.#start(name))
    }
    this.#wakeForSlow()
  }

  #first(): string | undefined {
    let first: string | undefined
    for (const name of this.#waiting.keys())
      if (this.#hasRoom(name) && (first === undefined || this.#isBefore(name, first))) first = name
    return first
  }

  #isBefore(name: string, other: string): boolean {
    return this.#budget.leftOf(name) > this.#budget.leftOf(other)
  }

  /** If queries wait for the slow queue, looks again when it is free. */
  #wakeForSlow(): void {
    const wait = this.#slowFrom - performance.now()
    if (this.#waiting.size === 0 || this.#timer !== undefined || wait <= 0) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#next()
    }, Math.ceil(wait))
  }
}
