import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTLSServer, type TlsOptions } from 'node:tls'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { Server as ProxyChain, RequestError } from 'proxy-chain'
import { root } from '../sources.js'

const pem = (name: string): string =>
  readFileSync(join(root, 'test', 'vectors', 'tls', name), 'utf8')

/** Made by OpenSSL: `test/vectors/tls/make.sh`. */
export const pems: Readonly<
  Record<
    | 'ca'
    | 'otherCa'
    | 'serverCert'
    | 'serverKey'
    | 'clientCert'
    | 'clientKey'
    | 'clientEncryptedKey',
    string
  >
> = {
  ca: pem('ca.pem'),
  otherCa: pem('other-ca.pem'),
  serverCert: pem('server.pem'),
  serverKey: pem('server.key'),
  clientCert: pem('client.pem'),
  clientKey: pem('client.key'),
  clientEncryptedKey: pem('client-encrypted.key'),
}

/** A server of a test. */
export interface TestServer {
  readonly port: number
  close(): Promise<void>
}

async function listen(server: Server): Promise<TestServer> {
  const sockets = new Set<Socket>()
  const track = (socket: Socket): void => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  }
  server.on('connection', track)
  server.on('secureConnection', track)
  server.on('tlsClientError', () => undefined)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** An engine that publishes a report of its one feed every few milliseconds, each a second newer than the one before. */
export async function startQuickEngine(feedID: string): Promise<DataEngine> {
  const engine = await startDataEngine({ feeds: [feedID], intervalMs: 0, history: 0 })
  let observationsTimestamp = Math.floor(Date.now() / 1000) - 3600
  const publish = (): unknown =>
    engine.publish(feedID, { observationsTimestamp: observationsTimestamp++ })
  publish()
  const timer = setInterval(publish, 15)
  return {
    ...engine,
    async close() {
      clearInterval(timer)
      await engine.close()
    },
  }
}

/** TLS before a port of this machine: an engine's. */
export function startTLSFront(port: number, options: TlsOptions = {}): Promise<TestServer> {
  const certificate = { cert: pems.serverCert, key: pems.serverKey }
  return listen(
    createTLSServer({ ...certificate, ...options }, client => {
      const service = connect(port, '127.0.0.1')
      client.pipe(service).pipe(client)
      for (const [one, other] of [
        [client, service],
        [service, client],
      ] as const) {
        one.on('error', () => other.destroy())
        one.on('close', () => other.destroy())
      }
    }),
  )
}

/** A server that does with each connection what a test wants. */
export function startServer(take: (socket: Socket) => void): Promise<TestServer> {
  return listen(createServer(take))
}

/** A CONNECT proxy of the package proxy-chain. */
export interface RealProxy {
  readonly port: number
  readonly url: string
  /** `host:port`, of each tunnel that was asked for. */
  readonly asked: readonly string[]
  /** The status with which it refuses what is asked from now on; 0 for none. */
  refuseWith(status: number): void
  /** Closes the tunnels that are open. */
  cut(): void
  close(): Promise<void>
}

/** Starts a proxy; with a user name and a password it wants them, with `isSecure` it speaks TLS. */
export async function startProxy(
  options: {
    readonly username?: string
    readonly password?: string
    readonly isSecure?: boolean
  } = {},
): Promise<RealProxy> {
  const { username, password, isSecure = false } = options
  const asked: string[] = []
  let refusal = 0
  const server = new ProxyChain({
    port: 0,
    host: '127.0.0.1',
    verbose: false,
    ...(isSecure
      ? { serverType: 'https', httpsOptions: { cert: pems.serverCert, key: pems.serverKey } }
      : { serverType: 'http' }),
    prepareRequestFunction(request) {
      asked.push(`${request.hostname}:${request.port}`)
      if (refusal !== 0) throw new RequestError('no', refusal)
      const isKnown = request.username === username && request.password === password
      return { requestAuthentication: username !== undefined && !isKnown }
    },
  })
  await server.listen()
  return {
    port: server.port,
    url: `http${isSecure ? 's' : ''}://127.0.0.1:${server.port}`,
    asked,
    refuseWith(status) {
      refusal = status
    },
    cut: () => server.closeConnections(),
    close: () => server.close(true),
  }
}
