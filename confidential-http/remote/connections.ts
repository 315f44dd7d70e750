import type { Server } from 'node:http'
import { isIPv6, type Socket } from 'node:net'

/** The limits of a server's connections. */
export interface ConnectionLimits {
  readonly max: number
  /** From one address, or one IPv6 network of 64 bits, the usual size of one customer's network. */
  readonly maxPerAddress: number
}

/** The connections of a server. */
export interface Connections {
  /** Whether this connection has brought an authentic request. */
  isProven(socket: Socket): boolean
  /** Marks a connection that has brought an authentic request. */
  prove(socket: Socket): void
}

/** The number of addresses to remember that authentic requests came from. */
const MAX_KNOWN = 1024

/**
 * Bounds the connections of a server so that strangers can't keep callers out. Of too many connections it closes one that never
 * brought an authentic request: the oldest of the address that has most of them. Addresses that authentic requests came from
 * lose a connection only if no other address has one.
 */
export function boundConnections(server: Server, limits: ConnectionLimits): Connections {
  /** All connections, by address. */
  const all = new Map<string, Set<Socket>>()
  /** The connections without an authentic request, by address; the oldest first. */
  const strangers = new Map<string, Set<Socket>>()
  const known = new Set<string>()
  /** A closed socket has no address any more. */
  const addresses = new WeakMap<Socket, string>()
  let total = 0

  function largest(isKnown: boolean): Set<Socket> | undefined {
    let found: Set<Socket> | undefined
    for (const [address, sockets] of strangers)
      if (known.has(address) === isKnown && sockets.size > (found?.size ?? 0)) found = sockets
    return found
  }

  const addressOf = (socket: Socket): string => addresses.get(socket) ?? ''

  function forget(socket: Socket): void {
    const address = addressOf(socket)
    if (all.get(address)?.has(socket)) total--
    removeFrom(all, address, socket)
    removeFrom(strangers, address, socket)
  }

  /** Stops counting the connection at once: its `close` event comes later. */
  function closeOldest(sockets: ReadonlySet<Socket> | undefined): void {
    for (const socket of sockets ?? []) {
      forget(socket)
      socket.destroy()
      return
    }
  }

  server.on('connection', socket => {
    const address = networkOf(socket.remoteAddress)
    addresses.set(socket, address)
    addTo(all, address, socket)
    addTo(strangers, address, socket)
    total++
    socket.on('close', () => forget(socket))
    const { size } = all.get(address) as Set<Socket>
    if (size > limits.maxPerAddress) closeOldest(strangers.get(address))
    else if (total > limits.max) closeOldest(largest(false) ?? largest(true))
  })

  return {
    isProven(socket) {
      return !strangers.get(addressOf(socket))?.has(socket)
    },
    prove(socket) {
      const address = addressOf(socket)
      removeFrom(strangers, address, socket)
      known.delete(address)
      known.add(address)
      if (known.size > MAX_KNOWN) for (const oldest of known) return void known.delete(oldest)
    },
  }
}

function addTo(sets: Map<string, Set<Socket>>, address: string, socket: Socket): void {
  const sockets = sets.get(address) ?? new Set()
  sets.set(address, sockets.add(socket))
}

function removeFrom(sets: Map<string, Set<Socket>>, address: string, socket: Socket): void {
  const sockets = sets.get(address)
  sockets?.delete(socket)
  if (sockets?.size === 0) sets.delete(address)
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
