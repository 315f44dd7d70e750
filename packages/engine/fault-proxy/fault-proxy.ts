import { createServer, type Socket } from 'node:net'
import { checkNumber, number, readOptions, ValidationError, withDefault } from 'sluice/core'
import { asyncDispose } from 'sluice/internal'
import { host, Listener } from '../listener.js'
import { Connection, type ProxyConnection } from './connection.js'
import { type ProxyEvent, ProxyLog } from './log.js'
import {
  checkFaultProxyOptions,
  checkSettings,
  directionsOf,
  type FaultProxyOptions,
  noToxics,
  type ProxySettings,
  type Toxics,
} from './options.js'
import {
  checkDirections,
  createScript,
  type Direction,
  type Directions,
  type Fault,
} from './rules.js'

/** The direction a fault affects. */
export interface FaultOptions {
  /**
   * `up` is from the client to the upstream, `down` is from the upstream to the client. Each method
   * has its own default.
   */
  readonly direction?: Directions
}

/** A running fault proxy. Its faults take effect at once. */
export interface FaultProxy {
  /**
   * `http://127.0.0.1:PORT`, or `https:` if the upstream uses TLS. TLS passes through unchanged.
   */
  readonly url: string
  /** `ws://127.0.0.1:PORT`, or `wss:` if the upstream uses TLS. */
  readonly wsURL: string
  /** `127.0.0.1` */
  readonly host: string
  /** The port that it listens on. */
  readonly port: number
  /** The open connections, in their order of arrival. */
  readonly connections: readonly ProxyConnection[]
  /** How many connections have been accepted, open or not. */
  readonly accepted: number
  /** The latest events, in order. */
  log(): ProxyEvent[]
  /**
   * Changes the faults of all connections, current and future. The promise settles when the changes
   * apply. That is at once, except for `refuse: false`: then the port must be opened first.
   */
  set(settings: ProxySettings): Promise<void>
  /**
   * Resets open connections on both sides: both get `ECONNRESET`. Returns the number of
   * connections.
   */
  reset(which?: WhichConnections): number
  /**
   * Ends one direction of open connections with a FIN, and drops the bytes that its sender still
   * sends. The other direction continues. The default is the direction from the server. Returns the
   * number of connections.
   */
  halfClose(which?: WhichConnections, options?: FaultOptions): number
  /**
   * Lets nothing through, not even the end of a connection, while sockets stay open. The default is
   * both directions. Without `which`, it also applies to future connections: the proxy accepts
   * them, but does not connect to the upstream. The returned function ends the blackhole and sends
   * the queued bytes.
   */
  blackhole(which?: WhichConnections, options?: FaultOptions): () => void
  /**
   * Limits the bytes per second. The default is both directions. Without `which`, it also applies
   * to future connections. The returned function ends the limit.
   */
  drip(bytesPerSecond: number, which?: WhichConnections, options?: FaultOptions): () => void
  /**
   * Flips a bit in each of the next `bits` bytes of open connections. The defaults are one byte and
   * the direction from the server. Returns the number of connections.
   */
  corrupt(which?: WhichConnections, options?: FaultOptions & { readonly bits?: number }): number
  /** Closes all connections and the proxy for good. */
  close(): Promise<void>
  /** The same as `close`. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Selects open connections: the connection with this number, or every connection for which the
 * function returns true.
 */
export type WhichConnections = number | ((connection: ProxyConnection) => boolean)

/** The connections of a proxy that are not closed yet. */
class Connections {
  readonly all = new Set<Connection>()
  /**
   * The faults that also apply to future connections. Each fault has the functions that release its
   * connections.
   */
  readonly #lasting = new Map<Fault, Map<Connection, () => void>>()

