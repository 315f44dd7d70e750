import { availableParallelism } from 'node:os'
import host from 'node:process'
import { pathToFileURL } from 'node:url'
import { parentPort, Worker } from 'node:worker_threads'

/** A thread that was started: a thread of Node, or a web worker. */
export interface Thread {
  postMessage(message: unknown): void
  terminate(): unknown
  /**
   * Keeps the process alive until `unref` is called. Only Node's threads have `ref` and `unref`.
   */
  ref?(): void
  unref?(): void
}

/** How many threads can run at once. */
export const countCores: () => number = availableParallelism

/**
 * Whether this module is in its own file. A bundler moves the module into another file. A file with
 * the name of the thread's program near that file would belong to someone else. Some bundlers write
 * the module's original path into the bundle, so the JavaScript engine is asked for the real file.
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
 * Starts a thread that recovers signers. Undefined if the thread's program is not in a file, as in
 * a bundle. Also undefined if the platform allows no thread, for example because of Node's
 * permissions.
 */
export function startRecoveryThread(): Thread | undefined {
  if (!isInPlace()) return undefined
  const program = new URL(/* webpackIgnore: true */ '../plugins/verify/thread.js', import.meta.url)
  try {
    return new Worker(program, {
      // Node passes its own arguments on to the thread, but a program in a file can't have
      // --input-type.
      ...(host.execArgv.some(each => each.startsWith('--input-type')) && { execArgv: [] }),
    })
  } catch {
    return undefined
  }
}

/**
 * In a thread, receives the owner's messages. `onMessage` gets each message, and a function that
 * answers it. In the main thread this does nothing.
 */
export function receive(onMessage: (message: unknown, answer: Answer) => void): void {
  const port = parentPort
  port?.on('message', message => onMessage(message, answer => port.postMessage(answer)))
}

type Answer = (answer: unknown) => void
