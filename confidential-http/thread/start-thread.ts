import {
  MessageChannel,
  receiveMessageOnPort,
  Worker,
  type WorkerOptions,
} from 'node:worker_threads'
import { asError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { onAbort } from '../../core/on-abort.js'
import { MAX_TIMER } from '../../core/options.js'
import { EnclaveError } from '../../plugins/confidential-http/errors.js'
import { withSent } from '../sent.js'
import { fromFailure, kindOfError } from './failure.js'
import { createPending, type Outcome } from './pending.js'
import type { ThreadData } from './thread-data.js'
import { isRefusedFlag, type ThreadEnvironment, threadEnvironment } from './thread-environment.js'
import type { FromThread, Question, ToThread } from './thread-messages.js'

/** A question on its way. */
export interface Sent<Value> {
  /** Blocks until the answer is there, or the time is up. */
  wait(): Value
  /** Settles when `wait` would return, without blocking. To be called once. */
  settled(): Promise<Value>
}

/** A thread that answers requests. */
export interface Thread {
  /** False once it has ended, or said that it does. */
  isUsable(): boolean
  /**
   * `timeout` is in milliseconds; a thread that does not answer in it is taken for dead. `signal` is aborted when nobody
   * wants the answer any more.
   */
  send<Value>(question: Question, timeout: number, signal?: AbortSignal): Sent<Value>
  /**
   * Fails what is under way with `reason`, which then says whether that may have been sent. Resolves when the thread is
   * gone, or can't be waited for any longer.
   */
  end(reason: Error): Promise<void>
}

/** How a thread is started. */
export interface ThreadOptions<Settings> {
  readonly file: string
  readonly settings: Settings
  /** Megabytes its heap may grow to. */
  readonly memoryMb: number
  /** Environment variables it has besides those that every thread has. */
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly log: Log
}

const levels: readonly (keyof Log)[] = ['debug', 'info', 'warn', 'error', 'connection']

/** How long the ending of a thread is waited for, in milliseconds; one that hangs is ended from outside at half of it. */
const MAX_STOP = 800
/** How long a thread may take to start, in milliseconds. Were it ended sooner, a slow machine would never see one ready. */
const MAX_START = 10_000

/** Starts a thread. It does not keep the process alive, but a request somebody awaits does. */
export function startThread<Settings>(options: ThreadOptions<Settings>): Thread {
  const { log } = options
  const { port1: port, port2 } = new MessageChannel()
  const messages = new SharedArrayBuffer(4)
  const counter = new Int32Array(messages)
  const workerData: ThreadData<Settings> = {
    settings: options.settings,
    port: port2,
    messages,
    levels: levels.filter(level => log[level] !== undefined),
  }
  const worker = openWorker(options.file, threadEnvironment(options.env), {
    workerData,
    transferList: [port2],
    resourceLimits: { maxOldGenerationSizeMb: options.memoryMb },
    name: 'sluice',
  })
  worker.unref()
  const startedAt = performance.now()
  const pending = createPending(port)
  let isReady = false
  /** Whether it may have begun with anything. */
  let isOpen = false
  let ended: Error | undefined
  let gone: Promise<unknown> = Promise.resolve()

  function receive(message: FromThread): void {
    switch (message.type) {
      case 'log':
        log[message.level]?.(message.message, message.facts)
        break
      case 'response':
        pending.settle(message.id, { response: message.response })
        break
      case 'failure':
        pending.settle(message.id, { error: fromFailure(message.failure) })
        break
      case 'opened':
        isReady = true
        isOpen = message.failure === undefined
        if (message.failure !== undefined) fail(fromFailure(message.failure))
        break
      case 'end':
        die(message.why)
        break
    }
  }

  /** Takes what lies there: the event loop may not have had a turn for long. */
  function receiveAll(): void {
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port))
      receive(next.message as FromThread)
  }

  /** A thread whose port closes ends itself, unless it hangs. Early releases of Node 20 may never end one from outside. */
  function stop(): Promise<void> {
    // One that is slow to start does not hang. Ended from outside, it would leave open the file it is just opening.
    const patience = isReady ? 0 : startedAt + MAX_START - performance.now()
    return new Promise(resolve => {
      const killing = setTimeout(
        () => void worker.terminate().catch(() => undefined),
        Math.max(MAX_STOP / 2, patience),
      ).unref()
      const waiting = setTimeout(resolve, MAX_STOP)
      worker.once('exit', () => {
        clearTimeout(killing)
        clearTimeout(waiting)
        resolve()
      })
    })
  }

  async function end(reason: Error): Promise<void> {
    if (ended === undefined) {
      ended = reason
      gone = stop()
      pending.settleAll({ error: withSent(reason, isOpen) as Error })
      port.close()
    }
    await gone
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
    // What it said before it ended counts.
    receiveAll()
    die(`exit code ${code}`)
  })
  port.on('message', receive)
  port.unref()

  function send<Value>(question: Question, timeout: number, signal?: AbortSignal): Sent<Value> {
    const { id, entry } = pending.add()
    const deadline = performance.now() + timeout
    const timeLeft = (): number => Math.min(MAX_TIMER, deadline - performance.now())
    post({ ...question, id, startedAt: Date.now() })
    if (signal !== undefined) entry.forget = onAbort(signal, () => drop(asError(signal.reason)))
    if (ended !== undefined) pending.settle(id, { error: ended })

    function drop(error: Error): void {
      post({ type: 'cancel', id })
      pending.settle(id, { error })
    }

    function giveUp(): void {
      receiveAll()
      if (entry.outcome !== undefined) return
      if (isReady || performance.now() - startedAt > MAX_START)
        fail(
          new EnclaveError(
            `the enclave's thread did not answer within ${Math.round(timeout)} ms and was ended; the next request starts another`,
          ),
        )
      else
        drop(
          new EnclaveError(
            `the enclave's thread was still starting after ${Math.round(timeout)} ms: ask again, or allow the request more time`,
            { mayHaveBeenSent: false },
          ),
        )
    }

    function wait(): Value {
      for (;;) {
        const seen = Atomics.load(counter, 0)
        receiveAll()
        if (entry.outcome !== undefined) return unwrap(entry.outcome)
        const left = timeLeft()
        if (left > 0) Atomics.wait(counter, 0, seen, left)
        else giveUp()
      }
    }

    async function settled(): Promise<Value> {
      const timer = setTimeout(giveUp, timeLeft())
      try {
        return unwrap(await pending.outcome(entry))
      } finally {
        clearTimeout(timer)
      }
    }
    return { wait, settled }
  }

  function post(message: ToThread): void {
    port.postMessage(message)
  }

  function isUsable(): boolean {
    receiveAll()
    return ended === undefined
  }
  return { isUsable, send, end }
}

function openWorker(
  file: string,
  { env, execArgv }: ThreadEnvironment,
  options: WorkerOptions,
): Worker {
  try {
    return new Worker(file, { ...options, env, execArgv })
  } catch (thrown) {
    if (!isRefusedFlag(thrown)) throw thrown
    return new Worker(file, {
      ...options,
      env,
      execArgv: execArgv.filter(flag => !/-ca$/.test(flag)),
    })
  }
}

function unwrap<Value>(outcome: Outcome): Value {
  if ('error' in outcome) throw outcome.error
  return outcome.response as Value
}
