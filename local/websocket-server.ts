import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'

/** What a stream asked for. */
export interface Subscription {
  /** Lower-case. */
  readonly feedIDs: readonly string[]
  /** The origin it came in through. */
  readonly origin: string
}

/** The open streams and what is sent to them. */
export interface Streams {
  /** Completes the handshake; false if the request was no proper WebSocket handshake, and has been refused. */
  readonly accept: (
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    subscription: Subscription,
  ) => boolean
  /** Sends a frame, text or binary, to the subscribers of a feed or to all. Returns how many there were. */
  readonly send: (data: string | Uint8Array, feedID?: string) => number
  /** Closes all streams with a close code, or resets their connections. Returns how many there were. */
  readonly disconnect: (code?: number) => number
  /** While held, streams neither read nor write, and stay open. */
  readonly hold: (on: boolean) => void
  /** How many are open. */
  readonly count: number
}

/** How the streams behave. */
export interface StreamsOptions {
  /** A stream whose client leaves more than this unread is closed. */
  readonly maxBufferedBytes: number
  /** Headers of the answer that accepts a stream. */
  readonly headers: () => Readonly<Record<string, string>>
  /** Refuses a request that is no proper WebSocket handshake. */
  readonly refuse: (socket: Duplex, message: string) => void
}

interface Connection extends Subscription {
  readonly stream: WebSocket
  readonly socket: Duplex
  /** Fell behind while held, so that it would miss frames: closed when the hold ends. */
  overrun: boolean
}

// Clients have nothing to say on a stream.
const maxIncomingBytes = 65_536

/** Checks a code for `disconnect`: one that a close frame can carry, or 1005 or 1006, which mean that there was none. */
function checkCloseCode(code: number): void {
  const isSendable =
    (code >= 1000 && code <= 1014 && code !== 1004) || (code >= 3000 && code <= 4999)
  if (!Number.isInteger(code) || !isSendable) {
    throw new RangeError(
      `disconnect: a close code is 1000 to 1014 but 1004, or 3000 to 4999, got ${code}`,
    )
  }
}

/** No streams, yet. */
export function createStreams({ maxBufferedBytes, headers, refuse }: StreamsOptions): Streams {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: true,
    maxPayload: maxIncomingBytes,
  })
  server.on('headers', function addHeaders(lines: string[]) {
    for (const [name, value] of Object.entries(headers())) lines.push(`${name}: ${value}`)
  })
  server.on('wsClientError', (error: Error, socket: Duplex) => refuse(socket, error.message))

  const connections = new Set<Connection>()
  const subscribers = new Map<string, Set<Connection>>()
  let isHeld = false

  const isOpen = ({ stream }: Connection): boolean => stream.readyState === stream.OPEN

  function add(connection: Connection): void {
    connections.add(connection)
    for (const feedID of connection.feedIDs) {
      const others = subscribers.get(feedID)
      if (others === undefined) subscribers.set(feedID, new Set([connection]))
      else others.add(connection)
    }
  }

  function remove(connection: Connection): void {
    connections.delete(connection)
    for (const feedID of connection.feedIDs) subscribers.get(feedID)?.delete(connection)
  }

  function holdOne({ stream, socket }: Connection): void {
    stream.pause()
    socket.cork()
  }

  function releaseOne({ stream, socket, overrun }: Connection): void {
    socket.uncork()
    stream.resume()
    if (overrun) stream.terminate()
  }

  function accept(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    subscription: Subscription,
  ): boolean {
    let isAccepted = false
    server.handleUpgrade(request, socket, head, function accepted(stream) {
      isAccepted = true
      const connection = { ...subscription, stream, socket, overrun: false }
      add(connection)
      stream.on('error', () => {})
      stream.once('close', () => remove(connection))
    })
    return isAccepted
  }

  function sendTo(connection: Connection, data: string | Uint8Array): void {
    const { stream } = connection
    if (stream.bufferedAmount <= maxBufferedBytes)
      stream.send(data, { binary: typeof data !== 'string' })
    else if (isHeld) connection.overrun = true
    else stream.terminate()
  }

  function send(data: string | Uint8Array, feedID?: string): number {
    const to = feedID === undefined ? connections : subscribers.get(feedID)
    if (to === undefined) return 0
    const open = [...to].filter(isOpen)
    for (const connection of open) sendTo(connection, data)
    return open.length
  }

  function disconnect(code?: number): number {
    if (code !== undefined) checkCloseCode(code)
    const all = [...connections].filter(isOpen)
    for (const { stream, socket } of all) {
      if (code === undefined && socket instanceof Socket) socket.resetAndDestroy()
      else if (code === undefined || code === 1006) socket.destroy()
      else if (code === 1005) stream.close()
      else stream.close(code)
    }
    return all.length
  }

  function hold(on: boolean): void {
    if (isHeld === on) return
    isHeld = on
    for (const connection of connections) {
      if (on) holdOne(connection)
      else releaseOne(connection)
    }
  }

  return {
    accept,
    send,
    disconnect,
    hold,
    get count() {
      return [...connections].filter(isOpen).length
    },
  }
}
