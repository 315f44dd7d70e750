import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { asyncDispose } from '../../core/dispose.js'
import { ValidationError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { checkNumber } from '../../core/options.js'
import { formatKey, parseKey, shownKey } from '../../crypto/hex-key.js'
import { boxKeys } from '../../crypto/sealed-box.js'
import { type EnclaveSettings, openEnclave } from '../enclave/open-enclave.js'
import { parsePublicKey } from '../keys.js'
import { checkOwner } from '../runtime/check-owner.js'
import { createAnswering, type SealedAnswer, type Sender } from './answer-request.js'
import { boundConnections } from './connections.js'
import { readSealed } from './read-sealed.js'
import { Refusal, refuse, refuseVersion } from './refusal.js'
import { BOOT_KEY_PATH, KEY_BYTES, REQUEST_PATH } from './sealing.js'

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
  /** How many connections are held at once; where there are more, those of strangers are closed. @default 1024 */
  readonly maxConnections?: number
  /**
   * How many of them may come from one address, or one IPv6 network of 64 bits. Behind a reverse proxy all come from its
   * address: allow it as many as there are. @default 256, or `maxConnections` where that is less
   */
  readonly maxConnectionsPerAddress?: number
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

/** How long the head of a request may take to come in, and with it its first byte, in milliseconds. */
const HEAD_TIMEOUT = 5000
/** How long a whole request may take to come in, in milliseconds. */
const REQUEST_TIMEOUT = 10_000

/**
 * Runs an enclave for callers elsewhere. Requests come sealed to its boot key and answers leave sealed to the caller's, so
 * that plain HTTP will do on the way; who is not among the callers is refused, and so is a request that was seen before.
 */
export async function startEnclaveServer(options: EnclaveServerOptions): Promise<EnclaveServer> {
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
  // In base64, with room for what is around it.
  const maxSealedBytes = 2 * maxRequestBytes + 65_536

  async function answer(request: IncomingMessage, sender: Sender): Promise<SealedAnswer> {
    const { method, url = '' } = request
    if (method === 'POST' && url === BOOT_KEY_PATH)
      return answering.bootKey(await readSealed(request, KEY_BYTES), sender)
    if (method === 'POST' && url === REQUEST_PATH)
      return answering.request(await readSealed(request, maxSealedBytes), sender)
    if (url.startsWith('/v1/')) throw refuseVersion()
    throw new Refusal(404, `requests are posted to ${REQUEST_PATH}`)
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
      const refusal = thrown instanceof Refusal ? thrown : new Refusal(500, 'the enclave failed')
      log.warn?.(`refused with ${refusal.status}: ${refusal.message}`, { status: refusal.status })
      refuse(response, refusal)
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
  if (entries.length === 0)
    throw new ValidationError('callers must name at least one public key that may ask')
  const owners = new Map<string, string>()
  for (const [given, owner] of entries) {
    const key = formatKey(parsePublicKey('callers: each key', given))
    const shown = shownKey(key)
    if (owners.has(key)) throw new ValidationError(`callers: the key ${shown} is named twice`)
    owners.set(key, checkOwner(`callers.${shown}`, owner))
  }
  return owners
}
