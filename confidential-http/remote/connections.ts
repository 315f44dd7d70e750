import type { Server } from 'node:http'
import { isIPv6, type Socket } from 'node:net'

/** How many connections a server holds. */
export interface ConnectionLimits {
  readonly max: number
  /** Of them, from one address; of IPv6, from one network of 64 bits, which is what one customer is given. */
  readonly maxPerAddress: number
}

/** The connections of a server. */
export interface Connections {
  /** Whether this one has brought an authentic request. */
  isProven(socket: Socket): boolean
  /** Says that it has. */
  prove(socket: Socket): void
}

/** How many addresses are remembered for the authentic requests that came from them. */
const MAX_KNOWN = 1024

/**
 * Bounds the connections of a server so that strangers can't keep callers out. Where there are too many, it is a stranger's
 * that is closed, a connection that never brought an authentic request: the oldest of the address that has most of them. Of
 * addresses that authentic requests came from, none is closed as long as there are others.
 */
export function boundConnections(server: Server, limits: ConnectionLimits): Connections {
  /** All connections, by address. */
  const all = new Map<string, Set<Socket>>()
  /** Those that are not proven, by address; the oldest first. */
  const strangers = new Map<string, Set<Socket>>()
  const known = new Set<string>()
  /** Kept, because a socket that has ended does not say it any more. */
  const addresses = new WeakMap<Socket, string>()
  let total = 0

  function most(isKnown: boolean): Set<Socket> | undefined {
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

  /** It counts no longer at once: its end comes later, and others may come before. */
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
    else if (total > limits.max) closeOldest(most(false) ?? most(true))
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

/** An IPv4 address, also one that IPv6 carries; of any other IPv6 address the first 64 bits. */
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
