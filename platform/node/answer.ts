import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'

type Headers = Readonly<Record<string, string>>

/** One HTTP answer. Header names are in lower case. */
export interface HTTPAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: string | Uint8Array
}

/** Thrown to reject a request with an HTTP status. */
export class HTTPError extends Error {
  readonly status: number
  readonly headers: Headers
  /**
   * The reason, only for the log. It may differ from the message: the client gets no reason for a
   * 401.
   */
  readonly reason: string

  constructor(status: number, message: string, reason: string = message, headers: Headers = {}) {
    super(message)
    this.status = status
    this.reason = reason
    this.headers = headers
  }
}

/** Makes an answer with a JSON body. */
export function jsonAnswer(value: unknown, status = 200, headers: Headers = {}): HTTPAnswer {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(value),
  }
}

function headersOf({ status, headers, body }: HTTPAnswer): Record<string, string> {
  if (status === 204 || status === 304) return { ...headers }
  return { 'content-length': String(Buffer.byteLength(body)), ...headers }
}

/** Answers a request. */
export function writeAnswer(response: ServerResponse, answer: HTTPAnswer): void {
  response.writeHead(answer.status, headersOf(answer))
  response.end(answer.body)
}

/** Answers an upgrade or unreadable bytes on the bare socket, and ends the connection. */
export function writeRawAnswer(socket: Duplex, answer: HTTPAnswer): void {
  const lines = [`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ''}`]
  for (const [name, value] of Object.entries({ ...headersOf(answer), connection: 'close' }))
    lines.push(`${name}: ${value}`)
  socket.once('finish', () => socket.destroy())
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  socket.end(answer.body)
}
