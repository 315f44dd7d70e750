// Plain sockets, to see of a connection what TCP itself tells.

import { type AddressInfo, createServer, type Socket, connect as tcpConnect } from 'node:net'
import { afterEach } from '@jest/globals'

/** The events at one end of a connection. */
export interface Seen {
  readonly socket: Socket
  /** All bytes so far. */
  readonly bytes: Buffer
  /** The time of each chunk, in ms since the socket was made. */
  readonly arrivals: readonly number[]
  readonly isConnected: boolean
  /** Whether a FIN has come. */
  readonly isEnded: boolean
  /** The code of what it failed with. */
  readonly error: string | undefined
  readonly isClosed: boolean
}

export function watch(socket: Socket): Seen {
  const chunks: Buffer[] = []
  const arrivals: number[] = []
  const start = performance.now()
  const seen = { isConnected: false, isEnded: false, isClosed: false }
  let error: string | undefined
  socket.on('data', chunk => {
    chunks.push(chunk)
    arrivals.push(performance.now() - start)
  })
  socket.on('connect', () => {
    seen.isConnected = true
  })
  socket.on('end', () => {
    seen.isEnded = true
  })
  socket.on('error', (failure: NodeJS.ErrnoException) => {
    error = failure.code
  })
  socket.on('close', () => {
    seen.isClosed = true
  })
  return {
    socket,
    arrivals,
    get bytes() {
      return Buffer.concat(chunks)
    },
    get isConnected() {
      return seen.isConnected
    },
    get isEnded() {
      return seen.isEnded
    },
    get error() {
      return error
    },
    get isClosed() {
      return seen.isClosed
    },
  }
}

const opened: Socket[] = []
// What a test leaves half open would be left to the tests that the process runs next.
afterEach(() => {
  for (const socket of opened.splice(0)) socket.destroy()
})

/** Connects, and leaves its own end open when the other one is ended. Closed when the test has ended. */
export function connectTo(port: number): Seen {
  const socket = tcpConnect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
  opened.push(socket)
  return watch(socket)
}

/** A server that does with each connection as it is told, and ends nothing by itself. */
export async function listen(answer: (seen: Seen) => void = () => {}): Promise<{
  port: number
  peers: Seen[]
  [Symbol.asyncDispose](): Promise<void>
}> {
  const peers: Seen[] = []
  const server = createServer({ allowHalfOpen: true, noDelay: true }, socket => {
    const seen = watch(socket)
    peers.push(seen)
    answer(seen)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    peers,
    async [Symbol.asyncDispose]() {
      const closed = new Promise(resolve => server.close(resolve))
      for (const { socket } of peers) socket.destroy()
      await closed
    },
  }
}

/** Sends back what comes. */
export const echo = ({ socket }: Seen): void => void socket.on('data', chunk => socket.write(chunk))

/** One frame of a server, of so many bytes of payload. */
export function frameOf(payload: Buffer | string, opcode = 1, isLast = true): Buffer {
  const bytes = Buffer.from(payload)
  const first = (isLast ? 0x80 : 0) | opcode
  if (bytes.length < 126) return Buffer.concat([Buffer.from([first, bytes.length]), bytes])
  if (bytes.length < 65_536) {
    const header = Buffer.from([first, 126, 0, 0])
    header.writeUInt16BE(bytes.length, 2)
    return Buffer.concat([header, bytes])
  }
  const header = Buffer.from([first, 127, 0, 0, 0, 0, 0, 0, 0, 0])
  header.writeBigUInt64BE(BigInt(bytes.length), 2)
  return Buffer.concat([header, bytes])
}

export const switching =
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
