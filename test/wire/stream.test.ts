import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { createClient, isStreamsError, type Status, type StreamOptions } from '../../index.js'
import { type DataEngine, startDataEngine } from '../../local/index.js'
import { failureOf, pause, until } from '../waiting.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const btcUsd = `0x0003${'ab'.repeat(30)}`
const fast: StreamOptions = { reconnectInterval: 200 }

let engine: DataEngine
const closers: (() => Promise<void>)[] = []

beforeAll(async () => {
  engine = await startDataEngine({ feeds: [ethUsd, btcUsd], intervalMs: 0, history: 0 })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  engine.blackhole(false)
  expect(unhandled).toEqual([])
})
afterAll(() => engine.close())

const unhandled: unknown[] = []
process.on('unhandledRejection', reason => unhandled.push(reason))
process.on('uncaughtException', error => unhandled.push(error))

/** A stream and all that came of it. */
function open(
  options: StreamOptions = {},
  config: object = {},
  feeds: string | string[] = [ethUsd, btcUsd],
) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, ...config })
  const stream = client.createStream(feeds, options)
  const seen = {
    reports: [] as string[],
    errors: [] as Error[],
    events: [] as string[],
    statuses: [] as Status[],
  }
  stream.on(
    'report',
    report => void seen.reports.push(`${report.feedID}:${report.observationsTimestamp}`),
  )
  stream.on('error', error => void seen.errors.push(error))
  stream.on('status', status => void seen.statuses.push(status))
  for (const name of ['connected', 'disconnected', 'reconnecting'] as const) {
    stream.on(name, () => void seen.events.push(name))
  }
  closers.push(() => client.close())
  return { client, stream, seen }
}

describe('a stream', () => {
  test('delivers every report once, in order, decoded', async () => {
    const { stream, seen } = open()
    const decoded: string[] = []
    stream.on('report', report => void decoded.push(report.decoded.version))
    await stream.connect()
    const published = Array.from({ length: 40 }, (_, index) =>
      engine.publish(index % 2 ? ethUsd : btcUsd),
    )
    await until(() => seen.reports.length === 40)
    expect(seen.reports).toEqual(
      published.map(report => `${report.feedID}:${report.observationsTimestamp}`),
    )
    expect(new Set(decoded)).toEqual(new Set(['V3']))
    expect(stream.getMetrics()).toEqual({
      late: 0,
      verified: 0,
      unverified: 0,
      origins: {
        [engine.wsEndpoint]: {
          status: 'connected',
          received: 40,
          first: 40,
          late: 0,
          verified: 0,
          unverified: 0,
          lastSeenAt: expect.any(Number),
          roundTripMs: undefined,
        },
      },
      accepted: 40,
      deduplicated: 0,
      backfilled: 0,
      dropped: 0,
      gaps: 0,
      rejected: 0,
      totalReceived: 40,
      partialReconnects: 0,
      fullReconnects: 0,
      activeConnections: 1,
      configuredConnections: 1,
      originStatus: { [engine.wsEndpoint]: 'connected' },
    })
    expect(Object.isFrozen(stream.getMetrics())).toBe(true)
  })

  test('takes one feed id, a list, or several separated by commas; each once, in normal form', () => {
    expect(open({}, {}, ethUsd).stream.feedIDs).toEqual([ethUsd])
    expect(open({}, {}, `${ethUsd}, ${btcUsd}`).stream.feedIDs).toEqual([ethUsd, btcUsd])
    expect(open({}, {}, [ethUsd, ethUsd.toUpperCase().replace('X', 'x')]).stream.feedIDs).toEqual([
      ethUsd,
    ])
    expect(() => open({}, {}, ['0x12'])).toThrow(/feedIDs\[0\]/)
    expect(() => open({}, {}, [])).toThrow(/at least one feed/)
  })

  test.each([
    ['maxReconnectAttempts', -1],
    ['maxReconnectAttempts', 1.5],
    ['maxReconnectAttempts', Number.NaN],
    ['reconnectInterval', 'soon'],
    ['reconnectInterval', -5],
    ['connectTimeout', 0],
    ['pingInterval', Number.POSITIVE_INFINITY],
    ['compression', 'yes'],
  ])('refuses the option %s: %p by name', (option, value) => {
    expect(() => open({ [option]: value } as StreamOptions)).toThrow(new RegExp(option))
  })

  test('works with permessage-deflate', async () => {
    const { stream, seen } = open({ compression: true })
    await stream.connect()
    for (let at = 0; at < 20; at++) engine.publish(ethUsd)
    await until(() => seen.reports.length === 20)
  })

  test('nothing is dialled before connect, and connecting twice is connecting once', async () => {
    const dials = () => engine.requests().filter(request => request.path.includes('/ws?')).length
    const before = dials()
    const { stream } = open()
    await pause(50)
    expect(dials()).toBe(before)
    const first = stream.connect()
    expect(stream.connect()).toBe(first)
    await first
    await stream.connect()
    expect(dials()).toBe(before + 1)
    expect(engine.connections).toBe(1)
  })

  test('a base path and a trailing slash of wsEndpoint give one clean path', async () => {
    const { stream } = open({}, { wsEndpoint: `${engine.wsEndpoint}/` })
    await stream.connect()
    expect(engine.requests().at(-1)?.path).toBe(`/api/v1/ws?feedIDs=${ethUsd},${btcUsd}`)
  })
})

