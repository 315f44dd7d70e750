import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import { checkOptions } from 'sluice/core'
import { createCertificateAuthority } from './certificate.js'
import { Listener } from './listener.js'

/** Answers the requests of a server. */
export type HTTPSHandler = (
  request: IncomingMessage,
  response: ServerResponse,
) => void | Promise<void>

/** The options of `startHTTPSServer`. */
export interface HTTPSServerOptions {
  /**
   * Answers the requests. If the handler throws an error, the answer is a 500 with the error's
   * message. @default 200 and "ok"
   */
  readonly handler?: HTTPSHandler
  /**
   * The host names and addresses in the server's certificate. The server always listens on
   * loopback, regardless of this option. @default localhost, 127.0.0.1 and ::1
   */
  readonly hosts?: readonly string[]
}

/** A running HTTPS server. */
export interface HTTPSServer {
  /** `https://localhost:PORT` */
  readonly url: string
  /** The port that it listens on. */
  readonly port: number
  /** The certificate of the authority that issued the server's certificate, in PEM. */
  readonly ca: string
  /** Closes every connection and the server. */
  close(): Promise<void>
}

const ATTEMPTS = 20

/**
 * Starts a real HTTPS server on loopback, for tests. A new certificate authority issues its
 * certificate.
 *
 * @example
 * const { url, ca, close } = await startHTTPSServer({
 *   handler: (request, response) => void response.end(request.headers.authorization),
 * })
 */
export async function startHTTPSServer(options?: HTTPSServerOptions): Promise<HTTPSServer> {
  const { hosts = ['localhost', '127.0.0.1', '::1'], handler = answerOk } = checkOptions(
    'startHTTPSServer',
    options,
    { handler: true, hosts: true },
  )
  const { ca, issue } = await createCertificateAuthority()
  const certificate = issue({ hosts })
  const createHTTPSServer = (): Server =>
    createServer(certificate, (request, response) => answer(handler, request, response))

  for (let attempt = 1; ; attempt++) {
    const first = new Listener(0, createHTTPSServer)
    await first.open()
    // Both addresses use the same port: depending on the machine, localhost is 127.0.0.1 or ::1.
    const second = new Listener(first.port, createHTTPSServer, '::1')
    try {
      await second.open().catch(ignoreMissingIPv6)
      return {
        url: `https://localhost:${first.port}`,
        port: first.port,
        ca,
        async close() {
          await Promise.all([first.close(), second.close()])
        },
      }
    } catch (error) {
      await first.close()
      if (attempt === ATTEMPTS || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE')
        throw error
    }
  }
}

function ignoreMissingIPv6(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EADDRNOTAVAIL' && error.code !== 'EAFNOSUPPORT') throw error
}

async function answer(
  handler: HTTPSHandler,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    await handler(request, response)
  } catch (error) {
    if (!response.headersSent) response.writeHead(500, { 'content-type': 'text/plain' })
    response.end(String(error))
  }
}

function answerOk(_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/plain' }).end('ok')
}
