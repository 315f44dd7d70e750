import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { BoundedMap, checkText, number, type Rule, type Schema, withDefault } from 'sluice/core'
import { BodyReader, listen, networkOf, TokenBucket } from 'sluice/internal'
import type { Sender } from './answering.js'

/** Milliseconds, from the connection on, within which the headers of a request must arrive. */
const HEAD_TIMEOUT = 5000
/** Milliseconds within which a whole request must arrive, unless a server gives it less. */
const REQUEST_TIMEOUT = 10_000
/**
 * Milliseconds for which a connection without a request stays open. Longer than the minute of load
 * balancers, so that the server does not close a connection just when the other side uses it.
 */
const KEEP_ALIVE_TIMEOUT = 65_000

/** A server that listens. */
export interface Listening {
  /** The server's URL: `http://HOST:PORT`. */
  readonly url: string
  /** Closes every connection, and stops the server. */
  end(): Promise<void>
}

/** The address and the port that a server listens on. */
export interface ListenOptions {
  /** The port. With 0, any free port is used. @default 0 */
  readonly port?: number
  /** The address. @default '127.0.0.1' */
  readonly host?: string
}

const rules = {
  port: withDefault(0, number({ min: 0, max: 65_535, whole: true })),
  host: withDefault('127.0.0.1', checkText),
} satisfies Schema<ListenOptions>

/** The rules of these options, for the options of a server. */
export const listenRules: { readonly port: Rule<number>; readonly host: Rule<string> } = rules

/** The limits of a server's connections. */
export interface ConnectionLimits {
  readonly maxConnections: number
  /**
   * The most from one address, or from one IPv6 network of 64 bits, the usual size of a customer's
   * network.
   */
  readonly maxConnectionsPerAddress: number
}

/**
 * Starts an HTTP server with a bounded number of connections. `serve` answers each request, and
 * must not reject.
 */