describe('a connection that is lost', () => {
  test.each([[1000], [1001], [1006], [1008], [1011], [1012], [4000], [undefined]])(
    'with close code %p is dialled again, once, and reports go on',
    async code => {
      const { stream, seen } = open(fast)
      await stream.connect()
      const before = engine.requests().length
      engine.disconnect(code)
      await until(() => seen.events.filter(event => event === 'connected').length === 2)
      engine.publish(ethUsd)
      await until(() => seen.reports.length === 1)
      expect(seen.events).toEqual(['connected', 'disconnected', 'reconnecting', 'connected'])
      expect(engine.requests().length - before).toBe(1)
      expect(engine.connections).toBe(1)
      expect(stream.getMetrics()).toMatchObject({
        fullReconnects: 1,
        partialReconnects: 0,
        activeConnections: 1,
      })
      expect(seen.errors).toEqual([])
    },
  )

  test('the reconnecting event says which attempt, of how many, when, where and why', async () => {
    const { stream } = open(fast)
    const infos: unknown[] = []
    stream.on('reconnecting', info => void infos.push(info))
    await stream.connect()
    engine.disconnect(1011)
    await until(() => infos.length === 1)
    const host = new URL(engine.wsEndpoint).host
    expect(infos[0]).toMatchObject({ attempt: 1, maxAttempts: 5, host, origin: engine.wsEndpoint })
    const { delayMs, error } = infos[0] as { delayMs: number; error: Error }
    expect(delayMs).toBeGreaterThanOrEqual(100)
    expect(delayMs).toBeLessThanOrEqual(200)
    expect(error.message).toMatch(/closed with code 1011/)
  })

  test('a server that goes away for good is dialled maxReconnectAttempts times, one at a time, then it is over', async () => {
    const { stream, seen } = open({ ...fast, maxReconnectAttempts: 3 })
    await stream.connect()
    const closed = failureOf(stream.closed)
    await engine.stop()
    await until(() => seen.errors.length > 0)
    await engine.start()
    expect(seen.errors).toHaveLength(1)
    expect(seen.errors[0]).toMatchObject({ name: 'WebSocketError', code: 'WS_GAVE_UP' })
    expect(seen.errors[0]?.message).toMatch(/gave up on 127\.0\.0\.1:\d+ after 3 attempts/)
    expect(String(seen.errors[0]?.cause)).toMatch(/ECONNREFUSED/)
    expect(seen.events).toEqual([
      'connected',
      'disconnected',
      'reconnecting',
      'reconnecting',
      'reconnecting',
    ])
    expect(await closed).toBe(seen.errors[0])
    expect(stream.getMetrics().originStatus).toEqual({ [engine.wsEndpoint]: 'failed' })
    const before = engine.requests().length
    await pause(600)
    expect(engine.requests()).toHaveLength(before)
    expect(isStreamsError(await failureOf(stream.connect()), 'CLOSED')).toBe(true)
  })

  test('Infinity attempts always come back', async () => {
    const { stream, seen } = open({ ...fast, maxReconnectAttempts: Number.POSITIVE_INFINITY })
    await stream.connect()
    await engine.stop()
    await pause(2500)
    await engine.start()
    await until(() => seen.events.at(-1) === 'connected')
    expect(seen.events.filter(event => event === 'disconnected')).toHaveLength(1)
  })

  test('a server that accepts and closes at once does not start the count anew', async () => {
    const { stream, seen } = open({ ...fast, maxReconnectAttempts: 2 })
    stream.on('connected', () => void engine.disconnect(1000))
    await stream.connect()
    await until(() => seen.errors.length > 0)
    expect(seen.errors[0]).toMatchObject({ code: 'WS_GAVE_UP' })
    expect(seen.events.filter(event => event === 'reconnecting')).toHaveLength(2)
  })

  test('a connection that stayed healthy starts the count anew', async () => {
    const { stream, seen } = open({ ...fast, maxReconnectAttempts: 1 })
    await stream.connect()
    for (let round = 0; round < 2; round++) {
      await pause(2100)
      engine.disconnect(1000)
      await until(() => seen.events.filter(event => event === 'connected').length === round + 2)
    }
    expect(seen.errors).toEqual([])
  })

  test('a half-open connection is noticed and replaced', async () => {
    const { stream, seen } = open({
      ...fast,
      pingInterval: 60,
      connectTimeout: 300,
      maxReconnectAttempts: 50,
    })
    await stream.connect()
    engine.blackhole(true)
    const started = performance.now()
    await until(() => seen.events.includes('disconnected'))
    expect(performance.now() - started).toBeLessThan(1000)
    const lost = seen.statuses.find(status => status.type === 'disconnected')
    expect((lost as { error: Error }).error.message).toMatch(/nothing came from .* for 3 pings/)
    engine.blackhole(false)
    await until(() => seen.events.at(-1) === 'connected')
    engine.publish(ethUsd)
    await until(() => seen.reports.length === 1)
  })

  test('a connection that only answers pings is alive', async () => {
    const { stream, seen } = open({ pingInterval: 30 })
    await stream.connect()
    await pause(500)
    expect(seen.events).toEqual(['connected'])
  })

  test('feeds that have gone silent are announced once, and again when they are back', async () => {
    const { stream, seen } = open({ staleAfter: 80 })
    await stream.connect()
    await until(() => seen.statuses.some(status => status.type === 'stale'))
    engine.publish(ethUsd)
    await until(() => seen.statuses.some(status => status.type === 'fresh'))
    await pause(60)
    expect(
      seen.statuses.filter(({ type }) => type === 'stale' || type === 'fresh').slice(0, 2),
    ).toEqual([
      { type: 'stale', feedIDs: [ethUsd, btcUsd], silentMs: 80 },
      { type: 'fresh', feedIDs: [ethUsd] },
    ])
  })
})

