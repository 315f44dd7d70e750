import {
  MessageChannel,
  type MessagePort,
  receiveMessageOnPort,
  type Worker,
} from 'node:worker_threads'
import { asError, createDeferred, type Log, MAX_TIMER, onAbort } from 'sluice/core'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import { fromFailure, kindOfError, withSent } from '../outcome.js'
import type { FromThread, Question, ThreadData, ToThread } from './thread-messages.js'
import { startWorker, stopWorker, type WorkerSettings } from './worker.js'

/** A question that was sent. */
export interface Sent<Value> {
  /** Blocks until the answer has arrived or the question has timed out. */
  result(): Value
  /** Waits for the answer without blocking. */
  resultAsync(): Promise<Value>
}

/** Options of a question. */
export interface SendOptions {
  /** A signal that cancels the question when it aborts. */
  readonly signal?: AbortSignal | undefined
  /**
   * Whether a cancelled question stays open until the thread has reported its outcome. @default
   * false
   */
  readonly awaitsOutcome?: boolean
  /**
   * Called when the thread has connected to the API. From then on, the API may have received the
   * request.
   */
  readonly onConnected?: (() => void) | undefined
}

/** Options of a thread. */
export interface ThreadOptions extends WorkerSettings {
  /** The settings that are sent to the thread when it starts. */
  readonly settings: unknown
  readonly log: Log
  /** Called when the thread has worked so many milliseconds more for a caller. */
  readonly onWork?: (caller: string, ms: number) => void
}

type Outcome = { readonly response: unknown } | { readonly error: Error }

/** A question. It has an outcome once the thread has answered. */
interface Asked {
  outcome?: Outcome
  readonly timeout: number
  /** When the time of the question is up, in milliseconds of `performance.now`. */
  deadline: number
  /** Ends the question when its time is up, also if nobody waits for its answer. */
  timer: ReturnType<typeof setTimeout>
  /** How many messages the thread had sent when it was asked for a sign of life. */
  heard?: number
  onConnected?: (() => void) | undefined
  /** Removes the listener from the caller's signal. */
  forget?: () => void
  /** Called with the outcome, if somebody awaits it. */
  settle?: () => void
}

const levels: readonly (keyof Log)[] = ['debug', 'info', 'warn', 'error', 'connection']

/**
 * How many milliseconds a thread may take to start, whatever the time limits of its questions are.
 * With a lower limit, a slow machine might never get a thread ready.
 */
const MAX_START = 120_000

/**
 * How many milliseconds a thread has for a sign of life after the time of a question is up. A
 * thread that has too little of the processor, or whose process was stopped for a time, is alive.
 */
const SIGN_OF_LIFE = 1000

/**
 * A thread that answers questions. The thread itself does not keep the process alive. Only an
 * awaited question does.
 */
export class Thread {
  readonly #log: Log
  readonly #onWork: ThreadOptions['onWork']
  readonly #worker: Worker
  readonly #port: MessagePort
  /**
   * The thread increments this number with each message. A caller that blocks waits for a change of
   * this number.
   */
  readonly #received: Int32Array
  readonly #startedAt = performance.now()
  /** Ends the thread if it does not become ready. */
  readonly #starting: ReturnType<typeof setTimeout>
  readonly #ready = createDeferred()
  /** The questions without an outcome, by id. */
  readonly #open = new Map<number, Asked>()
  #lastID = 0
  /** How many promises of this thread callers are awaiting. */
  #awaited = 0
  #idle = createDeferred()
  /** When the thread became ready; undefined while it is starting. */
  #readyAt: number | undefined
  /** Whether the thread has opened its service, so that requests may have been sent. */
  #isOpen = false
  #ended: Error | undefined
  #exited: Promise<void> = Promise.resolve()

