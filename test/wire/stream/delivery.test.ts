import { describe, expect, test } from '@jest/globals'
import { createClient, type StreamOptions } from '../../../index.js'
import { pause, until } from '../../support/waiting.js'
import { btcUsd, closers, engine, ethUsd, fast, open } from '../../support/wire/stream.js'

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
      outOfOrder: 0,
      superseded: 0,
      signedLater: 0,
      verified: 0,
      verificationFailed: 0,
      origins: {
        [engine.wsEndpoint]: {
          status: 'connected',
          received: 40,
          first: 40,
          outOfOrder: 0,
          verified: 0,
          verificationFailed: 0,
          lastSeenAt: expect.any(Number),
          roundTripMs: undefined,
        },
      },
      accepted: 40,
      deduplicated: 0,
      backfilled: 0,
      dropped: 0,
      // They are published at once, a second of time apart.
      ahead: expect.any(Number),
      clockOffsetMs: 0,
      cursors: undefined,
      gaps: 0,
      malformed: 0,
      redelivered: 0,
      deadLetters: 0,
      totalReceived: 40,
      queued: 0,
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

  test('nothing connects before connect, and connecting twice is connecting once', async () => {
    const upgrades = () => engine.requests().filter(request => request.path.includes('/ws?')).length
    const before = upgrades()
    const { stream } = open()
    await pause(50)
    expect(upgrades()).toBe(before)
    const first = stream.connect()
    expect(stream.connect()).toBe(first)
    await first
    await stream.connect()
    expect(upgrades()).toBe(before + 1)
    expect(engine.connections).toBe(1)
  })

  test('a base path and a trailing slash of wsEndpoint give one clean path', async () => {
    const { stream } = open({}, { wsEndpoint: `${engine.wsEndpoint}/` })
    await stream.connect()
    expect(engine.requests().at(-1)?.path).toBe(`/api/v1/ws?feedIDs=${ethUsd},${btcUsd}`)
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
    expect(stream.getMetrics().malformed).toBe(1)
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
    const { defaultPreset } = await import('../../../index.js')
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
