/** How many queries of one holder may be on their way to the log, as a share of all. */
const OWN_SHARE = 2

/**
 * Lets a bounded number of queries run at once. The queries that wait are taken from one holder
 * after the other. So a holder with a thousand queries delays another holder by one query, and not
 * by a thousand.
 */
export class Turns {
  readonly #atOnce: number
  /** The waiting queries, by the names of their holders. The first holder is next. */
  readonly #waiting = new Map<string, (() => void)[]>()
  /** How many queries run, by the names of their holders. */
  readonly #running = new Map<string, number>()
  #total = 0

  constructor(atOnce: number) {
    this.#atOnce = atOnce
  }

  /** Runs a query of a holder when its turn has come. */
  async take<Answer>(name: string, query: () => Promise<Answer>): Promise<Answer> {
    if (this.#hasRoom(name)) this.#start(name)
    else
      await new Promise<void>(resolve => {
        const queue = this.#waiting.get(name) ?? []
        queue.push(resolve)
        this.#waiting.set(name, queue)
      })
    try {
      return await query()
    } finally {
      this.#end(name)
    }
  }

  #hasRoom(name: string): boolean {
    const own = this.#running.get(name) ?? 0
    return this.#total < this.#atOnce && own < Math.max(1, this.#atOnce / OWN_SHARE)
  }

  #start(name: string): void {
    this.#total++
    this.#running.set(name, (this.#running.get(name) ?? 0) + 1)
  }

  #end(name: string): void {
    this.#total--
    const left = (this.#running.get(name) ?? 1) - 1
    if (left === 0) this.#running.delete(name)
    else this.#running.set(name, left)
    this.#next()
  }

  /** Starts the next waiting query whose holder has room, and puts its holder last. */
  #next(): void {
    for (const [name, queue] of this.#waiting) {
      if (!this.#hasRoom(name)) continue
      this.#waiting.delete(name)
      const start = queue.shift()
      if (queue.length > 0) this.#waiting.set(name, queue)
      this.#start(name)
      start?.()
      return
    }
  }
}
