import type { LookupAddress } from 'node:dns'
import {
  type IncomingMessage,
  request as requestHttp,
  validateHeaderName,
  validateHeaderValue,
} from 'node:http'
import { request as requestHttps } from 'node:https'
import { connect as connectTCP, isIP, type LookupFunction, type Socket } from 'node:net'
import { finished } from 'node:stream'
import { connect as connectTLS, createSecureContext, type SecureContext } from 'node:tls'
import { promisify } from 'node:util'
import { constants, gunzip } from 'node:zlib'
import { asError, type ErrorCode, isStreamsError, onAbort } from 'sluice/core'
import { BodyReader, PieceCounter, TokenBucket } from 'sluice/internal'
import {
  type ConfidentialCall,
  type ConfidentialReply,
  EnclaveError,
  ownBytes,
} from 'sluice/plugins/confidential-http'
import { hasHeader, readHeaderLines, writeHeaders } from './header-lines.js'
import { lookUp } from './resolver.js'

const HOST_FAILURE = 'the external host could not be found or reached'

/** The error for each error code of the platform. The first matching row applies. */
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
    /^(EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|EHOSTDOWN|ENETDOWN|ETIMEDOUT)$/,
    'UPSTREAM_HOST',
    HOST_FAILURE,
  ],
  [
    /^(HPE_\w+|Z_\w+)$/,
    'UPSTREAM_ANSWER',
    'the external server answered something other than HTTP',
  ],
  [/^ERR_INVALID_CHAR$/, 'TEMPLATE', 'a header holds a character that headers must not hold'],
]

/**
 * Converts the error of a failed request. Quotes only the code of the error, because its message
 * may repeat parts of the request.
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

/**
 * Lists the codes of an error. An AggregateError has one error for each address of the host, so
 * their codes come first.
 */
function codesOf(thrown: unknown): readonly string[] {
  const { code, errors = [] } = thrown as { code?: unknown; errors?: readonly unknown[] }
  const each = errors.map(error => (error as { code?: unknown }).code)
  return [...each, code].filter(one => typeof one === 'string')
}

const MAX_RESPONSE_BYTES = 1_024_000
const MAX_HEADER_BYTES = 65_536
const MAX_HEADER_LINES = 2000
/** The most informational answers, which precede an answer. */
const MAX_ANNOUNCEMENTS = 100
/**
 * How many bytes an answer may have besides its body: headers, trailers, and what frames and
 * compresses the body.
 */
const MAX_EXTRA_BYTES = 262_144
/** The size in bytes of the buffer that each connection is read into. */
const READ_BYTES = 65_536
/** A read of fewer bytes is small. A TLS record is a read, and costs about the same at any size. */
const SMALL_READ = 256
/** How many small reads a second the connections of a caller get together, and how many at once. */
const [READS_PER_SECOND, READS_AT_ONCE] = [5000, 16_384] as const
/**
 * How many of these a connection takes at a time at most. It begins with one, and takes twice as
 * many each time. So an answer in two pieces takes two.
 */
const MAX_READS = 1024

/**
 * The enclave's wire. Opens a connection for one request, to an address that the rules allow, and
 * verifies the server's certificate. Calls `call.onConnected` once it is connected, before any byte
 * of the request leaves. Does not follow redirects. Rejects with EnclaveError, or with the reason
 * of `call.signal`.
 */
export async function askUpstream(call: ConfidentialCall): Promise<ConfidentialReply> {
  // If the caller asks for an encoding, the caller decodes the body itself. If it asks for a range,
  // the range counts bytes of the plain body.
  const acceptsGzip =
    call.method !== 'HEAD' && !hasHeader(call, 'accept-encoding') && !hasHeader(call, 'range')
  /** The memory that contains bytes of the request or of the answer. It is wiped at the end. */
  const memory: Uint8Array[] = []
  try {
    call.signal.throwIfAborted()
    const { method, url } = call
    const headers = [...call.multiHeaders.keys(), ...call.headers.keys()]
    call.connection.checkTarget?.({ method, url, headers })
    const answer = await send(call, acceptsGzip, memory)
    const wrong = wrongHead(answer)
    if (wrong !== undefined) {
      answer.destroy()
      throw upstreamAnswerError(`the external server answered ${wrong}`)
    }
    const isGzip = acceptsGzip && answer.headers['content-encoding']?.toLowerCase() === 'gzip'
    const multiHeaders = readHeaderLines(answer.rawHeaders)
    // These headers describe the compressed body, so the answer must not keep them.
    if (isGzip) for (const name of ['Content-Encoding', 'Content-Length']) multiHeaders.delete(name)
    const body = await readBody(answer, isGzip, maxBodyBytes(call), memory)
    return { status: answer.statusCode as number, multiHeaders, body }
  } catch (thrown) {
    throw call.signal.aborted ? call.signal.reason : toUpstreamError(thrown)
  } finally {
    for (const bytes of memory) bytes.fill(0)
  }
}

