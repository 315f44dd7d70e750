import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { ValidationError } from 'sluice/core'
import { jsonAnswer, writeRawAnswer } from 'sluice/internal'
import { type WebSocket, WebSocketServer } from 'ws'
import type { EngineContext } from './context.js'
import type { PublishedReport } from './ledger.js'

/** A message for streams. */
export interface Frame {
  /** Text, or bytes for a binary frame. */
  readonly data: string | Uint8Array
  /** The feed whose subscribers get it; undefined for every stream. */
  readonly feedID: string | undefined
  /** The report it holds unchanged. */
  readonly report: PublishedReport | undefined
}

/** The open streams of a server. */
export interface Streams {
  /** Completes the handshake and returns the stream's number; undefined if the handshake was malformed and rejected. */
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
  /** While on, streams stay open and neither read nor write. */
  readonly blackhole: (on: boolean) => void
  /** While on, the streams that are open now get no frames. */
  readonly mute: (on: boolean) => void
  readonly count: number
}

interface Connection {
  readonly number: number
  readonly feedIDs: readonly string[]
  readonly stream: WebSocket
  readonly socket: Duplex
  /** The reports to send when the blackhole ends. */
  unsent: PublishedReport[]
  /** It has missed frames during a blackhole, and is closed at its end. */
  hasOverflowed: boolean
  isMute: boolean
}

// Clients send nothing on a stream.
const maxIncomingBytes = 65_536

/** Checks the code of `disconnect`: one that a close frame can carry, or 1005 or 1006, which mean that there was none. */
function checkCloseCode(code: number): void {
  const isValid = (code >= 1000 && code <= 1014 && code !== 1004) || (code >= 3000 && code <= 4999)
  if (!Number.isInteger(code) || !isValid)
    throw new ValidationError(
      `disconnect: a close code is 1000 to 1014 but 1004, or 3000 to 4999, got ${code}`,
    )
}

// A stream notices the end of its socket a little later.
const isOpen = ({ stream, socket }: Connection): boolean =>
  stream.readyState === stream.OPEN && !socket.destroyed

function createWebSocketServer({ settings, headers }: EngineContext): WebSocketServer {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: settings.compression,
    maxPayload: maxIncomingBytes,
  })
  server.on('headers', function addHeaders(lines: string[]) {
    for (const [name, value] of Object.entries(headers())) lines.push(`${name}: ${value}`)
  })
  server.on('wsClientError', ({ message }: Error, socket: Duplex) =>
    writeRawAnswer(socket, jsonAnswer({ message }, 400, headers())),
  )
  return server
}

/** No streams of an origin yet. */
export function createStreams(context: EngineContext, origin: string): Streams {
  const { ledger } = context
  const { maxBufferedBytes, now } = context.settings
  const server = createWebSocketServer(context)
  const connections = new Set<Connection>()
  const subscribers = new Map<string, Set<Connection>>()
  let isBlackhole = false

  function add(connection: Connection): void {
    connections.add(connection)
    for (const feedID of connection.feedIDs) {
      const others = subscribers.get(feedID) ?? new Set()
      subscribers.set(feedID, others.add(connection))
    }
  }

  function remove(connection: Connection): void {
    connections.delete(connection)
    for (const feedID of connection.feedIDs) subscribers.get(feedID)?.delete(connection)
  }

  function addDelivery(report: PublishedReport, stream: number): void {
    ledger.addDelivery(report, { origin, stream, at: now() })
  }

  function resume(connection: Connection): void {
    const { number, stream, socket, unsent, hasOverflowed } = connection
    connection.unsent = []
    socket.uncork()
    stream.resume()
    if (hasOverflowed) stream.terminate()
    if (isOpen(connection)) for (const report of unsent) addDelivery(report, number)
  }

  function sendTo(connection: Connection, { data, report }: Frame): void {
    const { number, stream, isMute } = connection
    if (isMute) return
    if (stream.bufferedAmount > maxBufferedBytes) {
      if (isBlackhole) connection.hasOverflowed = true
      else stream.terminate()
      return
    }
    stream.send(data, { binary: typeof data !== 'string' })
    if (report === undefined) return
    if (isBlackhole) connection.unsent.push(report)
    else addDelivery(report, number)
  }

  return {
    accept(request, socket, head, feedIDs) {
      let number: number | undefined
      server.handleUpgrade(request, socket, head, function onOpen(stream) {
        number = ledger.nextStream()
        const rest = { unsent: [], hasOverflowed: false, isMute: false }
        const connection = { number, feedIDs, stream, socket, ...rest }
        add(connection)
        stream.on('error', () => {})
        stream.once('close', () => remove(connection))
      })
      return number
    },
    send(frame) {
      const to = frame.feedID === undefined ? connections : subscribers.get(frame.feedID)
      const open = [...(to ?? [])].filter(isOpen)
      for (const connection of open) sendTo(connection, frame)
      return open.length
    },
    disconnect(code) {
      if (code !== undefined) checkCloseCode(code)
      const open = [...connections].filter(isOpen)
      for (const { stream, socket } of open) {
        if (code === undefined && socket instanceof Socket) socket.resetAndDestroy()
        else if (code === undefined || code === 1006) socket.destroy()
        else stream.close(code === 1005 ? undefined : code)
      }
      return open.length
    },
    blackhole(on) {
      if (isBlackhole === on) return
      isBlackhole = on
      for (const connection of connections) {
        if (!on) resume(connection)
        else {
          connection.stream.pause()
          connection.socket.cork()
        }
      }
    },
    mute(on) {
      for (const connection of connections) connection.isMute = on
    },
    get count() {
      return [...connections].filter(isOpen).length
    },
  }
}
