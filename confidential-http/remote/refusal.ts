import type { ServerResponse } from 'node:http'

/** A refusal that is told in the open, because it can't be sealed to anybody. */
export class Refusal extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Answers with a refusal, and hears no more on this connection. */
export function refuse(response: ServerResponse, { status, message }: Refusal): void {
  if (response.headersSent || response.destroyed) return
  response
    .writeHead(status, { 'content-type': 'text/plain', connection: 'close' })
    .end(`${message}\n`)
}
