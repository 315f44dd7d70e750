import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
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
 * The enclave's wire: one request on a connection of its own, to an address that the rules let it dial, its certificate
 * verified. Redirects are not followed. Calls `call.onConnected` when the connection is made: nothing of the request has left
 * before. Rejects with EnclaveError, or with the reason of `call.signal`.
 */
export async function askUpstream(call: ConfidentialCall): Promise<ConfidentialReply> {
  // Who asks for an encoding unpacks it; and no encoding may come between a range and its bytes.
  const unpacks =
    call.method !== 'HEAD' && !hasHeader(call, 'accept-encoding') && !hasHeader(call, 'range')
  try {
    call.signal.throwIfAborted()
    const answer = await send(call, unpacks)
    const { statusCode: status = 0 } = answer
    // Those below 200 announce an answer; what has no such status is none either.
    if (status < 200) {
      answer.destroy()
      throw badAnswer(
        `the external server answered with the status ${status}, which ends no request`,
      )
    }
    const isRedirect = [301, 302, 303, 307, 308].includes(status)
    if (isRedirect && answer.headers.location !== undefined) {
      answer.destroy()
      throw badAnswer(`the external server answered ${status}: redirects are not followed`)
    }
    if (answer.rawHeaders.length > 2 * MAX_HEADER_LINES) {
      answer.destroy()
      throw badAnswer(
        `the external server answered with more than ${MAX_HEADER_LINES} header lines`,
      )
    }
    const isPacked = unpacks && answer.headers['content-encoding']?.toLowerCase() === 'gzip'
    const multiHeaders = readHeaders(answer.rawHeaders)
    if (isPacked) for (const name of PACKING) multiHeaders.delete(name)
    const maxBytes = call.connection.maxResponseBytes ?? MAX_RESPONSE_BYTES
    const body = await readBody(answer, isPacked, maxBytes)
    return { status, multiHeaders, body }
  } catch (thrown) {
    throw call.signal.aborted ? call.signal.reason : toUpstreamError(thrown)
  }
}

/** What is no longer true of a body that was unpacked. */
const PACKING = ['Content-Encoding', 'Content-Length'] as const

function send(call: ConfidentialCall, unpacks: boolean): Promise<IncomingMessage> {
  const { method, url, signal, connection, onConnected = () => undefined } = call
  const { protocol, hostname } = new URL(url)
  const { ca, mayConnect = () => true } = connection
  const literal = hostname.replace(/^\[|\]$/g, '')
  if (isIP(literal) !== 0 && !mayConnect(literal)) throw notDialled()
  const body = typeof call.body === 'string' ? Buffer.from(call.body) : call.body
  const headers = writeHeaders(call, body?.byteLength)
  if (unpacks) headers.set('accept-encoding', ['gzip'])
  return new Promise((resolve, reject) => {
    const request = (protocol === 'https:' ? requestHttps : requestHttp)(url, {
      method,
      setHost: false,
      signal,
      agent: false,
      lookup: lookupAllowed(mayConnect),
      maxHeaderSize: MAX_HEADER_BYTES,
      // Said outright, because an environment variable can turn it off otherwise.
      rejectUnauthorized: true,
      ...(ca === undefined ? {} : { ca: [...ca] }),
    })
    // Their size is bounded; of too many, Node would keep the first ones.
    request.maxHeadersCount = 0
    request.on('error', reject)
    request.on('socket', socket =>
      socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', onConnected),
    )
    request.on('response', answer => {
      // What the body breaks off for is told here; the answer itself would only say that it did.
      request.on('error', error => answer.destroy(error))
      resolve(answer)
    })
    request.on('upgrade', (_answer, socket) => {
      socket.destroy()
      reject(badAnswer('the external server wants another protocol'))
    })
    // Not among the options above: NODE_DEBUG=http prints those.
    try {
      for (const [name, values] of headers) request.setHeader(name, values)
    } catch (thrown) {
      request.destroy()
      throw thrown
    }
    request.end(body)
  })
}

/** The platform's lookup, without the addresses that must not be dialled. */
function lookupAllowed(mayConnect: NonNullable<ConnectionRules['mayConnect']>): LookupFunction {
  return function lookUp(hostname, options, done) {
    const all: LookupAllOptions = { ...(options as LookupAllOptions), all: true }
    lookup(hostname, all, (error, found) => {
      const allowed = error === null ? found.filter(({ address }) => mayConnect(address)) : []
      const [first] = allowed as [LookupAddress?]
      if (error !== null) done(error, '')
      else if (first === undefined) done(notDialled(), '')
      else if (options.all) done(null, allowed)
      else done(null, first.address, first.family)
    })
  }
}

async function readBody(
  answer: IncomingMessage,
  isPacked: boolean,
  maxBytes: number,
): Promise<Uint8Array> {
  const gunzip = isPacked ? createGunzip() : undefined
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
    // A packed body that is empty may have no bytes at all.
    if (!isEmpty || !answer.complete) throw error
  } finally {
    answer.destroy()
    gunzip?.destroy()
  }
  return new Uint8Array(Buffer.concat(chunks))
}

function notDialled(): EnclaveError {
  return new EnclaveError('blocked by the network policy: the address is not allowed', {
    code: 'POLICY',
  })
}