  /** Adds a connection, and applies the lasting faults to it. */
  add(connection: Connection): void {
    this.all.add(connection)
    for (const [fault, releases] of this.#lasting) releases.set(connection, connection.apply(fault))
  }

  remove(connection: Connection): void {
    this.all.delete(connection)
    for (const releases of this.#lasting.values()) releases.delete(connection)
  }

  /** The open connections that `which` selects. */
  find(which?: WhichConnections): Connection[] {
    // A connection that is being reset takes a moment to close.
    const open = [...this.all].filter(({ isOpen }) => isOpen)
    if (which === undefined) return open
    if (typeof which === 'number') return open.filter(each => each.info().number === which)
    if (typeof which === 'function') return open.filter(each => which(each.info()))
    throw new ValidationError('which must be the number of a connection or a function')
  }

  apply(which: WhichConnections | undefined, fault: Fault): number {
    const found = this.find(which)
    for (const connection of found) connection.apply(fault)
    return found.length
  }

  /**
   * Applies a fault until the returned function is called. Without `which`, the fault also applies
   * to future connections.
   */
  applyLasting(which: WhichConnections | undefined, fault: Fault): () => void {
    const releases = new Map(this.find(which).map(each => [each, each.apply(fault)]))
    if (which === undefined) this.#lasting.set(fault, releases)
    return () => {
      this.#lasting.delete(fault)
      for (const release of releases.values()) release()
      releases.clear()
    }
  }
}

function directionIn(method: string, options: FaultOptions | undefined, usual: Directions) {
  return readOptions(method, options, { direction: withDefault(usual, checkDirections) })
}

/**
 * Starts a TCP proxy on loopback, in front of any host and port. Its methods and its script cause
 * faults in connections.
 *
 * @throws {ValidationError} an option, or a field of a rule, is invalid
 * @example
 * const proxy = await startFaultProxy({
 *   upstream: engine.endpoint,
 *   script: [{ connection: 1, frame: 5, do: 'reset' }],
 * })
 * const client = createClient({ apiKey, userSecret, endpoint: proxy.url, wsEndpoint: proxy.wsURL })
 */
export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const { upstream, port, seed, script, logLimit } = checkFaultProxyOptions(options)
  const log = new ProxyLog(logLimit)
  const scriptOf = createScript(script, seed)
  const toxics: Record<Direction, Toxics> = { up: noToxics, down: noToxics }
  const connections = new Connections()
  const listener = new Listener(port, () =>
    createServer({ allowHalfOpen: true, noDelay: true }, accept),
  )
  let accepted = 0
  let isClosed = false

  function accept(client: Socket): void {
    const number = ++accepted
    const state = { upstream, seed, log, toxics }
    const connection = new Connection(state, number, client, scriptOf(number), () =>
      connections.remove(connection),
    )
    connections.add(connection)
    connection.start()
  }

  async function set(settings: ProxySettings = {}): Promise<void> {
    const { direction, refuse, ...given } = checkSettings(settings)
    if (isClosed) throw new Error('the fault proxy is closed')
    for (const each of directionsOf(direction)) toxics[each] = { ...toxics[each], ...given }
    if (Object.keys(given).length > 0) log.note(undefined, 'set', { direction })
    for (const connection of connections.all) connection.update()
    if (refuse === undefined) return
    log.note(undefined, refuse ? 'refuse' : 'accept')
    if (refuse) void listener.close('drain')
    else await listener.open()
  }

  async function close(): Promise<void> {
    isClosed = true
    const closed = listener.close('drain')
    for (const connection of connections.all) connection.destroy()
    await closed
  }

  await listener.open()
  const authority = `${upstream.isSecure ? 's' : ''}://${host}:${listener.port}`

  return {
    url: `http${authority}`,
    wsURL: `ws${authority}`,
    host,
    port: listener.port,
    get connections() {
      return connections.find().map(connection => connection.info())
    },
    get accepted() {
      return accepted
    },
    log: () => log.all(),
    set,
    reset: which => connections.apply(which, { do: 'reset', direction: 'both' }),
    halfClose: (which, options) =>
      connections.apply(which, { do: 'half-close', ...directionIn('halfClose', options, 'down') }),
    blackhole: (which, options) =>
      connections.applyLasting(which, {
        do: 'blackhole',
        ...directionIn('blackhole', options, 'both'),
      }),
    drip(bytesPerSecond, which, options) {
      checkNumber('bytesPerSecond', bytesPerSecond, { min: 0.001 })
      const direction = directionIn('drip', options, 'both')
      return connections.applyLasting(which, { do: 'drip', ...direction, bytesPerSecond })
    },
    corrupt: (which, options) =>
      connections.apply(which, {
        do: 'corrupt',
        ...readOptions('corrupt', options, {
          bits: withDefault(1, number({ min: 1, whole: true })),
          direction: withDefault('down', checkDirections),
        }),
      }),
    close,
    [asyncDispose]: close,
  }
}
