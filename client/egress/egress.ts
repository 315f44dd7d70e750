// Only a client with the option `proxy` or `tls` loads this file.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { SecureContext, SecureContextOptions } from 'node:tls'
import { onAbort } from '../../core/async.js'
import { foreignCause, isStreamsError, ValidationError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import {
  connect,
  createSecureContext,
  isIP,
  loadUndici,
  once,
  startRequest,
  startTLS,
  X509Certificate,
} from '../../platform/net.js'
import { ProxyError } from '../contract/errors.js'
import { adviseOn } from '../network-reason.js'
import type { Fetch } from '../transport/http.js'
import { type Connect, connectSocket } from '../transport/socket.js'
import { blocksOf, type EgressSettings, type TLSSettings } from './options.js'
import { type ProxyServer, type Target, targetOf } from './proxies.js'

/** The functions that open connections, for requests and for streams. */
export interface Egress {
  readonly fetch: Fetch
  readonly openSocket: (target: Target, signal?: AbortSignal) => Promise<Socket>
  readonly connect: Connect
  /** Rejects if the package that sends requests is not installed. */
  readonly checkPackage: () => Promise<unknown>
}

/** Milliseconds within which a connection must open, its tunnel included. */
const OPEN_TIMEOUT = 10_000

/** Makes the functions that open connections. They stop when `closed` aborts. */
export function createEgress({ findProxy, tls }: EgressSettings, closed: AbortSignal): Egress {
  const { ca, servername } = tls
  const context = createContext(tls)
  // A proxy gets no client certificate, because the certificate is for the service.
  const proxyContext = createContext(ca === undefined ? {} : { ca })

  async function openSocket(target: Target, signal?: AbortSignal): Promise<Socket> {
    const life = createLifetime(closed, signal)
    const timedOut = new Error(`it took more than ${OPEN_TIMEOUT} ms`)
    const timer = setTimeout(() => life.end(timedOut), OPEN_TIMEOUT)
    try {
      const proxy = findProxy(target)
      const tunnel = proxy && (await openTunnel(proxy, target, proxyContext, life.signal))
      if (tunnel !== undefined && !target.isSecure) return tunnel
      return await open(target, { context, servername, tunnel }, life.signal)
    } finally {
      clearTimeout(timer)
      life.end()
    }
  }
  return {
    openSocket,
    checkPackage: requireUndici,
    fetch: createFetch(openSocket, closed),
    connect(upgrade, events) {
      const target = targetOf(new URL(upgrade.url))
      return connectSocket(upgrade, events, signal => openSocket(target, signal))
    },
  }
}

/**
 * Makes OpenSSL's context of certificates and keys. OpenSSL ignores text that is not a certificate;
 * this function rejects such text.
 */
function createContext({ ca, cert, key, passphrase }: TLSSettings): SecureContext {
  for (const [index, text] of (ca ?? []).entries()) {
    for (const each of blocksOf(text))
      explained(`tls.ca[${index}]`, () => new X509Certificate(each))
  }
  const options = { ca, cert, key, passphrase } as SecureContextOptions
  return explained('tls', () => createSecureContext(options))
}

/** Error messages for OpenSSL's codes. They name the options. */
const rules: Readonly<Record<string, string>> = {
  ERR_OSSL_X509_KEY_VALUES_MISMATCH: 'tls.key must be the key of tls.cert',
  ERR_OSSL_BAD_DECRYPT: 'tls.passphrase must decrypt tls.key',
  ERR_OSSL_EVP_BAD_DECRYPT: 'tls.passphrase must decrypt tls.key',
}

function explained<Made>(field: string, make: () => Made): Made {
  try {
    return make()
  } catch (thrown) {
    const { code = '', message } = thrown as NodeJS.ErrnoException
    throw new ValidationError(rules[code] ?? `${field} can't be read: ${message}`)
  }
}

/** The settings of a new connection. */
interface Opening {
  readonly context: SecureContext
  readonly servername?: string | undefined
  /** An open connection to a proxy, through which the new connection goes. */
  readonly tunnel?: Socket | undefined
}

/** Opens a connection. Over TLS, this includes the handshake. */
async function open(
  { host, port, isSecure }: Target,
  { context, servername = isIP(host) === 0 ? host : '', tunnel }: Opening,
  signal: AbortSignal,
): Promise<Socket> {
  const socket = isSecure
    ? startTLS({
        host,
        port,
        servername,
        secureContext: context,
        // Certificates are verified, whatever NODE_TLS_REJECT_UNAUTHORIZED says.
        rejectUnauthorized: true,
        ALPNProtocols: ['http/1.1'],
        ...(tunnel === undefined ? {} : { socket: tunnel }),
      })
    : connect({ host, port, noDelay: true })
  try {
    return await settled(socket, once(socket, isSecure ? 'secureConnect' : 'connect'), signal)
  } catch (thrown) {
    tunnel?.destroy()
    throw thrown
  }
}

/**
 * Resolves with a socket after an event of the socket. Destroys the socket if the event fails, or
 * the signal aborts.
 */
async function settled(
  socket: Socket,
  event: Promise<unknown>,
  signal: AbortSignal,
): Promise<Socket> {
  // TLS emits an alert of the peer without destroying the socket. Without this listener, undici
  // would report only that the connection ended.
  socket.on('error', error => socket.destroy(error))
  const forget = onAbort(signal, () => socket.destroy(signal.reason))
  if (signal.aborted) socket.destroy(signal.reason)
  try {
    await event
    if (socket.destroyed) throw socket.errored ?? new Error('the connection was closed')
    return socket
  } catch (thrown) {
    socket.destroy()
    throw thrown
  } finally {
    forget()
  }
}

/**
 * Opens a tunnel through a proxy. The proxy's credentials are not sent to the target. The CONNECT
 * request has none of the headers that are sent to the target.
 */
async function openTunnel(
  proxy: ProxyServer,
  target: Target,
  context: SecureContext,
  signal: AbortSignal,
): Promise<Socket> {
  const host = target.host.includes(':') ? `[${target.host}]` : target.host
  const path = `${host}:${target.port}`
  const name = `the proxy ${proxy.url}`
  const refusal = `${name} does not connect to ${path}`
  const authorization = proxy.authorization()
  let status: number
  const socket = await open(proxy, { context }, signal).catch(thrown => {
    throw proxyError(`${name} can't be reached`, thrown)
  })
  try {
    const request = startRequest({
      method: 'CONNECT',
      path,
      headers: { host: path, ...(authorization && { 'proxy-authorization': authorization }) },
      createConnection: () => socket,
    })
    const answered = once(request, 'connect') as Promise<[IncomingMessage, Socket, Uint8Array]>
    request.end()
    await settled(socket, answered, signal)
    const [answer, , head] = await answered
    status = answer.statusCode ?? 0
    // The target's first bytes may arrive together with the proxy's answer.
    socket.unshift(head)
  } catch (thrown) {
    throw proxyError(refusal, thrown)
  }
  if (status >= 200 && status <= 299) return socket
  socket.destroy()
  const wrong = authorization === undefined ? 'lacks' : 'has the wrong'
  // Node treats an interim (1xx) answer to CONNECT as the final answer.
  const interim = status < 200 ? ', which is an interim answer' : ''
  const why = status === 407 ? `: its URL ${wrong} user name and password` : interim
  throw new ProxyError(`${refusal}: it answered ${status}${why}`, { statusCode: status })
}

function proxyError(what: string, thrown: unknown): ProxyError {
  return new ProxyError(`${what}: ${adviseOn(thrown)}`, { cause: foreignCause(thrown) })
}

type Undici = Exclude<Awaited<ReturnType<typeof loadUndici>>, Error>

/** Makes a fetch whose connections `openSocket` opens. */
function createFetch(openSocket: Egress['openSocket'], closed: AbortSignal): Fetch {
  let loading: ReturnType<typeof load> | undefined

  async function load(): Promise<{
    readonly fetch: Undici['fetch']
    readonly dispatcher: InstanceType<Undici['Agent']>
  }> {
    const { Agent, fetch } = await requireUndici()
    const dispatcher = new Agent({
      connect({ protocol, host = '' }, callback) {
        openSocket(targetOf(new URL(`${protocol}//${host}`))).then(
          socket => callback(null, socket),
          thrown => callback(thrown, null),
        )
      },
    })
    onAbort(closed, () => void dispatcher.destroy())
    return { fetch, dispatcher }
  }

  return async function fetchThrough(url, init) {
    loading ??= load()
    const { fetch, dispatcher } = await loading
    try {
      return (await fetch(url as string, {
        ...(init as object),
        dispatcher,
      })) as unknown as Response
    } catch (thrown) {
      const { cause } = thrown as Error
      throw isStreamsError(cause) ? cause : thrown
    }
  }
}

async function requireUndici(): Promise<Undici> {
  const loaded = await loadUndici()
  if ('Agent' in loaded) return loaded
  throw new ValidationError(
    'requests with the option proxy or tls need the package undici: npm install undici@7',
    { cause: foreignCause(loaded) },
  )
}
