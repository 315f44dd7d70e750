import { availableParallelism } from 'node:os'
import type { Worker } from 'node:worker_threads'
import { startWorker } from '../thread/worker.js'
import { type Asker, createAdmission } from './admission.js'
import { type CurveKeys, type CurveResult, type CurveTask, runCurveTask } from './curve-work.js'

/** Does the curve work of an enclave beside its event loop. */
export interface CurveThreads {
  /**
   * Calls `task` when the work may begin. Rejects with Rejection where too many strangers wait, and with the reason of the
   * asker's signal.
   */
  run<Task extends CurveTask>(task: () => Task, asker: Asker): Promise<CurveResult<Task>>
  close(): Promise<void>
}

const MAX_THREADS = 4
const MEMORY_MB = 64

/** A thread that does one task at a time. */
interface CurveThread {
  run(task: CurveTask): Promise<unknown>
  isBusy(): boolean
  close(): Promise<unknown>
}

/** Starts as many threads as there are cores beside that of the event loop, at least one. */
export function startCurveThreads(keys: CurveKeys): CurveThreads {
  const width = Math.min(MAX_THREADS, Math.max(1, availableParallelism() - 1))
  const admission = createAdmission(width)
  const threads = Array.from({ length: width }, () => createThread(keys))
  return {
    async run<Task extends CurveTask>(task: () => Task, asker: Asker): Promise<CurveResult<Task>> {
      const leave = await admission.enter(asker)
      try {
        const thread = threads.find(each => !each.isBusy()) as CurveThread
        return (await thread.run(task())) as CurveResult<Task>
      } finally {
        leave()
      }
    },
    async close() {
      await Promise.all(threads.map(each => each.close()))
    },
  }
}

/** Starts the thread, and again after a crash. Where there can be no thread, the event loop works. */
function createThread(keys: CurveKeys): CurveThread {
  let fail: ((error: Error) => void) | undefined

  function start(): Worker | undefined {
    let started: Worker
    try {
      const file = new URL('./curve-thread.js', import.meta.url)
      started = startWorker({ file, memoryMb: MEMORY_MB }, keys)
    } catch {
      return undefined
    }
    // The event exit follows.
    started.on('error', () => undefined)
    started.on('exit', () => {
      if (worker === started) worker = undefined
      fail?.(new Error('a thread of the enclave ended'))
    })
    return started
  }

  let worker = start()
  return {
    isBusy: () => fail !== undefined,
    run(task) {
      worker ??= start()
      const running = worker
      if (running === undefined) return Promise.resolve(runCurveTask(task, keys))
      return new Promise((resolve, reject) => {
        fail = reject
        running.once('message', resolve)
        running.postMessage(task)
      }).finally(() => {
        fail = undefined
        running.removeAllListeners('message')
      })
    },
    close: async () => worker?.terminate(),
  }
}
