// Node's own functions, imported from its modules: under jsdom the globals belong to a browser.
// They have the types of the globals, so that the package's declarations name no module of Node.
import timers from 'node:timers'
import util from 'node:util'

/** Decodes UTF-8. */
export const TextDecoder: typeof globalThis.TextDecoder = util.TextDecoder
/** Encodes text as UTF-8. */
export const TextEncoder: typeof globalThis.TextEncoder = util.TextEncoder

/** Whether sockets can be opened by hand, through proxies and over TLS of one's own. */
export const opensSockets: boolean = true

/** Runs a task in the next iteration of the event loop. Fake timers of tests don't replace it. */
export const setImmediate: (task: () => void) => void = timers.setImmediate

/** The platform's fetch; undefined if the platform lacks it. */
export async function findFetch(): Promise<typeof fetch | undefined> {
  if (globalThis.fetch !== undefined) return globalThis.fetch
  // The fetch of the program that runs the tests.
  const { runInThisContext } = await import('node:vm')
  return runInThisContext('fetch') as typeof fetch
}
