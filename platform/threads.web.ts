import type { Thread } from './threads.js'

/** How many threads can run at once. */
export const countCores = (): number =>
  (globalThis as { navigator?: { hardwareConcurrency?: number } }).navigator?.hardwareConcurrency ??
  1

/** Undefined: a worker of the web needs a file that the user's bundler knows. */
export function startRecoveryThread(): Thread | undefined {
  return undefined
}

/**
 * In a worker, receives the messages of its owner, each with a function that answers. In a page it
 * does nothing.
 */
export function receive(
  onMessage: (message: unknown, answer: (answer: unknown) => void) => void,
): void {
  const scope = globalThis as unknown as Thread & { onmessage: unknown; document?: unknown }
  if (scope.document !== undefined) return
  scope.onmessage = ({ data }: { data: unknown }) =>
    onMessage(data, answer => scope.postMessage(answer))
}
