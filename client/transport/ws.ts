import type { IncomingMessage } from 'node:http'
import type { RawData } from 'ws'
import { ValidationError } from '../../core/errors.js'
import { setImmediate } from '../../core/platform.js'

/** The upgrade that opens a connection. */
export interface Upgrade {
  readonly url: string
  readonly headers: Headers
  /** Offer permessage-deflate. */
  readonly compression: boolean
  /** A longer message closes the connection. */
  readonly maxMessageBytes: number
}

/** What a connection tells of its life. `ended` comes last, exactly once. */
export interface SocketEvents {
  opened(): void
  /** A message, text or binary alike: the bytes are valid until the call returns. */
  message(data: Uint8Array): void
  /** A ping or pong came in. */
  alive(): void
  /** The upgrade was answered with a status of its own. */
  refused(status: number, headers: Headers, body: Uint8Array): void
  ended(closeCode: number, error: Error | undefined): void
}

/** A connection. All its methods may be called at any time, any number of times. */
export interface Socket {
  /** Asks for a sign of life. */
  ping(): void
  /** Gives a sign of life that nobody asked for, and asks for none. */
  pong?(): void
  /**
   * Reads nothing more, so that the other side has to wait, until `resume`; messages that were read already may still come.
   * Without these two, a stream whose reports are taken too slowly can't be held back.
   */
  pause?(): void
  resume?(): void
  /** Reads nothing more in this turn of the event loop, though there may be more: it is another connection's turn. */
  rest?(): void
  /** Says goodbye; the connection ends when the other side agrees. */
  close(): void
  /** Ends the connection at once. */
  terminate(): void
}

/** Opens a connection. */
export type Connect = (dial: Upgrade, events: SocketEvents) => Promise<Socket>

/** A refusal is told by its status; of what it says, what comes soon and is short will do. */
const MAX_REFUSAL_BYTES = 65_536
const REFUSAL_TIMEOUT = 1000

let loading: Promise<typeof import('ws')> | undefined

/** WebSocket connections through ws. */
export const connectWithWs: Connect = async function connect(
  { url, headers, compression, maxMessageBytes },
  events,
) {
  loading ??= import('ws')
  const { WebSocket } = await loading
  if (WebSocket === undefined)
    throw new ValidationError(
      'the package ws was resolved for a browser, where it cannot connect: resolve packages with the condition node',
    )
  const socket = new WebSocket(url, {
    headers: Object.fromEntries(headers),
    perMessageDeflate: compression,
    maxPayload: maxMessageBytes,
    followRedirects: false,
    // Whoever reads a message checks each of its bytes.
    skipUTF8Validation: true,
  })
  socket.binaryType = 'nodebuffer'
  let failure: Error | undefined
  let isPaused = false
  let isResting = false

  function goOn(): void {
    isResting = false
    if (!isPaused) socket.resume()
  }

  socket.on('open', () => events.opened())
  socket.on('message', (data: RawData) => events.message(data as Buffer))
  socket.on('ping', () => events.alive())
  socket.on('pong', () => events.alive())
  socket.on('error', error => {
    failure ??= error
  })
  socket.on('unexpected-response', (_request, response: IncomingMessage) => {
    void readRefusal(response).then(body => {
      events.refused(response.statusCode ?? 0, headersOf(response), body)
      socket.terminate()
    })
  })
  socket.on('close', code => {
    events.ended(code, failure)
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
      socket.pause()
    },
    resume() {
      isPaused = false
      if (!isResting) socket.resume()
    },
    rest() {
      if (isResting) return
      isResting = true
      socket.pause()
      setImmediate(goOn)
    },
    close: () => socket.close(1000),
    terminate: () => socket.terminate(),
  }
}

function readRefusal(response: IncomingMessage): Promise<Uint8Array> {
  return new Promise(resolve => {
    const chunks: Buffer[] = []
    let size = 0
    const finish = (): void => {
      clearTimeout(timer)
      resolve(Buffer.concat(chunks))
    }
    const timer = setTimeout(finish, REFUSAL_TIMEOUT)
    response.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > MAX_REFUSAL_BYTES) response.destroy()
      else chunks.push(chunk)
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
      // Not a header by the standard's rules, so none we look for.
    }
  }
  return headers
}
