import { connect as connectSocket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { jetstream } from '@nats-io/jetstream'
import { request, startGateway, token } from '@sluice/test-support/nats/gateway.js'
import { closers, feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { until } from '@sluice/test-support/waiting.js'
import type { Gateway } from '../../gateway/index.js'

const MESSAGES = 5000
const HANG_UPS = 40
const page = `/api/v1/reports/page?feedID=${feed(1)}&startTimestamp=1&limit=1000`

/** A world with a log whose messages are all read before a page is found: none of them is a report. */
async function startLong(): Promise<LogWorld> {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  engine.publish(feed(1))
  await until(() => relay.getMetrics().stored === 1)
  const log = jetstream(await world.connect())
  for (let sent = 0; sent < MESSAGES; sent += 500)
    await Promise.all(
      Array.from({ length: 500 }, () => log.publish(`sluice.3.${feed(1)}`, 'no report')),
    )
  return world
}

/** Sends the requests on one connection, and hangs up once the log is being asked. */
async function hangUp({ url }: Gateway, requests: number): Promise<void> {
  const socket = connectSocket(Number(new URL(url).port))
  socket.on('error', () => undefined)
  closers.push(() => socket.destroy())
  const head = `GET ${page} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${token}\r\n\r\n`
  socket.write(head.repeat(requests))
  await sleep(20)
  socket.destroy()
}

test('a client that hangs up ends its work for the log, and has its place until then', async () => {
  const world = await startLong()
  const connection = await world.connect()
  const lines: string[] = []
  const gateway = await startGateway(world, {
    connection,
    limits: { requestsPerToken: 2, readsPerSecond: 1_000_000 },
    log: { warn: line => void lines.push(line) },
  })
  const sent = (): number => connection.stats().outMsgs
  const before = sent()
  expect((await request(gateway, page)).status).toBe(200)
  const whole = sent() - before

  const start = sent()
  for (let count = 0; count < HANG_UPS; count++) await hangUp(gateway, 1)
  for (let asked = -1; asked !== sent(); await sleep(200)) asked = sent()
  // Each would read on to the end of the log, as the one before did.
  expect(sent() - start).toBeLessThan((HANG_UPS / 2) * whole)
  expect((await request(gateway, page)).status).toBe(200)

  // Those that wait behind another one give their places back as well.
  for (let count = 0; count < 3; count++) await hangUp(gateway, 2)
  while ((await request(gateway, page)).status !== 200) await sleep(20)
  const both = await Promise.all([request(gateway, page), request(gateway, page)])
  expect(both.map(({ status }) => status)).toEqual([200, 200])
  expect(lines.filter(line => !line.startsWith('rejected with 429: /api/v1/reports/page'))).toEqual(
    [],
  )
}, 60_000)
