import { asError, type ErrorCode, isStreamsError, onAbort } from 'sluice/core'
import {
  type ConfidentialCall,
  type ConfidentialReply,
  type ConnectionRules,
  EnclaveError,
  ownBytes,
} from 'sluice/plugins/confidential-http'
import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns'
import {
  type IncomingMessage,
  request as requestHttp,
  validateHeaderName,
  validateHeaderValue,
} from 'node:http'
import { request as requestHttps } from 'node:https'
import { connect as connectTCP, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTLS, createSecureContext, type SecureContext } from 'node:tls'
import { createGunzip } from 'node:zlib'
import { hasHeader, readHeaderLines, writeHeaders } from './header-lines.js'

/** The errors for the platform's codes. The first match counts. */
const failures: readonly (readonly [RegExp, ErrorCode, string])[] = [
  [
    /CERT|SSL|TLS|SIGNATURE|ISSUER|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH|^EPROTO$|^CRL_|^HOSTNAME_/,
    'UPSTREAM_TLS',
    "the external server's TLS certificate does not verify, or it does not speak TLS",
  ],
  [/^ECONNREFUSED$/, 'UPSTREAM_REFUSED', 'the external server refused the connection'],
  [
    /^(ECONNRESET|ECONNABORTED|EPIPE|ERR_STREAM_PREMATURE_CLOSE)$/,
    'UPSTREAM_CLOSED',
    'the external server closed the connection before its answer was complete',
  ],
  [
    /^(ENOTFOUND|EAI_\w+|ENODATA|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|EHOSTDOWN|ENETDOWN|ETIMEDOUT)$/,
    'UPSTREAM_HOST',
    'the external host could not be found or reached',
  ],
  [
    /^(HPE_\w+|Z_\w+)$/,
    'UPSTREAM_ANSWER',
    'the external server answered something other than HTTP',
  ],
  [/^ERR_INVALID_CHAR$/, 'TEMPLATE', 'a header holds a character that headers must not hold'],
]

/**
 * Converts the error of a failed request. Quotes only its code, because its message may repeat what
 * was sent.
 */
export function toUpstreamError(thrown: unknown): EnclaveError {
  if (isStreamsError(thrown)) return thrown as EnclaveError
  const codes = codesOf(thrown)
  for (const [pattern, code, message] of failures) {
    const found = codes.find(each => pattern.test(each))
    if (found !== undefined) return new EnclaveError(`${message} (${found})`, { code })
  }
  return upstreamAnswerError(
    `the external server could not be reached (${codes[0] ?? 'unknown reason'})`,
  )
}

/** Makes the error for an invalid answer. */
export function upstreamAnswerError(message: string): EnclaveError {
  return new EnclaveError(message, { code: 'UPSTREAM_ANSWER' })
}

/** An AggregateError holds one error for each address of the host. */
function codesOf(thrown: unknown): readonly string[] {
  const { code, errors = [] } = thrown as { code?: unknown; errors?: readonly unknown[] }
  const each = errors.map(error => (error as { code?: unknown }).code)
  return [...each, code].filter(one => typeof one === 'string')
}

const MAX_RESPONSE_BYTES = 1_024_000
const MAX_HEADER_BYTES = 65_536
const MAX_HEADER_LINES = 2000
/** Bytes that are read from a connection at a time. */
const READ_BYTES = 65_536

/**
 * The enclave's wire: sends one request on its own connection, to an address that the rules allow,
 * and verifies the server's certificate. Does not follow redirects. Calls `call.onConnected` when
 * it is connected, before any byte of the request leaves. Rejects with EnclaveError, or with the
 * reason of `call.signal`.
 */
