import type { IncomingMessage } from 'node:http'
import type { RawData } from 'ws'
import { asError, ValidationError } from '../core/errors.js'
import { createLifetime } from '../core/lifetime.js'
import { setImmediate } from './globals.js'
import { connectionsOf, FastSocket } from './node/fast-socket.js'

/** The upgrade that opens a connection. */
export interface Upgrade {
  /** Absolute, `ws:` or `wss:`. */
  readonly url: string
  /** The headers to send, including the signature. */
  readonly headers: Headers
  /** Whether to offer permessage-deflate. */
  readonly compression: boolean
  /** The most bytes of a message. A longer message closes the connection. */
  readonly maxMessageBytes: number
  /**
   * The cursors from which the stream resumes, for a `connect` that can deliver earlier reports.
   * All connections of a stream get the same object.
   */
  readonly cursors?: ResumedCursors
}

/** The cursors from which a stream resumes. */
export interface ResumedCursors {
  /**
   * The time up to which a feed's reports were acknowledged before the stream began, in the feed's
   * unit; undefined without a cursor.
   */
  get(feedID: string): number | undefined
}

/** The events of a connection. `ended` is called last, exactly once. */
export interface SocketEvents {
  /**
   * The upgrade was accepted. `headers` are the headers of the answer, if the platform shows them.
   */
  opened(headers?: Headers): void
  /** A text or binary message arrived. Its bytes are valid until the call returns. */
  message(data: Uint8Array): void
  /** A ping or pong arrived. */
  alive(): void
  /** The upgrade was answered with a status other than 101. */
  refused(status: number, headers: Headers, body: Uint8Array): void
  /**
   * The connection has ended. `closeCode` is its close code, or 1006 if there was none. `error`
   * says what failed, if anything failed. `reason` is the text that the other side has sent with
   * the close code.
   */
  ended(closeCode: number, error: Error | undefined, reason?: string): void
}

/** A connection. Every method may be called at any time, any number of times. */
export interface Socket {
  /**
   * Sends a ping, which the other side must answer. Without this method, a half-open connection is
   * noticed only when its feeds are stale.
   */
  ping?(): void
  /** Sends an unsolicited pong, which needs no answer. */
  pong?(): void
  /**
   * Stops reading until `resume` is called, so that the other side must wait. Messages that were
   * read before may still arrive. Without `pause` and `resume`, a stream cannot pause a connection
   * if its reports are read too slowly.
   */
  pause?(): void
  /** Resumes reading after `pause`. */
  resume?(): void
  /**
   * Stops reading until the next iteration of the event loop, so that other connections are read
   * too.
   */
  rest?(): void
  /** Starts the close handshake. The connection ends when the other side has answered. */
  close(): void
  /** Ends the connection at once. */
  terminate(): void
}

/** Opens a connection. */
export type Connect = (upgrade: Upgrade, events: SocketEvents) => Promise<Socket>

/**
 * FastSocket needs Node: there, http accepts any stream, and sockets can read into one buffer. The
 * sockets of Bun and Deno work only with ws itself.
 */
const { bun, deno } = globalThis.process.versions
const canBeFast = bun === undefined && deno === undefined

/**
 * Milliseconds after a close frame, or after a frame that breaks the protocol, in which the other
 * side may close the socket. Nothing can arrive any more, so a socket that stays open is destroyed.
 */
const CLOSE_HANDSHAKE_MS = 1000

/** The code of a connection that ended without a close frame. */
const ABNORMAL = 1006

/** Opens the Node socket for a WebSocket. */
export type OpenSocket = (signal: AbortSignal) => Promise<unknown>

/** Options for opening a WebSocket. Only the form for Node uses them. */
export interface SocketOptions {
  /**
   * The limits for reading the body of a refused upgrade: how many bytes are read, and for how many
   * milliseconds.
   */
  readonly refusal: { readonly bytes: number; readonly ms: number }
  /** Whether messages are read by FastSocket, before ws. */
  readonly isFast: boolean
  /** Opens the socket. @default a socket as ws opens it */
  readonly openSocket?: OpenSocket | undefined
}

/** Opens a WebSocket of the platform. */
export type OpenWebSocket = (
  upgrade: Upgrade,
  events: SocketEvents,
  options: SocketOptions,
) => Promise<Socket>

