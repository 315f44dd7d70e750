import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { createCertificateAuthority } from './certificate.js'

/** Answers the requests of a server. */
export type HTTPSHandler = (
  request: IncomingMessage,
  response: ServerResponse,
) => void | Promise<void>

/** How to start an HTTPS server. */
export interface HTTPSServerOptions {
  /**
   * Answers the requests. What it throws is answered with 500 and the error's message.
   * @default 200 and "ok"
   */
  readonly handler?: HTTPSHandler
  /**
   * The host names and addresses its certificate is for; where it listens does not depend on them.
   * @default localhost, 127.0.0.1 and ::1
   */
  readonly hosts?: readonly string[]
}

/** A running HTTPS server. */
export interface HTTPSServer {
  /** `https://localhost:PORT` */
  readonly url: string
  readonly port: number
  /** The certificate of the authority that issued the server's own, in PEM. */
  readonly ca: string
  /** Ends every connection, and the server. */
  close(): Promise<void>
}

const ATTEMPTS = 20

/**
 * Starts an HTTPS server on loopback, with a certificate from an authority of its own: to have something real to talk to
 * in tests.
 *
 * @example
 * const { url, ca, close } = await startHTTPSServer({
 *   handler: (request, response) => void response.end(request.headers.authorization),
 * })
 */
export async function startHTTPSServer(options: HTTPSServerOptions = {}): Promise<HTTPSServer> {
  const { hosts = ['localhost', '127.0.0.1', '::1'], handler = answerOk } = options
  const { ca, issue } = await createCertificateAuthority()
  const certificate = issue({ hosts })
  const sockets = new Set<Socket>()
  const start = (port: number, host: string): Promise<Server> =>
    new Promise((resolve, reject) => {
      const server = createServer(certificate, (request, response) =>
        answer(handler, request, response),
      )
      // What has not spoken TLS yet is no connection of the server's own, and would keep it open.
      server.on('connection', (socket: Socket) => {
        sockets.add(socket)
        socket.once('close', () => sockets.delete(socket))
      })
      server.once('error', reject)
      server.listen(port, host, () => resolve(server))
    })

  for (let attempt = 1; ; attempt++) {
    const first = await start(0, '127.0.0.1')
    const { port } = first.address() as AddressInfo
    try {
      // What localhost means depends on the machine.
      const second = await start(port, '::1').catch(ignoreAbsence)
      return {
        url: `https://localhost:${port}`,
        port,
        ca,
        async close() {
          const ended = Promise.all([first, second].map(each => each && end(each)))
          for (const socket of sockets) socket.destroy()
          await ended
        },
      }
    } catch (error) {
      await end(first)
      if (attempt === ATTEMPTS || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE')
        throw error
    }
  }
}

/** Not every machine has IPv6. */
function ignoreAbsence(error: NodeJS.ErrnoException): undefined {
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

function end(server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
  })
}
