import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, isIPv6, type Socket } from 'node:net'
import type { Log } from 'sluice/core'
import type { Answering, SealedAnswer, Sender } from './answering.js'
import {
  BOOT_KEY_PATH,
  KEY_BYTES,
  MAX_SEALED_BYTES,
  REQUEST_PATH,
  Rejection,
  rejectVersion,
  sendRejection,
} from './protocol.js'

/** Milliseconds for the headers of a request to arrive, counted from the connection on. */
const HEAD_TIMEOUT = 5000
/** Milliseconds for a whole request to arrive. */
const REQUEST_TIMEOUT = 10_000

/** Where a server listens. */
export interface Listening {
  /** `http://HOST:PORT`. */
  readonly url: string
  /** Ends every connection, and the server. */
  end(): Promise<void>
}

/** The limits of a server: of its connections, and of what a caller may send. */
export interface ServerLimits {
  readonly maxConnections: number
  /** From one address, or one IPv6 network of 64 bits, the usual size of one customer's network. */
  readonly maxConnectionsPerAddress: number
  readonly maxSealedBytes: number
}

/** Answers callers over HTTP. */
export async function listen(
  { host, port }: { readonly host: string; readonly port: number },
  answering: Answering,
  limits: ServerLimits,
  log: Log,
): Promise<Listening> {
  async function answer(request: IncomingMessage, sender: Sender): Promise<SealedAnswer> {
    const { method, url = '' } = request
    if (method === 'POST' && url === BOOT_KEY_PATH)
      return answering.bootKey(await readSealed(request, KEY_BYTES), sender)
    if (method === 'POST' && url === REQUEST_PATH)
      return answering.request(await readSealed(request, limits.maxSealedBytes), sender)
    if (url.startsWith('/v1/')) throw rejectVersion()
    throw new Rejection(404, `requests are posted to ${REQUEST_PATH}`)
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    try {
      const sender = connections.senderOf(request.socket, gone.signal)
      const { status, body, retryAfter } = await answer(request, sender)
      if (retryAfter !== undefined)
        response.setHeader('retry-after', String(Math.ceil(retryAfter / 1000)))
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
  const connections = new Connections(server, limits)
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject)
    server.listen(port, host, resolve)
  })
  const { address, family, port: bound } = server.address() as AddressInfo
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`,
    async end() {
      const closed = new Promise(resolve => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
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

/** The number of addresses to remember that authentic requests came from. */
const MAX_KNOWN = 1024

/**
 * Bounds the connections of a server so that other clients can't keep callers out. Of too many connections it closes one that never
 * brought an authentic request: the oldest of the address that has most of them. Addresses that authentic requests came from
 * lose a connection only if no other address has one.
 */
class Connections {
  readonly #limits: ServerLimits
  /** The open connections of each address, the oldest first. */
  readonly #open = new Map<string, Set<Socket>>()
  readonly #proven = new WeakSet<Socket>()
  /** Addresses that authentic requests came from, the latest last. */
  readonly #known = new Set<string>()
  /** A closed socket has no address any more. */
  readonly #addresses = new WeakMap<Socket, string>()
  #total = 0

  constructor(server: Server, limits: ServerLimits) {
    this.#limits = limits
    server.on('connection', socket => this.#add(socket))
  }

  /** What is known of a connection that has brought a request. */
  senderOf(socket: Socket, signal: AbortSignal): Sender {
    const address = this.#addressOf(socket)
    return {
      address,
      signal,
      isKnown: () => this.#known.has(address),
      isProven: () => this.#proven.has(socket),
      prove: () => {
        this.#proven.add(socket)
        this.#known.delete(address)
        this.#known.add(address)
        const [oldest] = this.#known
        if (this.#known.size > MAX_KNOWN) this.#known.delete(oldest as string)
      },
    }
  }

  #add(socket: Socket): void {
    const address = networkOf(socket.remoteAddress)
    this.#addresses.set(socket, address)
    const sockets = this.#open.get(address) ?? new Set()
    this.#open.set(address, sockets.add(socket))
    this.#total++
    socket.on('close', () => this.#forget(socket))
    const excess = this.#findExcess(address)
    if (excess === undefined) return
    // It stops counting at once: its `close` event comes later.
    this.#forget(excess)
    excess.destroy()
  }

  #forget(socket: Socket): void {
    const address = this.#addressOf(socket)
    const sockets = this.#open.get(address)
    if (!sockets?.delete(socket)) return
    this.#total--
    if (sockets.size === 0) this.#open.delete(address)
  }

  #findExcess(address: string): Socket | undefined {
    const { maxConnections, maxConnectionsPerAddress } = this.#limits
    if ((this.#open.get(address)?.size ?? 0) > maxConnectionsPerAddress)
      return this.#unprovenOf(address)[0]
    if (this.#total <= maxConnections) return undefined
    return this.#largest(false)[0] ?? this.#largest(true)[0]
  }

  /** The unproven connections of the address that has most of them. */
  #largest(isKnown: boolean): readonly Socket[] {
    const unproven = [...this.#open.keys()]
      .filter(address => this.#known.has(address) === isKnown)
      .map(address => this.#unprovenOf(address))
    return unproven.reduce((most, each) => (each.length > most.length ? each : most), [])
  }

  #unprovenOf(address: string): readonly Socket[] {
    return [...(this.#open.get(address) ?? [])].filter(socket => !this.#proven.has(socket))
  }

  #addressOf(socket: Socket): string {
    return this.#addresses.get(socket) ?? ''
  }
}

/** An IPv4 address, also one embedded in IPv6; the first 64 bits of any other IPv6 address. */
export function networkOf(address = ''): string {
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(address)) return address
  const [head = '', tail] = (address.split('%')[0] as string).split('::')
  const groups = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : 8 - groups.length - after.length
  return [...groups, ...Array<string>(zeros).fill('0'), ...after].slice(0, 4).join(':')
}
