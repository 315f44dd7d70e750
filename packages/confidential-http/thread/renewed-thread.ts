import { MAX_TIMER, number, readOptions, type Schema, withDefault } from 'sluice/core'
import { type SendOptions, type Sent, Thread, type ThreadOptions } from './thread.js'
import type { Question } from './thread-messages.js'

/**
 * When an enclave's thread is replaced by a new one: the memory that it had secrets in goes with
 * it.
 */
export interface RenewAfter {
  /** After so many requests. @default 10000 */
  readonly requests?: number
  /** After so many milliseconds without a request, if there was one before. @default 60000 */
  readonly quietMs?: number
}

const schema = {
  requests: withDefault(10_000, number({ min: 1, whole: true })),
  quietMs: withDefault(60_000, number({ min: 1, max: MAX_TIMER })),
} satisfies Schema<RenewAfter>

/** Checks when a thread is replaced, and fills in what was left out. */
export function checkRenewAfter(given: RenewAfter | undefined): Required<RenewAfter> {
  return readOptions('renewAfter', given, schema, 'renewAfter.')
}

/**
 * A thread that is replaced after so many requests, after a quiet while, and when it has died. The
 * next one gets ready beside the old one, and takes its place between two requests; those in flight
 * finish in the old one, which then ends. So a request belongs to one thread from its beginning to
 * its end, and none waits for a thread to start.
 */
export class RenewedThread {
  readonly #options: ThreadOptions
  readonly #rule: Required<RenewAfter>
  /** Threads that finish their requests. */
  readonly #retired = new Set<Thread>()
  #current: Thread
  #next: Thread | undefined
  /** Questions of the current thread. */
  #asked = 0
  #quiet: ReturnType<typeof setTimeout> | undefined

  constructor(options: ThreadOptions, rule: Required<RenewAfter>) {
    this.#options = options
    this.#rule = rule
    this.#current = new Thread(options)
  }

  /** Resolves when the first thread is ready for requests; rejects if it never will be. */
  whenReady(): Promise<void> {
    return this.#current.whenReady()
  }

  /** Sends a question to the thread whose turn it is, as `Thread.send` does. */
  send<Value>(question: Question, timeout: number, options?: SendOptions): Sent<Value> {
    // A caller that blocks the event loop hears of a thread that is ready no sooner than here.
    if (this.#next?.isReady()) this.#replace()
    if (!this.#current.isUsable()) this.#recover()
    const sent = this.#current.send<Value>(question, timeout, options)
    if (++this.#asked >= this.#rule.requests) this.#prepare()
    if (this.#quiet === undefined)
      this.#quiet = setTimeout(() => this.#onQuiet(), this.#rule.quietMs).unref()
    else this.#quiet.refresh()
    return sent
  }

  /** Ends every thread; open requests fail with `reason`. */
  async end(reason: Error): Promise<void> {
    clearTimeout(this.#quiet)
    const threads = [this.#current, ...this.#retired]
    if (this.#next !== undefined) threads.push(this.#next)
    this.#next = undefined
    await Promise.all(threads.map(thread => thread.end(reason)))
  }

  #onQuiet(): void {
    if (!this.#current.isIdle()) this.#quiet?.refresh()
    else if (this.#asked > 0) this.#prepare()
  }

  /** Starts the next thread, unless it is about to be ready. */
  #prepare(): void {
    if (this.#next !== undefined) return
    const next = new Thread(this.#options)
    this.#next = next
    next.ready.then(
      () => {
        if (this.#next === next) this.#replace()
      },
      () => {
        if (this.#next !== next) return
        // The current thread goes on, and it is tried again as late as after a replacement.
        this.#next = undefined
        this.#asked = 1
        this.#quiet?.refresh()
      },
    )
  }

  #replace(): void {
    const old = this.#current
    this.#recover()
    this.#retired.add(old)
    void this.#retire(old)
  }

  /** Goes on with the next thread, or another one. */
  #recover(): void {
    this.#current = this.#next?.isUsable() ? this.#next : new Thread(this.#options)
    this.#next = undefined
    this.#asked = 0
  }

  async #retire(thread: Thread): Promise<void> {
    await thread.whenIdle()
    await thread.end(new Error('the thread was replaced'))
    this.#retired.delete(thread)
  }
}
