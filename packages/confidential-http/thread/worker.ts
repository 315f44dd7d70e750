import host from 'node:process'
import { type MessagePort, Worker, type WorkerOptions } from 'node:worker_threads'

/**
 * The variables that a thread gets from the process: for proxies, certificates and the time zone.
 * None of them loads code or prints data.
 */
const VARIABLES: readonly string[] = [
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'],
  ...['NODE_EXTRA_CA_CERTS', 'NODE_USE_ENV_PROXY', 'NODE_USE_SYSTEM_CA'],
  ...['SSL_CERT_DIR', 'SSL_CERT_FILE', 'TZ'],
]

/**
 * The flags that a thread gets from the process. They concern the same subjects as the variables.
 */
const FLAGS =
  /^--(dns-result-order|(no-)?network-family-autoselection(-attempt-timeout)?|tls-(min|max)-v1\.\d|use-system-ca)(=|$)/
/** The flags whose value may be the next argument, so that the next argument is kept, too. */
const FLAG_AND_VALUE = /^--(dns-result-order|network-family-autoselection-attempt-timeout)$/

/** The environment of a thread. */
export interface ThreadEnvironment {
  readonly env: NodeJS.ProcessEnv
  readonly execArgv: string[]
}

/**
 * Makes the environment of a thread that contains secrets. Adds the variables in `more`. The thread
 * does not get the whole environment of the process. With it, `NODE_DEBUG` could print the bytes
 * that the platform sends. `NODE_OPTIONS` and flags could preload modules that read secrets.
 */
export function threadEnvironment(more: Readonly<Record<string, string>> = {}): ThreadEnvironment {
  const { env, execArgv } = host
  const given = [...(env.NODE_OPTIONS?.split(/\s+/) ?? []), ...execArgv]
  return {
    env: {
      ...Object.fromEntries(
        VARIABLES.flatMap(name => (env[name] === undefined ? [] : [[name, env[name]]])),
      ),
      ...more,
    },
    execArgv: given.filter(
      (flag, index) => FLAGS.test(flag) || FLAG_AND_VALUE.test(given[index - 1] ?? ''),
    ),
  }
}

/**
 * Tells whether an error is Node's error about a flag that only a process can have. Such a flag of
 * the process applies to its threads anyway.
 */
export function isRejectedFlag(thrown: unknown): boolean {
  return (thrown as { code?: unknown } | null)?.code === 'ERR_WORKER_INVALID_EXEC_ARGV'
}

/** The program of a thread, and its limits. */
export interface WorkerSettings {
  readonly file: URL
  /** The limit of the thread's heap, in megabytes. */
  readonly memoryMb: number
  /** Environment variables that the thread gets in addition to `VARIABLES`. */
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

/**
 * How many milliseconds to wait for a worker to end. After half of this time the worker is
 * terminated.
 */
const MAX_STOP = 800

/**
 * Terminates a worker. Resolves when the worker has exited, or after `MAX_STOP` milliseconds.
 */
export function terminateWorker(worker: Worker): Promise<void> {
  return new Promise(resolve => {
    const waiting = setTimeout(resolve, MAX_STOP)
    void worker
      .terminate()
      .catch(() => undefined)
      .then(() => {
        clearTimeout(waiting)
        resolve()
      })
  })
}

/**
 * Stops a worker. A worker whose port is closed exits by itself unless it hangs. A worker that
 * hangs is terminated, but not earlier than after `patience` milliseconds. Resolves when the worker
 * has exited, or after `MAX_STOP` milliseconds. The limit is needed because early releases of Node
 * 20 may fail to terminate a worker.
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
