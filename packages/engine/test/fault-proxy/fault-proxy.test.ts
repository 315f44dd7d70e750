import { createServer } from 'node:net'
import { expect, test } from '@jest/globals'
import { failureOf, pause, until } from '@sluice/test-support/waiting.js'
import {
  type FaultProxyOptions,
  type FaultRule,
  type ProxySettings,
  startFaultProxy,
} from '../../index.js'
import { connectTo, echo, listen, type Seen } from '../support/sockets.js'

const start = (port: number, options: Partial<FaultProxyOptions> = {}) =>
  startFaultProxy({ upstream: { host: '127.0.0.1', port }, ...options })

/** A client whose bytes have come back once. */
async function connected(port: number): Promise<Seen> {
  const client = connectTo(port)
  client.socket.write('hello')
  await until(() => client.bytes.length === 5)
  return client
}

test('bytes go both ways as they are, and so do ends', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const sent = Buffer.alloc(3_000_000, 'abcdefghijk')
  const client = connectTo(proxy.port)
  client.socket.end(sent)
  await until(() => client.bytes.length === sent.length)
  expect(client.bytes.equals(sent)).toBe(true)
  await until(() => server.peers[0]?.isEnded === true)
  // The client has ended; its peer has not.
  expect(client.isEnded).toBe(false)
  server.peers[0]?.socket.end('more')
  await until(() => client.isClosed)
  expect(client.bytes.subarray(sent.length).toString()).toBe('more')
  expect(client.error).toBeUndefined()
  await until(() => proxy.connections.length === 0)
  expect(proxy.log().map(({ event, direction }) => [event, direction])).toEqual([
    ['open', undefined],
    ['connect', undefined],
    ['end', 'up'],
    ['end', 'down'],
    ['close', undefined],
  ])
  expect(proxy.log().at(-1)?.bytes).toBe(sent.length + 4)
})

test.each(['server', 'client'])('a reset by the %s is one on the other side', async who => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const client = await connected(proxy.port)
  const peer = server.peers[0] as Seen
  const [one, other] = who === 'server' ? [peer, client] : [client, peer]
  one.socket.resetAndDestroy()
  await until(() => other.isClosed)
  expect([other.error, other.isEnded]).toEqual(['ECONNRESET', false])
  await until(() => proxy.connections.length === 0)
})

test('an upstream that cannot be reached is a reset, and is told', async () => {
  const server = await listen()
  await server[Symbol.asyncDispose]()
  await using proxy = await start(server.port)
  const client = connectTo(proxy.port)
  await until(() => client.isClosed)
  expect(client.error).toBe('ECONNRESET')
  await until(() => proxy.connections.length === 0)
  expect(proxy.log().find(({ event }) => event === 'error')).toMatchObject({
    connection: 1,
    direction: 'down',
    error: 'ECONNREFUSED',
  })
})

test('reset: both sides get ECONNRESET, of those connections that are meant', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const clients = [await connected(proxy.port), await connected(proxy.port)]
  expect(proxy.reset(2)).toBe(1)
  expect(proxy.connections.map(({ number }) => number)).toEqual([1])
  expect(proxy.reset(2)).toBe(0)
  await until(() => clients[1]?.isClosed === true && server.peers[1]?.isClosed === true)
  expect(clients.map(({ error, isEnded }) => [error, isEnded])).toEqual([
    [undefined, false],
    ['ECONNRESET', false],
  ])
  expect(server.peers.map(({ error }) => error)).toEqual([undefined, 'ECONNRESET'])
  expect(proxy.reset(connection => connection.bytesUp > 5)).toBe(0)
  expect(proxy.reset()).toBe(1)
  await until(() => clients[0]?.isClosed === true)
  expect(proxy.accepted).toBe(2)
})

test('half-close: a FIN, no error, and the other direction goes on', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const client = await connected(proxy.port)
  expect(proxy.halfClose()).toBe(1)
  await until(() => client.isEnded)
  client.socket.write(' again')
  await until(() => server.peers[0]?.bytes.toString() === 'hello again')
  await pause(50)
  expect([client.bytes.toString(), client.error, client.isClosed]).toEqual([
    'hello',
    undefined,
    false,
  ])
  proxy.halfClose(1, { direction: 'up' })
  await until(() => server.peers[0]?.isEnded === true)
})

