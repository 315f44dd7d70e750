import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { beforeEach, expect, test } from '@jest/globals'
import { createClient, type WebSocketError } from '../../../index.js'
import { type Connect, openWebSocket } from '../../../platform/socket.js'
import { closeAfterEach, failOnUnhandled } from '../../support/closing.js'
import { hurry } from '../../support/hurry.js'
import { until } from '../../support/waiting.js'

beforeEach(() => hurry())

const closers = closeAfterEach()
failOnUnhandled()
const feed = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

/** A service whose first connection sends some bytes, and then stays open whatever the client does. */
async function serve(bytes: (request: string) => Buffer): Promise<number> {
  const sockets: Socket[] = []
  const server = createServer({ allowHalfOpen: true }, socket => {
    sockets.push(socket)
    socket.on('error', () => undefined)
    socket.once('data', data => {
      const request = data.toString()
      const key = /sec-websocket-key: (.+)\r/i.exec(request)?.[1]
      const accept = createHash('sha1').update(`${key}${GUID}`).digest('base64')
      const lines = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket']
      socket.write(
        [...lines, 'Connection: Upgrade', `Sec-WebSocket-Accept: ${accept}`, '', ''].join('\r\n'),
      )
      if (sockets[0] === socket) socket.write(bytes(request))
      socket.resume()
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  closers.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** A close frame. */
const close = (code: number, reason = ''): Buffer =>
  Buffer.concat([
    Buffer.from([0x88, 2 + reason.length, code >> 8, code & 255]),
    Buffer.from(reason),
  ])

const paths = [
  ['the fast path', {}],
  [
    'the standard path',
    {
      connect: ((upgrade, events) =>
        openWebSocket(upgrade, events, {
          refusal: { bytes: 1000, ms: 1000 },
          isFast: false,
        })) satisfies Connect,
    },
  ],
] as const

const frames: readonly [string, (request: string) => Buffer, number, RegExp[], RegExp][] = [
  [
    'a close frame',
    () => close(1012, 'it\u0007 drains'),
    1012,
    [/code 1012: the connection was left open for \d+ ms/, /The service says: it {2}drains/],
    /undefined/,
  ],
  [
    'a close frame whose reason repeats a secret',
    request => close(1001, /authorization: ([\w-]+)/i.exec(request)?.[1] ?? 'none was sent'),
    1001,
    [/repeats what was sent/],
    /a-key-of-the-user/,
  ],
  ['a frame that breaks the protocol', () => Buffer.from([0xff, 5]), 1006, [/RSV/], /undefined/],
]

type Given = (typeof paths)[number][1]

/** Lets a service send a frame and leave the connection open. */
async function strike(
  [_what, bytes, closeCode, texts, never]: (typeof frames)[number],
  config: Given,
): Promise<void> {
  const port = await serve(bytes)
  const endpoint = `http://127.0.0.1:${port}`
  const wsEndpoint = `ws://127.0.0.1:${port}`
  const given = { apiKey: 'a-key-of-the-user', userSecret: 'b', endpoint, wsEndpoint }
  const client = createClient({ ...given, ...config })
  closers.push(() => client.close())
  // The service answers no ping, so none is sent: a busy machine may be late with the next line.
  const stream = client.createStream(feed, { reconnectInterval: 200, pingInterval: 600_000 })
  const errors: Error[] = []
  let connected = 0
  stream.on('error', error => void errors.push(error))
  stream.on('connected', () => connected++)
  const losses: Error[] = []
  stream.on('reconnecting', ({ error }) => void losses.push(error as Error))
  await stream.connect()
  await until(() => connected === 2)
  expect(losses).toHaveLength(1)
  expect(errors).toEqual(losses)
  const [error] = errors as WebSocketError[]
  expect(error).toMatchObject({ code: 'WS_LOST', closeCode })
  for (const text of texts) expect(error?.message).toMatch(text)
  expect(error?.message).not.toMatch(never)
}

test.each(paths)(
  '%s: a connection that stays open after its last frame ends with an error, and the next is dialled',
  async (_path, config) => {
    await Promise.all(frames.map(frame => strike(frame, config)))
  },
)
