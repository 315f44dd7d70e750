import type { Thread } from '../../platform/threads.js'
import type { EngineChoice } from './engine.js'
import type { Recovered } from './recover-signers.js'
import type { Job, Task } from './recovery.js'
import type { Timed } from './speed.js'

/** What a thread answers to a batch. */
export interface Answer {
  /** In the order of the jobs. */
  readonly recovered: readonly Recovered[]
  readonly timed: Timed
}

/** Jobs that a thread receives together. */
export interface Batch {
  readonly jobs: readonly Job[]
  /** How many threads have exited without answering it. */
  readonly crashes: number
}

/** A thread that recovers signers. It keeps the process alive while it has work. */
export interface RecoveryWorker {
  /** Batches that it has not answered. */
  readonly load: number
  post(batch: Batch): void
  terminate(): void
}

/** The events of a thread. */
export interface WorkerEvents {
  answered(batch: Batch, answer: Answer): void
  /** The thread has ended by itself, and will not answer these batches. */
  exited(worker: RecoveryWorker, unanswered: readonly Batch[], hasAnswered: boolean): void
}

/** Milliseconds for the first answer of a thread: one whose file has no program of ours would never answer. */
const START_LIMIT = 10_000

/** Has a thread recover signers. */
export function runWorker(
  thread: Thread,
  choice: EngineChoice,
  { answered, exited }: WorkerEvents,
): RecoveryWorker {
  thread.unref?.()
  /** In the order of the answers. */
  const batches: Batch[] = []
  let hasAnswered = false
  let starting: ReturnType<typeof setTimeout> | undefined
  const worker: RecoveryWorker = {
    get load() {
      return batches.length
    },
    post(batch) {
      if (batches.push(batch) === 1) thread.ref?.()
      thread.postMessage(
        batch.jobs.map(({ fullReport, addresses }): Task => ({ fullReport, addresses })),
      )
      if (hasAnswered || starting !== undefined) return
      starting = setTimeout(end, START_LIMIT)
      starting.unref?.()
    },
    terminate() {
      clearTimeout(starting)
      thread.terminate()
    },
  }
  const end = listen(
    thread,
    message => {
      hasAnswered = true
      clearTimeout(starting)
      const batch = batches.shift()
      if (batches.length === 0) thread.unref?.()
      if (batch !== undefined) answered(batch, message as Answer)
    },
    () => {
      clearTimeout(starting)
      exited(worker, batches, hasAnswered)
    },
  )
  thread.postMessage(choice)
  return worker
}

/** The events of a thread of Node's. */
interface NodeEvents {
  on(event: string, listener: (value: unknown) => void): void
}

/** The events of a worker of the web. */
interface WebEvents {
  addEventListener(event: string, listener: (event: { data?: unknown }) => void): void
}

/** Listens to a thread. Returns a function that ends it, as if it had ended by itself. */
function listen(
  thread: Thread,
  onMessage: (message: unknown) => void,
  onEnd: () => void,
): () => void {
  if ('on' in thread) {
    const events = thread as Thread & NodeEvents
    events.on('message', onMessage)
    // The event exit follows.
    events.on('error', () => undefined)
    events.on('exit', onEnd)
    return () => void thread.terminate()
  }
  const events = thread as Thread & WebEvents
  events.addEventListener('message', ({ data }) => onMessage(data))
  let hasEnded = false
  function end(): void {
    if (hasEnded) return
    hasEnded = true
    thread.terminate()
    onEnd()
  }
  // It has no event for its end: a program that throws, or that can't be loaded, is ended here.
  events.addEventListener('error', end)
  return end
}
