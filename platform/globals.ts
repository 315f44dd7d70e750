// Node's own functions. They are imported from Node's modules, because under jsdom the globals are
// a browser's. They have the types of the globals, so that the package's declarations need no
// module of Node.
import timers from 'node:timers'
import util from 'node:util'

/** Decodes UTF-8. */
export const TextDecoder: typeof globalThis.TextDecoder =
  util.TextDecoder as typeof globalThis.TextDecoder
/** Encodes text as UTF-8. */
export const TextEncoder: typeof globalThis.TextEncoder = util.TextEncoder

/**
 * Whether the platform lets the library open sockets itself, through proxies and with custom TLS.
 */
export const opensSockets: boolean = true

/** Runs a task in the next iteration of the event loop. Fake timers of tests don't replace it. */
export const setImmediate: (task: () => void) => void = timers.setImmediate

/** Finds the platform's fetch. Undefined if the platform lacks it. */
export async function findFetch(): Promise<typeof fetch | undefined> {
  if (globalThis.fetch !== undefined) return globalThis.fetch
  // Under jsdom the global is missing. This is the fetch of the Node process that runs the tests.
  const { runInThisContext } = await import('node:vm')
  return runInThisContext('fetch') as typeof fetch
}

const UNHANDLED = 'unhandledRejection'

/**
 * Calls `note` with the reason of each promise that is rejected and that nobody catches. The
 * listeners of test runners don't hear of it. Returns a function that ends it.
 */
export async function watchRejections(note: (reason: unknown) => void): Promise<() => void> {
  // In a test runner, the global may be a copy that hears no events.
  const { runInThisContext } = await import('node:vm')
  const real = runInThisContext('process') as NodeJS.Process
  const others = real.listeners(UNHANDLED)
  real.removeAllListeners(UNHANDLED)
  real.on(UNHANDLED, note)
  return () => {
    real.off(UNHANDLED, note)
    for (const other of others) real.on(UNHANDLED, other)
  }
}

/** How many listeners the process has. */
export function countProcessListeners(): number {
  const events = globalThis.process.eventNames() as 'exit'[]
  return events.reduce((sum, event) => sum + globalThis.process.listenerCount(event), 0)
}

/**
 * Calls `run`, and tells afterwards which code was called by it: at once, after a wait, or by a
 * timer. `run` gets the function that tells.
 */
export async function runInside<Value>(
  run: (isInside: () => boolean) => Promise<Value>,
): Promise<Value> {
  const { AsyncLocalStorage } = await import('node:async_hooks')
  const storage = new AsyncLocalStorage<boolean>()
  return storage.run(true, () => run(() => storage.getStore() === true))
}

/**
 * The milliseconds of processor time that the process has used, and how often another process took
 * a core from it.
 */
export function processorUse(): { readonly ms: number; readonly interruptions: number } {
  // Some runtimes have no such function.
  const use = globalThis.process.resourceUsage?.()
  if (use === undefined) return { ms: 0, interruptions: 0 }
  return {
    ms: (use.userCPUTime + use.systemCPUTime) / 1000,
    interruptions: use.involuntaryContextSwitches,
  }
}