test('blackhole: no data on open sockets, and afterwards the delayed data', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const client = await connected(proxy.port)
  const release = proxy.blackhole()
  client.socket.write(' again')
  server.peers[0]?.socket.end('bye')
  const late = connectTo(proxy.port)
  late.socket.write('late')
  await pause(150)
  expect([client.bytes.toString(), client.isEnded, client.isClosed]).toEqual([
    'hello',
    false,
    false,
  ])
  // A new connection is accepted, and goes nowhere.
  expect([late.isConnected, server.peers.length, server.peers[0]?.bytes.toString()]).toEqual([
    true,
    1,
    'hello',
  ])
  release()
  release()
  await until(() => client.isEnded && late.bytes.toString() === 'late')
  expect(client.bytes.toString()).toBe('hellobye')
  await until(() => server.peers[0]?.bytes.toString() === 'hello again')
  expect(proxy.log().filter(({ event }) => event === 'release').length).toBe(2)
})

test('blackhole of one connection and one direction leaves the others alone', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const [one, other] = [await connected(proxy.port), await connected(proxy.port)]
  const release = proxy.blackhole(1, { direction: 'down' })
  for (const { socket } of [one, other]) socket.write('!')
  const third = await connected(proxy.port)
  await until(() => other.bytes.toString() === 'hello!')
  await until(() => server.peers[0]?.bytes.toString() === 'hello!')
  expect([one.bytes.toString(), third.bytes.toString()]).toEqual(['hello', 'hello'])
  release()
  await until(() => one.bytes.toString() === 'hello!')
})

test('a client that is gone in a blackhole leaves nothing behind', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const release = proxy.blackhole()
  const client = connectTo(proxy.port)
  await until(() => client.isConnected && proxy.connections.length === 1)
  client.socket.resetAndDestroy()
  await until(() => proxy.connections.length === 0)
  release()
  expect(server.peers).toEqual([])
})

test('refuse: ECONNREFUSED for new connections alone, until it ends', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const client = await connected(proxy.port)
  await proxy.set({ refuse: true })
  const refused = connectTo(proxy.port)
  await until(() => refused.isClosed)
  expect(refused.error).toBe('ECONNREFUSED')
  client.socket.write('!')
  await until(() => client.bytes.toString() === 'hello!')
  await proxy.set({ refuse: false })
  await connected(proxy.port)
  expect(proxy.accepted).toBe(2)
})

test('what looks like the beginning of an upgrade, and is cut short, arrives as it is', async () => {
  await using server = await listen(({ socket }) => socket.end('HTTP/1.1 101 Swi'))
  await using proxy = await start(server.port)
  const client = connectTo(proxy.port)
  await until(() => client.isEnded)
  expect(client.bytes.toString()).toBe('HTTP/1.1 101 Swi')
})

test('a port that is taken meanwhile is had again as soon as it is free', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  await proxy.set({ refuse: true })
  const other = createServer(socket => socket.end('somebody else')).listen(proxy.port, '127.0.0.1')
  await until(() => other.listening)
  setTimeout(() => other.close(), 150)
  await proxy.set({ refuse: false })
  await connected(proxy.port)
})

test('what is under way goes out when a latency ends', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const client = await connected(proxy.port)
  await proxy.set({ latencyMs: 60_000 })
  client.socket.write('!')
  await pause(50)
  expect(server.peers[0]?.bytes.toString()).toBe('hello')
  await proxy.set({ latencyMs: 0 })
  await until(() => client.bytes.toString() === 'hello!')
})

test('latency delays what comes and its end, in the directions it is for', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const client = await connected(proxy.port)
  await proxy.set({ latencyMs: 400, jitterMs: 20, direction: 'down' })
  const sent = performance.now()
  client.socket.end('!')
  await until(() => client.bytes.toString() === 'hello!')
  const ended = performance.now()
  // The other direction has no latency: the end was there long before.
  expect(server.peers[0]?.isEnded).toBe(true)
  server.peers[0]?.socket.end()
  await until(() => client.isEnded)
  for (const taken of [ended - sent, performance.now() - ended]) expect(taken).toBeGreaterThan(375)
})