export async function askUpstream(call: ConfidentialCall): Promise<ConfidentialReply> {
  // A caller that asks for an encoding decodes the body itself, and ranges count the bytes of the
  // plain body.
  const acceptsGzip =
    call.method !== 'HEAD' && !hasHeader(call, 'accept-encoding') && !hasHeader(call, 'range')
  /** What holds bytes of the request or of the answer. */
  const memory: Uint8Array[] = []
  try {
    call.signal.throwIfAborted()
    call.connection.checkTarget?.({ method: call.method, url: call.url })
    const answer = await send(call, acceptsGzip, memory)
    const wrong = wrongHead(answer)
    if (wrong !== undefined) {
      answer.destroy()
      throw upstreamAnswerError(`the external server answered ${wrong}`)
    }
    const isGzip = acceptsGzip && answer.headers['content-encoding']?.toLowerCase() === 'gzip'
    const multiHeaders = readHeaderLines(answer.rawHeaders)
    // They describe the compressed body.
    if (isGzip) for (const name of ['Content-Encoding', 'Content-Length']) multiHeaders.delete(name)
    const maxBytes = call.connection.maxResponseBytes ?? MAX_RESPONSE_BYTES
    const body = await readBody(answer, isGzip, maxBytes)
    return { status: answer.statusCode as number, multiHeaders, body }
  } catch (thrown) {
    throw call.signal.aborted ? call.signal.reason : toUpstreamError(thrown)
  } finally {
    for (const bytes of memory) bytes.fill(0)
  }
}

function wrongHead({
  statusCode: status = 0,
  headers,
  rawHeaders,
}: IncomingMessage): string | undefined {
  // Informational statuses precede an answer.
  if (status < 200) return `with the status ${status}, which ends no request`
  if ([301, 302, 303, 307, 308].includes(status) && headers.location !== undefined)
    return `${status}: redirects are not followed`
  return rawHeaders.length > 2 * MAX_HEADER_LINES
    ? `with more than ${MAX_HEADER_LINES} header lines`
    : undefined
}

/**
 * Sends the request once it is connected. What is written before would be kept by Node, in memory
 * that nobody wipes.
 */
async function send(
  call: ConfidentialCall,
  acceptsGzip: boolean,
  memory: Uint8Array[],
): Promise<IncomingMessage> {
  const { onConnected = () => undefined } = call
  const body = typeof call.body === 'string' ? ownBytes(call.body) : call.body
  if (body !== undefined && body !== call.body) memory.push(body)
  const headers = writeHeaders(call, body?.byteLength)
  if (acceptsGzip) headers.set('accept-encoding', ['gzip'])
  for (const [name, values] of headers) {
    validateHeaderName(name)
    for (const value of values) validateHeaderValue(name, value)
  }
  const socket = await connect(call, memory)
  onConnected()
  return exchange(call, wipeWrites(socket), headers, body).catch(thrown => {
    socket.destroy()
    throw thrown
  })
}

/** Connects to an address that the rules allow, and verifies the server's certificate. */
function connect(
  { url, signal, connection }: ConfidentialCall,
  memory: Uint8Array[],
): Promise<Socket> {
  const { protocol, hostname, port } = new URL(url)
  const { ca, mayConnect = () => true } = connection
  const host = hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0 && !mayConnect(host)) throw notAllowed()
  const isTLS = protocol === 'https:'
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES)
  memory.push(buffer)
  function receive(size: number): boolean {
    const bytes = Buffer.allocUnsafeSlow(size)
    buffer.copy(bytes, 0, 0, size)
    memory.push(bytes)
    // The parser of answers listens.
    socket.emit('data', bytes)
    return true
  }
  let socket: Socket
  const options = {
    host,
    port: Number(port || (isTLS ? 443 : 80)),
    lookup: lookupAllowed(mayConnect),
    noDelay: true,
    // Without a buffer of ours Node reads into memory that it frees as it is.
    onread: { buffer, callback: receive },
  }
  return new Promise((resolve, reject) => {
    socket = isTLS
      ? connectTLS({
          ...options,
          ALPNProtocols: ['http/1.1'],
          // An address is no name that a server can be asked for.
          servername: isIP(host) === 0 ? host : '',
          // An environment variable can change the default.
          rejectUnauthorized: true,
          secureContext: contextOf(ca),
        })
      : connectTCP(options)
    const forget = onAbort(signal, () => socket.destroy(asError(signal.reason)))
    // Once connected, the request hears of it as well.
    socket.on('error', reject)
    socket.once('close', () => {
      forget()
      reject(Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' }))
    })
    socket.once(isTLS ? 'secureConnect' : 'connect', () => {
      forget()
      resolve(socket)
    })
  })
}

/**
 * Has a socket write text from memory that is wiped as soon as it is written. Node itself encodes
 * text, and what was written in a row, into memory that it frees as it is.
 */
