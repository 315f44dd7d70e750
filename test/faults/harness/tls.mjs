// TLS in front of an engine, with a certificate that is as wrong as a row wants it.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createServer } from 'node:tls'
import { createCertificateAuthority } from '@sluice/engine'

const DAY = 86_400_000

/** Issues a certificate: for these hosts, so many days ago, where an authority's are valid for one. */
async function issue({ hosts, daysAgo }) {
  const { now } = Date
  Date.now = () => now() - daysAgo * DAY
  try {
    const authority = await createCertificateAuthority()
    return { ca: authority.ca, ...authority.issue({ hosts }) }
  } finally {
    Date.now = now
  }
}

/** Has the world's client speak TLS. What is returned resets connections in their handshake while `isResetting`. */
export async function putTLSInFront(world, how = {}) {
  const { hosts = ['localhost'], daysAgo = 0, isTrusted = true } = how
  const { ca, cert, key } = await issue({ hosts, daysAgo })
  if (isTrusted) {
    world.env.NODE_EXTRA_CA_CERTS = `${world.folder()}/ca.pem`
    writeFileSync(world.env.NODE_EXTRA_CA_CERTS, ca)
  }
  const front = { isResetting: false }
  const server = createServer({ cert, key }, client => {
    const service = connect(new URL(world.engine.wsEndpoint).port, '127.0.0.1')
    client.pipe(service).pipe(client)
    for (const [one, other] of [
      [client, service],
      [service, client],
    ]) {
      one.on('error', () => other.destroy())
      one.on('close', () => other.destroy())
    }
  })
  server.on('connection', socket => {
    if (front.isResetting) socket.resetAndDestroy()
  })
  server.on('tlsClientError', () => undefined)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  world.defer(() => server.close())
  world.config.wsEndpoint = `wss://localhost:${server.address().port}`
  return front
}
