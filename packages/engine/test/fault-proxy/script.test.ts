import { Socket } from 'node:net'
import { expect, jest, test } from '@jest/globals'
import { pause, until } from '@sluice/test-support/waiting.js'
import fc from 'fast-check'
import { WebSocket } from 'ws'
import { FrameReader } from '../../fault-proxy/cutter.js'
import {
  type FaultProxy,
  type FaultRule,
  startDataEngine,
  startFaultProxy,
  startHTTPSServer,
} from '../../index.js'
import { signedHeaders } from '../support/signed.js'
import { connectTo, echo, frameOf, listen, type Seen, switching } from '../support/sockets.js'

const payloads = ['one', 'x'.repeat(200), 'three', 'y'.repeat(70_000), 'five', 'six', 'seven']
const frames = payloads.map(payload => frameOf(payload))
const ping = frameOf('are you there', 9)

/** All that a client may get: the answer, and frames with pings between them, which do not count. */
const before = (count: number): Buffer =>
  Buffer.concat([Buffer.from(switching), ...frames.slice(0, count).flatMap(frame => [ping, frame])])
const everything = before(frames.length)

/** A server that answers any request with 101 and those frames, in chunks of so many bytes. */
const serve = (chunk = everything.length) =>
  listen(({ socket }) => {
    socket.once('data', async () => {
      for (let at = 0; at < everything.length; at += chunk) {
        if (socket.destroyed) return
        socket.write(everything.subarray(at, at + chunk))
        if (chunk < everything.length) await pause(1)
      }
    })
  })

const request = 'GET / HTTP/1.1\r\nHost: here\r\n\r\n'

async function ask(proxy: FaultProxy): Promise<Seen> {
  const client = connectTo(proxy.port)
  client.socket.write(request)
  await until(() => client.isConnected)
  return client
}

const start = (port: number, script: FaultRule[], seed = 1) =>
  startFaultProxy({ upstream: { host: '127.0.0.1', port }, script, seed })

test.each([
  ['whole', everything.length],
  ['in small chunks', 1009],
])('a reset at frame 5, sent %s, comes behind the last byte of frame 4', async (_, chunk) => {
  await using server = await serve(chunk)
  await using proxy = await start(server.port, [{ connection: 1, frame: 5, do: 'reset' }])
  const client = await ask(proxy)
  await until(() => client.isClosed)
  expect(client.error).toBe('ECONNRESET')
  expect(client.bytes.equals(Buffer.concat([before(4), ping]))).toBe(true)
  expect(proxy.log().find(({ event }) => event === 'reset')).toMatchObject({
    connection: 1,
    frame: 5,
    rule: 0,
    bytes: client.bytes.length,
  })
  // The rule was for the first connection only.
  const second = await ask(proxy)
  await until(() => second.bytes.length === everything.length)
  expect(second.bytes.equals(everything)).toBe(true)
  expect(proxy.connections).toMatchObject([
    {
      number: 2,
      method: 'GET',
      path: '/',
      isWebSocket: true,
      frames: 7,
      bytesDown: everything.length,
    },
  ])
})

test.each([
  ['middle', 'blackhole', 4 + 35_000],
  ['end', 'half-close', 10 + 70_000],
] as const)('in the %s of frame 4: %s', async (at, what, bytes) => {
  await using server = await serve(4096)
  await using proxy = await start(server.port, [{ frame: 4, at, do: what }])
  const client = await ask(proxy)
  const length = before(3).length + ping.length + (at === 'middle' ? 10 + 35_000 : bytes)
  await until(() => client.bytes.length === length)
  await pause(60)
  expect(client.bytes.equals(everything.subarray(0, length))).toBe(true)
  expect([client.isEnded, client.isClosed]).toEqual([what === 'half-close', false])
})

test('a blackhole of a script ends by itself', async () => {
  await using server = await serve()
  await using proxy = await start(server.port, [{ frame: 2, do: 'blackhole', forMs: 150 }])
  const started = performance.now()
  const client = await ask(proxy)
  await until(() => client.bytes.length === everything.length)
  expect(performance.now() - started).toBeGreaterThan(140)
})

