/** Decodes UTF-8. */
export const TextDecoder: typeof globalThis.TextDecoder = globalThis.TextDecoder
/** Encodes text as UTF-8. */
export const TextEncoder: typeof globalThis.TextEncoder = globalThis.TextEncoder

/** Whether sockets can be opened by hand, through proxies and over TLS of one's own. */
export const opensSockets: boolean = false

const tasks: (() => void)[] = []
let port: { postMessage(message: unknown): void } | undefined

/** Runs a task in the next iteration of the event loop. */
export function setImmediate(task: () => void): void {
  // A message is not delayed as timers are: by 4 ms, or by a second in a page that nobody sees.
  if (globalThis.MessageChannel === undefined) {
    setTimeout(task, 0)
    return
  }
  port ??= openChannel().port2
  tasks.push(task)
  port.postMessage(undefined)
}

function openChannel(): InstanceType<typeof MessageChannel> {
  const channel = new MessageChannel()
  Object.assign(channel.port1, { onmessage: () => tasks.shift()?.() })
  return channel
}

/** The platform's fetch; undefined where it has none. */
export async function findFetch(): Promise<typeof fetch | undefined> {
  return globalThis.fetch
}
