import {
  MessageChannel,
  type MessagePort,
  receiveMessageOnPort,
  type Worker,
} from 'node:worker_threads'
import type { Log } from 'sluice/core'
import { asError, MAX_TIMER, onAbort } from 'sluice/core'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import { withSent } from '../sent.js'
import { fromFailure, kindOfError } from './failure.js'
import { createPending, type Entry, type Outcome, type Pending } from './pending.js'
import type { FromThread, Question, ThreadData, ToThread } from './thread-messages.js'
import { startWorker, stopWorker, type WorkerSettings } from './worker.js'

/** A question that was sent. */
export interface Sent<Value> {
  /** Blocks until the answer has arrived or the time is up. */
  result(): Value
  /** Waits for the same without blocking. */
  resultAsync(): Promise<Value>
}

/** A thread that answers requests. */
export interface Thread {
  /** False once it has ended or sent its last message. */
  isUsable(): boolean
  /** True once it is ready for requests. */
  isReady(): boolean
  /** True if it has no open request. */
  isIdle(): boolean
  /** Resolves when the thread is ready for requests; rejects if it never will be. */
  readonly ready: Promise<void>
  /** Waits for `ready` and keeps the process alive until then. */
  whenReady(): Promise<void>
  /** Sends a question. The thread counts as dead if it does not answer within `timeout` milliseconds. */
  send<Value>(question: Question, timeout: number, options?: SendOptions): Sent<Value>
  /** Resolves when no request is open. */
  whenIdle(): Promise<void>
  /**
   * Fails the open requests with `reason`, and marks whether they may have been sent. Resolves when the thread has exited, or
   * hangs.
   */
  end(reason: Error): Promise<void>
}

/** Options of a question. */
export interface SendOptions {
  /** Aborting it cancels the question. */
  readonly signal?: AbortSignal | undefined
  /** Whether a cancelled question is open until the thread has said what became of it. @default false */
  readonly awaitsOutcome?: boolean
  /** Called when the thread has connected to the API: from then on it may have the request. */
  readonly connected?: () => void
}

/** Options of `startThread`. */
export interface ThreadOptions<Settings> extends WorkerSettings {
  readonly settings: Settings
  readonly log: Log
}

const levels: readonly (keyof Log)[] = ['debug', 'info', 'warn', 'error', 'connection']

/** Milliseconds a thread may take to start. With less, a slow machine might never have a thread that is ready. */
const MAX_START = 10_000

