import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/** A connection, and how many requests and streams it carries now. */
interface Entry {
  readonly key: string
  readonly socket: Socket
  readonly address: string
  uses: number
}

/**
 * The connections of a server. If there are too many, it closes an idle one: the oldest of the
 * address that has most. So idle connections don't lock out a client with a request, such as the
 * probe of a load balancer. A connection is idle while it carries no whole request and no stream.
 */
export class Sockets {
  readonly #max: number
  /** By address and port of the client: the socket of TLS and the one below it share these. */
  readonly #entries = new Map<string, Entry>()
  /** By address, the oldest first. */
  readonly #idle = new Map<string, Set<Entry>>()

  constructor(server: Server, max: number) {
    this.#max = max
    server.on('connection', (socket: Socket) => this.#add(socket))
  }

  /** Marks a connection as used until the returned function is called. */
  use(socket: Socket): () => void {
    const entry = this.#entries.get(keyOf(socket))
    if (entry === undefined) return () => undefined
    if (entry.uses === 0) this.#leaveIdle(entry)
    entry.uses++
    return () => {
      entry.uses--
      if (entry.uses === 0 && this.#isOpen(entry)) this.#joinIdle(entry)
    }
  }

  destroyIdle(): void {
    for (const { socket, uses } of this.#entries.values()) if (uses === 0) socket.destroy()
  }

  destroyAll(): void {
    for (const { socket } of this.#entries.values()) socket.destroy()
  }

  #add(socket: Socket): void {
    const { remoteAddress: address } = socket
    const key = keyOf(socket)
    // The client has hung up already.
    if (address === undefined) return void socket.destroy()
    if (this.#entries.size >= this.#max && !this.#closeIdle()) return void socket.destroy()
    const entry: Entry = { key, socket, address, uses: 0 }
    this.#entries.set(key, entry)
    this.#joinIdle(entry)
    socket.on('close', () => this.#remove(entry))
  }

  #remove(entry: Entry): void {
    this.#leaveIdle(entry)
    if (this.#isOpen(entry)) this.#entries.delete(entry.key)
  }

  /** False for a connection that is closed, even if another one has its port now. */
  #isOpen(entry: Entry): boolean {
    return this.#entries.get(entry.key) === entry
  }

  /** Returns false if no connection is idle. */
  #closeIdle(): boolean {
    let most: Set<Entry> | undefined
    for (const idle of this.#idle.values()) if (idle.size > (most?.size ?? 0)) most = idle
    const [oldest] = most ?? []
    if (oldest === undefined) return false
    this.#remove(oldest)
    oldest.socket.destroy()
    return true
  }

  #joinIdle(entry: Entry): void {
    const idle = this.#idle.get(entry.address) ?? new Set()
    this.#idle.set(entry.address, idle.add(entry))
  }

  #leaveIdle(entry: Entry): void {
    const idle = this.#idle.get(entry.address)
    idle?.delete(entry)
    if (idle?.size === 0) this.#idle.delete(entry.address)
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