function maxBodyBytes({ connection }: ConfidentialCall): number {
  return connection.maxResponseBytes ?? MAX_RESPONSE_BYTES
}

function wrongHead({
  statusCode: status = 0,
  headers,
  rawHeaders,
}: IncomingMessage): string | undefined {
  // Informational statuses only precede an answer, so none of them is the answer.
  if (status < 200) return `with the status ${status}, which ends no request`
  if ([301, 302, 303, 307, 308].includes(status) && headers.location !== undefined)
    return `${status}: redirects are not followed`
  return rawHeaders.length > 2 * MAX_HEADER_LINES
    ? `with more than ${MAX_HEADER_LINES} header lines`
    : undefined
}

/**
 * Connects, then sends the request. If the request were written before, Node would keep its bytes
 * in memory that nobody wipes.
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
function connect(call: ConfidentialCall, memory: Uint8Array[]): Promise<Socket> {
  const { url, signal } = call
  const { protocol, hostname, port } = new URL(url)
  const { ca, mayConnect = () => true } = call.connection
  const host = hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0 && !mayConnect(host)) throw notAllowed()
  const isTLS = protocol === 'https:'
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES)
  memory.push(buffer)
  const reads = new PieceCounter()
  const maxBytes = maxBodyBytes(call) + MAX_EXTRA_BYTES
  let readsTaken = 0
  let readsLeft = 0
  let resting: ReturnType<typeof setTimeout> | undefined
  function receive(size: number): boolean {
    const excess = reads.add(size)
    if (excess !== undefined || reads.size > maxBytes) {
      const what = excess === undefined ? `more than ${maxBytes} bytes` : 'too many small pieces'
      socket.destroy(new EnclaveError(`the external server sent ${what}`, { code: 'LIMIT' }))
      return false
    }
    // The HTTP parser listens to this event. It copies what it keeps, so the next read may
    // overwrite the buffer.
    socket.emit('data', buffer.subarray(0, size))
    if (size >= SMALL_READ || --readsLeft >= 0) return true
    readsTaken = Math.min(MAX_READS, 2 * readsTaken || 1)
    readsLeft = readsTaken - 1
    const wait = takeReads(call.caller ?? call.owner, readsTaken)
    if (wait > 0) rest(wait)
    return wait === 0
  }
  /** Does not read for some milliseconds. Node goes on with `resume` whenever it wants more. */
  function rest(ms: number): void {
    clearTimeout(resting)
    resting = setTimeout(() => {
      resting = undefined
      socket.resume()
    }, ms).unref()
  }
  let socket: Socket
  const options = {
    host,
    port: Number(port || (isTLS ? 443 : 80)),
    lookup: lookupAllowed(call, mayConnect),
    noDelay: true,
    // Without this buffer, Node would read into its own memory and free it without wiping it.
    onread: { buffer, callback: receive },
  }
  return new Promise((resolve, reject) => {
    socket = isTLS
      ? connectTLS({
          ...options,
          ALPNProtocols: ['http/1.1'],
          // TLS does not allow an address as a server name.
          servername: isIP(host) === 0 ? host : '',
          // The default is not enough, because an environment variable can change it.
          rejectUnauthorized: true,
          secureContext: contextOf(ca),
        })
      : connectTCP(options)
    const resume = socket.resume.bind(socket)
    socket.resume = () => (resting === undefined ? resume() : socket)
    const forget = onAbort(signal, () => socket.destroy(asError(signal.reason)))
    // After the connection is open, the HTTP request also listens for errors of the socket.
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

/** The small reads that each caller may still do. Full buckets are forgotten. */
const readsOf = new Map<string, TokenBucket>()

/**
 * Takes some small reads from a caller's budget. Returns for how many milliseconds the connection
 * must not read before it does them. So answers in tiny pieces cost the other callers little, and
 * the answers of one caller come one after the other.
 */
function takeReads(caller: string, count: number): number {
  let bucket = readsOf.get(caller)
  if (bucket === undefined) {
    for (const [each, other] of readsOf) if (other.isFull()) readsOf.delete(each)
    bucket = new TokenBucket(READS_PER_SECOND, READS_AT_ONCE)
    readsOf.set(caller, bucket)
  }
  const wait = bucket.msUntil(0)
  bucket.spend(count)
  return wait
}

/**
 * Makes a socket write text from memory that is wiped as soon as the text is written. By default,
 * Node encodes text into its own memory, and frees this memory without wiping it. Node also joins
 * successive writes in such memory, so `cork` is disabled.
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

/** Sends one request on a connection. Resolves when the head of the answer has arrived. */
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
    // Node silently drops headers beyond this number. `wrongHead` sees that there were more.
    request.maxHeadersCount = MAX_HEADER_LINES + 1
    request.on('error', reject)
    let announcements = 0
    request.on('information', () => {
      if (++announcements === MAX_ANNOUNCEMENTS + 1)
        request.destroy(upstreamAnswerError('the external server announced its answer too often'))
    })
    request.on('response', answer => {
      // Only the request reports why the body was cut off, so its error is passed to the answer.
      request.on('error', error => answer.destroy(error))
      resolve(answer)
    })
    request.on('upgrade', (_answer, upgraded) => {
      upgraded.destroy()
      reject(upstreamAnswerError('the external server wants another protocol'))
    })
    // The headers are not passed as an option, because NODE_DEBUG=http prints the options of a
    // request.
    for (const [name, values] of headers) request.setHeader(name, values)
    request.end(body)
  })
}

