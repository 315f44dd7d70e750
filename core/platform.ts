/**
 * Node's own functions, taken from its modules: the globals may be a browser's, as they are in tests under jsdom.
 */
import { setImmediate as schedule } from 'node:timers'

export { join } from 'node:path'
export { fileURLToPath } from 'node:url'
export { TextDecoder, TextEncoder } from 'node:util'

/** Runs a task in the next iteration of the event loop. */
export function setImmediate(task: () => void): void {
  // The global comes first: tests may have replaced it with their own clock.
  ;(globalThis.setImmediate ?? schedule)(task)
}

/** A global of the program that runs the tests: Node's own. */
export async function findGlobal(name: keyof typeof globalThis): Promise<unknown> {
  const { runInThisContext } = await import('node:vm')
  return runInThisContext(name)
}
