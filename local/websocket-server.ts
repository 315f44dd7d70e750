import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import type { PublishedReport } from './ledger.js'

/** What goes out to streams in one frame. */
export interface Frame {
  /** Text, or bytes for a binary frame. */
  readonly data: string | Uint8Array
  /** Whose subscribers get it; undefined is every stream. */
  readonly feedID: string | undefined
  /** The report it holds, unharmed. */
  readonly report: PublishedReport | undefined
}

/** The open streams and what is sent to them. */
export interface Streams {
  /**
   * Completes the handshake and returns the stream's number; undefined if the request was no proper WebSocket handshake,
   * and has been refused.
   */
  readonly accept: (
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    feedIDs: readonly string[],
  ) => number | undefined
  /** Sends a frame to its subscribers. Returns how many there were. */
  readonly send: (frame: Frame) => number
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
  /** Whether clients may have their frames compressed. */
  readonly compression: boolean
  /** Numbers the streams. */
  readonly nextNumber: () => number
  /** Hears of each report that was written to a stream. */
  readonly onSent: (report: PublishedReport, stream: number) => void
  /** Headers of the answer that accepts a stream. */
  readonly headers: () => Readonly<Record<string, string>>
  /** Refuses a request that is no proper WebSocket handshake. */
  readonly refuse: (socket: Duplex, message: string) => void
}

interface Connection {
  readonly number: number
  /** Lower-case. */
  readonly feedIDs: readonly string[]
  readonly stream: WebSocket
  readonly socket: Duplex
  /** The reports that go out when the hold ends. */
  unsent: PublishedReport[]
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
export function createStreams(options: StreamsOptions): Streams {
  const { maxBufferedBytes, compression, nextNumber, onSent, headers, refuse } = options
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: compression,
    maxPayload: maxIncomingBytes,
  })
  server.on('headers', function addHeaders(lines: string[]) {
    for (const [name, value] of Object.entries(headers())) lines.push(`${name}: ${value}`)
  })
  server.on('wsClientError', (error: Error, socket: Duplex) => refuse(socket, error.message))

  const connections = new Set<Connection>()
  const subscribers = new Map<string, Set<Connection>>()
  let isHeld = false

  // A stream learns of the end of its socket a little later.
  const isOpen = ({ stream, socket }: Connection): boolean =>
    stream.readyState === stream.OPEN && !socket.destroyed

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

  function releaseOne(connection: Connection): void {
    const { number, stream, socket, unsent, overrun } = connection
    connection.unsent = []
    socket.uncork()
    stream.resume()
    if (overrun) stream.terminate()
    if (isOpen(connection)) for (const report of unsent) onSent(report, number)
  }

  function accept(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    feedIDs: readonly string[],
  ): number | undefined {
    let accepted: Connection | undefined
    server.handleUpgrade(request, socket, head, function accept(stream) {
      const number = nextNumber()
      const connection = { number, feedIDs, stream, socket, unsent: [], overrun: false }
      accepted = connection
      add(connection)
      stream.on('error', () => {})
      stream.once('close', () => remove(connection))
    })
    return accepted?.number
  }

  function sendTo(connection: Connection, { data, report }: Frame): void {
    const { number, stream } = connection
    if (stream.bufferedAmount > maxBufferedBytes) {
      if (isHeld) connection.overrun = true
      else stream.terminate()
      return
    }
    stream.send(data, { binary: typeof data !== 'string' })
    if (report === undefined) return
    if (isHeld) connection.unsent.push(report)
    else onSent(report, number)
  }

  function send(frame: Frame): number {
    const to = frame.feedID === undefined ? connections : subscribers.get(frame.feedID)
    let count = 0
    for (const connection of to ?? []) {
      if (!isOpen(connection)) continue
      count++
      sendTo(connection, frame)
    }
    return count
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
