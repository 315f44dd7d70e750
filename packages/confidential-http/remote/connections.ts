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
  /** The address of a connection: an IPv6 network of 64 bits counts as one. */
  addressOf(socket: Socket): string
  /** Whether authentic requests have come from an address. */
  isKnown(address: string): boolean
  /** Marks a connection that has brought an authentic request. */
  prove(socket: Socket): void
}

/** The number of addresses to remember that authentic requests came from. */
const MAX_KNOWN = 1024

/**
 * Bounds the connections of a server so that other clients can't keep callers out. Of too many connections it closes one that never
 * brought an authentic request: the oldest of the address that has most of them. Addresses that authentic requests came from
 * lose a connection only if no other address has one.
 */
export function boundConnections(
  server: Server,
  { max, maxPerAddress }: ConnectionLimits,
): Connections {
  /** The open connections of each address, the oldest first. */
  const open = new Map<string, Set<Socket>>()
  const proven = new WeakSet<Socket>()
  /** Addresses that authentic requests came from, the latest last. */
  const known = new Set<string>()
  /** A closed socket has no address any more. */
  const addresses = new WeakMap<Socket, string>()
  let total = 0

  function unprovenOf(address: string): Socket[] {
    return [...(open.get(address) ?? [])].filter(socket => !proven.has(socket))
  }

  /** The unproven connections of the address that has most of them. */
  function largest(isKnown: boolean): Socket[] {
    let found: Socket[] = []
    for (const address of open.keys()) {
      if (known.has(address) !== isKnown) continue
      const unproven = unprovenOf(address)
      if (unproven.length > found.length) found = unproven
    }
    return found
  }

  function forget(socket: Socket): void {
    const address = addresses.get(socket) ?? ''
    const sockets = open.get(address)
    if (!sockets?.delete(socket)) return
    total--
    if (sockets.size === 0) open.delete(address)
  }

  function findExcess(address: string): Socket | undefined {
    if ((open.get(address)?.size ?? 0) > maxPerAddress) return unprovenOf(address)[0]
    return total > max ? (largest(false)[0] ?? largest(true)[0]) : undefined
  }

  server.on('connection', socket => {
    const address = networkOf(socket.remoteAddress)
    addresses.set(socket, address)
    const sockets = open.get(address) ?? new Set()
    open.set(address, sockets.add(socket))
    total++
    socket.on('close', () => forget(socket))
    const excess = findExcess(address)
    if (excess === undefined) return
    // It stops counting at once: its `close` event comes later.
    forget(excess)
    excess.destroy()
  })

  return {
    isProven: socket => proven.has(socket),
    addressOf: socket => addresses.get(socket) ?? '',
    isKnown: address => known.has(address),
    prove(socket) {
      const address = addresses.get(socket) ?? ''
      proven.add(socket)
      known.delete(address)
      known.add(address)
      if (known.size > MAX_KNOWN) for (const oldest of known) return void known.delete(oldest)
    },
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
