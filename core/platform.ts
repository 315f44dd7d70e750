/**
 * What Node has besides the language. Its modules have it also where the globals are a browser's, as they are in tests that
 * run under jsdom.
 */
import { setImmediate as schedule } from 'node:timers'

export { join } from 'node:path'
export { fileURLToPath } from 'node:url'
export { TextDecoder, TextEncoder } from 'node:util'

/** Runs a task in the next turn of the event loop. */
export function setImmediate(task: () => void): void {
  // The global first: tests may have put their own clock there.
  ;(globalThis.setImmediate ?? schedule)(task)
}

/** The platform's fetch. */
export async function findFetch(): Promise<typeof fetch> {
  if (globalThis.fetch !== undefined) return globalThis.fetch
  const { runInThisContext } = await import('node:vm')
  // Of the program that runs the tests, that is: Node's own.
  return runInThisContext('fetch')
}