test('jitter keeps the order', async () => {
  await using server = await listen()
  await using proxy = await start(server.port)
  await proxy.set({ latencyMs: 20, jitterMs: 20 })
  const client = connectTo(proxy.port)
  let sent = ''
  for (let i = 0; i < 60; i++) {
    sent += `${i} `
    client.socket.write(`${i} `)
    await pause(2)
  }
  await until(() => server.peers[0]?.bytes.length === sent.length)
  expect(server.peers[0]?.bytes.toString()).toBe(sent)
})

test('a drip lets so many bytes a second through, and ends', async () => {
  await using server = await listen()
  await using proxy = await start(server.port)
  const client = connectTo(proxy.port)
  await until(() => server.peers.length === 1)
  const release = proxy.drip(50)
  const started = performance.now()
  client.socket.write(Buffer.alloc(1000))
  await until(() => (server.peers[0]?.bytes.length ?? 0) > 20)
  const arrived = server.peers[0]?.bytes.length ?? 0
  expect(arrived).toBeLessThanOrEqual(10 + (50 * (performance.now() - started)) / 1000)
  release()
  await until(() => server.peers[0]?.bytes.length === 1000)
  await expect(proxy.set({ bytesPerSecond: 0 })).rejects.toThrow('bytesPerSecond')
})

test('a limit of bandwidth holds for each connection, and holds the sender back', async () => {
  await using server = await listen()
  await using proxy = await start(server.port)
  await proxy.set({ bytesPerSecond: 1_000_000, direction: 'up' })
  const client = connectTo(proxy.port)
  const total = 64 * 1024 * 1024
  client.socket.write(Buffer.alloc(total))
  const started = performance.now()
  await until(() => (server.peers[0]?.socket.bytesRead ?? 0) > 200_000)
  const peer = server.peers[0]?.socket
  const arrived = peer?.bytesRead ?? 0
  expect(arrived).toBeLessThan(100_000 + 1000 * (performance.now() - started))
  // The rest waits with the client and in the sockets of both, not in the proxy.
  expect(client.socket.bytesWritten - client.socket.writableLength).toBeLessThan(total)
  const held = process.memoryUsage().arrayBuffers
  await pause(300)
  expect(process.memoryUsage().arrayBuffers - held).toBeLessThan(4_000_000)
  await proxy.set({ bytesPerSecond: Number.POSITIVE_INFINITY })
  await until(() => peer?.bytesRead === total)
})

/** The places and values of the bytes that differ. */
function changes(sent: Buffer, got: Buffer): [number, number][] {
  expect(got.length).toBe(sent.length)
  return [...got].flatMap((byte, at): [number, number][] => {
    const mask = byte ^ (sent[at] as number)
    return mask === 0 ? [] : [[at, mask]]
  })
}

async function corrupted(seed: number, chunk: number): Promise<[number, number][]> {
  await using server = await listen()
  await using proxy = await start(server.port, { seed })
  await proxy.set({ corruptRate: 0.001 })
  const client = connectTo(proxy.port)
  const sent = Buffer.alloc(60_000, 'abc')
  for (let at = 0; at < sent.length; at += chunk) {
    client.socket.write(sent.subarray(at, at + chunk))
    if (chunk < 10_000) await pause(1)
  }
  await until(() => server.peers[0]?.bytes.length === sent.length)
  const found = changes(sent, server.peers[0]?.bytes as Buffer)
  const logged = proxy.log().filter(({ event }) => event === 'corrupt')
  expect(logged.map(({ bytes }) => bytes)).toEqual(found.map(([at]) => at))
  return found
}

test('a rate of corruption flips single bits: the same of the same seed, however the bytes come', async () => {
  const whole = await corrupted(1, 60_000)
  expect(whole.length).toBeGreaterThan(30)
  expect(whole.length).toBeLessThan(100)
  for (const [, mask] of whole) expect(Number.isInteger(Math.log2(mask))).toBe(true)
  expect(await corrupted(1, 997)).toEqual(whole)
  expect(await corrupted(2, 60_000)).not.toEqual(whole)
})

