import { createHash, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, isIP } from 'node:net'
import { isStreamsError, ValidationError } from 'sluice/core'
import { codeOf } from 'sluice/internal'
import type { Readers } from './readers.js'

/** The most connections at a time, including connections that read nothing. */
const MAX_CONNECTIONS = 64

/**
 * The rights of the page. It loads only its own files, and reads only its own server. No text can
 * become HTML.
 */
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

/** The address of the server, its page and its readers. */
interface ServerOptions {
  readonly host: string
  /** The port; 0 is any free port. */
  readonly port: number
  /** A secret that readers must send; undefined if everybody on the machine may read. */
  readonly token: string | undefined
  readonly files: PageFiles
  readonly readers: Readers
  readonly answers?: Answers
}

/**
 * What the server answers besides the page and its events, by path, as JSON. An answer throws a
 * ValidationError for a wrong query, and is undefined if there is nothing.
 */
export type Answers = Readonly<Record<string, (query: URLSearchParams) => object | undefined>>

/** Serves the page, and its data as server-sent events. */
export async function startServer(
  options: ServerOptions,
): Promise<{ readonly port: number; readonly url: string; close(): Promise<void> }> {
  const { host, port, readers } = options
  const server = createServer({ maxHeaderSize: 8192 }, (request, response) =>
    answer(request, response, options),
  )
  server.maxConnections = MAX_CONNECTIONS
  const listening = await listen(server, host, port)
  return {
    port: listening,
    url: `http://${host.includes(':') ? `[${host}]` : host}:${listening}`,
    close() {
      const isClosed = new Promise<void>(resolve => server.close(() => resolve()))
      readers.close()
      // If a response has not ended after 200 ms, nobody is reading it.
      setTimeout(() => server.closeAllConnections(), 200).unref()
      server.closeIdleConnections()
      return isClosed
    },
  }
}

/** The reasons why a server can't listen, in words, by error code. */
const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'it is in use',
  EACCES: 'that needs more rights',
}

/** Makes a server listen, and resolves with its port. */
function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', cause => {
      const code = codeOf(cause)
      const why = reasons[code] ?? code
      const message = `--port ${port} of ${host} can’t be listened on: ${why}`
      reject(new ValidationError(message, { cause }))
    })
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port))
  })
}

function answer(request: IncomingMessage, response: ServerResponse, options: ServerOptions): void {
  for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value)
  const [path = '/', query = ''] = (request.url ?? '/').split('?', 2)
  const read = options.answers?.[path]
  const file = options.files[path]
  const refusal = findRefusal(request, path, options)
  if (refusal !== undefined) refuse(response, ...refusal)
  else if (file !== undefined) sendFile(response, file)
  else if (path === '/health') response.end('ok\n')
  else if (request.method === 'HEAD') response.end()
  else if (read !== undefined) sendAnswer(response, () => read(new URLSearchParams(query)))
  else if (!options.readers.add(response)) refuse(response, 503, 'too many pages are open')
}

/** Returns the status and the reason if a request must be refused. */
function findRefusal(
  request: IncomingMessage,
  path: string,
  { host, token, files, answers = {} }: ServerOptions,
): readonly [number, string] | undefined {
  if (!isOurs(request, host)) return [421, 'this server has another name']
  if (!['GET', 'HEAD'].includes(request.method ?? '')) return [405, 'only GET is answered']
  if (path === '/health' || files[path] !== undefined) return undefined
  if (path !== '/events' && answers[path] === undefined) return [404, 'there is no such page']
  if (isForeign(request)) return [403, 'a page of another origin may not read']
  const { authorization = '' } = request.headers
  if (token === undefined || isSameText(authorization, `Bearer ${token}`)) return undefined
  return [401, 'the token is missing or wrong']
}

function sendFile(response: ServerResponse, { type, body }: PageFile): void {
  response.setHeader('Content-Type', type)
  response.setHeader('Content-Length', body.byteLength)
  response.end(body)
}

function sendAnswer(response: ServerResponse, read: () => object | undefined): void {
  try {
    const body = read()
    response.setHeader('Content-Type', 'application/json')
    if (body === undefined) refuse(response, 404, 'there is no such feed')
    else response.end(JSON.stringify(body))
  } catch (error) {
    if (!isStreamsError(error, 'VALIDATION')) throw error
    refuse(response, 400, error.message)
  }
}

function refuse(response: ServerResponse, status: number, why: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8' }).end(`${why}\n`)
}

/** A file of the page. */
interface PageFile {
  readonly type: string
  readonly body: Uint8Array
}

/** The files of the page, by their paths at the server. */
export type PageFiles = Readonly<Record<string, PageFile>>

const types = {
  'index.html': 'text/html; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
}

/** Reads the files of the page, which the build puts into the folder `page` beside this file. */
export function readPage(folder: URL = new URL('./page/', import.meta.url)): PageFiles {
  const files = Object.entries(types).map(([name, type]) => [
    name === 'index.html' ? '/' : `/${name}`,
    { type, body: readFileSync(new URL(name, folder)) },
  ])
  return Object.assign(Object.create(null), Object.fromEntries(files)) as PageFiles
}

/** True if a host is a name or an address of loopback, which only this machine can reach. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

/**
 * Whether a request was sent to a name of the server on `host`. A foreign page can point its own
 * name to this server (DNS rebinding), so other names are refused. An address can't be redirected.
 */
function isOurs({ headers }: IncomingMessage, host: string): boolean {
  const name = nameIn(`http://${headers.host}`)
  if (isLoopback(name)) return true
  return !isLoopback(host) && (isIP(name) !== 0 || name === host.toLowerCase())
}

/** Whether a request comes from a page of another origin. */
function isForeign({ headers }: IncomingMessage): boolean {
  const { origin, host } = headers
  if (origin !== undefined && hostIn(origin) !== hostIn(`http://${host}`)) return true
  return !['same-origin', 'none'].includes(String(headers['sec-fetch-site'] ?? 'none'))
}

/** The name or address in a URL, without brackets; empty if the text is not a URL. */
function nameIn(url: string): string {
  return parse(url)?.hostname.replace(/^\[|\]$/g, '') ?? ''
}

/**
 * The host and port of a URL. A proxy that terminates TLS keeps `Host` but changes the scheme, so
 * the scheme is not compared.
 */
function hostIn(url: string): string {
  return parse(url)?.host ?? ''
}

function parse(url: string): URL | undefined {
  try {
    return new URL(url)
  } catch {
    return undefined
  }
}

/** Compares texts in constant time. */
function isSameText(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(one), digest(other))
}
