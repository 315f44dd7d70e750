import type { Thread } from './threads.js'

/** How many threads can run at once. */
export const countCores = (): number => 1

/** Undefined: a worker of the web needs a file that the user's bundler knows. */
export function startRecoveryThread(_data: unknown): Thread | undefined {
  return undefined
}
