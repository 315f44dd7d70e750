import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { ValidationError } from 'sluice/core'
import { jsonAnswer, writeRawAnswer } from 'sluice/internal'
import { type WebSocket, WebSocketServer } from 'ws'
import { afterReal, nextTurn } from './clock.js'
import type { EngineContext } from './context.js'
import type { PublishedReport } from './ledger.js'

/** A message to send to streams. */
export interface Frame {
  /** Text for a text frame, or bytes for a binary frame. */
  readonly data: string | Uint8Array
  /** The message goes to the subscribers of this feed. If undefined, it goes to every stream. */
  readonly feedID: string | undefined
  /** The report that the message contains unchanged; undefined if it contains none. */
  readonly report: PublishedReport | undefined
}

interface Connection {
  readonly number: number
  readonly feedIDs: readonly string[]
  readonly stream: WebSocket
  readonly socket: Duplex
  /** The reports written during the blackhole. Their deliveries are recorded when it ends. */
  unsent: PublishedReport[]
  /** True if the stream missed frames during a blackhole. It is closed when the blackhole ends. */
  hasOverflowed: boolean
  isMute: boolean
  /** True if something was sent since the last question whether the client has read everything. */
  isUnasked: boolean
  /** How often the client was asked, and which of these questions it has answered last. */
  asked: number
  answered: number
}

/**
 * If a client has not read everything within so many real milliseconds, it is not waited for again
 * before it has.
 */
const PATIENCE = 5000

/**
 * The longest message accepted from a client. It is short, because clients send nothing on a
 * stream.
 */
const maxIncomingBytes = 65_536

/**
 * Checks the close code of `disconnect`. It must be a code that a close frame can carry, or 1005 or
 * 1006. Those two mean that no code was received.
 */
function checkCloseCode(code: number): void {
  const isValid = (code >= 1000 && code <= 1014 && code !== 1004) || (code >= 3000 && code <= 4999)
  if (!Number.isInteger(code) || !isValid)
    throw new ValidationError(
      `disconnect: a close code is 1000 to 1014 but 1004, or 3000 to 4999, got ${code}`,
    )
}

// Both are checked, because a WebSocket notices the end of its socket a little later.
const isOpen = ({ stream, socket }: Connection): boolean =>
  stream.readyState === stream.OPEN && !socket.destroyed

const hasUnwritten = (connection: Connection): boolean =>
  isOpen(connection) && connection.stream.bufferedAmount > 0

function createWebSocketServer(context: EngineContext): WebSocketServer {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: context.settings.compression,
    maxPayload: maxIncomingBytes,
  })
  server.on('headers', function addHeaders(lines: string[]) {
    for (const [name, value] of Object.entries(context.headers())) lines.push(`${name}: ${value}`)
  })
  server.on('wsClientError', ({ message }: Error, socket: Duplex) =>
    writeRawAnswer(socket, jsonAnswer({ message }, 400, context.headers())),
  )
  return server
}

/** The open streams of an origin. */
export class Streams {
  readonly #context: EngineContext
  readonly #origin: string
  readonly #server: WebSocketServer
  readonly #connections = new Set<Connection>()
  readonly #subscribers = new Map<string, Set<Connection>>()
  #isBlackhole = false

  constructor(context: EngineContext, origin: string) {
    this.#context = context
    this.#origin = origin
    this.#server = createWebSocketServer(context)
  }

