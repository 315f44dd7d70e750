import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'

/** One HTTP answer. Header names are in lower case. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/** Thrown to refuse a request: the answer's status and message, and what the request log says beyond them. */
export class Refusal extends Error {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** For the log alone: the message to the client doesn't tell why it was not authorized. */
  readonly reason: string

  constructor(
    status: number,
    message: string,
    reason: string = message,
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(message)
    this.status = status
    this.reason = reason
    this.headers = headers
  }
}

/** A 200 with JSON, or another status. */
export function jsonAnswer(
  value: unknown,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(value),
  }
}

function headersOf({ status, headers, body }: Answer): Record<string, string> {
  if (status === 204 || status === 304) return { ...headers }
  return { 'content-length': String(Buffer.byteLength(body)), ...headers }
}

/** Answers a request. */
export function writeAnswer(response: ServerResponse, answer: Answer): void {
  response.writeHead(answer.status, headersOf(answer))
  response.end(answer.body)
}

/** Answers on a bare socket, as upgrades and unreadable requests need it, and ends the connection. */
export function writeRawAnswer(socket: Duplex, answer: Answer): void {
  const lines = [`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ''}`]
  for (const [name, value] of Object.entries({ ...headersOf(answer), connection: 'close' })) {
    lines.push(`${name}: ${value}`)
  }
  socket.once('finish', () => socket.destroy())
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  socket.end(answer.body)
}
