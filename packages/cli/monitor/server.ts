import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ValidationError } from 'sluice/core'
import { type Access, createAccess } from './access.js'
import type { PageFile, PageFiles } from './page-files.js'
import type { Readers } from './readers.js'

/** Connections at a time, those that read nothing included. */
const MAX_CONNECTIONS = 64

/** What the page may do: load its own files and read its own server. A text can't become HTML. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const HEADERS = {
  'Content-Security-Policy': POLICY,
  Allow: 'GET, HEAD',
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cache-Control': 'no-store',
}

/** What the server serves, and to whom. */
export interface ServerOptions {
  readonly host: string
  /** 0 is any free one. */
  readonly port: number
  /** What a reader must send; undefined where everybody on the machine may read. */
  readonly token: string | undefined
  readonly files: PageFiles
  readonly readers: Readers
}

/** A server that listens. */
export interface MonitorServer {
  readonly port: number
  close(): Promise<void>
}

/** Serves the page, and what it shows as server-sent events. */
export async function startServer(options: ServerOptions): Promise<MonitorServer> {
  const { host, port, token, files, readers } = options
  const access = createAccess(host, token)
  const server = createServer({ maxHeaderSize: 8192 }, (request, response) =>
    answer(request, response, { access, files, readers }),
  )
  server.maxConnections = MAX_CONNECTIONS
  await new Promise<void>((resolve, reject) => {
    server.once('error', error => reject(listenError(host, port, error)))
    server.listen(port, host, resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      const isClosed = new Promise<void>(resolve => server.close(() => resolve()))
      readers.close()
      // What has not ended by then is not read.
      setTimeout(() => server.closeAllConnections(), 200).unref()
      server.closeIdleConnections()
      return isClosed
    },
  }
}

function listenError(host: string, port: number, error: NodeJS.ErrnoException): Error {
  const why =
    { EADDRINUSE: 'it is in use', EACCES: 'that needs more rights' }[error.code ?? ''] ?? error.code
  return new ValidationError(`--port ${port} of ${host} can’t be listened on: ${why}`)
}

interface Parts {
  readonly access: Access
  readonly files: PageFiles
  readonly readers: Readers
}

/** Why a request gets nothing. */
interface Refusal {
  readonly status: number
  readonly why: string
}

function answer(request: IncomingMessage, response: ServerResponse, parts: Parts): void {
  for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value)
  const path = (request.url ?? '/').replace(/\?.*/s, '')
  const file = parts.files[path]
  const refusal = findRefusal(request, path, parts)
  if (refusal !== undefined) refuse(response, refusal)
  else if (file !== undefined) sendFile(response, file)
  else if (path === '/health') response.end('ok\n')
  else if (request.method === 'HEAD') response.end()
  else if (!parts.readers.add(response))
    refuse(response, { status: 503, why: 'too many pages are open' })
}

function findRefusal(
  request: IncomingMessage,
  path: string,
  { access, files }: Parts,
): Refusal | undefined {
  if (!access.isOurs(request)) return { status: 421, why: 'this server has another name' }
  if (!['GET', 'HEAD'].includes(request.method ?? ''))
    return { status: 405, why: 'GET alone is answered' }
  if (path === '/health' || files[path] !== undefined) return undefined
  if (path !== '/events') return { status: 404, why: 'there is no such page' }
  const may = access.mayRead(request)
  if (may === 'other origin') return { status: 403, why: 'a page of another origin may not read' }
  if (may === 'no token') return { status: 401, why: 'the token is missing or wrong' }
  return undefined
}

function sendFile(response: ServerResponse, { type, body }: PageFile): void {
  response.setHeader('Content-Type', type)
  response.setHeader('Content-Length', body.byteLength)
  response.end(body)
}

function refuse(response: ServerResponse, { status, why }: Refusal): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8' }).end(`${why}\n`)
}
