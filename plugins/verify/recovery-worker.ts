import type { Thread } from '../../platform/threads.js'
import type { CurveLibraryChoice } from './curve-library.js'
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
  /** The thread has ended, and will not answer these batches; what has failed, where that is known. */
  exited(left: readonly Batch[], hasAnswered: boolean, failure: unknown): void
}

/** Milliseconds for an answer: a thread whose program is none of ours, or that hangs, would never answer. */
const ANSWER_LIMIT = 5000

/** A thread of Node's, or a worker of the web, with the events of its kind. */
type AnyThread = Thread & {
  on?(event: string, listener: (value: unknown) => void): void
  addEventListener?(event: string, listener: (event: { data?: unknown }) => void): void
}

/** Has a thread recover signers. Throws where it is none. */
export function runWorker(
  thread: AnyThread,
  choice: CurveLibraryChoice,
  { answered, exited }: WorkerEvents,
): RecoveryWorker {
  /** In the order of the answers. */
  const batches: Batch[] = []
  let hasAnswered = false
  let hasEnded = false
  let failure: unknown
  let timer: ReturnType<typeof setTimeout> | undefined

  function end(reason?: unknown): void {
    failure ??= reason
    if (hasEnded) return
    hasEnded = true
    clearTimeout(timer)
    try {
      thread.terminate()
    } catch {}
    exited(batches, hasAnswered, failure)
  }

  function giveUp(): void {
    end(new Error(`it has not answered for ${ANSWER_LIMIT} ms`))
  }

  /** The clock of the next answer. */
  function wait(): void {
    clearTimeout(timer)
    if (batches.length === 0) return
    timer = setTimeout(giveUp, ANSWER_LIMIT)
    timer.unref?.()
  }

  function receive(message: unknown): void {
    if (hasEnded) return
    const [batch] = batches
    if (batch === undefined || !isAnswer(message, batch.jobs.length)) {
      end(new Error('it has sent what is no answer: its program must be ours alone'))
      return
    }
    hasAnswered = true
    batches.shift()
    if (batches.length === 0) thread.unref?.()
    wait()
    answered(batch, message)
  }

  if (typeof thread.on === 'function') {
    thread.on('message', receive)
    // The event exit follows.
    thread.on('error', thrown => {
      failure = thrown
    })
    thread.on('exit', () => end())
  } else if (typeof thread.addEventListener === 'function') {
    thread.addEventListener('message', ({ data }) => receive(data))
    // It has no event for its end: a program that throws, or that can't be loaded, is ended here.
    thread.addEventListener('error', event => end((event as { message?: unknown }).message))
  } else throw new TypeError('it is no Worker')
  thread.unref?.()
  thread.postMessage(choice)

  return {
    get load() {
      return batches.length
    },
    post(batch) {
      if (batches.push(batch) === 1) {
        thread.ref?.()
        wait()
      }
      try {
        thread.postMessage(
          batch.jobs.map(({ fullReport, addresses }): Task => ({ fullReport, addresses })),
        )
      } catch (thrown) {
        end(thrown)
      }
    },
    terminate() {
      hasEnded = true
      clearTimeout(timer)
      thread.terminate()
    },
  }
}

function isAnswer(message: unknown, jobs: number): message is Answer {
  const { recovered, timed } = (message ?? {}) as Partial<Answer>
  return (
    Array.isArray(recovered) &&
    recovered.length === jobs &&
    recovered.every(each => typeof each === 'object' && each !== null) &&
    Number.isFinite(timed?.reports) &&
    Number.isFinite(timed?.ms)
  )
}
