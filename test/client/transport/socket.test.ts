// The socket against a server that writes bytes: the answer and the frames in whatever pieces, as a network may bring them.

import { createHash } from 'node:crypto'
import { once } from 'node:events'
import net from 'node:net'
import tls from 'node:tls'
import { describe, expect, test } from '@jest/globals'
import { createCertificateAuthority } from '@sluice/engine'
import { WebSocketServer } from 'ws'
import { fastPath } from '../../../client/fast/index.js'
import { connectSocket, type Socket, type Upgrade } from '../../../client/transport/socket.js'
import { closeAfterEach } from '../../support/closing.js'
import { pause, until } from '../../support/waiting.js'

const closers = closeAfterEach()
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const READ_BYTES = 65_536

type Serve = (socket: net.Socket, answer: Buffer) => unknown

/** A server that calls `serve` with what answers the upgrade. */
async function listen(serve: Serve, certificate?: tls.TlsOptions): Promise<number> {
  const sockets = new Set<net.Socket>()
  function take(socket: net.Socket): void {
    sockets.add(socket)
    socket.setNoDelay()
    socket.on('error', () => undefined)
    socket.once('data', (request: Buffer) => {
      const key = /sec-websocket-key: (.+)\r/i.exec(request.toString())?.[1]
      const accept = createHash('sha1').update(`${key}${GUID}`).digest('base64')
      const lines = ['101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade']
      const head = `HTTP/1.1 ${lines.join('\r\n')}\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`
      void serve(socket, Buffer.from(head))
    })
  }
  const server = certificate === undefined ? net.createServer(take) : tls.createServer(certificate)
  if (certificate !== undefined) server.on('secureConnection', take)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as net.AddressInfo).port
}

/** Connects, and notes what comes. */
function connect(port: number, more: Partial<Upgrade> = {}, openSocket?: () => Promise<unknown>) {
  const events: string[] = []
  const chunks = new Set<ArrayBufferLike>()
  const upgrade = {
    ...{ url: `ws://127.0.0.1:${port}/`, headers: new Headers({ authorization: 'mine' }) },
    ...{ compression: false, maxMessageBytes: 100_000, ...more },
  }
  const opening = connectSocket(
    upgrade,
    {
      opened: () => void events.push('opened'),
      message(data) {
        chunks.add(data.buffer)
        const text = Buffer.from(data).toString('latin1')
        events.push(text.length > 100 ? `${text[0]} × ${text.length}` : text)
      },
      alive: () => void events.push('alive'),
      refused: (status, _headers, body) =>
        void events.push(`refused ${status} ${Buffer.from(body).toString()}`),
      ended: (code, error) => void events.push(`ended ${code}${error ? ` ${error.message}` : ''}`),
    },
    openSocket,
  )
  closers.push(async () => (await opening).terminate())
  return { events, chunks, opening }
}

function frame(first: number, payload: string | Buffer): Buffer {
  const { length } = Buffer.from(payload)
  const head = length < 126 ? [first, length] : [first, 126, length >> 8, length & 255]
  return Buffer.concat([Buffer.from(head), Buffer.from(payload)])
}
const message = (text: string | Buffer): Buffer => frame(0x81, text)

/** The opcodes of a client's short frames: one read may bring several. */
function opcodesOf(data: Buffer): number[] {
  const opcodes: number[] = []
  for (let at = 0; at < data.length; at += 6 + (data.readUInt8(at + 1) & 127))
    opcodes.push(data.readUInt8(at) & 15)
  return opcodes
}
const [PING, CLOSE, CLOSED] = [
  frame(0x89, 'p'),
  frame(0x88, Buffer.from([3, 232])),
  'ended 1000',
] as const

/** Plain messages, fragments, control frames, and what the client makes of them. */
const conversation = [
  ...[message('one'), frame(0x82, 'two'), PING, frame(0x01, 'th'), PING, frame(0x80, 'ree')],
  ...[
    message(Buffer.alloc(300, 'x')),
    message(''),
    message(Buffer.alloc(70_000, 'y').subarray(0, 65_000)),
    CLOSE,
  ],
]
const understood = [
  ...['opened', 'one', 'two', 'alive', 'alive', 'three', 'x × 300', '', 'y × 65000', CLOSED],
]