/** Loads ws. If a bundle can't load ws, retrying does not help, so it throws ValidationError. */
async function loadWebSocket(): Promise<typeof import('ws').WebSocket> {
  try {
    const { WebSocket } = await import('ws')
    if (WebSocket !== undefined) return WebSocket
  } catch (thrown) {
    throw new ValidationError(
      `the part of sluice that opens WebSockets could not be loaded: ${asError(thrown).message}. Bundle it for Node (condition node), or leave sluice out of the bundle`,
    )
  }
  throw new ValidationError(
    'the package ws was resolved for a browser, where it cannot connect: resolve packages with the condition node',
  )
}

/** Opens a WebSocket through ws. */
export const openWebSocket: OpenWebSocket = async function openWebSocket(
  { url, headers, compression, maxMessageBytes },
  events,
  { refusal, isFast, openSocket },
) {
  const WebSocket = await loadWebSocket()
  const life = createLifetime()
  const fast = isFast && canBeFast ? new FastSocket(maxMessageBytes) : undefined
  const socket = new WebSocket(url, {
    headers: Object.fromEntries(headers),
    perMessageDeflate: compression,
    maxPayload: maxMessageBytes,
    followRedirects: false,
    // The types of ws lack this option.
    ...({ closeTimeout: CLOSE_HANDSHAKE_MS } as object),
    // The client's intake checks each byte of a message, so ws need not.
    skipUTF8Validation: true,
    createConnection: connectionsOf({
      isSecure: url.startsWith('wss:'),
      fast,
      openSocket,
      signal: life.signal,
    }),
  })
  socket.binaryType = 'nodebuffer'
  let failure: Error | undefined
  let isPaused = false
  let isResting = false
  let isTerminated = false

  function flow(): void {
    const isStopped = isPaused || isResting
    if (fast !== undefined) fast.setPaused(isStopped)
    else if (isStopped) socket.pause()
    else socket.resume()
  }

  function endRest(): void {
    isResting = false
    flow()
  }

  let answer: Headers | undefined
  let carrier: Pick<IncomingMessage['socket'], 'readableEnded'> | undefined
  socket.on('upgrade', response => {
    answer = headersOf(response)
    carrier = response.socket
  })
  socket.on('open', () => {
    events.opened(answer)
    if (socket.extensions === '') fast?.readMessages(events.message)
    else fast?.handOverAll()
  })
  socket.on('message', (data: RawData) => events.message(data as Buffer))
  socket.on('ping', () => events.alive())
  socket.on('pong', () => events.alive())
  socket.on('error', error => {
    failure ??= error
    fast?.handOverAll()
  })
  socket.on('unexpected-response', (_request, response: IncomingMessage) => {
    void readRefusal(response, refusal).then(body => {
      events.refused(response.statusCode ?? 0, headersOf(response), body)
      socket.terminate()
    })
  })
  socket.on('close', (code, reason) => {
    life.end()
    if (code !== ABNORMAL && !isTerminated && carrier?.readableEnded === false)
      failure ??= new Error(`the connection was left open for ${CLOSE_HANDSHAKE_MS} ms after that`)
    events.ended(code, failure, reason.toString())
  })

  return {
    ping() {
      if (socket.readyState === WebSocket.OPEN) socket.ping()
    },
    pong() {
      if (socket.readyState === WebSocket.OPEN) socket.pong()
    },
    pause() {
      isPaused = true
      flow()
    },
    resume() {
      isPaused = false
      flow()
    },
    rest() {
      if (isResting) return
      isResting = true
      flow()
      setImmediate(endRest)
    },
    close: () => socket.close(1000),
    terminate() {
      isTerminated = true
      socket.terminate()
    },
  }
}

function readRefusal(
  response: IncomingMessage,
  limits: SocketOptions['refusal'],
): Promise<Uint8Array> {
  return new Promise(resolve => {
    // One buffer, because a list of small pieces takes many times the memory of their bytes.
    const body = Buffer.alloc(limits.bytes)
    let size = 0
    const finish = (): void => {
      clearTimeout(timer)
      resolve(body.subarray(0, size))
    }
    const timer = setTimeout(finish, limits.ms)
    response.on('data', (chunk: Buffer) => {
      if (size + chunk.length > limits.bytes) response.destroy()
      else size += chunk.copy(body, size)
    })
    response.on('error', () => undefined)
    response.on('close', finish)
  })
}

function headersOf(response: IncomingMessage): Headers {
  const headers = new Headers()
  for (let index = 0; index < response.rawHeaders.length; index += 2) {
    try {
      headers.append(response.rawHeaders[index] as string, response.rawHeaders[index + 1] as string)
    } catch {
      // The header's name or value breaks the standard's rules. The client reads no such header.
    }
  }
  return headers
}
