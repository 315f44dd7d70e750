import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { get as getSecure } from 'node:https'
import { connect as connectSocket, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { createCertificateAuthority } from '@sluice/engine'
import { openRaw, startGateway, token } from '@sluice/test-support/nats/gateway.js'
import { closers, feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { failureOf, until } from '@sluice/test-support/waiting.js'

/** How many connections a gateway has in addition to its streams. */
const SPARE = 256
const latest = `/api/v1/reports/latest?feedID=${feed(1)}`
const authorization = `Bearer ${token}`

async function startFilled(): Promise<LogWorld> {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  engine.publish(feed(1))
  await until(() => relay.getMetrics().stored === 1)
  return world
}

/** Opens connections that never send a whole request. */
async function openIdle(url: string, count: number): Promise<readonly Socket[]> {
  const sockets = Array.from({ length: count }, () => connectSocket(Number(new URL(url).port)))
  closers.push(() => sockets.forEach(socket => void socket.destroy()))
  await Promise.all(
    sockets.map(async (socket, at) => {
      socket.on('error', () => undefined)
      await once(socket, 'connect')
      if (at % 2 === 0) socket.write('GET /health HTTP/1.1\r\n')
    }),
  )
  return sockets
}

/** Sends a request on a connection of an agent; without an agent on a new one. */
async function ask(
  url: string,
  path: string,
  { agent, ca }: { readonly agent?: Agent; readonly ca?: string } = {},
): Promise<{
  readonly status: number | undefined
  readonly body: string
  readonly connection?: string | undefined
}> {
  const options = { agent: agent ?? false, headers: { authorization }, ...(ca && { ca }) } as const
  const sent = url.startsWith('https')
    ? getSecure(`${url}${path}`, options)
    : get(`${url}${path}`, options)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  let body = ''
  for await (const chunk of answer) body += chunk
  return { status: answer.statusCode, body, ...answer.headers }
}

test('idle connections keep no request out, and end no stream', async () => {
  const authority = await createCertificateAuthority()
  const { cert, key } = await authority.issue({ hosts: ['127.0.0.1'] })
  const world = await startFilled()
  for (const tls of [undefined, { cert, key }]) {
    const gateway = await startGateway(world, {
      limits: { connections: 4 },
      ...(tls && { tls }),
    })
    const given = tls === undefined ? {} : { ca: authority.ca }
    const stream = tls === undefined ? await openRaw(gateway, [feed(1)]) : undefined
    await openIdle(gateway.url, SPARE + 100)
    const started = performance.now()
    for (let count = 0; count < 10; count++) {
      expect(await ask(gateway.url, '/health', given)).toMatchObject({ status: 200 })
      expect((await ask(gateway.url, latest, given)).status).toBe(200)
    }
    // Idle connections time out after five seconds.
    expect(performance.now() - started).toBeLessThan(4000)
    expect(stream?.socket.readyState).toBe(stream?.socket.OPEN)
    await gateway.close()
  }
}, 30_000)

test('the end of a gateway rejects what is new, closes streams, and answers open requests', async () => {
  let asked = 0
  const gateway = await startGateway(await startFilled(), {
    tokens: {},
    authorizedFor: 1,
    authorize: async () => {
      if (++asked > 1) await sleep(1000)
      return { name: 'one' }
    },
  })
  const stream = await openRaw(gateway, [feed(1)])
  const deaf = await openRaw(gateway, [feed(1)])
  deaf.socket.pause()
  const agent = new Agent({ keepAlive: true })
  closers.push(() => agent.destroy())
  // A load balancer keeps idle connections for a minute, and the gateway longer.
  const kept = { status: 200, 'keep-alive': 'timeout=65' }
  expect(await ask(gateway.url, '/health', { agent })).toMatchObject(kept)
  await sleep(1100)
  const open = ask(gateway.url, latest)
  await until(() => asked >= 2)
  // It is on a connection that the end of the server does not close, since it carries a request.
  const socket = connectSocket(Number(new URL(gateway.url).port))
  const head = `HTTP/1.1\r\nhost: a\r\nauthorization: ${authorization}\r\n\r\n`
  socket.write(`GET ${latest} ${head}`)
  let received = ''
  socket.on('data', data => {
    received += data
  })
  const ended = once(socket, 'close')
  closers.push(() => socket.destroy())
  await sleep(100)
  const closed = gateway.close()
  socket.write(`GET /health ${head}`)
  expect(await stream.closed).toBe('1001 the gateway ends')
  expect((await failureOf(ask(gateway.url, '/health'))).message).toMatch(/ECONNREFUSED/)
  expect(await open).toMatchObject({ status: 200, connection: 'close' })
  await closed
  await ended
  expect(received).toMatch(/^HTTP\/1\.1 200 OK/)
  expect(received).toMatch(/connection: close/i)
}, 30_000)
