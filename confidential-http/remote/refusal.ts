import type { ServerResponse } from 'node:http'

/** Why a request is refused: sealed to the caller where it could be opened, else in the open. */
export class Refusal extends Error {
  readonly status: number
  /** False where this request is known never to have been carried out, and never will be. */
  readonly mayHaveBeenSent: boolean

  constructor(status: number, message: string, mayHaveBeenSent = true) {
    super(message)
    this.status = status
    this.mayHaveBeenSent = mayHaveBeenSent
  }
}

/** Answers with a refusal in the open, and hears no more on this connection. */
export function refuse(response: ServerResponse, { status, message }: Refusal): void {
  if (response.headersSent || response.destroyed) return
  response
    .writeHead(status, { 'content-type': 'text/plain', connection: 'close' })
    .end(`${message}\n`)
}