describe('what a server writes', () => {
  test.each([1, 2, 3, 7, 100, 1000, 4096, 100_000])('is read in pieces of %d bytes', async size => {
    const port = await listen(async (socket, answer) => {
      const bytes = Buffer.concat([answer, ...conversation])
      for (let at = 0; at < bytes.length; at += size) {
        socket.write(bytes.subarray(at, at + size))
        // Small pieces arrive as such only at the beginning: the long message would take a minute.
        if (at < 700 || size > 1000) await new Promise(setImmediate)
      }
      socket.end()
    })
    const { events } = connect(port)
    await until(() => events.includes(CLOSED))
    expect(events).toEqual(understood)
  })

  test('is read over TLS', async () => {
    const { ca, issue } = await createCertificateAuthority()
    const { cert, key } = await issue({ hosts: ['127.0.0.1'] })
    const port = await listen(
      (socket, answer) => socket.write(Buffer.concat([answer, ...conversation])),
      { cert, key },
    )
    const openSocket = async (): Promise<unknown> => {
      const socket = tls.connect({ host: '127.0.0.1', port, ca })
      await once(socket, 'secureConnect')
      return socket
    }
    const { events } = connect(port, { url: `wss://127.0.0.1:${port}/` }, openSocket)
    await until(() => events.includes(CLOSED))
    expect(events).toEqual(understood)
    const untrusted = connect(port, { url: `wss://127.0.0.1:${port}/` })
    await until(() => untrusted.events.length > 0)
    expect(untrusted.events).toEqual([expect.stringMatching(/^ended 1006 .*certificate/)])
  })

  test('is read behind interim answers', async () => {
    const interim = Buffer.from('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n')
    const port = await listen((socket, answer) => {
      socket.write(Buffer.concat([interim, interim, answer, ...conversation]))
    })
    const { events } = connect(port)
    await until(() => events.includes(CLOSED))
    expect(events).toEqual(understood)
  })

  test('is read with compression, in order', async () => {
    const server = new WebSocketServer({ port: 0, perMessageDeflate: { threshold: 50 } })
    closers.push(() => server.close())
    await once(server, 'listening')
    server.on('connection', socket => {
      for (let index = 0; index < 20; index++) {
        socket.send(`plain ${index}`)
        socket.send('z'.repeat(5000 + index))
      }
      socket.close(1000)
    })
    const { events } = connect((server.address() as net.AddressInfo).port, { compression: true })
    await until(() => events.includes(CLOSED))
    const expected = Array.from({ length: 20 }, (_, index) => [
      `plain ${index}`,
      `z × ${5000 + index}`,
    ])
    expect(events).toEqual(['opened', ...expected.flat(), CLOSED])
  })

  test('lies in the buffer that it was read into, also behind a frame that was cut', async () => {
    const port = await listen(async (socket, answer) => {
      socket.write(answer)
      await pause(20)
      for (let round = 0; round < 20; round++) {
        socket.write(Buffer.concat([message('whole'), message('cut').subarray(0, 1 + (round % 4))]))
        await pause(5)
        socket.write(Buffer.concat([message('cut').subarray(1 + (round % 4)), message('whole')]))
        await pause(5)
      }
      socket.write(CLOSE)
    })
    const { events, chunks } = connect(port)
    await until(() => events.includes(CLOSED))
    expect(events).toHaveLength(62)
    // The fast path has one buffer for chunks, and one for frames that were cut; ws has many.
    if (fastPath === undefined) return
    expect([...chunks].map(({ byteLength }) => byteLength).sort()).toEqual([4096, READ_BYTES])
  })

  test('is not read behind what breaks the protocol', async () => {
    const masked = Buffer.from([0x81, 0x81, 1, 2, 3, 4, 5])
    const port = await listen((socket, answer) =>
      socket.write(Buffer.concat([answer, message('one'), masked, message('two')])),
    )
    const { events } = connect(port)
    await until(() => events.some(event => event.startsWith('ended')))
    expect(events).toEqual(['opened', 'one', expect.stringMatching(/^ended 1006 .*MASK/)])
  })

  test('ends where a message is too long', async () => {
    const port = await listen((socket, answer) =>
      socket.write(Buffer.concat([answer, message('a'), message('b'.repeat(101)), message('c')])),
    )
    const { events } = connect(port, { maxMessageBytes: 100 })
    await until(() => events.some(event => event.startsWith('ended')))
    expect(events).toEqual(['opened', 'a', expect.stringMatching(/^ended 10\d\d Max payload/)])
  })

  test('is read where it came with the answer, also if the connection is reset at once', async () => {
    for (const later of [(work: () => void) => work(), setImmediate, setTimeout]) {
      const port = await listen((socket, answer) => {
        socket.write(Buffer.concat([answer, message('a'), message('b')]), () =>
          later(() => socket.resetAndDestroy()),
        )
      })
      const { events } = connect(port)
      await until(() => events.some(event => event.startsWith('ended')))
      expect(events).toEqual(['opened', 'a', 'b', expect.stringMatching(/^ended 1006/)])
    }
  })

  test('ends where the connection is reset, or never was', async () => {
    const port = await listen((socket, answer) => {
      socket.write(Buffer.concat([answer, message('a')]))
      setTimeout(() => socket.resetAndDestroy(), 50)
    })
    const { events } = connect(port)
    await until(() => events.some(event => event.startsWith('ended')))
    expect(events).toEqual(['opened', 'a', expect.stringMatching(/^ended 1006/)])
    const closed = net.createServer().listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const { port: free } = closed.address() as net.AddressInfo
    await new Promise(resolve => closed.close(resolve))
    const refused = connect(free)
    await until(() => refused.events.length > 0)
    expect(refused.events).toEqual([expect.stringMatching(/^ended 1006 .*ECONNREFUSED/)])
  })
})

