import { availableParallelism } from 'node:os'
import type { Worker } from 'node:worker_threads'
import { Admission, type Asker, type BoxKeys } from 'sluice/internal'
import { startWorker, terminateWorker } from '../thread/worker.js'
import { openRequest, overloaded, sealAnswer, sealBootKey } from './protocol.js'

/** A task that takes milliseconds of arithmetic on the curve. */
export type CurveTask =
  | { readonly type: 'seal-boot-key'; readonly json: string; readonly asker: Uint8Array }
  | { readonly type: 'open-request'; readonly sealed: Uint8Array }
  | { readonly type: 'seal-answer'; readonly json: string; readonly replyTo: Uint8Array }

/** The key pairs of an enclave. */
export interface CurveKeys {
  readonly enclave: BoxKeys
  /** The boot key, made at each start. */
  readonly boot: BoxKeys
}

/** The result of each kind of task. */
export type CurveResult<Task extends CurveTask> = Task extends { type: 'open-request' }
  ? ReturnType<typeof openRequest>
  : Uint8Array

/** Does a task. */
export function runCurveTask(task: CurveTask, { enclave, boot }: CurveKeys): unknown {
  switch (task.type) {
    case 'seal-boot-key':
      return sealBootKey(task.json, task.asker, enclave)
    case 'open-request':
      return openRequest(task.sealed, boot)
    case 'seal-answer':
      return sealAnswer(task.json, task.replyTo, boot)
  }
}

const MAX_THREADS = 4
const MEMORY_MB = 64
/**
 * How many milliseconds a task may take, from a few milliseconds of arithmetic to a thread that
 * still starts on a slow machine. After that the thread is replaced, and its place is free again.
 */
const MAX_TASK = 120_000

/**
 * Does the curve work of an enclave in threads, so that its event loop stays free. There are as
 * many threads as cores less one: at least 1, at most MAX_THREADS.
 */
export class CurveThreads {
  readonly #admission: Admission
  readonly #threads: readonly CurveThread[]

  constructor(keys: CurveKeys) {
    const width = Math.min(MAX_THREADS, Math.max(1, availableParallelism() - 1))
    this.#admission = new Admission(width, overloaded)
    this.#threads = Array.from({ length: width }, () => new CurveThread(keys))
  }

  /**
   * Calls `task` when the work may begin. Rejects with Rejection if too many strangers wait. If the
   * asker's signal aborts, rejects with its reason.
   */
  async run<Task extends CurveTask>(task: () => Task, asker: Asker): Promise<CurveResult<Task>> {
    const leave = await this.#admission.enter(asker)
    try {
      const thread = this.#threads.find(each => !each.isBusy) as CurveThread
      return (await thread.run(task())) as CurveResult<Task>
    } finally {
      leave()
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map(each => each.close()))
  }
}

/**
 * A thread that does one task at a time, and is started again after a crash. If no thread can be
 * started, the event loop does the task.
 */
class CurveThread {
  readonly #keys: CurveKeys
  #worker: Worker | undefined
  #fail: ((error: Error) => void) | undefined

  constructor(keys: CurveKeys) {
    this.#keys = keys
    this.#worker = this.#start()
  }

  get isBusy(): boolean {
    return this.#fail !== undefined
  }

  run(task: CurveTask): Promise<unknown> {
    this.#worker ??= this.#start()
    const worker = this.#worker
    if (worker === undefined) return Promise.resolve(runCurveTask(task, this.#keys))
    let timer: ReturnType<typeof setTimeout> | undefined
    return new Promise((resolve, reject) => {
      this.#fail = reject
      worker.once('message', resolve)
      worker.postMessage(task)
      timer = setTimeout(() => {
        this.#worker = undefined
        void terminateWorker(worker)
        reject(new Error(`a thread of the enclave did no task within ${MAX_TASK} ms`))
      }, MAX_TASK).unref()
    }).finally(() => {
      clearTimeout(timer)
      this.#fail = undefined
      worker.removeAllListeners('message')
    })
  }

  async close(): Promise<void> {
    if (this.#worker !== undefined) await terminateWorker(this.#worker)
  }

  #start(): Worker | undefined {
    let started: Worker
    try {
      const file = new URL('./curve-thread.js', import.meta.url)
      started = startWorker({ file, memoryMb: MEMORY_MB }, this.#keys)
    } catch {
      return undefined
    }
    // The event `exit` follows, and rejects the task.
    started.on('error', () => undefined)
    started.on('exit', () => {
      if (this.#worker !== started) return
      this.#worker = undefined
      this.#fail?.(new Error('a thread of the enclave ended'))
    })
    return started
  }
}
