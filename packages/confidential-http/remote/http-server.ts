import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, isIPv6, type Socket } from 'node:net'
import type { Sender } from './answering.js'

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

/** The address and port that a server listens on. */
export interface Place {
  readonly host: string
  readonly port: number
}

/** The limits of a server's connections. */
export interface ConnectionLimits {
  readonly maxConnections: number
  /** From one address, or one IPv6 network of 64 bits, the usual size of one customer's network. */
  readonly maxConnectionsPerAddress: number
}

/** Starts an HTTP server with bounded connections. `serve` answers each request, and does not reject. */
export async function startServer(
  { host, port }: Place,
  limits: ConnectionLimits,
  serve: (
    request: IncomingMessage,
    response: ServerResponse,
    connections: Connections,
  ) => Promise<void>,
): Promise<Listening> {
  const server = createServer(
    {
      requestTimeout: REQUEST_TIMEOUT,
      headersTimeout: HEAD_TIMEOUT,
      connectionsCheckingInterval: 1000,
      maxHeaderSize: 16_384,
    },
    (request, response) => void serve(request, response, connections),
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

/** The number of addresses to remember that authentic requests came from. */
const MAX_KNOWN = 1024

/**
 * Bounds the connections of a server so that other clients can't keep callers out. Of too many connections it closes one that never
 * brought an authentic request: the oldest of the address that has most of them. Addresses that authentic requests came from
 * lose a connection only if no other address has one.
 */
export class Connections {
  readonly #limits: ConnectionLimits
  /** The open connections of each address, the oldest first. */
  readonly #open = new Map<string, Set<Socket>>()
  readonly #proven = new WeakSet<Socket>()
  /** Addresses that authentic requests came from, the latest last. */
  readonly #known = new Set<string>()
  /** A closed socket has no address any more. */
  readonly #addresses = new WeakMap<Socket, string>()
  #total = 0

  constructor(server: Server, limits: ConnectionLimits) {
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
      prove: () => this.prove(socket),
    }
  }

  /** Marks a connection that has brought an authentic request, and its address. */
  prove(socket: Socket): void {
    const address = this.#addressOf(socket)
    this.#proven.add(socket)
    this.#known.delete(address)
    this.#known.add(address)
    const [oldest] = this.#known
    if (this.#known.size > MAX_KNOWN) this.#known.delete(oldest as string)
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