describe('an answer that accepts no upgrade', () => {
  test.each([
    ['HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nnope', 'refused 401 nope'],
    ['HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nno', 'refused 200 no'],
    ['HTTP/1.0 503 Busy\r\n\r\nlater', 'refused 503 later'],
  ])('is read whole: %j', async (answer, expected) => {
    const port = await listen(async socket => {
      for (const byte of Buffer.from(answer)) {
        socket.write(Buffer.from([byte]))
        await new Promise(setImmediate)
      }
      socket.end()
    })
    const { events } = connect(port)
    await until(() => events.length > 0)
    expect(events[0]).toBe(expected)
  })

  test.each([
    ['SSH-2.0-OpenSSH_9.2\r\n', /Expected HTTP/],
    ['HTTP/1.1 500 No\nContent-Length: 0\n\n', /Missing expected CR/],
    [`HTTP/1.1 101 Yes\r\nX: ${'y'.repeat(30_000)}`, /Header overflow/],
  ])('ends the connection at once, if it is none: %.40j', async (answer, reason) => {
    const port = await listen(socket => socket.write(answer))
    const { events } = connect(port)
    await until(() => events.length > 0)
    expect(events).toEqual([expect.stringMatching(reason)])
  })

  test.each([
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: wrong\r\n\r\n',
    `HTTP/1.1 101 Yes\r\nX: ${'y'.repeat(70_000)}`,
    'no HTTP at all',
  ])('ends the connection: %.40j', async answer => {
    const port = await listen(socket =>
      socket.end(Buffer.concat([Buffer.from(answer), message('a')])),
    )
    const { events } = connect(port)
    await until(() => events.length > 0)
    expect(events).toEqual([expect.stringMatching(/^ended 1006 ./)])
  })
})

describe('a connection', () => {
  test('that is paused holds its server back, and goes on', async () => {
    let written = 0
    let isBlocked = false
    const port = await listen(async (socket, answer) => {
      socket.write(answer)
      const piece = Buffer.concat(
        Array.from({ length: 64 }, () => message(Buffer.alloc(1000, 'm'))),
      )
      for (let round = 0; round < 500; round++) {
        written++
        if (socket.write(piece)) continue
        isBlocked = true
        await once(socket, 'drain')
        isBlocked = false
      }
      socket.end(CLOSE)
    })
    const { events, opening } = connect(port)
    const socket = (await opening) as Required<Socket>
    await until(() => events.length > 10)
    socket.pause()
    await until(() => isBlocked)
    await pause(100)
    const [read, sent] = [events.length, written]
    await pause(200)
    expect([events.length, written]).toEqual([read, sent])
    expect(sent).toBeLessThan(500)
    socket.rest()
    await pause(50)
    expect(events).toHaveLength(read)
    socket.resume()
    await until(() => events.includes(CLOSED))
    expect(events).toHaveLength(500 * 64 + 2)
  })

  test('closes with a close handshake, and answers pings meanwhile', async () => {
    const received: Buffer[] = []
    const port = await listen((socket, answer) => {
      socket.write(answer)
      socket.on('data', data => {
        received.push(data)
        for (const opcode of opcodesOf(data)) {
          if (opcode === 9) socket.write(Buffer.concat([frame(0x8a, ''), PING]))
          if (opcode === 8) socket.end(Buffer.concat([message('last'), CLOSE]))
        }
      })
    })
    const { events, opening } = connect(port)
    const socket = (await opening) as Required<Socket>
    await until(() => events.includes('opened'))
    socket.ping()
    await until(() => events.length === 3)
    socket.close()
    await until(() => events.includes(CLOSED))
    expect(events).toEqual(['opened', 'alive', 'alive', 'last', CLOSED])
    expect(Buffer.concat(received).filter(byte => byte === 0x8a).length).toBeGreaterThan(0)
  })
})
