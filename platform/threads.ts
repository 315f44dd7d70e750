import { availableParallelism } from 'node:os'
import host from 'node:process'
import { pathToFileURL } from 'node:url'
import { parentPort, Worker } from 'node:worker_threads'

/** A thread that was started: of Node, or a worker of the web. */
export interface Thread {
  postMessage(message: unknown): void
  terminate(): unknown
  /** Keeps the process alive, and no longer; where the platform has such. */
  ref?(): void
  unref?(): void
}

/** How many threads can run at once. */
export const countCores: () => number = availableParallelism

/**
 * Whether this module is in its own file. A bundler moves it into another, beside which no program
 * of ours lies: whatever has the name of one there is a stranger's. Some bundlers write down where
 * the module lay when they ran, so the engine is asked for the file.
 */
function isInPlace(): boolean {
  const url = import.meta.url
  if (!/\/(dist\/(esm|cjs)\/platform\/threads\.js|platform\/threads\.ts)$/.test(url)) return false
  const prepare = Error.prepareStackTrace
  Error.prepareStackTrace = (_, [caller]) => caller?.getFileName()
  try {
    const file: unknown = new Error().stack
    return file === url || (typeof file === 'string' && pathToFileURL(file).href === url)
  } finally {
    Error.prepareStackTrace = prepare
  }
}

/**
 * Starts a thread that recovers signers. Undefined where it has no file, as in a bundle, and where
 * the platform allows no more threads, as under Node's permissions.
 */
export function startRecoveryThread(): Thread | undefined {
  if (!isInPlace()) return undefined
  const program = new URL(/* webpackIgnore: true */ '../plugins/verify/thread.js', import.meta.url)
  try {
    return new Worker(program, {
      // Node passes its own arguments on, and a program in a file can't have --input-type.
      ...(host.execArgv.some(each => each.startsWith('--input-type')) && { execArgv: [] }),
    })
  } catch {
    return undefined
  }
}

/**
 * Within a thread, receives the messages of whoever has started it, each with a function that
 * answers; elsewhere does nothing.
 */
export function receive(onMessage: (message: unknown, answer: Answer) => void): void {
  const port = parentPort
  port?.on('message', message => onMessage(message, answer => port.postMessage(answer)))
}

type Answer = (answer: unknown) => void
