import { createServer, type Socket } from 'node:net'
import { checkNumber, checkOptions } from 'sluice/core'
import { asyncDispose } from 'sluice/internal'
import { host, Listener } from '../listener.js'
import { createConnection, type ProxyConnection } from './connection.js'
import { createConnections, type WhichConnections } from './connections.js'
import { createProxyLog, type ProxyEvent } from './log.js'
import { checkFaultProxyOptions, type FaultProxyOptions } from './options.js'
import { checkDirections, type Direction, type Directions } from './rules.js'
import { createScript } from './script.js'
import { checkSettings, directionsOf, noToxics, type ProxySettings, type Toxics } from './toxics.js'

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
   * Changes the faults of all connections, open and to come. Settles once they apply: at once, except for `refuse:
   * false`.
   */
  set(settings: ProxySettings): Promise<void>
  /** Resets open connections, on both sides: `ECONNRESET`. Returns how many. */
  reset(which?: WhichConnections): number
  /**
   * Ends one direction of open connections with a FIN and drops what it still sends; the other one goes on. The default
   * is the server's. Returns how many.
   */
  halfClose(which?: WhichConnections, options?: FaultOptions): number
  /**
   * Lets nothing through, not even an end, while sockets stay open; the default is both directions. Without `which` it
   * applies to connections to come as well: they are accepted, and the upstream is not connected. The returned function
   * ends it and sends the queued bytes.
   */
  blackhole(which?: WhichConnections, options?: FaultOptions): () => void
  /**
   * Limits the bytes per second; the default is both directions. Without `which` it applies to connections to come as
   * well. The returned function ends it.
   */
  drip(bytesPerSecond: number, which?: WhichConnections, options?: FaultOptions): () => void
  /**
   * Flips a bit of each of the next `bits` bytes (1) of open connections; the default direction is the server's.
   * Returns how many connections.
   */
  corrupt(which?: WhichConnections, options?: FaultOptions & { readonly bits?: number }): number
  /** Ends everything, for good. */
  close(): Promise<void>
  /** The same as `close`. */
  [Symbol.asyncDispose](): Promise<void>
}

function directionIn(
  method: string,
  options: FaultOptions | undefined,
  usual: Directions,
): Directions {
  const { direction = usual } = checkOptions(method, options, { direction: true })
  return checkDirections('direction', direction)
}

/**
 * Starts a TCP proxy on loopback, in front of any host and port. Its methods or a script cause faults of connections.
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
  const { upstream, isSecure, port, seed, script, logLimit } = checkFaultProxyOptions(options)
  const log = createProxyLog(logLimit)
  const scriptOf = createScript(script, seed)
  const toxics: Record<Direction, Toxics> = { up: noToxics, down: noToxics }
  const connections = createConnections()
  const listener = new Listener(port, () =>
    createServer({ allowHalfOpen: true, noDelay: true }, accept),
  )
  let accepted = 0
  let isClosed = false

  function accept(client: Socket): void {
    const number = ++accepted
    const connection = createConnection({
      ...{ number, client, upstream, seed, log, toxics },
      script: scriptOf(number),
      onClose: () => connections.remove(connection),
    })
    connections.add(connection)
    connection.start()
  }

  async function refuse(on: boolean): Promise<void> {
    log.note(undefined, on ? 'refuse' : 'accept')
    if (on) void listener.close('drain')
    else await listener.open()
  }

  async function set(settings: ProxySettings = {}): Promise<void> {
    const given = checkSettings(settings)
    if (isClosed) throw new Error('the fault proxy is closed')
    const { direction: directions = 'both', refuse: isRefusing } = settings
    for (const direction of directionsOf(directions))
      toxics[direction] = { ...toxics[direction], ...given }
    if (Object.keys(given).length > 0) log.note(undefined, 'set', { direction: directions })
    for (const connection of connections.all) connection.update()
    if (isRefusing !== undefined) await refuse(isRefusing)
  }

  async function close(): Promise<void> {
    isClosed = true
    const closed = listener.close('drain')
    for (const connection of connections.all) connection.destroy()
    await closed
  }

  await listener.open()

  return {
    url: `${isSecure ? 'https' : 'http'}://${host}:${listener.port}`,
    wsURL: `${isSecure ? 'wss' : 'ws'}://${host}:${listener.port}`,
    host,
    port: listener.port,
    get connections() {
      return connections.open().map(connection => connection.info())
    },
    get accepted() {
      return accepted
    },
    log: log.all,
    set,
    reset: which => connections.apply(which, { do: 'reset', direction: 'both' }),
    halfClose(which, options) {
      return connections.apply(which, {
        do: 'half-close',
        direction: directionIn('halfClose', options, 'down'),
      })
    },
    blackhole(which, options) {
      const direction = directionIn('blackhole', options, 'both')
      return connections.applyLasting(which, { do: 'blackhole', direction })
    },
    drip(bytesPerSecond, which, options) {
      const direction = directionIn('drip', options, 'both')
      checkNumber('bytesPerSecond', bytesPerSecond, { min: 0.001 })
      return connections.applyLasting(which, { do: 'drip', direction, bytesPerSecond })
    },
    corrupt(which, options) {
      const { bits = 1, ...rest } = checkOptions('corrupt', options, {
        bits: true,
        direction: true,
      })
      checkNumber('bits', bits, { min: 1, whole: true })
      return connections.apply(which, {
        do: 'corrupt',
        direction: directionIn('corrupt', rest, 'down'),
        bits,
      })
    },
    close,
    [asyncDispose]: close,
  }
}
