/** The first request of a connection; all undefined before its head is complete, or if it is not HTTP. */
export interface RequestHead {
  /** Upper case: `GET`. */
  readonly method: string | undefined
  /** Path and query. */
  readonly path: string | undefined
  /** The value of `X-Cll-Origin`, if it was sent. */
  readonly origin: string | undefined
}

const maxHeadBytes = 65_536

function parse(head: string): RequestHead {
  const [, method, path] = /^([A-Z]+) (\S+) HTTP\/1/.exec(head) ?? []
  const origin = method === undefined ? undefined : /^x-cll-origin: *(\S+)/im.exec(head)?.[1]
  return { method, path, origin }
}

/** Reads a client's bytes until the head of its first request is complete. */
export function createHeadReader(): {
  readonly read: (chunk: Buffer) => void
  readonly head: RequestHead
} {
  let text: string | undefined = ''
  let head = parse('')

  return {
    read(chunk) {
      if (text === undefined) return
      text += chunk.toString('latin1')
      const end = text.indexOf('\r\n\r\n')
      if (end < 0 && text.length < maxHeadBytes) return
      head = parse(text.slice(0, Math.max(end, 0)))
      text = undefined
    },
    get head() {
      return head
    },
  }
}