test('corrupt: a bit of each of the next bytes', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port)
  const client = await connected(proxy.port)
  expect(proxy.corrupt(undefined, { bits: 3 })).toBe(1)
  client.socket.write('hello')
  await until(() => client.bytes.length === 10)
  expect(changes(Buffer.from('hellohello'), client.bytes).map(([at]) => at)).toEqual([5, 6, 7])
  expect(server.peers[0]?.bytes.toString()).toBe('hellohello')
})

test('close ends everything, blackholed or not, and nothing is left', async () => {
  await using server = await listen(echo)
  const proxy = await start(server.port)
  await proxy.set({ latencyMs: 60_000, direction: 'down' })
  const clients = [connectTo(proxy.port), connectTo(proxy.port)]
  await until(() => server.peers.length === 2)
  for (const { socket } of clients) socket.write('hello')
  proxy.blackhole(1)
  await proxy.close()
  await until(() => clients.every(({ isClosed }) => isClosed))
  const refused = connectTo(proxy.port)
  await until(() => refused.isClosed)
  expect(refused.error).toBe('ECONNREFUSED')
  await proxy.close()
  await expect(proxy.set({ refuse: false })).rejects.toThrow('the fault proxy is closed')
})

test('a proxy on a port of its own is that port; one that is taken is an error', async () => {
  await using server = await listen(echo)
  const first = await start(server.port)
  await first.close()
  await using again = await start(server.port, { port: first.port })
  expect([again.port, again.url, again.wsURL, again.host]).toEqual([
    first.port,
    `http://127.0.0.1:${first.port}`,
    `ws://127.0.0.1:${first.port}`,
    '127.0.0.1',
  ])
  const failure = await failureOf(start(server.port, { port: first.port }))
  expect(failure.code).toBe('EADDRINUSE')
})

test('the scheme is that of the upstream', async () => {
  await using proxy = await startFaultProxy({ upstream: 'wss://127.0.0.1:1/api' })
  expect([proxy.url, proxy.wsURL]).toEqual([
    `https://127.0.0.1:${proxy.port}`,
    `wss://127.0.0.1:${proxy.port}`,
  ])
})

test('the log keeps the latest events', async () => {
  await using server = await listen(echo)
  await using proxy = await start(server.port, { logLimit: 3 })
  await connected(proxy.port)
  const before = Date.now()
  for (const latencyMs of [1, 2, 3]) await proxy.set({ latencyMs })
  await proxy.set({ refuse: true })
  expect(proxy.log().map(({ event }) => event)).toEqual(['set', 'set', 'refuse'])
  for (const { at } of proxy.log()) expect(Math.abs(at - before)).toBeLessThan(600_000)
})

test.each<[unknown, string]>([
  [undefined, 'upstream is required'],
  ['ftp://127.0.0.1', 'upstream must begin with'],
  ['nowhere', 'upstream must be a URL'],
  ['localhost:80', 'upstream must be a URL with its scheme, as http://localhost:80, or { host,'],
  ['127.0.0.1:80', 'upstream must be a URL with its scheme'],
  ['http://', 'upstream must be a URL'],
  [{ host: '127.0.0.1' }, 'upstream.port must be a number'],
  [{ host: '', port: 80 }, 'upstream.host must not be empty'],
  [{ host: 'a', port: 80, tls: true }, "unknown option 'tls' of upstream"],
])('an upstream of %j is refused: %s', async (upstream, message) => {
  const failure = await failureOf(startFaultProxy({ upstream } as FaultProxyOptions))
  expect([failure.name, failure.message]).toEqual([
    'ValidationError',
    expect.stringContaining(message),
  ])
})

test.each<[object, string]>([
  [{ port: -1 }, 'port must be at least 0'],
  [{ seed: 'one' }, 'seed must be a number'],
  [{ seed: 1.5 }, 'seed must be a whole number'],
  [{ logLimit: 0 }, 'logLimit must be at least 1'],
  [{ latencyMs: 5 }, "unknown option 'latencyMs' of startFaultProxy"],
  [{ script: {} }, 'script must be an array'],
  [{ script: [undefined] }, 'script[0] must be an object'],
  [{ script: [{ do: 'reset' }, null] }, 'script[1] must be an object, not null'],
  [{ script: new Array(1) }, 'script[0] must be an object'],
])('options of %j are refused: %s', async (options, message) => {
  const failure = await failureOf(start(80, options))
  expect([failure.name, failure.message]).toEqual([
    'ValidationError',
    expect.stringContaining(message),
  ])
})