/** Starts a thread. Only an awaited request keeps the process alive, the thread does not. */
export function startThread<Settings>(options: ThreadOptions<Settings>): Thread {
  const { log } = options
  const { worker, port, counter } = openChannel(options)
  const startedAt = performance.now()
  const pending = createPending(port)
  let isReady = false
  /** Whether it opened the enclave, so that requests may have been sent. */
  let isOpen = false
  let ended: Error | undefined
  let exited: Promise<unknown> = Promise.resolve()
  let settle: { readonly resolve: () => void; readonly reject: (error: Error) => void }
  const ready = new Promise<void>((resolve, reject) => {
    settle = { resolve, reject }
  })
  // Whoever awaits it hears of the failure.
  ready.catch(() => undefined)

  function receive(message: FromThread): void {
    switch (message.type) {
      case 'log':
        log[message.level]?.(message.message, message.facts)
        break
      case 'connected':
        pending.connected(message.id)
        break
      case 'response':
        pending.complete(message.id, { response: message.response })
        break
      case 'failure':
        pending.complete(message.id, { error: fromFailure(message.failure) })
        break
      case 'opened':
        isReady = true
        isOpen = message.failure === undefined
        if (message.failure !== undefined) fail(fromFailure(message.failure))
        else settle.resolve()
        break
      case 'end':
        die(message.why)
        break
    }
  }

  /** Receives the queued messages, because the event loop may have been blocked. */
  function receiveAll(): void {
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port))
      receive(next.message as FromThread)
  }

  async function end(reason: Error): Promise<void> {
    if (ended === undefined) {
      ended = reason
      settle.reject(reason)
      // A thread that is slow to start does not hang. Terminated, it would leave a file open.
      exited = stopWorker(worker, isReady ? 0 : startedAt + MAX_START - performance.now())
      pending.completeAll({ error: withSent(reason, isOpen) as Error })
      port.close()
    }
    await exited
  }

  function fail(error: Error): void {
    if (ended === undefined) log.error?.(error.message)
    void end(error)
  }
  function die(why: string): void {
    fail(new EnclaveError(`the enclave's thread ended: ${why}; the next request starts another`))
  }
  worker.on('error', thrown => die(kindOfError(thrown)))
  worker.on('exit', code => {
    // Its last messages count.
    receiveAll()
    die(`exit code ${code}`)
  })
  port.on('message', receive)
  port.unref()

  const post = (message: ToThread): void => port.postMessage(message)

  function send<Value>(
    question: Question,
    timeout: number,
    { signal, awaitsOutcome = false, connected }: SendOptions = {},
  ): Sent<Value> {
    const { id, entry } = pending.add()
    if (connected !== undefined) entry.connected = connected
    post({ ...question, id, startedAt: Date.now() })
    if (signal !== undefined)
      entry.forget = onAbort(signal, () => {
        if (awaitsOutcome) post({ type: 'cancel', id })
        else cancel(asError(signal.reason))
      })
    if (ended !== undefined) pending.complete(id, { error: ended })

    function cancel(error: Error): void {
      post({ type: 'cancel', id })
      pending.complete(id, { error })
    }

    function giveUp(): void {
      receiveAll()
      if (entry.outcome !== undefined) return
      const isDead = isReady || performance.now() - startedAt > MAX_START
      if (isDead) fail(unanswered(timeout))
      else cancel(stillStarting(timeout))
    }
    return createSent(entry, { pending, counter, timeout, receiveAll, giveUp })
  }

  function isUsable(): boolean {
    receiveAll()
    return ended === undefined
  }
  function isOpened(): boolean {
    receiveAll()
    return isOpen && ended === undefined
  }
  const { isIdle, whenIdle } = pending
  const whenReady = (): Promise<void> => pending.keepAlive(ready)
  return { isUsable, isReady: isOpened, isIdle, ready, whenReady, send, whenIdle, end }
}

function openChannel<Settings>({ log, settings, ...program }: ThreadOptions<Settings>): {
  readonly worker: Worker
  readonly port: MessagePort
  readonly counter: SharedArrayBuffer
} {
  const { port1, port2 } = new MessageChannel()
  const counter = new SharedArrayBuffer(4)
  const listened = levels.filter(level => log[level] !== undefined)
  const data: ThreadData<Settings> = { settings, port: port2, counter, levels: listened }
  const worker = startWorker(program, data, [port2])
  return { worker, port: port1, counter }
}

interface Waiting {
  readonly pending: Pending
  readonly counter: SharedArrayBuffer
  /** In milliseconds. */
  readonly timeout: number
  receiveAll(): void
  /** Sets the outcome after the timeout. */
  giveUp(): void
}

function createSent<Value>(
  entry: Entry,
  { pending, counter, timeout, receiveAll, giveUp }: Waiting,
): Sent<Value> {
  const deadline = performance.now() + timeout
  const timeLeft = (): number => Math.min(MAX_TIMER, deadline - performance.now())
  const received = new Int32Array(counter)
  let awaited: Promise<Value> | undefined

  async function waitAsync(): Promise<Value> {
    const timer = setTimeout(giveUp, timeLeft())
    try {
      return unwrap(await pending.outcome(entry))
    } finally {
      clearTimeout(timer)
    }
  }

  return {
    result() {
      for (;;) {
        const seen = Atomics.load(received, 0)
        receiveAll()
        if (entry.outcome !== undefined) return unwrap(entry.outcome)
        const left = timeLeft()
        if (left > 0) Atomics.wait(received, 0, seen, left)
        else giveUp()
      }
    },
    resultAsync() {
      awaited ??= waitAsync()
      return awaited
    },
  }
}

function unwrap<Value>(outcome: Outcome): Value {
  if ('error' in outcome) throw outcome.error
  return outcome.response as Value
}

function unanswered(timeout: number): EnclaveError {
  return new EnclaveError(
    `the enclave's thread did not answer within ${Math.round(timeout)} ms and was ended; the next request starts another`,
  )
}

function stillStarting(timeout: number): EnclaveError {
  return new EnclaveError(
    `the enclave's thread was still starting after ${Math.round(timeout)} ms: ask again, or allow the request more time`,
    { mayHaveBeenSent: false },
  )
}