test('a corrupt frame has one bit flipped, in its payload, the same each time', async () => {
  const flip = async (seed: number) => {
    await using server = await serve(1009)
    await using proxy = await start(server.port, [{ frame: 2, do: 'corrupt' }], seed)
    const client = await ask(proxy)
    await until(() => client.bytes.length === everything.length)
    const { bytes } = client
    const at = [...bytes.keys()].filter(i => bytes[i] !== everything[i])
    const place = at[0] as number
    const mask = (bytes[place] as number) ^ (everything[place] as number)
    expect(proxy.log().filter(({ event }) => event === 'corrupt')).toMatchObject([
      { frame: 2, rule: 0, bytes: place },
    ])
    return { at, mask }
  }
  const first = await flip(1)
  const end = before(2).length
  expect(first.at.length).toBe(1)
  expect(first.at[0]).toBeGreaterThanOrEqual(end - 200)
  expect(first.at[0]).toBeLessThan(end)
  expect([1, 2, 4, 8, 16, 32, 64, 128]).toContain(first.mask)
  expect(await flip(1)).toEqual(first)
  expect(await flip(2)).not.toEqual(first)
})

test('every, times and probability: the same seed decides the same', async () => {
  const strikes = async (rule: Partial<FaultRule>, seed = 1) => {
    await using server = await serve()
    await using proxy = await start(
      server.port,
      [{ frame: 1, every: 1, do: 'latency', latencyMs: 0, ...rule }],
      seed,
    )
    for (const _ of [1, 2]) {
      const client = await ask(proxy)
      await until(() => client.bytes.length === everything.length)
    }
    const struck = proxy.log().filter(({ event }) => event === 'latency')
    return struck.map(({ connection, frame }) => `${connection}:${frame}`)
  }
  expect(await strikes({ frame: 2, every: 2 })).toEqual(['1:2', '1:4', '1:6', '2:2', '2:4', '2:6'])
  expect(await strikes({ frame: 2, every: 2, times: 4 })).toEqual(['1:2', '1:4', '1:6', '2:2'])
  expect(await strikes({ connection: 2, frame: 6 })).toEqual(['2:6', '2:7'])
  const some = await strikes({ probability: 0.5 })
  expect(some.length).toBeGreaterThan(2)
  expect(some.length).toBeLessThan(12)
  expect(await strikes({ probability: 0.5 })).toEqual(some)
  expect(await strikes({ probability: 0.5 }, 2)).not.toEqual(some)
  expect(await strikes({ probability: 0 })).toEqual([])
})

test('what would strike behind a reset is left for the next connection', async () => {
  await using server = await serve()
  await using proxy = await start(server.port, [{ frame: 2, every: 1, times: 2, do: 'reset' }])
  for (const count of [1, 1, 7]) {
    const client = await ask(proxy)
    await until(() => client.isClosed || client.bytes.length === everything.length)
    const length = count === 7 ? everything.length : before(count).length + ping.length
    expect(client.bytes.length).toBe(length)
  }
})

test('a rule without a place strikes when a connection comes in', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port, [
    { connection: 2, every: 2, times: 2, do: 'reset' },
    { connection: 3, do: 'blackhole', forMs: 100 },
  ])
  const codes: (string | undefined)[] = []
  for (let i = 0; i < 6; i++) {
    const client = connectTo(proxy.port)
    client.socket.write('hello')
    await until(() => client.isClosed || client.bytes.length === 5)
    codes.push(client.error)
  }
  expect(codes).toEqual([undefined, 'ECONNRESET', undefined, 'ECONNRESET', undefined, undefined])
  expect(server.peers.length).toBe(4)
  const times = proxy.log().filter(({ connection }) => connection === 3)
  expect(times.map(({ event }) => event)).toEqual(['open', 'blackhole', 'release', 'connect'])
})

test('after so many ms, and again', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port, [
    { connection: 1, afterMs: 100, every: 50, times: 2, do: 'drip', bytesPerSecond: 1e6, forMs: 5 },
    { connection: 1, afterMs: 300, do: 'reset' },
  ])
  const client = connectTo(proxy.port)
  await until(() => client.isClosed)
  const [opened, ...drips] = proxy.log().filter(({ event }) => /open|drip|reset/.test(event))
  const after = drips.map(({ at }) => at - (opened?.at ?? 0))
  expect(drips.map(({ event }) => event)).toEqual(['drip', 'drip', 'reset'])
  for (const [index, ms] of [100, 150, 300].entries()) {
    expect(after[index]).toBeGreaterThanOrEqual(ms - 5)
  }
})