  constructor({ log, settings, onWork, ...program }: ThreadOptions) {
    const { port1, port2 } = new MessageChannel()
    const counter = new SharedArrayBuffer(4)
    const listened = levels.filter(level => log[level] !== undefined)
    const isMetered = onWork !== undefined
    const data: ThreadData<unknown> = {
      ...{ settings, port: port2, counter, isMetered },
      levels: listened,
    }
    this.#log = log
    this.#onWork = onWork
    this.#port = port1
    this.#received = new Int32Array(counter)
    this.#worker = startWorker(program, data, [port2])
    this.#worker.on('error', thrown => this.#die(kindOfError(thrown)))
    this.#worker.on('exit', code => {
      // The last messages of the thread may contain outcomes, so they are received before the open
      // questions fail.
      this.#receiveAll()
      this.#die(`exit code ${code}`)
    })
    port1.on('message', (message: FromThread) => this.#receive(message))
    port1.unref()
    this.#starting = setTimeout(() => this.#checkStart(), MAX_START).unref()
  }

  /** Resolves when the thread is ready for questions. Rejects if it can't start. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  /** Waits for `ready` and keeps the process alive until then. */
  whenReady(): Promise<void> {
    return this.#keepAlive(this.ready)
  }

  /** Tells whether the thread is ready and has not ended. */
  isReady(): boolean {
    this.#receiveAll()
    return this.#isOpen && this.#ended === undefined
  }

  /**
   * Tells whether the thread can still get questions. Returns false once it has ended or sent its
   * last message.
   */
  isUsable(): boolean {
    this.#receiveAll()
    return this.#ended === undefined
  }

  /** Tells whether no question is open. */
  isIdle(): boolean {
    return this.#open.size === 0
  }

  /** Resolves when no question is open. */
  async whenIdle(): Promise<void> {
    if (!this.isIdle()) await this.#idle.promise
  }

  /**
   * Sends a question. It fails if it has no answer after `timeout` milliseconds, also if nobody
   * waits for its answer. The thread is then asked for a sign of life. If it sends nothing within
   * `SIGN_OF_LIFE` milliseconds, it is ended. A thread that is still starting is kept.
   */
  send<Value>(
    question: Question,
    timeout: number,
    { signal, awaitsOutcome = false, onConnected }: SendOptions = {},
  ): Sent<Value> {
    const id = ++this.#lastID
    const deadline = performance.now() + timeout
    const timer = setTimeout(() => this.#giveUp(id), Math.min(MAX_TIMER, timeout)).unref()
    const asked: Asked = { onConnected, timeout, deadline, timer }
    this.#open.set(id, asked)
    this.#post({ ...question, id, startedAt: Date.now() })
    if (signal !== undefined)
      asked.forget = onAbort(signal, () => {
        if (awaitsOutcome) this.#post({ type: 'cancel', id })
        else this.#cancel(id, asError(signal.reason))
      })
    if (this.#ended !== undefined) this.#complete(id, { error: this.#ended })

    let awaited: Promise<Value> | undefined
    return {
      result: () => {
        for (;;) {
          const seen = Atomics.load(this.#received, 0)
          this.#receiveAll()
          if (asked.outcome !== undefined) return unwrap(asked.outcome)
          const left = Math.min(MAX_TIMER, asked.deadline - performance.now())
          if (left > 0) Atomics.wait(this.#received, 0, seen, left)
          else this.#giveUp(id)
        }
      },
      resultAsync: () => (awaited ??= this.#wait(asked)),
    }
  }

  /**
   * Ends the thread. Open questions fail with `reason`, which is marked with whether they may have
   * been sent. Resolves when the thread has exited, or after a time limit if it hangs.
   */
  async end(reason: Error): Promise<void> {
    if (this.#ended === undefined) {
      this.#ended = reason
      this.#ready.reject(reason)
      clearTimeout(this.#starting)
      // A thread that has not started yet may only be slow. If it were terminated at once, it could
      // leave a file open. It ends by itself as soon as it has started.
      const patience =
        this.#readyAt === undefined ? this.#startedAt + MAX_START - performance.now() : 0
      this.#exited = stopWorker(this.#worker, patience)
      const error = withSent(reason, this.#isOpen) as Error
      for (const id of [...this.#open.keys()]) this.#complete(id, { error })
      this.#port.close()
    }
    await this.#exited
  }

  #post(message: ToThread): void {
    this.#port.postMessage(message)
  }

  #receive(message: FromThread): void {
    switch (message.type) {
      case 'log':
        this.#log[message.level]?.(message.message, message.facts)
        break
      case 'work':
        this.#onWork?.(message.caller, message.ms)
        break
      case 'connected':
        this.#open.get(message.id)?.onConnected?.()
        break
      case 'response':
        this.#complete(message.id, { response: message.response })
        break
      case 'failure':
        this.#complete(message.id, { error: fromFailure(message.failure) })
        break
      case 'alive':
        for (const [id, { heard = Number.NaN }] of this.#open)
          if (heard < Atomics.load(this.#received, 0)) this.#giveUp(id)
        break
      case 'opened':
        this.#readyAt = performance.now()
        clearTimeout(this.#starting)
        this.#isOpen = message.failure === undefined
        if (message.failure === undefined) this.#ready.resolve()
        else this.#fail(fromFailure(message.failure))
        break
      case 'end':
        this.#die(message.why)
        break
    }
  }

  /**
   * Receives all queued messages. This is needed because a blocked event loop delivers no messages.
   */
  #receiveAll(): void {
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port))
      this.#receive(next.message as FromThread)
  }

  /** Sets the outcome of a question, unless the question already has one. */
  #complete(id: number, outcome: Outcome): void {
    const asked = this.#open.get(id)
    if (asked === undefined) return
    this.#open.delete(id)
    clearTimeout(asked.timer)
    asked.outcome = outcome
    asked.forget?.()
    asked.settle?.()
    if (!this.isIdle()) return
    this.#idle.resolve()
    this.#idle = createDeferred()
  }

  #cancel(id: number, error: Error): void {
    this.#post({ type: 'cancel', id })
    this.#complete(id, { error })
  }

  /**
   * Fails a question whose time is up, once it is known whether the thread is alive. An answer that
   * arrives before that is still taken.
   */
  #giveUp(id: number): void {
    this.#receiveAll()
    this.#checkStart()
    const asked = this.#open.get(id)
    if (asked === undefined) return
    const ms = Math.round(asked.timeout)
    const heard = Atomics.load(this.#received, 0)
    if (this.#readyAt === undefined) {
      const rule = `was still starting after ${ms} ms: ask again, or allow the request more time`
      this.#cancel(id, new EnclaveError(`the enclave's thread ${rule}`, { mayHaveBeenSent: false }))
    } else if (asked.heard === undefined) {
      asked.heard = heard
      asked.deadline = performance.now() + SIGN_OF_LIFE
      clearTimeout(asked.timer)
      asked.timer = setTimeout(() => this.#giveUp(id), SIGN_OF_LIFE).unref()
      this.#post({ type: 'live' })
    } else if (asked.heard !== heard) {
      const rule = `did not answer within ${ms} ms: allow the request more time`
      this.#cancel(id, new EnclaveError(`the enclave ${rule}`))
    } else {
      const rule = `did not answer within ${ms} ms and was ended; the next request starts another`
      this.#fail(new EnclaveError(`the enclave's thread ${rule}`))
    }
  }

  /** Ends the thread if it has been starting for too long. */
  #checkStart(): void {
    if (this.#readyAt !== undefined || performance.now() - this.#startedAt < MAX_START) return
    const rule = `was still starting after ${MAX_START} ms and was ended; the next request starts another`
    this.#fail(new EnclaveError(`the enclave's thread ${rule}`))
  }

  #fail(error: Error): void {
    if (this.#ended === undefined) this.#log.error?.(error.message)
    void this.end(error)
  }

  #die(why: string): void {
    this.#fail(
      new EnclaveError(`the enclave's thread ended: ${why}; the next request starts another`),
    )
  }

  async #wait<Value>(asked: Asked): Promise<Value> {
    const settled = new Promise<void>(resolve => {
      asked.settle = resolve
    })
    if (asked.outcome === undefined) await this.#keepAlive(settled)
    return unwrap(asked.outcome as unknown as Outcome)
  }

  /** Waits for a message of the thread and keeps the process alive until then. */
  async #keepAlive(message: Promise<void>): Promise<void> {
    if (this.#awaited++ === 0) this.#port.ref()
    try {
      await message
    } finally {
      if (--this.#awaited === 0) this.#port.unref()
    }
  }
}

function unwrap<Value>(outcome: Outcome): Value {
  if ('error' in outcome) throw outcome.error
  return outcome.response as Value
}