describe('an upgrade that is refused', () => {
  test.each([401, 403])(
    'with %d ends the stream at once with AuthenticationError',
    async status => {
      engine.fail({ status, path: '/api/v1/ws' })
      const { stream, seen } = open(fast)
      const error = await failureOf(stream.connect())
      expect(error).toMatchObject({ name: 'AuthenticationError', statusCode: status })
      expect(seen.errors).toEqual([error])
      expect(seen.events).toEqual(['disconnected'])
      expect(engine.connections).toBe(0)
    },
  )

  test('again and again, after the stream was open, is announced as degraded, and dialled slowly', async () => {
    const { hmacAuth, LogLevel, logging, retry } = await import('../../index.js')
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const lines: string[] = []
    const client = createClient({
      endpoint,
      wsEndpoint,
      plugins: [
        logging({ logger: { warn: line => void lines.push(line) }, logLevel: LogLevel.WARN }),
        retry({ refusedInterval: 500 }),
        hmacAuth({ apiKey, userSecret }),
      ],
    })
    closers.push(() => client.close())
    const stream = client.createStream(ethUsd, fast)
    const statuses: Status[] = []
    const places: unknown[] = []
    stream.on('status', status => {
      statuses.push(status)
      if (status.type === 'degraded') places.push(stream.getMetrics().originStatus)
    })
    await stream.connect()
    const recover = engine.fail({ status: 401, path: '/api/v1/ws', times: 99 })
    engine.disconnect(1000)
    await until(() => statuses.at(-1)?.type === 'reconnecting' && statuses.length >= 12)
    expect(places).toEqual([{ [engine.wsEndpoint]: 'reconnecting' }])
    recover()
    await until(() => statuses.at(-1)?.type === 'connected')
    const degraded = statuses.filter(({ type }) => type === 'degraded')
    expect(degraded).toEqual([
      {
        type: 'degraded',
        origin: engine.wsEndpoint,
        host: new URL(engine.wsEndpoint).host,
        delayMs: expect.any(Number),
        error: expect.objectContaining({ code: 'AUTHENTICATION' }),
      },
    ])
    expect(lines.filter(line => /goes on refusing: it is dialled slowly/.test(line))).toHaveLength(
      1,
    )
  })

  test('with 400 ends the stream at once', async () => {
    engine.fail({ status: 400, path: '/api/v1/ws' })
    const { stream } = open(fast)
    expect(await failureOf(stream.connect())).toMatchObject({
      name: 'WebSocketError',
      code: 'WS_REFUSED',
      statusCode: 400,
    })
  })

  test.each([503, 429, 500])('with %d is dialled again', async status => {
    engine.fail({ status, path: '/api/v1/ws', times: 2 })
    const { stream, seen } = open(fast)
    await stream.connect()
    expect(seen.events).toEqual(['reconnecting', 'reconnecting', 'connected'])
  })

  test('with Retry-After is dialled again no sooner', async () => {
    engine.fail({ status: 429, path: '/api/v1/ws', retryAfter: 1 })
    const { stream } = open(fast)
    const started = performance.now()
    await stream.connect()
    expect(performance.now() - started).toBeGreaterThanOrEqual(990)
  })

  test('connect that rejects leaves nothing running', async () => {
    await engine.stop()
    const { stream, seen } = open({ ...fast, maxReconnectAttempts: 1 })
    const error = await failureOf(stream.connect())
    expect(error).toMatchObject({ name: 'WebSocketError', code: 'WS_GAVE_UP' })
    await engine.start()
    await pause(700)
    expect(engine.connections).toBe(0)
    expect(seen.events).toEqual(['reconnecting', 'disconnected'])
  })

  test('a handshake that is never answered is given up after connectTimeout', async () => {
    engine.blackhole(true)
    const { stream, seen } = open({ ...fast, connectTimeout: 100, maxReconnectAttempts: 0 })
    const started = performance.now()
    const error = await failureOf(stream.connect())
    expect(performance.now() - started).toBeLessThan(2000)
    expect(String(error?.cause)).toMatch(/within 100 ms/)
    expect(seen.errors).toHaveLength(1)
  })
})

