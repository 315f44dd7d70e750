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
  /** `up` is from the client to the upstream, `down` the way back. The default is the method's. */
  readonly direction?: Directions
}

/** A running fault proxy. Its faults take effect at once. */
export interface FaultProxy {
  /** `http://127.0.0.1:PORT`, or `https:` if the upstream's URL has it: TLS passes through. */
  readonly url: string
  /** `ws://127.0.0.1:PORT`, or `wss:` */
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
   * Changes the faults of all connections, open and to come. Settles once they apply: at once,
   * except for `refuse: false`.
   */
  set(settings: ProxySettings): Promise<void>
  /** Resets open connections, on both sides: `ECONNRESET`. Returns how many. */
  reset(which?: WhichConnections): number
  /**
   * Ends one direction of open connections with a FIN and drops what it still sends; the other one
   * goes on. The default is the server's. Returns how many.
   */
  halfClose(which?: WhichConnections, options?: FaultOptions): number
  /**
   * Lets nothing through, not even an end, while sockets stay open; the default is both directions.
   * Without `which` it applies to connections to come as well: they are accepted, and the upstream
   * is not connected. The returned function ends it and sends the queued bytes.
   */
  blackhole(which?: WhichConnections, options?: FaultOptions): () => void
  /**
   * Limits the bytes per second; the default is both directions. Without `which` it applies to
   * connections to come as well. The returned function ends it.
   */
  drip(bytesPerSecond: number, which?: WhichConnections, options?: FaultOptions): () => void
  /**
   * Flips a bit of each of the next `bits` bytes (1) of open connections; the default direction is
   * the server's. Returns how many connections.
   */
  corrupt(which?: WhichConnections, options?: FaultOptions & { readonly bits?: number }): number
  /** Ends everything, for good. */
  close(): Promise<void>
  /** The same as `close`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** One of the open connections by its number, or those a function picks. */
export type WhichConnections = number | ((connection: ProxyConnection) => boolean)

/** The connections of a proxy that are not closed yet. */
class Connections {
  readonly all = new Set<Connection>()
  /** The faults of connections to come as well, and what releases the connections from each. */
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

  /** The open connections that are meant. */
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
   * Applies a fault until the returned function is called; without `which`, to connections to come
   * as well.
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
 * Starts a TCP proxy on loopback, in front of any host and port. Its methods or a script cause
 * faults of connections.
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
