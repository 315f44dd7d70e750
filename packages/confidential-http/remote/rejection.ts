import type { ServerResponse } from 'node:http'
import type { HttpAnswer } from 'sluice/internal'
import { VERSION } from './sealing.js'

/** Rejects a request. It is sealed to the caller if the request could be opened, and sent unsealed otherwise. */
export class Rejection extends Error {
  readonly status: number
  /** False only if this request was never carried out and never will be. */
  readonly mayHaveBeenSent: boolean

  constructor(status: number, message: string, mayHaveBeenSent = true) {
    super(message)
    this.status = status
    this.mayHaveBeenSent = mayHaveBeenSent
  }
}

/** Answers with an unsealed rejection and closes the connection. */
export function sendRejection(response: ServerResponse, { status, message }: Rejection): void {
  if (response.headersSent || response.destroyed) return
  response
    .writeHead(status, { 'content-type': 'text/plain', connection: 'close' })
    .end(`${message}\n`)
}

/** Makes the rejection of a caller of an older version. */
export function rejectVersion(): Rejection {
  return new Rejection(426, `the caller is of an older version: this enclave speaks ${VERSION}`)
}

/**
 * Reads the enclave's version from a rejection of this caller's version; undefined for other answers. The answer is not sealed,
 * so only a number is quoted.
 */
export function versionMismatch({ status, body }: HttpAnswer): string | undefined {
  if (status !== 426) return undefined
  const [, version] = /speaks (\d{1,6})\s*$/.exec(new TextDecoder().decode(body)) ?? []
  const spoken = version === undefined ? 'another version' : `version ${version}`
  return `answered 426: it speaks ${spoken}, and this caller ${VERSION}`
}