test.each(['up', 'down'] as const)('after so many bytes %s, to the byte', async direction => {
  await using server = await listen(echo)
  await using proxy = await start(server.port, [{ afterBytes: 1234, direction, do: 'half-close' }])
  const client = connectTo(proxy.port)
  for (let i = 0; i < 50; i++) {
    client.socket.write(Buffer.alloc(100, i))
    await pause(1)
  }
  const [end, other] =
    direction === 'up' ? [server.peers[0] as Seen, client] : [client, server.peers[0]]
  await until(() => end.isEnded)
  expect(end.bytes.length).toBe(1234)
  await until(() => other?.bytes.length === (direction === 'up' ? 1234 : 5000))
})

test.each(['up', 'down'] as const)('corrupt %s: of that direction alone', async direction => {
  await using server = await listen(echo)
  await using proxy = await start(server.port, [
    { afterBytes: 3, direction, bits: 2, do: 'corrupt' },
  ])
  const client = connectTo(proxy.port)
  client.socket.write('0123456789')
  await until(() => client.bytes.length === 10)
  const there = server.peers[0]?.bytes.toString() ?? ''
  const differing = (one: string, other: string) =>
    [...one].flatMap((letter, at) => (letter === other[at] ? [] : [at]))
  const [up, down] = [differing('0123456789', there), differing(there, client.bytes.toString())]
  expect({ up, down }).toEqual({ up: [], down: [], [direction]: [3, 4] })
})

test.each(['up', 'down'] as const)(
  'a reset after so many bytes %s counts those',
  async direction => {
    // It answers each byte with three.
    await using server = await listen(({ socket }) => {
      socket.on('data', bytes => socket.write(Buffer.alloc(3 * bytes.length)))
    })
    await using proxy = await start(server.port, [{ afterBytes: 9, direction, do: 'reset' }])
    const client = connectTo(proxy.port)
    for (let sent = 0; sent < 9 && !client.isClosed; sent++) {
      client.socket.write('!')
      await until(() => client.isClosed || client.bytes.length === 3 * (sent + 1))
      await pause(direction === 'down' && sent === 2 ? 100 : 0)
    }
    await until(() => client.isClosed)
    const count = direction === 'up' ? 9 : 3
    expect([client.error, server.peers[0]?.bytes.length]).toEqual(['ECONNRESET', count])
  },
)

test('TLS goes through as it is, and can be cut after so many bytes', async () => {
  const server = await startHTTPSServer()
  await using proxy = await startFaultProxy({
    upstream: server.url,
    script: [{ connection: 2, afterBytes: 100, do: 'reset' }],
  })
  const { request } = await import('node:https')
  const get = () =>
    new Promise<unknown>((resolve, reject) => {
      const options = { ca: server.ca, agent: false }
      request(proxy.url, options, response => resolve(response.statusCode))
        .on('error', reject)
        .end()
    })
  expect(await get()).toBe(200)
  await expect(get()).rejects.toMatchObject({ code: 'ECONNRESET' })
  expect(proxy.log().find(({ event }) => event === 'reset')?.bytes).toBe(100)
  expect(proxy.connections.every(({ path }) => path === undefined)).toBe(true)
  await server.close()
})

test('a real stream: reports until the frame, then the fault; the origin asked for is known', async () => {
  const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
  await using engine = await startDataEngine({
    feeds: [ethUsd],
    intervalMs: 5,
    runAhead: true,
    history: 0,
  })
  await using proxy = await startFaultProxy({
    upstream: engine.wsEndpoint,
    script: [{ frame: 8, do: 'reset' }],
  })
  const path = `/api/v1/ws?feedIDs=${ethUsd}`
  const headers = { ...signedHeaders(engine, path), 'X-Cll-Origin': '001' }
  const socket = new WebSocket(proxy.wsURL + path, { headers })
  const seen: string[] = []
  let code = 0
  socket.on('message', data => seen.push(String(data)))
  socket.on('error', () => {})
  socket.on('close', closeCode => {
    code = closeCode
  })
  await until(() => proxy.connections[0]?.origin === '001')
  expect(proxy.connections[0]).toMatchObject({ method: 'GET', path })
  await until(() => code > 0)
  const published = engine.ledger().map(({ fullReport }) => fullReport)
  const received = seen.map(text => JSON.parse(text).report.fullReport)
  const first = published.indexOf(received[0])
  expect(received).toEqual(published.slice(first, first + 7))
  expect(code).toBe(1006)
})

