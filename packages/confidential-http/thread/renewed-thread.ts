import { MAX_TIMER, number, readOptions, type Schema, withDefault } from 'sluice/core'
import { type SendOptions, type Sent, Thread, type ThreadOptions } from './thread.js'
import type { Question } from './thread-messages.js'

/**
 * Says when an enclave's thread is replaced by a new thread. The memory that contained secrets is
 * freed with the old thread.
 */
export interface RenewAfter {
  /** The number of requests after which the thread is replaced. @default 10000 */
  readonly requests?: number
  /**
   * After how many milliseconds without a request the thread is replaced. A thread that never got a
   * request is not replaced. @default 60000
   */
  readonly quietMs?: number
}

const schema = {
  requests: withDefault(10_000, number({ min: 1, whole: true })),
  quietMs: withDefault(60_000, number({ min: 1, max: MAX_TIMER })),
} satisfies Schema<RenewAfter>

/** Checks the options, and fills in the defaults. */
export function checkRenewAfter(given: RenewAfter | undefined): Required<RenewAfter> {
  return readOptions('renewAfter', given, schema, 'renewAfter.')
}

/**
 * A thread that is replaced after a number of requests, after a quiet period, and when it has died.
 * The next thread starts while the old thread still works. When it is ready, it takes over between
 * two requests. Requests in flight finish in the old thread, which then ends. So each request runs
 * in one thread from beginning to end. No request waits for a thread to start, unless the old
 * thread has died.
 */
export class RenewedThread {
  readonly #options: ThreadOptions
  readonly #rule: Required<RenewAfter>
  /** The replaced threads that still finish their requests. */
  readonly #retired = new Set<Thread>()
  #current: Thread
  #next: Thread | undefined
  /** The number of questions to the current thread. */
  #asked = 0
  #quiet: ReturnType<typeof setTimeout> | undefined
  #started = 0
  #failure: string | undefined

  constructor(options: ThreadOptions, rule: Required<RenewAfter>) {
    this.#options = options
    this.#rule = rule
    this.#current = this.#start()
  }

  /** How many threads have been started. */
  get started(): number {
    return this.#started
  }

  /** Why the thread that was started last could not start; undefined if it could. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** Resolves when the first thread is ready for requests. Rejects if it can't start. */
  whenReady(): Promise<void> {
    return this.#current.whenReady()
  }

  /** Sends a question to the current thread, as `Thread.send` does. */
  send<Value>(question: Question, timeout: number, options?: SendOptions): Sent<Value> {
    // While a caller blocks the event loop, no event reports that the next thread is ready. So this
    // checks it.
    if (this.#next?.isReady()) this.#replace()
    if (!this.#current.isUsable()) this.#recover()
    const sent = this.#current.send<Value>(question, timeout, options)
    if (++this.#asked >= this.#rule.requests) this.#prepare()
    if (this.#quiet === undefined)
      this.#quiet = setTimeout(() => this.#onQuiet(), this.#rule.quietMs).unref()
    else this.#quiet.refresh()
    return sent
  }

  /** Ends every thread. Open requests fail with `reason`. */
  async end(reason: Error): Promise<void> {
    clearTimeout(this.#quiet)
    const threads = [this.#current, ...this.#retired]
    if (this.#next !== undefined) threads.push(this.#next)
    this.#next = undefined
    await Promise.all(threads.map(thread => thread.end(reason)))
  }

  #start(): Thread {
    const thread = new Thread(this.#options)
    this.#started++
    thread.ready.then(
      () => {
        this.#failure = undefined
      },
      (error: Error) => {
        this.#failure = error.message
      },
    )
    return thread
  }

  #onQuiet(): void {
    if (!this.#current.isIdle()) this.#quiet?.refresh()
    else if (this.#asked > 0) this.#prepare()
  }

  /** Starts the next thread, unless it is starting already. */
  #prepare(): void {
    if (this.#next !== undefined) return
    const next = this.#start()
    this.#next = next
    next.ready.then(
      () => {
        if (this.#next === next) this.#replace()
      },
      () => {
        if (this.#next !== next) return
        // The next thread failed to start, so the current thread continues. The next attempt comes
        // as late as after a replacement.
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

  /** Continues with the next thread if it is usable, else with a new thread. */
  #recover(): void {
    this.#current = this.#next?.isUsable() ? this.#next : this.#start()
    this.#next = undefined
    this.#asked = 0
  }

  async #retire(thread: Thread): Promise<void> {
    await thread.whenIdle()
    await thread.end(new Error('the thread was replaced'))
    this.#retired.delete(thread)
  }
}
