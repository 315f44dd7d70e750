/** Decodes UTF-8. */
export const TextDecoder: typeof globalThis.TextDecoder = globalThis.TextDecoder
/** Encodes text as UTF-8. */
export const TextEncoder: typeof globalThis.TextEncoder = globalThis.TextEncoder

/** Whether sockets can be opened by hand, through proxies and over TLS of one's own. */
export const opensSockets: boolean = false

const tasks: (() => void)[] = []
let port: { postMessage(message: unknown): void } | null | undefined

/** Runs a task in the next iteration of the event loop. */
export function setImmediate(task: () => void): void {
  // A message is not delayed, unlike a timer: 4 ms, or a second in a hidden page.
  if (port === undefined) port = openChannel()
  if (port === null) setTimeout(task, 0)
  else {
    tasks.push(task)
    port.postMessage(undefined)
  }
}

/** Null if the platform has no channel, or a channel that throws, like Next's edge. */
function openChannel(): { postMessage(message: unknown): void } | null {
  try {
    const { port1, port2 } = new MessageChannel()
    // On Node, an open port would keep the process alive.
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

/** The platform's fetch; undefined if the platform lacks it. */
export async function findFetch(): Promise<typeof fetch | undefined> {
  return globalThis.fetch
}
