import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import { createGunzip } from 'node:zlib'
import type {
  ConfidentialCall,
  ConfidentialReply,
  ConnectionRules,
} from '../../plugins/confidential-http/call.js'
import { EnclaveError } from '../../plugins/confidential-http/errors.js'
import { hasHeader, readHeaders, writeHeaders } from './header-lines.js'
import { badAnswer, toUpstreamError } from './upstream-error.js'

const MAX_RESPONSE_BYTES = 1_024_000
const MAX_HEADER_BYTES = 65_536
const MAX_HEADER_LINES = 2000

/**
 * The enclave's wire: sends one request on its own connection, to an address that the rules allow, and verifies the server's
 * certificate. Does not follow redirects. Calls `call.onConnected` when it is connected, before any byte of the request leaves.
 * Rejects with EnclaveError, or with the reason of `call.signal`.
 */
export async function askUpstream(call: ConfidentialCall): Promise<ConfidentialReply> {
  // A caller that asks for an encoding decodes the body itself, and ranges count the bytes of the plain body.
  const acceptsGzip =
    call.method !== 'HEAD' && !hasHeader(call, 'accept-encoding') && !hasHeader(call, 'range')
  try {
    call.signal.throwIfAborted()
    call.connection.checkTarget?.({ method: call.method, url: call.url })
    const answer = await send(call, acceptsGzip)
    const wrong = wrongHead(answer)
    if (wrong !== undefined) {
      answer.destroy()
      throw badAnswer(`the external server answered ${wrong}`)
    }
    const isGzip = acceptsGzip && answer.headers['content-encoding']?.toLowerCase() === 'gzip'
    const multiHeaders = readHeaders(answer.rawHeaders)
    // They describe the compressed body.
    if (isGzip) for (const name of ['Content-Encoding', 'Content-Length']) multiHeaders.delete(name)
    const maxBytes = call.connection.maxResponseBytes ?? MAX_RESPONSE_BYTES
    const body = await readBody(answer, isGzip, maxBytes)
    return { status: answer.statusCode as number, multiHeaders, body }
  } catch (thrown) {
    throw call.signal.aborted ? call.signal.reason : toUpstreamError(thrown)
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

function send(call: ConfidentialCall, acceptsGzip: boolean): Promise<IncomingMessage> {
  const { method, url, signal, connection, onConnected = () => undefined } = call
  const { protocol, hostname } = new URL(url)
  const { ca, mayConnect = () => true } = connection
  const literal = hostname.replace(/^\[|\]$/g, '')
  if (isIP(literal) !== 0 && !mayConnect(literal)) throw notAllowed()
  const body = typeof call.body === 'string' ? Buffer.from(call.body) : call.body
  const headers = writeHeaders(call, body?.byteLength)
  if (acceptsGzip) headers.set('accept-encoding', ['gzip'])
  return new Promise((resolve, reject) => {
    const request = (protocol === 'https:' ? requestHttps : requestHttp)(url, {
      method,
      setHost: false,
      signal,
      agent: false,
      lookup: lookupAllowed(mayConnect),
      maxHeaderSize: MAX_HEADER_BYTES,
      // An environment variable can change the default.
      rejectUnauthorized: true,
      ...(ca === undefined ? {} : { secureContext: contextOf(ca) }),
    })
    // `maxHeaderSize` bounds the headers; Node would silently drop those beyond a count.
    request.maxHeadersCount = 0
    request.on('error', reject)
    request.on('socket', socket =>
      socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', onConnected),
    )
    request.on('response', answer => {
      // The request knows why the body was cut off, the answer does not.
      request.on('error', error => answer.destroy(error))
      resolve(answer)
    })
    request.on('upgrade', (_answer, socket) => {
      socket.destroy()
      reject(badAnswer('the external server wants another protocol'))
    })
    // Not an option of the request, because NODE_DEBUG=http prints the options.
    try {
      for (const [name, values] of headers) request.setHeader(name, values)
    } catch (thrown) {
      request.destroy()
      throw thrown
    }
    request.end(body)
  })
}

const contexts = new WeakMap<readonly string[], SecureContext>()

/** What trusts these root certificates alone. It has no state of a connection. */
function contextOf(ca: readonly string[]): SecureContext {
  const context = contexts.get(ca) ?? createSecureContext({ ca: [...ca] })
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
  return new Uint8Array(Buffer.concat(chunks))
}

function notAllowed(): EnclaveError {
  return new EnclaveError('blocked by the network policy: the address is not allowed', {
    code: 'POLICY',
  })
}
