/** Decodes UTF-8. */
export const TextDecoder: typeof globalThis.TextDecoder = globalThis.TextDecoder
/** Encodes text as UTF-8. */
export const TextEncoder: typeof globalThis.TextEncoder = globalThis.TextEncoder

/**
 * Whether the platform lets the library open sockets itself, through proxies and with custom TLS.
 */
export const opensSockets: boolean = false

const tasks: (() => void)[] = []
let port: { postMessage(message: unknown): void } | null | undefined

/** Runs a task in the next iteration of the event loop. */
export function setImmediate(task: () => void): void {
  // A message is not delayed. A timer is delayed by 4 ms, or by a second in a hidden page.
  if (port === undefined) port = openChannel()
  if (port !== null) {
    tasks.push(task)
    port.postMessage(undefined)
  } else if (globalThis.setTimeout !== undefined) setTimeout(task, 0)
  // A runtime without timers has only one iteration.
  else void Promise.resolve().then(task)
}

/**
 * Opens a message channel. Null if the platform has no channel, or its channel throws, as in Next's
 * edge runtime.
 */
function openChannel(): { postMessage(message: unknown): void } | null {
  try {
    const { port1, port2 } = new MessageChannel()
    // On Node, an open port would keep the process alive, so it is held only while tasks wait.
    const held: { ref?(): void; unref?(): void } = port1 as object
    Object.assign(port1, {
      onmessage() {
        tasks.shift()?.()
        if (tasks.length === 0) held.unref?.()
      },
    })
    return {
      postMessage(message) {
        held.ref?.()
        port2.postMessage(message)
      },
    }
  } catch {
    return null
  }
}

/** Finds the platform's fetch. Undefined if the platform lacks it. */
export async function findFetch(): Promise<typeof fetch | undefined> {
  return globalThis.fetch
}

/**
 * Calls `note` with the reason of each promise that is rejected and that nobody catches. Returns a
 * function that ends it.
 */
export async function watchRejections(note: (reason: unknown) => void): Promise<() => void> {
  const listen = (event: object): void => note((event as { reason?: unknown }).reason)
  const scope = globalThis as Partial<Pick<EventTarget, 'addEventListener' | 'removeEventListener'>>
  scope.addEventListener?.('unhandledrejection', listen)
  return () => scope.removeEventListener?.('unhandledrejection', listen)
}

/** How many listeners the process has. Always 0: a web platform has no process. */
export function countProcessListeners(): number {
  return 0
}

/** Calls `run`. A web platform can't tell which code was called by it, so all code counts. */
export async function runInside<Value>(
  run: (isInside: () => boolean) => Promise<Value>,
): Promise<Value> {
  return run(() => true)
}

/** The processor time of the program. A web platform does not tell it. */
export function processorUse(): { readonly ms: number; readonly interruptions: number } {
  return { ms: 0, interruptions: 0 }
}
