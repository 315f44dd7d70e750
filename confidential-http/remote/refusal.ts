import type { ServerResponse } from 'node:http'
import type { HttpAnswer } from '../../client/transport/http.js'
import { VERSION } from './sealing.js'

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

/** The refusal of a caller of an older version. */
export function refuseVersion(): Refusal {
  return new Refusal(426, `the caller is of an older version: this enclave speaks ${VERSION}`)
}

/**
 * What a refusal of this caller's version says of the enclave; undefined where an answer is none. It is not sealed, so no more
 * than a number is repeated.
 */
export function versionRefusal({ status, body }: HttpAnswer): string | undefined {
  if (status !== 426) return undefined
  const [, version] = /speaks (\d{1,6})\s*$/.exec(new TextDecoder().decode(body)) ?? []
  const spoken = version === undefined ? 'another version' : `version ${version}`
  return `answered 426: it speaks ${spoken}, and this caller ${VERSION}`
}