test.each<[object, string]>([
  [{}, "script[0].do must be 'reset'"],
  [{ do: 'explode' }, "script[0].do must be 'reset'"],
  [{ do: 'reset', frames: 2 }, "unknown option 'frames' of script[0]; did you mean 'frame'?"],
  [{ do: 'reset', connection: 0 }, 'script[0].connection must be at least 1'],
  [{ do: 'reset', frame: 1.5 }, 'script[0].frame must be a whole number'],
  [{ do: 'reset', frame: 1, afterMs: 5 }, 'script[0] must have one of frame'],
  [{ do: 'reset', at: 'middle' }, 'script[0].at needs a frame'],
  [{ do: 'reset', frame: 1, at: 'nose' }, "script[0].at must be 'start'"],
  [{ do: 'reset', direction: 'left' }, "script[0].direction must be 'up'"],
  [{ do: 'reset', frame: 2, direction: 'down' }, 'script[0].direction needs afterBytes: a reset'],
  [{ do: 'corrupt', frame: 2, at: 'end' }, 'script[0].at is not for corrupt'],
  [{ do: 'corrupt', frame: 2, direction: 'up' }, 'script[0].direction must be down: frames are'],
  [{ do: 'corrupt', frame: 2, direction: 'both' }, 'script[0].direction must be down: frames are'],
  [{ do: 'corrupt', afterBytes: 2, direction: 'both' }, 'script[0].direction must be up or down'],
  [{ do: 'reset', probability: 2 }, 'script[0].probability must be at most 1'],
  [{ do: 'reset', times: 0 }, 'script[0].times must be at least 1'],
  [{ do: 'reset', forMs: 10 }, 'script[0].forMs is not for reset, but for blackhole'],
  [{ do: 'drip' }, 'script[0].bytesPerSecond is required for drip'],
  [{ do: 'drip', bytesPerSecond: 0 }, 'script[0].bytesPerSecond must be at least'],
  [{ do: 'latency' }, 'script[0].latencyMs is required for latency'],
])('a rule of %j is refused: %s', async (rule, message) => {
  const failure = await failureOf(start(80, { script: [rule as FaultRule] }))
  expect([failure.name, failure.message]).toEqual([
    'ValidationError',
    expect.stringContaining(message),
  ])
})

test.each(['https', 'wss'])(
  'a rule about frames is refused before an upstream of %s',
  async scheme => {
    const script: FaultRule[] = [
      { do: 'reset', afterMs: 5 },
      { do: 'reset', frame: 1 },
    ]
    const failure = await failureOf(
      startFaultProxy({ upstream: `${scheme}://127.0.0.1:1`, script }),
    )
    expect(failure).toMatchObject({
      name: 'ValidationError',
      message: 'script[1].frame needs an upstream without TLS, which hides frames',
    })
  },
)

test('methods refuse what they do not know', async () => {
  await using proxy = await start(80)
  const wrong = (settings: object) => proxy.set(settings as ProxySettings)
  await expect(wrong({ latency: 5 })).rejects.toThrow(
    "unknown option 'latency' of settings; did you mean 'latencyMs'?",
  )
  await expect(wrong({ latencyMs: -5 })).rejects.toThrow('latencyMs must be at least 0')
  await expect(wrong({ direction: 'left' })).rejects.toThrow(
    "direction must be 'up', 'down' or 'both'",
  )
  await expect(wrong({ refuse: 1 })).rejects.toThrow('refuse must be true or false')
  expect(() => proxy.reset('1' as unknown as number)).toThrow('which must be the number')
  expect(() => proxy.drip(0)).toThrow('bytesPerSecond must be at least')
  expect(() => proxy.corrupt(1, { bits: 0 })).toThrow('bits must be at least 1')
  expect(() => proxy.blackhole(1, { direction: 'left' as 'up' })).toThrow('direction must be')
})
