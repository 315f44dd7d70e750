import type { Socket } from 'node:net'
import { ValidationError } from '../../core/errors.js'
import { checkNumber, checkOptions } from '../../core/options.js'
import { host } from '../listener.js'
import { type Connection, createConnection, type ProxyConnection } from './connection.js'
import { createDoor } from './door.js'
import { createProxyLog, type ProxyEvent } from './log.js'
import { checkFaultProxyOptions, type FaultProxyOptions } from './options.js'
import { checkDirection, type Direction } from './rules.js'
import { createScript } from './script.js'
import { checkSettings, noToxics, type ProxySettings, type Toxics } from './toxics.js'

/** Which of the open connections: one by its number, or those a function picks. */
export type WhichConnections = number | ((connection: ProxyConnection) => boolean)

/** Which way a fault works. */
export interface FaultOptions {
  readonly direction?: Direction | 'both'
}

/** A running fault proxy. Its faults take effect at once. */
export interface FaultProxy {
  /** `http://127.0.0.1:PORT`, or `https:` if the upstream's URL says so: TLS goes through as it is. */
  readonly url: string
  /** `ws://127.0.0.1:PORT`, or `wss:` */
  readonly wsURL: string
  /** `127.0.0.1` */
  readonly host: string
  readonly port: number
  /** The open connections, in the order in which they came. */
  readonly connections: readonly ProxyConnection[]
  /** How many connections have come in, all in all. */
  readonly dials: number
  /** The latest events, in order. */
  log(): ProxyEvent[]
  /**
   * Changes what is wrong with all connections, now and to come. Settles when it is in effect, which is at once but for
   * `refuse: false`.
   */
  set(settings: ProxySettings): Promise<void>
  /** Resets open connections, on both sides: `ECONNRESET`. Returns how many. */
  reset(which?: WhichConnections): number
  /**
   * Ends one direction of open connections with a FIN, that of the server unless told otherwise, and drops what it
   * still sends; the other one goes on. Returns how many.
   */
  halfClose(which?: WhichConnections, options?: FaultOptions): number
  /**
   * Lets nothing through, not even an end, in both directions unless told otherwise, while sockets stay open; without
   * `which` for connections to come as well: they are accepted, and the upstream is not dialled. The function returned
   * ends it, and what was held back goes out.
   */
  blackhole(which?: WhichConnections, options?: FaultOptions): () => void
  /**
   * Lets so many bytes a second through, in both directions unless told otherwise; without `which` for connections to
   * come as well. The function returned ends it.
   */
  drip(bytesPerSecond: number, which?: WhichConnections, options?: FaultOptions): () => void
  /**
   * Flips a bit of each of the next so many bytes (1) of open connections, of what the server sends unless told
   * otherwise. Returns how many connections.
   */
  corrupt(which?: WhichConnections, options?: FaultOptions & { readonly bits?: number }): number
  /** Ends everything, for good. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

// Node 20.0 has no such symbol, and compilers then take this one.
const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose)

/** A fault that is for connections to come as well, until it is released. */
interface Lasting {
  readonly apply: (connection: Connection) => () => void
  readonly releases: Map<Connection, () => void>
}

function checkWhich(which: unknown): void {
  if (which !== undefined && typeof which !== 'number' && typeof which !== 'function')
    throw new ValidationError('which must be the number of a connection or a function')
}

function directionOf(
  options: FaultOptions | undefined,
  usual: Direction | 'both',
): Direction | 'both' {
  const { direction = usual } = checkOptions('options', options, ['direction'])
  return checkDirection('direction', direction)
}

/**
 * Starts a TCP proxy on loopback, in front of any host and port, that makes connections go wrong: by its methods, or by a
 * script.
 *
 * @throws {ValidationError} an option, or a field of a rule, is not what it must be
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
  const held = new Set<Connection>()
  const lasting = new Set<Lasting>()
  const door = createDoor(port, enter)
  let dials = 0
  let isClosed = false

  function enter(client: Socket): void {
    const number = ++dials
    const connection = createConnection({
      ...{ number, client, upstream, seed, log, toxics },
      script: scriptOf(number),
      onClose() {
        held.delete(connection)
        for (const { releases } of lasting) releases.delete(connection)
      },
    })
    held.add(connection)
    for (const { apply, releases } of lasting) releases.set(connection, apply(connection))
    connection.start()
  }

  const open = (): Connection[] => [...held].filter(({ isOpen }) => isOpen)

  function find(which: WhichConnections | undefined): Connection[] {
    checkWhich(which)
    if (which === undefined) return open()
    const isMeant =
      typeof which === 'number' ? ({ number }: ProxyConnection) => number === which : which
    return open().filter(connection => isMeant(connection.info()))
  }

  function applyTo(
    which: WhichConnections | undefined,
    apply: (connection: Connection) => void,
  ): number {
    const found = find(which)
    for (const connection of found) apply(connection)
    return found.length
  }

  function applyLasting(which: WhichConnections | undefined, apply: Lasting['apply']): () => void {
    const fault: Lasting = {
      apply,
      releases: new Map(find(which).map(connection => [connection, apply(connection)])),
    }
    if (which === undefined) lasting.add(fault)
    return function release() {
      lasting.delete(fault)
      for (const releaseOne of fault.releases.values()) releaseOne()
      fault.releases.clear()
    }
  }

  async function refuse(on: boolean): Promise<void> {
    log.note(undefined, on ? 'refuse' : 'accept')
    if (on) void door.shut()
    else await door.open()
  }

  async function set(settings: ProxySettings): Promise<void> {
    const { toxics: given, directions } = checkSettings(settings ?? {})
    if (isClosed) throw new Error('the fault proxy is closed')
    for (const direction of directions) toxics[direction] = { ...toxics[direction], ...given }
    if (Object.keys(given).length > 0)
      log.note(undefined, 'set', { direction: settings?.direction ?? 'both' })
    for (const connection of held) connection.update()
    if (settings?.refuse !== undefined) await refuse(settings.refuse)
  }

  async function close(): Promise<void> {
    isClosed = true
    const shut = door.shut()
    for (const connection of held) connection.destroy()
    await shut
  }

  await door.open()

  return {
    url: `${isSecure ? 'https' : 'http'}://${host}:${door.port}`,
    wsURL: `${isSecure ? 'wss' : 'ws'}://${host}:${door.port}`,
    host,
    port: door.port,
    get connections() {
      return open().map(connection => connection.info())
    },
    get dials() {
      return dials
    },
    log: log.all,
    set,
    reset: which => applyTo(which, connection => connection.reset()),
    halfClose(which, options) {
      const direction = directionOf(options, 'down')
      return applyTo(which, connection => connection.halfClose(direction))
    },
    blackhole(which, options) {
      const direction = directionOf(options, 'both')
      return applyLasting(which, connection => connection.blackhole(direction))
    },
    drip(bytesPerSecond, which, options) {
      const direction = directionOf(options, 'both')
      checkNumber('bytesPerSecond', bytesPerSecond, { min: 0.001 })
      return applyLasting(which, connection =>
        connection.slow('drip', direction, { bytesPerSecond }),
      )
    },
    corrupt(which, options) {
      const { bits = 1, ...way } = checkOptions('options', options, ['bits', 'direction'])
      checkNumber('bits', bits, { min: 1, whole: true })
      const direction = directionOf(way, 'down')
      return applyTo(which, connection => connection.corrupt(direction, bits))
    },
    close,
    [asyncDispose]: close,
  }
}
