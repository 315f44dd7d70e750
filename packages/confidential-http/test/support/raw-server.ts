import { createPrivateKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import type { AddressInfo, Socket } from 'node:net'
import { createServer, type TLSSocket, type TlsOptions } from 'node:tls'
import { createCertificateAuthority } from '@sluice/engine'

export interface RawServer {
  readonly url: string
  readonly ca: string
  close(): Promise<void>
}

/** A TLS server that says on each connection, once something has come, whatever one likes. */
export async function startRawServer(
  speak: (socket: TLSSocket, request: string) => void,
  options: TlsOptions & { readonly ca?: string } = {},
): Promise<RawServer> {
  const { ca, issue } = await createCertificateAuthority()
  const sockets = new Set<Socket>()
  const { ca: trusted = ca, ...tls } = options
  const server = createServer({ ...issue({ hosts: ['localhost', '127.0.0.1'] }), ...tls })
  server.on('secureConnection', socket => {
    socket.on('error', () => undefined)
    socket.once('data', request => speak(socket, String(request)))
  })
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('tlsClientError', () => undefined)
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    ca: trusted,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** A certificate that nobody but itself has signed. */
export function selfSigned(host: string): { readonly cert: string; readonly key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  const name = seq(
    der(0x31, seq(der(0x06, Buffer.from('550403', 'hex')), der(0x0c, Buffer.from(host)))),
  )
  const algorithm = seq(der(0x06, Buffer.from('2a8648ce3d040302', 'hex')))
  const time = (ms: number): Buffer =>
    der(0x17, Buffer.from(`${new Date(ms).toISOString().replace(/\D/g, '').slice(2, 14)}Z`))
  const altNames = seq(der(0x82, Buffer.from(host)), der(0x87, Buffer.from([127, 0, 0, 1])))
  const extension = seq(der(0x06, Buffer.from('551d11', 'hex')), der(0x04, altNames))
  const content = seq(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    name,
    seq(time(Date.now() - 3_600_000), time(Date.now() + 3_600_000)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, seq(extension)),
  )
  const signature = sign('sha256', content, createPrivateKey(key))
  const bits = der(0x03, Buffer.concat([Buffer.from([0]), signature]))
  const lines =
    seq(content, algorithm, bits)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  return {
    key,
    cert: ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n'),
  }
}

const seq = (...parts: readonly Buffer[]): Buffer => der(0x30, Buffer.concat(parts))

function der(tag: number, value: Buffer): Buffer {
  const { length } = value
  const size =
    length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...size]), value])
}
