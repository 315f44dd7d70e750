import host from 'node:process'
import { type MessagePort, Worker, type WorkerOptions } from 'node:worker_threads'

/** Variables for proxies, certificates and the time zone. None of them loads code or prints. */
const VARIABLES: readonly string[] = [
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'],
  ...['NODE_EXTRA_CA_CERTS', 'NODE_USE_ENV_PROXY', 'NODE_USE_SYSTEM_CA'],
  ...['SSL_CERT_DIR', 'SSL_CERT_FILE', 'TZ'],
]

/** The corresponding flags. */
const FLAGS =
  /^--(dns-result-order|(no-)?network-family-autoselection(-attempt-timeout)?|tls-(min|max)-v1\.\d|use-system-ca)(=|$)/
/** Flags whose value may be the next argument. */
const FLAG_AND_VALUE = /^--(dns-result-order|network-family-autoselection-attempt-timeout)$/

/** The environment of a thread. */
export interface ThreadEnvironment {
  readonly env: NodeJS.ProcessEnv
  readonly execArgv: string[]
}

/**
 * Makes the environment of a thread that holds secrets, with the variables of the caller. It is not
 * that of the process, where `NODE_DEBUG` prints the bytes that the platform sends, and
 * `NODE_OPTIONS` and flags preload modules that can read secrets.
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
 * True for Node's error about a flag that only a process can have. It applies to the threads of the
 * process anyway.
 */
export function isRejectedFlag(thrown: unknown): boolean {
  return (thrown as { code?: unknown } | null)?.code === 'ERR_WORKER_INVALID_EXEC_ARGV'
}

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
 * Resolves when the worker has exited, or hangs. A worker whose port is closed exits by itself
 * unless it hangs; it is terminated `patience` milliseconds from now at the earliest. (Early
 * releases of Node 20 may fail to terminate a worker.)
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