/**
 * The value of SSL_OP_CLEANSE_PLAINTEXT, for which Node has no constant. With it, OpenSSL zeroes
 * decrypted bytes once they were read.
 */
const secureOptions = 2
/** Stands for the root certificates of the platform. */
const PLATFORM_ROOTS: readonly string[] = []

const contexts = new WeakMap<readonly string[], SecureContext>()

/**
 * Returns a TLS context that trusts only these root certificates. Without an argument, it trusts
 * the root certificates of the platform. A context has no state of any connection, so connections
 * can share it.
 */
function contextOf(ca: readonly string[] = PLATFORM_ROOTS): SecureContext {
  const context =
    contexts.get(ca) ??
    createSecureContext(ca === PLATFORM_ROOTS ? { secureOptions } : { secureOptions, ca: [...ca] })
  contexts.set(ca, context)
  return context
}

/** Makes a lookup function that drops addresses that are not allowed. */
function lookupAllowed(
  { caller, owner, signal }: ConfidentialCall,
  mayConnect: (address: string) => boolean,
): LookupFunction {
  async function find(host: string): Promise<readonly [LookupAddress, ...LookupAddress[]]> {
    const found = await lookUp({ host, caller: caller ?? owner, signal })
    const [first, ...others] = found.filter(({ address }) => mayConnect(address))
    if (first === undefined) throw notAllowed()
    return [first, ...others]
  }
  return function lookupHost(host, { all }, done) {
    find(host).then(
      found => (all ? done(null, [...found]) : done(null, found[0].address, found[0].family)),
      thrown => done(isStreamsError(thrown) ? thrown : hostError(thrown), ''),
    )
  }
}

function hostError(thrown: unknown): EnclaveError {
  const [code = 'unknown reason'] = codesOf(thrown)
  return new EnclaveError(`${HOST_FAILURE} (${code})`, { code: 'UPSTREAM_HOST' })
}

/** Reads the body of an answer. A compressed body is decompressed once it is complete. */
async function readBody(
  answer: IncomingMessage,
  isGzip: boolean,
  maxBytes: number,
  memory: Uint8Array[],
): Promise<Uint8Array> {
  const body = await collect(answer, new BodyReader(maxBytes + (isGzip ? MAX_EXTRA_BYTES : 0)))
  if (!isGzip || body.byteLength === 0) return body
  memory.push(body)
  // One chunk has room for the whole result, so there is one chunk to wipe.
  const room = Math.max(maxBytes + 1, constants.Z_MIN_CHUNK)
  try {
    const plain = await promisify(gunzip)(body, { chunkSize: room, maxOutputLength: room })
    memory.push(plain)
    if (plain.byteLength <= maxBytes) return new Uint8Array(plain)
  } catch (thrown) {
    if (!codesOf(thrown).includes('ERR_BUFFER_TOO_LARGE')) throw thrown
  }
  throw new EnclaveError(`the answer's body is longer than ${maxBytes} bytes`, { code: 'LIMIT' })
}

/** Reads all bytes of an answer. */
function collect(answer: IncomingMessage, body: BodyReader): Promise<Uint8Array> {
  return new Promise<Uint8Array>((resolve, reject) => {
    let excess: ReturnType<BodyReader['add']>
    answer.on('data', (chunk: Buffer) => {
      // After a refusal, the parser goes on with the bytes that it has.
      const isRefused = excess !== undefined
      excess = body.add(chunk)
      chunk.fill(0)
      if (excess === undefined || isRefused) return
      reject(new EnclaveError(`the answer's body ${body.describe(excess)}`, { code: 'LIMIT' }))
    })
    // The answer may have failed already.
    finished(answer, error => (error ? reject(error) : resolve(body.take())))
  }).finally(() => {
    body.wipe()
    answer.destroy()
  })
}

function notAllowed(): EnclaveError {
  return new EnclaveError('blocked by the network policy: the address is not allowed', {
    code: 'POLICY',
  })
}