function wipeWrites(socket: Socket): Socket {
  const write = socket.write.bind(socket) as (
    chunk: Uint8Array,
    encoding?: BufferEncoding,
    done?: (error?: Error | null) => void,
  ) => boolean
  function writeOwn(
    chunk: Uint8Array | string,
    encoding?: BufferEncoding,
    done?: (error?: Error | null) => void,
  ): boolean {
    if (typeof chunk !== 'string') return write(chunk, encoding, done)
    const bytes = ownBytes(chunk, encoding === 'latin1' ? 'latin1' : 'utf8')
    return write(bytes, undefined, error => {
      bytes.fill(0)
      done?.(error)
    })
  }
  return Object.assign(socket, { write: writeOwn, cork: () => undefined })
}

/** Sends one request on a connection. Resolves with the head of its answer. */
function exchange(
  { method, url, signal }: ConfidentialCall,
  socket: Socket,
  headers: ReadonlyMap<string, readonly string[]>,
  body: Uint8Array | undefined,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = (new URL(url).protocol === 'https:' ? requestHttps : requestHttp)(url, {
      method,
      setHost: false,
      signal,
      createConnection: () => socket,
      maxHeaderSize: MAX_HEADER_BYTES,
    })
    // `maxHeaderSize` bounds the headers; Node would silently drop those beyond a count.
    request.maxHeadersCount = 0
    request.on('error', reject)
    request.on('response', answer => {
      // The request knows why the body was cut off, the answer does not.
      request.on('error', error => answer.destroy(error))
      resolve(answer)
    })
    request.on('upgrade', (_answer, upgraded) => {
      upgraded.destroy()
      reject(upstreamAnswerError('the external server wants another protocol'))
    })
    // Not an option of the request, because NODE_DEBUG=http prints the options.
    for (const [name, values] of headers) request.setHeader(name, values)
    request.end(body)
  })
}

/**
 * SSL_OP_CLEANSE_PLAINTEXT: OpenSSL zeroes what it has decrypted once that was read. Node has no
 * name for it.
 */
const secureOptions = 2
/** Stands for the roots of the platform. */
const PLATFORM_ROOTS: readonly string[] = []

const contexts = new WeakMap<readonly string[], SecureContext>()

/**
 * What trusts these root certificates alone, or else those of the platform. It has no state of a
 * connection.
 */
function contextOf(ca: readonly string[] = PLATFORM_ROOTS): SecureContext {
  const context =
    contexts.get(ca) ??
    createSecureContext(ca === PLATFORM_ROOTS ? { secureOptions } : { secureOptions, ca: [...ca] })
  contexts.set(ca, context)
  return context
}

/** Resolves a host as the platform does, and drops the addresses that are not allowed. */
function lookupAllowed(mayConnect: NonNullable<ConnectionRules['mayConnect']>): LookupFunction {
  return function lookUp(hostname, options, done) {
    const all: LookupAllOptions = { ...(options as LookupAllOptions), all: true }
    lookup(hostname, all, (error, found) => {
      const allowed = error === null ? found.filter(({ address }) => mayConnect(address)) : []
      const [first] = allowed as [LookupAddress?]
      if (error !== null) done(error, '')
      else if (first === undefined) done(notAllowed(), '')
      else if (options.all) done(null, allowed)
      else done(null, first.address, first.family)
    })
  }
}

async function readBody(
  answer: IncomingMessage,
  isGzip: boolean,
  maxBytes: number,
): Promise<Uint8Array> {
  const gunzip = isGzip ? createGunzip() : undefined
  let isEmpty = gunzip !== undefined
  if (gunzip !== undefined) {
    answer.on('error', error => gunzip.destroy(error))
    answer.once('data', () => {
      isEmpty = false
    })
    answer.pipe(gunzip)
  }
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of (gunzip ?? answer) as AsyncIterable<Buffer>) {
      size += chunk.byteLength
      if (size > maxBytes) {
        throw new EnclaveError(`the answer's body is longer than ${maxBytes} bytes`, {
          code: 'LIMIT',
        })
      }
      chunks.push(chunk)
    }
  } catch (error) {
    // An empty compressed body may have no bytes at all.
    if (!isEmpty || !answer.complete) throw error
  } finally {
    answer.destroy()
    gunzip?.destroy()
  }
  const body = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    body.set(chunk, at)
    at += chunk.byteLength
  }
  return body
}

function notAllowed(): EnclaveError {
  return new EnclaveError('blocked by the network policy: the address is not allowed', {
    code: 'POLICY',
  })
}
