import { startRecoveryThread } from '../../platform/threads.js'
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

/** Starts a thread; undefined where the platform allows no more of them. */
export function startWorker(
  choice: EngineChoice,
  { answered, exited }: WorkerEvents,
): RecoveryWorker | undefined {
  const thread = startRecoveryThread(choice)
  if (thread === undefined) return undefined
  thread.unref()
  /** In the order of the answers. */
  const batches: Batch[] = []
  let hasAnswered = false
  const worker: RecoveryWorker = {
    get load() {
      return batches.length
    },
    post(batch) {
      if (batches.push(batch) === 1) thread.ref()
      thread.postMessage(
        batch.jobs.map(({ fullReport, addresses }): Task => ({ fullReport, addresses })),
      )
    },
    terminate: () => void thread.terminate(),
  }
  thread.on('message', (answer: Answer) => {
    hasAnswered = true
    const batch = batches.shift()
    if (batches.length === 0) thread.unref()
    if (batch !== undefined) answered(batch, answer)
  })
  // The event exit follows.
  thread.on('error', () => undefined)
  thread.on('exit', () => exited(worker, batches, hasAnswered))
  return worker
}
