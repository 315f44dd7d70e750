import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ValidationError } from 'sluice/core'
import { codeOf } from 'sluice/internal'

/** The reasons why a server can't listen, in words, by error code. */
const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'it is in use',
  EACCES: 'that needs more rights',
}

/**
 * Makes a server listen, and resolves with its port. If the server can't listen, the error message
 * begins with `failure`.
 */
export function listen(
  server: Server,
  host: string,
  port: number,
  failure: string,
): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', cause => {
      const code = codeOf(cause)
      reject(new ValidationError(`${failure}: ${reasons[code] ?? code}`, { cause }))
    })
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port))
  })
}

/** The URL of a server. */
export function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}