test('frames are found however the bytes come', () => {
  const opcode = fc.constantFrom(0, 1, 2, 8, 9, 10)
  const payload = fc.oneof(
    fc.nat(10),
    fc.integer({ min: 120, max: 130 }),
    fc.integer({ min: 65_530, max: 65_540 }),
  )
  const sent = fc.array(fc.record({ opcode, payload }), { maxLength: 12 })
  fc.assert(
    fc.property(
      sent,
      fc.array(fc.integer({ min: 1, max: 5000 }), { maxLength: 8 }),
      (list, sizes) => {
        const bytes = Buffer.concat([
          Buffer.from(switching),
          ...list.map(({ opcode, payload }) => frameOf(Buffer.alloc(payload), opcode)),
        ])
        const reader = new FrameReader()
        const found: { start: number; payload: number; end: number }[] = []
        const given: Buffer[] = []
        let out = 0
        for (let at = 0, round = 0; at < bytes.length; round++) {
          const size = [...sizes, 1500][round % (sizes.length + 1)] as number
          const part = reader.read(bytes.subarray(at, at + size))
          // A frame is known before its first byte is given out.
          for (const frame of part.frames) expect(frame.start).toBeGreaterThanOrEqual(out)
          found.push(...part.frames)
          given.push(part.bytes)
          out += part.bytes.length
          at += size
        }
        expect(Buffer.concat([...given, reader.rest()]).equals(bytes)).toBe(true)
        let start = switching.length
        const expected = list.flatMap(({ opcode, payload }) => {
          const header = payload < 126 ? 2 : payload < 65_536 ? 4 : 10
          const at = { start, payload: start + header, end: start + header + payload }
          start = at.end
          return opcode < 8 ? [at] : []
        })
        expect(found).toEqual(expected.map((span, index) => ({ number: index + 1, ...span })))
        expect(reader.count).toBe(expected.length)
      },
    ),
    { numRuns: 60 },
  )
})

test.each([
  'HTTP/1.1 200 OK\r\n\r\n\x81\x05hello',
  'HTTP/1.0 101',
  'SSH-2.0-x\r\n',
  '\x16\x03\x01',
])('what does not begin with 101 has no frames: %j', text => {
  const reader = new FrameReader()
  const given = [...Buffer.from(text, 'latin1')].map(byte => {
    const { bytes, frames } = reader.read(Buffer.from([byte]))
    expect(frames).toEqual([])
    return bytes
  })
  expect(Buffer.concat([...given, reader.rest()]).toString('latin1')).toBe(text)
  expect([reader.isWebSocket, reader.count]).toEqual([false, 0])
})

test('a reset waits until the receiver has had its turn, however long the process stood', async () => {
  await using server = await serve()
  await using proxy = await start(server.port, [{ connection: 1, frame: 5, do: 'reset' }])
  const { write } = Socket.prototype
  const spy = jest.spyOn(Socket.prototype, 'write').mockImplementation(function stand(
    this: Socket,
    ...given: unknown[]
  ) {
    const isWritten = write.apply(this, given as never)
    // The process stands still just after the proxy has written.
    if (Buffer.isBuffer(given[0]) && given[0].length > 1000)
      for (const end = performance.now() + 50; performance.now() < end; );
    return isWritten
  })
  try {
    const client = await ask(proxy)
    await until(() => client.isClosed || client.isEnded)
    expect(client.error).toBe('ECONNRESET')
    expect(client.bytes.equals(Buffer.concat([before(4), ping]))).toBe(true)
  } finally {
    spy.mockRestore()
  }
})
