import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ValidationError } from 'sluice/core'
import { codeOf } from 'sluice/internal'

/** Reasons of a failure to listen, in words. */
const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'it is in use',
  EACCES: 'that needs more rights',
}

/** Has a server listen, and resolves with its port. `failure` begins the error if it can't. */
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