describe('bad data', () => {
  test('a malformed message is one error event and a count, and the stream goes on', async () => {
    const { stream, seen } = open()
    await stream.connect()
    const good = engine.publish(ethUsd)
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = good
    const record = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
    const bad: [string | Uint8Array, RegExp, string][] = [
      ['not json', /it is not JSON/, 'WS_FRAME'],
      [Uint8Array.of(0xff, 0xfe, 0), /it is not JSON/, 'WS_FRAME'],
      ['', /it is not JSON/, 'WS_FRAME'],
      ['null', /an object with a report/, 'WS_FRAME'],
      ['[]', /an object with a report/, 'WS_FRAME'],
      ['{"report":null}', /report must be an object, not null/, 'WS_FRAME'],
      ['{"report":{}}', /report\.feedID must be/, 'WS_FRAME'],
      [
        JSON.stringify({ report: { ...record, fullReport: 7 } }),
        /report\.fullReport must be a string/,
        'WS_FRAME',
      ],
      [
        JSON.stringify({ report: { ...record, fullReport: '0x00' } }),
        /whole words|cut short/,
        'DECODING',
      ],
      [
        JSON.stringify({ report: { ...record, observationsTimestamp: '5' } }),
        /observationsTimestamp must be a whole number/,
        'WS_FRAME',
      ],
      [
        JSON.stringify({ report: { ...record, observationsTimestamp: 4_102_444_800 } }),
        /envelope.s observationsTimestamp is 4102444800/,
        'DECODING',
      ],
      [JSON.stringify({ report: { ...record, feedID: btcUsd } }), /signed for feed/, 'DECODING'],
      [
        JSON.stringify({ report: { ...record, feedID: `0x0003${'00'.repeat(30)}` } }),
        /signed for feed/,
        'DECODING',
      ],
      [
        JSON.stringify({ report: { ...record, fullReport: `${fullReport}00` } }),
        /whole words/,
        'DECODING',
      ],
      [
        JSON.stringify({ report: { ...record, fullReport: fullReport + '0'.repeat(64) } }),
        /its parts take/,
        'DECODING',
      ],
    ]
    for (const [raw] of bad) engine.send(raw)
    const last = engine.publish(ethUsd)
    await until(() => seen.reports.length === 2)
    expect(seen.reports[1]).toBe(`${ethUsd}:${last.observationsTimestamp}`)
    expect(seen.errors.map(error => (error as Error & { code: string }).code)).toEqual(
      bad.map(([, , code]) => code),
    )
    for (const [index, [, message]] of bad.entries())
      expect(seen.errors[index]?.message).toMatch(message)
    expect(stream.getMetrics()).toMatchObject({
      accepted: 2,
      rejected: bad.length,
      fullReconnects: 0,
    })
    expect(seen.events).toEqual(['connected'])
  })

  test('a report of a feed that is not subscribed is refused', async () => {
    const { stream, seen } = open({}, {}, ethUsd)
    await stream.connect()
    const other = engine.publish(btcUsd)
    engine.send(JSON.stringify({ report: { feedID: other.feedID, fullReport: other.fullReport } }))
    await until(() => seen.errors.length === 1)
    expect(seen.errors[0]?.message).toMatch(/which is not subscribed/)
    expect(seen.reports).toEqual([])
  })

  test('an envelope without times takes them from the blob', async () => {
    const { stream, seen } = open({}, {}, ethUsd)
    const other = engine.publish(ethUsd)
    await stream.connect()
    engine.send(JSON.stringify({ report: { feedID: other.feedID, fullReport: other.fullReport } }))
    await until(() => seen.reports.length === 1)
    expect(seen.reports).toEqual([`${ethUsd}:${other.observationsTimestamp}`])
  })

  test('a message over the limit costs the connection, not the stream', async () => {
    const { stream, seen } = open(fast)
    await stream.connect()
    engine.send('x'.repeat(1_100_000))
    await until(() => seen.events.filter(event => event === 'connected').length === 2)
  })

  test('broken WebSocket framing is one reconnection', async () => {
    const { createHash } = await import('node:crypto')
    let dials = 0
    const sockets = new Set<Socket>()
    const server = createServer(socket => {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.once('data', request => {
        dials++
        const key = /sec-websocket-key: (.*)\r/i.exec(request.toString())?.[1]
        const accept = createHash('sha1')
          .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
          .digest('base64')
        socket.write(
          `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
        )
        if (dials === 1) setTimeout(() => socket.write(Buffer.from([0xff, 0xff, 0xff, 0xff])), 20)
      })
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const { stream, seen } = open(fast, {
      wsEndpoint: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    })
    await stream.connect()
    await until(() => dials === 2)
    await pause(300)
    expect(dials).toBe(2)
    expect(seen.events).toEqual(['connected', 'disconnected', 'reconnecting', 'connected'])
    await stream.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
})

describe('handlers of your own', () => {
  test('one that throws stops nothing, and its exception reaches `error` as it is', async () => {
    const { stream, seen } = open()
    const mine = new Error('mine')
    let calls = 0
    stream.on('report', () => {
      calls++
      throw mine
    })
    stream.on('status', () => {
      throw mine
    })
    stream.on('error', () => {
      throw new Error('even here')
    })
    const after: unknown[] = []
    stream.on('report', report => void after.push(report))
    await stream.connect()
    engine.publish(ethUsd)
    engine.publish(btcUsd)
    await until(() => after.length === 2)
    expect(calls).toBe(2)
    expect(seen.reports).toHaveLength(2)
    expect(seen.errors.length).toBeGreaterThan(3)
    expect(seen.errors.every(error => error === mine)).toBe(true)
    expect(stream.getMetrics().accepted).toBe(2)
  })

  test('an async one that rejects is no unhandled rejection', async () => {
    const { stream, seen } = open()
    const mine = new Error('mine')
    stream.on('report', async () => {
      throw mine
    })
    await stream.connect()
    engine.publish(ethUsd)
    await until(() => seen.errors.length === 1)
    expect(seen.errors).toEqual([mine])
  })

  test('a stream without an error handler does not crash', async () => {
    const { stream } = open()
    stream.off('error')
    await stream.connect()
    engine.send('garbage')
    await pause(50)
    expect(stream.getMetrics().rejected).toBe(1)
  })

  test('once is called once, off is called no more', async () => {
    const { stream, seen } = open()
    let once = 0
    let never = 0
    const handler = () => void never++
    stream.once('report', () => void once++)
    stream.on('report', handler).off('report', handler)
    await stream.connect()
    engine.publish(ethUsd)
    engine.publish(ethUsd)
    await until(() => seen.reports.length === 2)
    expect([once, never]).toEqual([1, 0])
  })

  test('connectionStatusCallback is called once per change, and one that throws changes nothing', async () => {
    const calls: unknown[][] = []
    const { stream, seen } = open(fast, {
      connectionStatusCallback: (...call: unknown[]) => {
        calls.push(call)
        throw new Error('callback')
      },
    })
    await stream.connect()
    engine.disconnect(1000)
    await until(() => calls.length === 3)
    await stream.close()
    const { host } = new URL(engine.wsEndpoint)
    expect(calls).toEqual(
      [true, false, true, false].map(isConnected => [isConnected, host, engine.wsEndpoint]),
    )
    expect(seen.errors.map(error => error.message)).toContain('callback')
  })

  test('a plugin that throws on a report costs that report, and is named as the culprit', async () => {
    const { defaultPreset } = await import('../../index.js')
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const cause = new Error('broken stage')
    const client = createClient({
      endpoint,
      wsEndpoint,
      plugins: [
        {
          name: 'broken',
          report: next => report => {
            if (report.feedID === btcUsd) throw cause
            next(report)
          },
        },
        ...defaultPreset({ apiKey, userSecret }),
      ],
    })
    closers.push(() => client.close())
    const stream = client.createStream([ethUsd, btcUsd])
    const errors: Error[] = []
    let reports = 0
    stream.on('error', error => void errors.push(error))
    stream.on('report', () => void reports++)
    await stream.connect()
    engine.publish(btcUsd)
    engine.publish(ethUsd)
    await until(() => reports === 1)
    expect(errors).toHaveLength(1)
    expect(errors[0]).toMatchObject({ code: 'PLUGIN', cause })
  })
})

describe('close', () => {
  const watched = (stream: ReturnType<typeof open>) =>
    JSON.stringify(stream.seen.events.concat(stream.seen.statuses.map(status => status.type)))

  test.each([
    ['before connect', async () => open()],
    [
      'while dialling',
      async () => {
        const opened = open()
        void failureOf(opened.stream.connect())
        return opened
      },
    ],
    [
      'while shaking hands',
      async () => {
        engine.blackhole(true)
        const opened = open()
        void failureOf(opened.stream.connect())
        await pause(80)
        return opened
      },
    ],
    [
      'while waiting to reconnect',
      async () => {
        const opened = open({ reconnectInterval: 5000 })
        await opened.stream.connect()
        engine.disconnect(1000)
        await until(() => opened.seen.events.includes('reconnecting'))
        return opened
      },
    ],
    [
      'while open',
      async () => {
        const opened = open()
        await opened.stream.connect()
        return opened
      },
    ],
    [
      'while open to a peer that no longer answers',
      async () => {
        const opened = open()
        await opened.stream.connect()
        engine.blackhole(true)
        return opened
      },
    ],
  ])('%s ends within a second, leaves nothing, and no event comes after', async (_name, make) => {
    const opened = await make()
    const before = watched(opened)
    const started = performance.now()
    const both = Promise.all([opened.stream.close(), opened.stream.close()])
    await both
    expect(performance.now() - started).toBeLessThan(1000)
    await opened.stream.closed
    engine.blackhole(false)
    engine.publish(ethUsd)
    await pause(100)
    expect(engine.connections).toBe(0)
    expect(watched(opened)).toBe(before)
    expect(opened.seen.errors).toEqual([])
    expect(isStreamsError(await failureOf(opened.stream.connect()), 'CLOSED')).toBe(true)
  })

  test('rejects a connect that is under way', async () => {
    engine.blackhole(true)
    const { stream } = open()
    const connecting = failureOf(stream.connect())
    await stream.close()
    expect(isStreamsError(await connecting, 'CLOSED')).toBe(true)
  })

  test('the signal of the options closes the stream', async () => {
    const controller = new AbortController()
    const { stream } = open({ signal: controller.signal })
    await stream.connect()
    controller.abort()
    await stream.closed
    await until(() => engine.connections === 0)
    const late = open({ signal: controller.signal })
    expect(isStreamsError(await failureOf(late.stream.connect()), 'CLOSED')).toBe(true)
  })

  test('a connect that its signal ends, or had ended before, says that it was aborted, and why', async () => {
    engine.blackhole(true)
    const reason = new Error('mine')
    const controller = new AbortController()
    const under = open({ signal: controller.signal })
    const connecting = failureOf(under.stream.connect())
    controller.abort(reason)
    const late = open({ signal: controller.signal })
    const errors = [await connecting]
    for (const { stream } of [under, late]) errors.push(await failureOf(stream.connect()))
    const message = 'the stream was aborted by the signal of its options'
    for (const error of errors)
      expect(error).toMatchObject({ code: 'CLOSED', message, cause: reason })
    expect(engine.connections).toBe(0)

    const closed = open({ signal: new AbortController().signal })
    await closed.stream.close()
    expect((await failureOf(closed.stream.connect())).message).toMatch(/^the stream has ended/)
  })

  test('closing the client closes its streams', async () => {
    const { client, stream } = open()
    await stream.connect()
    await client.close()
    await stream.closed
    expect(() => client.createStream(ethUsd)).toThrow(/the client was closed/)
  })
})
