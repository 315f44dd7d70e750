import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { asyncDispose } from '../../core/dispose.js'
import { ValidationError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { checkNumber, checkOptions, type OptionNames } from '../../core/options.js'
import { formatKey, parseKey, shownKey } from '../../crypto/hex-key.js'
import { boxKeys } from '../../crypto/sealed-box.js'
import { checkOwner } from '../../local/vault/secret-name.js'
import { type EnclaveSettings, openEnclave, settingNames } from '../enclave/open-enclave.js'
import { parsePublicKey } from '../keys.js'
import { createAnswering, type SealedAnswer, type Sender } from './answer-request.js'
import { boundConnections } from './connections.js'
import { Rejection, rejectVersion, sendRejection } from './rejection.js'
import { BOOT_KEY_PATH, KEY_BYTES, MAX_SEALED_BYTES, REQUEST_PATH } from './sealing.js'

/** Options of `startEnclaveServer`. */
export interface EnclaveServerOptions extends EnclaveSettings {
  /** The enclave's secret key, 64 hexadecimal digits; callers pin its public key. */
  readonly key: string
  /** The public key of each caller, and the owner whose secrets it uses. */
  readonly callers: { readonly [publicKey: string]: string }
  /** @default 0, any free one */
  readonly port?: number
  /** @default '127.0.0.1' */
  readonly host?: string
  /** The largest number of connections; of more, unproven ones are closed. @default 1024 */
  readonly maxConnections?: number
  /**
   * The largest number of connections from one address, or one IPv6 network of 64 bits. Behind a reverse proxy all connections
   * come from its address, so allow it as many as `maxConnections`. @default 256, or `maxConnections` if that is less
   */
  readonly maxConnectionsPerAddress?: number
  /** Receives the enclave's log. No line holds a secret. */
  readonly log?: Log
}

const names: OptionNames<EnclaveServerOptions> = {
  ...settingNames,
  key: true,
  callers: true,
  port: true,
  host: true,
  maxConnections: true,
  maxConnectionsPerAddress: true,
  log: true,
}

/** A running enclave server. */
export interface EnclaveServer extends AsyncDisposable {
  /** The URL that callers use: `http://HOST:PORT`. */
  readonly url: string
  /** The key that callers pin: 64 hexadecimal digits. */
  readonly publicKey: string
  /** Ends every request and connection, and the server. Idempotent. */
  close(): Promise<void>
}

/** Milliseconds for the headers of a request to arrive, counted from the connection on. */
const HEAD_TIMEOUT = 5000
/** Milliseconds for a whole request to arrive. */
const REQUEST_TIMEOUT = 10_000

/**
 * Runs an enclave for remote callers. Requests arrive sealed to its boot key and answers leave sealed to the caller's, so plain
 * HTTP suffices. Rejects unknown callers and replayed requests.
 */
export async function startEnclaveServer(given: EnclaveServerOptions): Promise<EnclaveServer> {
  const options = checkOptions('startEnclaveServer', given, names)
  const keys = boxKeys(parseKey('key', options.key))
  const callers = checkCallers(options.callers)
  const port = checkNumber('port', options.port ?? 0, { min: 0, max: 65_535, whole: true })
  const max = checkNumber('maxConnections', options.maxConnections ?? 1024, { min: 1, whole: true })
  const maxPerAddress = checkNumber(
    'maxConnectionsPerAddress',
    options.maxConnectionsPerAddress ?? Math.min(256, max),
    { min: 1, max, whole: true },
  )
  const { enclave } = await openEnclave(options)
  if (options.log !== undefined) enclave.listen(options.log)
  const log = options.log ?? {}
  const answering = createAnswering({ enclave, keys, boot: boxKeys(), callers, log })
  const { maxRequestBytes = 125_000 } = options.limits ?? {}
  // A body grows in base64, and the envelope needs room.
  const maxSealedBytes = 2 * maxRequestBytes + 65_536

  async function answer(request: IncomingMessage, sender: Sender): Promise<SealedAnswer> {
    const { method, url = '' } = request
    if (method === 'POST' && url === BOOT_KEY_PATH)
      return answering.bootKey(await readSealed(request, KEY_BYTES), sender)
    if (method === 'POST' && url === REQUEST_PATH)
      return answering.request(await readSealed(request, maxSealedBytes), sender)
    if (url.startsWith('/v1/')) throw rejectVersion()
    throw new Rejection(404, `requests are posted to ${REQUEST_PATH}`)
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    try {
      const { status, body } = await answer(request, {
        isProven: () => connections.isProven(socket),
        prove: () => connections.prove(socket),
        signal: gone.signal,
      })
      response.writeHead(status, { 'content-type': 'application/octet-stream' }).end(body)
    } catch (thrown) {
      if (gone.signal.aborted) return
      const rejection =
        thrown instanceof Rejection ? thrown : new Rejection(500, 'the enclave failed')
      const { status, message } = rejection
      log.warn?.(`rejected with ${status}: ${message}`, { status })
      sendRejection(response, rejection)
    }
  }

  const server = createServer(
    {
      requestTimeout: REQUEST_TIMEOUT,
      headersTimeout: HEAD_TIMEOUT,
      connectionsCheckingInterval: 1000,
      maxHeaderSize: 16_384,
    },
    (request, response) => void serve(request, response),
  )
  const connections = boundConnections(server, { max, maxPerAddress })
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
    answering.close()
    keys.secretKey.fill(0)
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
  if (entries.length === 0) throw new ValidationError('callers must name at least one public key')
  const owners = new Map<string, string>()
  for (const [given, owner] of entries) {
    const key = formatKey(parsePublicKey('callers: each key', given))
    const shown = shownKey(key)
    if (owners.has(key)) throw new ValidationError(`callers: the key ${shown} is named twice`)
    owners.set(key, checkOwner(`callers.${shown}`, owner))
  }
  return owners
}

/**
 * Reads a posted body. Drops the bytes of one that is longer than `maxBytes`, but still reads as much as callers of this library
 * may send, so that they receive the rejection.
 */
function readSealed(request: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const rejectLength = (): void => reject(new Rejection(413, 'the request is too long'))
    request.on('data', (chunk: Buffer) => {
      size += chunk.byteLength
      if (size <= maxBytes) chunks.push(chunk)
      else chunks.length = 0
      if (size <= Math.max(maxBytes, MAX_SEALED_BYTES)) return
      request.pause()
      rejectLength()
    })
    request.on('end', () => (size > maxBytes ? rejectLength() : resolve(Buffer.concat(chunks))))
    request.on('error', reject)
    request.on('close', () => reject(new Error('the connection was closed')))
  })
}