export async function startServer(
  { host, port }: Required<ListenOptions>,
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
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
      maxHeaderSize: 16_384,
    },
    (request, response) => {
      if (connections.begin(request.socket, response)) void serve(request, response, connections)
    },
  )
  const connections = new Connections(server, limits)
  return {
    url: `http://${await listen(server, port, host)}`,
    async end() {
      const closed = new Promise(resolve => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

/**
 * Reads the body of a request. Resolves with the body, or with the HTTP status to refuse the
 * request by: 413 if the body is longer than `maxBytes`, or comes in too many pieces, 408 if it is
 * not complete in time. It looks at the time itself, because a body may come byte by byte. Of a
 * longer body, up to `maxRead` bytes are read and dropped, so that the sender receives the refusal.
 */
export function readRequest(
  request: IncomingMessage,
  maxBytes: number,
  maxRead: number = maxBytes,
  timeout: number = REQUEST_TIMEOUT,
): Promise<Uint8Array | 408 | 413> {
  let timer: ReturnType<typeof setTimeout> | undefined
  return new Promise<Uint8Array | 408 | 413>((resolve, reject) => {
    const body = new BodyReader(maxBytes)
    function stop(status: 408 | 413): void {
      body.wipe()
      request.pause()
      resolve(status)
    }
    timer = setTimeout(() => stop(408), timeout)
    request.on('data', (chunk: Buffer) => {
      const excess = body.add(chunk)
      if (excess === 'pieces' || body.size > Math.max(maxBytes, maxRead)) stop(413)
    })
    request.on('end', () => resolve(body.size > maxBytes ? 413 : body.take()))
    request.on('error', reject)
    request.on('close', () => reject(new Error('the connection was closed')))
  }).finally(() => clearTimeout(timer))
}

/** How many addresses of authentic requests are remembered. */
const MAX_KNOWN = 1024
/** The most connections a second, on average, that an address may open. */
const OPENED_PER_SECOND = 50
/** The most connections that an address may open at once after a quiet time. */
const OPENED_AT_ONCE = 512
/**
 * For how many milliseconds a connection beyond that is kept, and not answered. A client that is
 * refused at once comes again at once, and each connection costs about as much as a request.
 */
const HOLD = 1000
/** An address of authentic requests may open this many times more: it may be a reverse proxy. */
const KNOWN_FACTOR = 10
/** Above this number of addresses, idle ones are forgotten. */
const MAX_ADDRESSES = 4096
/** If there is no room for a new connection, a caller with more than so many loses one. */
const MAX_OF_CALLER = 64

/**
 * Bounds the connections of a server so that other clients can't keep callers out. Above a limit,
 * it closes a connection that never brought an authentic request. It picks the oldest one of the
 * address that has most of them. Addresses of authentic requests lose a connection to the overall
 * limit only if no other address has an unproven connection.
 */
export class Connections {
  readonly #limits: ConnectionLimits
  /** The open connections of each address, the oldest first. */
  readonly #open = new Map<string, Set<Socket>>()
  /** The caller of the last authentic request of each connection. */
  readonly #proven = new WeakMap<Socket, string>()
  /** The open connections of each caller, the one proven longest ago first. */
  readonly #ofCaller = new Map<string, Set<Socket>>()
  /** Addresses that sent authentic requests, the latest last. */
  readonly #known = new BoundedMap<string, true>(MAX_KNOWN)
  /** The address of each socket. A closed socket no longer has its address. */
  readonly #addresses = new WeakMap<Socket, string>()
  /** How many connections each address may open now. */
  readonly #openings = new Map<string, TokenBucket>()
  /** The connections that were opened too fast. They are closed soon. */
  readonly #held = new WeakSet<Socket>()
  /** The connections with a request that is not answered yet. */
  readonly #asking = new WeakSet<Socket>()
  #total = 0

  constructor(server: Server, limits: ConnectionLimits) {
    this.#limits = limits
    server.on('connection', socket => this.#add(socket))
  }

  /**
   * Tells whether a request is to be answered. A connection with a second request before the answer
   * to the first is closed: no client of this library does that, and one packet has room for
   * thousands.
   */
  begin(socket: Socket, response: ServerResponse): boolean {
    if (this.#asking.has(socket)) {
      socket.destroy()
      return false
    }
    this.#asking.add(socket)
    response.on('close', () => this.#asking.delete(socket))
    return !this.#held.has(socket)
  }

  /** The facts about a connection that has brought a request. */
  senderOf(socket: Socket, signal: AbortSignal): Sender {
    const address = this.#addressOf(socket)
    return {
      address,
      signal,
      isKnown: () => this.#known.has(address),
      caller: () => this.#proven.get(socket),
      prove: caller => this.prove(socket, caller),
      disown: () => this.#disown(socket),
    }
  }

  /** Marks a connection that has brought an authentic request, and its address. */
  prove(socket: Socket, caller: string): void {
    const address = this.#addressOf(socket)
    this.#leaveCaller(socket)
    this.#proven.set(socket, caller)
    if (!socket.destroyed)
      this.#ofCaller.set(caller, (this.#ofCaller.get(caller) ?? new Set()).add(socket))
    this.#known.set(address, true)
  }

  /** Takes a connection from its caller. Other callers may still use its address. */
  #disown(socket: Socket): void {
    this.#leaveCaller(socket)
    this.#proven.delete(socket)
  }

  #add(socket: Socket): void {
    const address = networkOf(socket.remoteAddress)
    if (!this.#mayOpen(address)) {
      this.#held.add(socket)
      const timer = setTimeout(() => socket.destroy(), HOLD)
      socket.once('close', () => clearTimeout(timer))
    }
    this.#addresses.set(socket, address)
    const sockets = this.#open.get(address) ?? new Set()
    this.#open.set(address, sockets.add(socket))
    this.#total++
    socket.on('close', () => this.#forget(socket))
    const excess = this.#findExcess(address)
    if (excess === undefined) return
    // Not counted from now on, because its `close` event comes later.
    this.#forget(excess)
    excess.destroy()
  }

  /** False if an address opens connections faster than a caller would. */
  #mayOpen(address: string): boolean {
    const isKnown = this.#known.has(address)
    const name = isKnown ? `known ${address}` : address
    let openings = this.#openings.get(name)
    if (openings === undefined) {
      if (this.#openings.size >= MAX_ADDRESSES)
        for (const [each, bucket] of this.#openings)
          if (bucket.isFull()) this.#openings.delete(each)
      const factor = isKnown ? KNOWN_FACTOR : 1
      openings = new TokenBucket(OPENED_PER_SECOND * factor, OPENED_AT_ONCE * factor)
      this.#openings.set(name, openings)
    }
    if (openings.msUntil(1) > 0) return false
    openings.spend(1)
    return true
  }

  #forget(socket: Socket): void {
    const address = this.#addressOf(socket)
    const sockets = this.#open.get(address)
    if (!sockets?.delete(socket)) return
    this.#leaveCaller(socket)
    this.#total--
    if (sockets.size === 0) this.#open.delete(address)
  }

  #leaveCaller(socket: Socket): void {
    const caller = this.#proven.get(socket) ?? ''
    const sockets = this.#ofCaller.get(caller)
    sockets?.delete(socket)
    if (sockets?.size === 0) this.#ofCaller.delete(caller)
  }

  #findExcess(address: string): Socket | undefined {
    const { maxConnections, maxConnectionsPerAddress } = this.#limits
    const own = this.#open.get(address)
    if (own !== undefined && own.size > maxConnectionsPerAddress) {
      const unproven = this.#unprovenOf(address)
      // The only one is the newcomer itself.
      return unproven.length > 1 ? unproven[0] : (this.#busiest(own) ?? unproven[0])
    }
    if (this.#total <= maxConnections) return undefined
    const strangers = [...this.#largest(false), ...this.#largest(true)]
    return strangers.length > 1 ? strangers[0] : (this.#busiest() ?? strangers[0])
  }

  /**
   * Of the caller with most connections, the one proven longest ago; only of these sockets, if any
   * are given. Undefined if no caller has more than enough.
   */
  #busiest(among?: ReadonlySet<Socket>): Socket | undefined {
    let most: readonly Socket[] = []
    for (const sockets of this.#ofCaller.values()) {
      const own = [...sockets].filter(socket => among?.has(socket) ?? true)
      if (own.length > most.length) most = own
    }
    return most.length > MAX_OF_CALLER ? most[0] : undefined
  }

  /**
   * The unproven connections of the address that has most of them. Looks only at known addresses,
   * or only at unknown ones.
   */
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