  get count(): number {
    return [...this.#connections].filter(isOpen).length
  }

  /**
   * Completes the handshake and returns the stream's number. Returns undefined if the handshake was
   * malformed; it has then been rejected.
   */
  accept(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    feedIDs: readonly string[],
  ): number | undefined {
    let number: number | undefined
    this.#server.handleUpgrade(request, socket, head, stream => {
      number = ++this.#context.ledger.streams
      const rest = {
        ...{ unsent: [], hasOverflowed: false, isMute: false },
        ...{ isUnasked: false, asked: 0, answered: 0 },
      }
      const connection: Connection = { number, feedIDs, stream, socket, ...rest }
      this.#connections.add(connection)
      for (const feedID of feedIDs) {
        const others = this.#subscribers.get(feedID) ?? new Set()
        this.#subscribers.set(feedID, others.add(connection))
      }
      stream.on('error', () => {})
      stream.on('pong', data => {
        const number = Number(data)
        if (number <= connection.asked) connection.answered = Math.max(connection.answered, number)
      })
      stream.once('close', () => {
        this.#connections.delete(connection)
        for (const feedID of feedIDs) this.#subscribers.get(feedID)?.delete(connection)
      })
    })
    return number
  }

  /** Sends a frame to its subscribers. Returns the number of subscribers. */
  send(frame: Frame): number {
    const { feedID } = frame
    const to = feedID === undefined ? this.#connections : this.#subscribers.get(feedID)
    const open = [...(to ?? [])].filter(isOpen)
    for (const connection of open) this.#sendTo(connection, frame)
    return open.length
  }

  /**
   * Closes all streams with a close code. Without a code, it resets their connections. Returns the
   * number of streams.
   */
  disconnect(code?: number): number {
    if (code !== undefined) checkCloseCode(code)
    const open = [...this.#connections].filter(isOpen)
    for (const { stream, socket } of open) {
      if (code === undefined && socket instanceof Socket) socket.resetAndDestroy()
      else if (code === undefined || code === 1006) socket.destroy()
      else stream.close(code === 1005 ? undefined : code)
    }
    return open.length
  }

  /**
   * Resolves when everything that was sent to the streams is written to their sockets. In a
   * blackhole it resolves at once, because nothing is written then.
   */
  async written(): Promise<void> {
    while (!this.#isBlackhole && [...this.#connections].some(hasUnwritten)) await nextTurn()
  }

  /**
   * Resolves when every client has read what was sent to it. A client answers a ping after it has
   * read the frames before it. A stream is not waited for in a blackhole, while it is mute, and
   * after its client has not read for `PATIENCE`.
   */
  async read(): Promise<void> {
    if (this.#isBlackhole) return
    const answers: Promise<void>[] = []
    for (const connection of this.#connections) {
      const { isUnasked, isMute, asked, answered } = connection
      if (!isUnasked || isMute || asked > answered || !isOpen(connection)) continue
      connection.isUnasked = false
      connection.stream.ping(String(++connection.asked))
      answers.push(this.#answerOf(connection))
    }
    if (answers.length > 0) await Promise.all(answers)
  }

  /** Resolves when a client has answered, or when it is not waited for any longer. */
  #answerOf(connection: Connection): Promise<void> {
    const { stream, asked } = connection
    return new Promise(resolve => {
      const cancel = afterReal(PATIENCE, done)
      function done(): void {
        cancel()
        stream.off('pong', onPong)
        stream.off('close', done)
        resolve()
      }
      function onPong(): void {
        if (connection.answered >= asked) done()
      }
      stream.on('pong', onPong)
      stream.on('close', done)
    })
  }

  /** While on, streams stay open and neither read nor write. */
  blackhole(on: boolean): void {
    if (this.#isBlackhole === on) return
    this.#isBlackhole = on
    for (const connection of this.#connections) {
      if (!on) this.#resume(connection)
      else {
        connection.stream.pause()
        connection.socket.cork()
      }
    }
  }

  /** While on, the streams that are open at this call get no frames. */
  mute(on: boolean): void {
    for (const connection of this.#connections) connection.isMute = on
  }

  #sendTo(connection: Connection, { data, report }: Frame): void {
    const { stream, isMute } = connection
    if (isMute) return
    if (stream.bufferedAmount > this.#context.settings.maxBufferedBytes) {
      if (this.#isBlackhole) connection.hasOverflowed = true
      else stream.terminate()
      return
    }
    stream.send(data, { binary: typeof data !== 'string' })
    connection.isUnasked = true
    if (report === undefined) return
    if (this.#isBlackhole) connection.unsent.push(report)
    else this.#addDelivery(report, connection)
  }

  #resume(connection: Connection): void {
    const { stream, socket, unsent, hasOverflowed } = connection
    connection.unsent = []
    socket.uncork()
    stream.resume()
    if (hasOverflowed) stream.terminate()
    if (isOpen(connection)) for (const report of unsent) this.#addDelivery(report, connection)
  }

  #addDelivery(report: PublishedReport, { number: stream }: Connection): void {
    const { ledger, settings } = this.#context
    ledger.addDelivery(report, { origin: this.#origin, stream, at: settings.clock.now() })
  }
}
