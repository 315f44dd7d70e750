import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from '@jest/globals'
import { closeAfterEach } from '@sluice/test-support/closing.js'
import { until } from '@sluice/test-support/waiting.js'
import { WebSocket } from 'ws'
import { Pages } from '../../gateway/pages.js'

const closers = closeAfterEach()
const limits = { connections: 10, connectionsPerToken: 10, bufferedBytes: 100_000 }
const holder = { name: 'page', digest: '00', expires: Number.POSITIVE_INFINITY }

/** Pages behind a server that accepts each. */
async function start() {
  const pages = new Pages(limits, () => undefined)
  const server = createServer()
  server.on('upgrade', (request, socket, head) =>
    pages.accept(request, socket, head, { holder, feedIDs: [], subjects: ['a'] }),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => server.close())
  const { port } = server.address() as AddressInfo
  async function open(autoPong: boolean) {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`, { autoPong })
    closers.push(() => socket.terminate())
    const closed = once(socket, 'close').then(([code]) => code as number)
    await once(socket, 'open')
    return { socket, closed }
  }
  return { pages, open }
}

test('a page that does not answer pings is ended, and one that does is not', async () => {
  const { pages, open } = await start()
  const good = await open(true)
  const dead = await open(false)
  let pings = 0
  good.socket.on('ping', () => {
    pings++
  })
  await until(() => pages.counts.connections === 2)
  pages.ping()
  await until(() => pings === 1)
  // The pong is on its way.
  good.socket.ping()
  await once(good.socket, 'pong')
  pages.ping()
  expect(await dead.closed).toBe(1006)
  await until(() => pages.counts.connections === 1)
  await until(() => pings === 2)
  expect(good.socket.readyState).toBe(good.socket.OPEN)
})

test('a page that sends much is closed, and what it sends is not read', async () => {
  const { pages, open } = await start()
  const { socket, closed } = await open(true)
  socket.on('error', () => undefined)
  socket.send('a'.repeat(1000))
  socket.send('a'.repeat(2000))
  expect(await closed).toBe(1009)
  await until(() => pages.counts.connections === 0)
})

test('what nobody reads is sent to nobody', async () => {
  const { pages, open } = await start()
  const { socket } = await open(true)
  await until(() => pages.counts.connections === 1)
  pages.send('b', new Uint8Array(10))
  pages.send('a', Buffer.from('first'))
  const [data] = await once(socket, 'message')
  expect(String(data)).toBe('first')
  expect(pages.counts.sent).toBe(1)
})
