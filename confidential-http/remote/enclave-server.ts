import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { asyncDispose } from '../../core/dispose.js'
import { ValidationError } from '../../core/errors.js'
import { formatKey, parseKey } from '../../core/hex-key.js'
import { checkNumber } from '../../core/options.js'
import { type BoxKeys, boxKeys, checkPublicKey, isPublicKey } from '../../core/sealed-box.js'
import type { Log } from '../../core/types.js'
import type { Enclave } from '../enclave/enclave.js'
import { type EnclaveSettings, openEnclave } from '../enclave/open-enclave.js'
import { checkOwner } from '../runtime/check-owner.js'
import { type Failure, toFailure } from '../thread/failure.js'
import { createTurns } from '../thread/turns.js'
import type { HTTPResponse } from '../types.js'
import { readSealed } from './read-sealed.js'
import { Refusal, refuse } from './refusal.js'
import { createReplayGuard } from './replay-guard.js'
import { openRequest, REQUEST_PATH, sealAnswer, toJSON } from './sealing.js'

/** Options of `startEnclaveServer`. */
export interface EnclaveServerOptions extends EnclaveSettings {
  /** The enclave's secret key, 64 hexadecimal digits; callers pin the public key that belongs to it. */
  readonly key: string
  /** Who may ask: the public key of each caller, and whose secrets it uses. */
  readonly callers: { readonly [publicKey: string]: string }
  /** @default 0, any free one */
  readonly port?: number
  /** @default '127.0.0.1' */
  readonly host?: string
  /** Hears what the enclave does. No line holds a secret. */
  readonly log?: Log
}

/** A running enclave server. */
export interface EnclaveServer extends AsyncDisposable {
  readonly url: string
  /** What callers pin: 64 hexadecimal digits. */
  readonly publicKey: string
  close(): Promise<void>
}

const MAX_RUNNING = 256
/** Who has sent nothing yet takes a connection, and no place among those who are served. */
const MAX_CONNECTIONS = 1024
/** How long a request may take to come in, in milliseconds. */
const REQUEST_TIMEOUT = 10_000

/**
 * Runs an enclave for callers elsewhere. Requests come sealed to its key and answers leave sealed to the caller's, so that
 * plain HTTP will do on the way; who is not among the callers is refused, and so is a request that was seen before.
 */
export async function startEnclaveServer(options: EnclaveServerOptions): Promise<EnclaveServer> {
  const keys = boxKeys(parseKey('key', options.key))
  const callers = checkCallers(options.callers)
  const port = checkNumber('port', options.port ?? 0, { min: 0, max: 65_535, whole: true })
  const { enclave } = await openEnclave(options)
  if (options.log !== undefined) enclave.listen(options.log)
  const log = options.log ?? {}
  const answer = createAnswer(enclave, keys, callers)
  const { maxRequestBytes = 125_000 } = options.limits ?? {}
  // In base64, with room for what is around it.
  const maxSealedBytes = 2 * maxRequestBytes + 65_536
  let running = 0

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    try {
      if (request.method !== 'POST' || request.url !== REQUEST_PATH)
        throw new Refusal(404, `requests are posted to ${REQUEST_PATH}`)
      const sealed = await readSealed(request, maxSealedBytes)
      if (running >= MAX_RUNNING) throw new Refusal(503, 'too many requests')
      running++
      try {
        const answered = await answer(sealed, gone.signal)
        response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(answered)
      } finally {
        running--
      }
    } catch (thrown) {
      if (gone.signal.aborted) return
      const refusal = thrown instanceof Refusal ? thrown : new Refusal(500, 'the enclave failed')
      log.warn?.(`refused with ${refusal.status}: ${refusal.message}`, { status: refusal.status })
      refuse(response, refusal)
    }
  }

  const server = createServer(
    {
      requestTimeout: REQUEST_TIMEOUT,
      headersTimeout: REQUEST_TIMEOUT,
      connectionsCheckingInterval: 1000,
      maxHeaderSize: 16_384,
    },
    (request, response) => void serve(request, response),
  )
  server.maxConnections = MAX_CONNECTIONS
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject)
    server.listen(port, options.host ?? '127.0.0.1', resolve)
  })
  const { address, family, port: bound } = server.address() as AddressInfo

  async function close(): Promise<void> {
    enclave.close()
    const closed = new Promise(resolve => server.close(resolve))
    server.closeAllConnections()
    await closed
  }
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`,
    publicKey: formatKey(keys.publicKey),
    close,
    [asyncDispose]: close,
  }
}

function checkCallers(callers: EnclaveServerOptions['callers']): ReadonlyMap<string, string> {
  const entries = Object.entries(callers ?? {})
  if (entries.length === 0)
    throw new ValidationError('callers must name at least one public key that may ask')
  return new Map(
    entries.map(([key, owner]) => [
      formatKey(checkPublicKey('callers: each key', parseKey('callers: each key', key))),
      checkOwner(`callers.${key}`, owner),
    ]),
  )
}

type SealedAnswer = (sealed: Uint8Array, signal: AbortSignal) => Promise<Uint8Array>

function createAnswer(
  enclave: Enclave,
  keys: BoxKeys,
  callers: ReadonlyMap<string, string>,
): SealedAnswer {
  const guard = createReplayGuard()
  const takeTurn = createTurns()
  return async function answer(sealed, signal) {
    const startedAt = Date.now()
    // To open what a stranger has sent takes time as well.
    await takeTurn(() => signal.aborted)
    const opened = openRequest(sealed, keys)
    if (opened === undefined) throw new Refusal(400, 'the request is not sealed to this enclave')
    const owner = callers.get(formatKey(opened.caller))
    if (owner === undefined) throw new Refusal(403, 'the caller is not known')
    const { id, issuedAt, replyTo, request } = readEnvelope(opened.json)
    guard.check(`${formatKey(opened.caller)} ${id}`, issuedAt)
    let outcome: { response: HTTPResponse } | { failure: Failure }
    try {
      outcome = { response: await enclave.send(request, { owner, startedAt, signal }) }
    } catch (thrown) {
      outcome = { failure: toFailure(thrown) }
    }
    return sealAnswer(toJSON({ id, ...outcome }), replyTo, keys)
  }
}

interface Envelope {
  readonly id: string
  readonly issuedAt: number
  readonly replyTo: Uint8Array
  readonly request: unknown
}

/** Reads what a caller has sealed. Throws Refusal. */
export function readEnvelope(json: string): Envelope {
  let envelope: Readonly<Record<string, unknown>>
  try {
    envelope = JSON.parse(json) ?? {}
  } catch {
    throw new Refusal(400, 'the request is not JSON')
  }
  const { version, id, issuedAt, replyTo, request } = envelope
  if (version !== 1) throw new Refusal(400, 'the request is not of version 1')
  if (typeof id !== 'string' || !/^[0-9a-f]{32}$/.test(id))
    throw new Refusal(400, 'the id is not 32 hexadecimal digits')
  if (!Number.isSafeInteger(issuedAt)) throw new Refusal(400, 'issuedAt is not a time')
  if (typeof replyTo !== 'string' || !/^[0-9a-f]{64}$/.test(replyTo))
    throw new Refusal(400, 'replyTo is not a key')
  const replyKey = parseKey('replyTo', replyTo)
  if (!isPublicKey(replyKey)) throw new Refusal(400, 'replyTo is a point of low order')
  return { id, issuedAt: issuedAt as number, replyTo: replyKey, request }
}
