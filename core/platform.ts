// Node's own functions, taken from its modules: the globals may be a browser's, as they are in tests under jsdom. Their types
// are those of the globals, so that the declarations of the package name no module of Node.
import path from 'node:path'
import { setImmediate as schedule } from 'node:timers'
import url from 'node:url'
import util from 'node:util'

/** Joins the parts of a file's path. */
export const join: (...parts: string[]) => string = path.join
/** The path of a file from its URL. */
export const fileURLToPath: (url: URL) => string = url.fileURLToPath
/** Decodes UTF-8. */
export const TextDecoder: typeof globalThis.TextDecoder = util.TextDecoder
/** Encodes text as UTF-8. */
export const TextEncoder: typeof globalThis.TextEncoder = util.TextEncoder

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
