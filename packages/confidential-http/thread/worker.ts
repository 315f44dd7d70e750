import { type MessagePort, Worker, type WorkerOptions } from 'node:worker_threads'
import { isRejectedFlag, threadEnvironment } from './thread-environment.js'

/** The program of a thread, and its resources. */
export interface WorkerSettings {
  readonly file: URL
  /** The limit of its heap, in megabytes. */
  readonly memoryMb: number
  /** Environment variables besides those that every thread has. */
  readonly env?: Readonly<Record<string, string>> | undefined
}

/** Starts a worker that does not keep the process alive. */
export function startWorker(
  { file, memoryMb, env }: WorkerSettings,
  workerData: unknown,
  transferList: MessagePort[] = [],
): Worker {
  const { execArgv, ...environment } = threadEnvironment(env)
  const options: WorkerOptions = {
    workerData,
    transferList,
    resourceLimits: { maxOldGenerationSizeMb: memoryMb },
    name: 'sluice',
    ...environment,
  }
  let worker: Worker
  try {
    worker = new Worker(file, { ...options, execArgv })
  } catch (thrown) {
    if (!isRejectedFlag(thrown)) throw thrown
    worker = new Worker(file, { ...options, execArgv: execArgv.filter(flag => !/-ca$/.test(flag)) })
  }
  worker.unref()
  return worker
}

/** Milliseconds to wait for a worker to end; it is terminated after half of them. */
const MAX_STOP = 800

/**
 * Resolves when the worker has exited, or hangs. A worker whose port is closed exits by itself unless it hangs; it is terminated
 * `patience` milliseconds from now at the earliest. (Early releases of Node 20 may fail to terminate a worker.)
 */
export function stopWorker(worker: Worker, patience: number): Promise<void> {
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
