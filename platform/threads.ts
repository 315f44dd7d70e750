import { availableParallelism } from 'node:os'
import host from 'node:process'
import { pathToFileURL } from 'node:url'
import { parentPort, Worker } from 'node:worker_threads'

/** A thread that was started: of Node, or a worker of the web. */
export interface Thread {
  postMessage(message: unknown): void
  terminate(): unknown
  /** Keeps the process alive, and `unref` ends that; only Node's threads have both. */
  ref?(): void
  unref?(): void
}

/** How many threads can run at once. */
export const countCores: () => number = availableParallelism

/**
 * Whether this module is in its own file. A bundler moves the module into another file, beside
 * which no program of this package lies: a file with such a name there is a stranger's. Some
 * bundlers write the module's first path into the bundle, so the JavaScript engine is asked for the
 * file.
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
 * Starts a thread that recovers signers. Undefined if the program has no file, as in a bundle, or
 * if the platform allows no more threads, as under Node's permissions.
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
 * In a thread, receives the messages of its owner, each with a function that answers. In the main
 * thread it does nothing.
 */
export function receive(onMessage: (message: unknown, answer: Answer) => void): void {
  const port = parentPort
  port?.on('message', message => onMessage(message, answer => port.postMessage(answer)))
}

type Answer = (answer: unknown) => void
