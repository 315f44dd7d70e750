import net from 'node:net'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'
import type { Carrier } from './carrier.js'

/** What is opened, and how. */
export interface Connecting {
  readonly isSecure: boolean
  /** Goes between the socket and ws. */
  readonly carrier: Carrier | undefined
  /** Opens the socket; without it, it is opened as ws opens one. */
  readonly openSocket: ((signal: AbortSignal) => Promise<unknown>) | undefined
  /** Aborts when the connection is no longer wanted. */
  readonly signal: AbortSignal
}

type Options = net.TcpNetConnectOpts & tls.ConnectionOptions
type Opened = (error: unknown, stream?: Duplex) => void

/** Bytes that are read at once, all into one buffer: a new one for each read would be most of the garbage. */
const READ_BYTES = 65_536

/** Returns the option `createConnection` of ws, which node:http calls: it returns a stream, or calls back with one. */
export function connectionsOf(connecting: Connecting): typeof net.createConnection | undefined {
  const { isSecure, carrier, openSocket, signal } = connecting
  if (carrier === undefined && openSocket === undefined) return undefined

  function createConnection(options: Options, opened: Opened): Duplex | undefined {
    if (openSocket !== undefined) {
      openSocket(signal)
        .then(socket => {
          carrier?.carry(socket as net.Socket)
          opened(null, carrier?.stream ?? (socket as net.Socket))
        })
        .catch(opened)
      return undefined
    }
    carrier?.carry(connect(options, isSecure, carrier.read))
    return carrier?.stream
  }
  return createConnection as unknown as typeof net.createConnection
}

/** Connects as ws does, but for the buffer. */
function connect(options: Options, isSecure: boolean, read: Carrier['read']): net.Socket {
  const onread: net.OnReadOpts = {
    buffer: Buffer.allocUnsafeSlow(READ_BYTES),
    callback: read,
  }
  // The path is that of the request; here it would be that of a local socket.
  const opening = { ...options, path: undefined, onread }
  if (!isSecure) return net.connect(opening as net.NetConnectOpts)
  const { host = '', servername = net.isIP(host) === 0 ? host : '' } = options
  return tls.connect({ ...opening, servername } as tls.ConnectionOptions)
}
