// Node's own functions, taken from its modules: the globals may be a browser's, as they are in tests under jsdom. Their types
// are those of the globals, so that the declarations of the package name no module of Node.
import timers from 'node:timers'
import util from 'node:util'

/** Decodes UTF-8. */
export const TextDecoder: typeof globalThis.TextDecoder = util.TextDecoder
/** Encodes text as UTF-8. */
export const TextEncoder: typeof globalThis.TextEncoder = util.TextEncoder

/** Whether sockets can be opened by hand, through proxies and over TLS of one's own. */
export const opensSockets: boolean = true

/** Runs a task in the next iteration of the event loop: of the real one, also where tests have replaced the global function. */
export const setImmediate: (task: () => void) => void = timers.setImmediate

/** The platform's fetch; undefined where it has none. */
export async function findFetch(): Promise<typeof fetch | undefined> {
  if (globalThis.fetch !== undefined) return globalThis.fetch
  // That of the program that runs the tests.
  const { runInThisContext } = await import('node:vm')
  return runInThisContext('fetch') as typeof fetch
}
