import type { Thread } from './threads.js'

/** How many threads can run at once. */
export const countCores = (): number =>
  (globalThis as { navigator?: { hardwareConcurrency?: number } }).navigator?.hardwareConcurrency ??
  1

/** Returns undefined, because a web worker needs a file that the user's bundler knows. */
export function startRecoveryThread(): Thread | undefined {
  return undefined
}

/**
 * In a worker, receives the owner's messages. `onMessage` gets each message, and a function that
 * answers it. In a page this does nothing.
 */
export function receive(
  onMessage: (message: unknown, answer: (answer: unknown) => void) => void,
): void {
  const scope = globalThis as unknown as Thread & { onmessage: unknown; document?: unknown }
  if (scope.document !== undefined) return
  scope.onmessage = ({ data }: { data: unknown }) =>
    onMessage(data, answer => scope.postMessage(answer))
}
