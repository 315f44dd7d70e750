import { describe, expect, test } from '@jest/globals'
import type { DataEngine } from '@sluice/engine'
import { hurry } from '../../support/hurry.js'
import { failureOf, pause, until } from '../../support/waiting.js'
import { ethUsd, names, of, open, own, start, status } from '../../support/wire/ha.js'

describe('an origin that fails', () => {
  test('is carried by the other, and is back by itself', async () => {
    const engine = await start()
    const [first] = engine.origins
    const callbacks: unknown[][] = []
    const { stream, seen } = open(
      engine,
      {},
      { connectionStatusCallback: (...call: unknown[]) => void callbacks.push(call) },
    )
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    await first?.kill()
    const published: number[] = []
    for (let at = 0; at < 10; at++) published.push(engine.publish(ethUsd).observationsTimestamp)
    await until(() => seen.times.length === 10)
    expect(seen.times).toEqual(published)
    await until(() => names(seen.errors).includes('InsufficientConnectionsError'))
    expect(names(seen.errors)).toEqual([
      'PartialConnectionFailureError',
      'InsufficientConnectionsError',
    ])
    expect(seen.errors[0]).toMatchObject({ failedConnections: 1, totalConnections: 2 })
    await first?.restart()
    await until(() => stream.getMetrics().activeConnections === 2)
    expect(seen.events.filter(event => event !== 'reconnecting')).toEqual(['connected'])
    expect(stream.getMetrics()).toMatchObject({ partialReconnects: 1, fullReconnects: 0 })
    const { host } = new URL(engine.wsEndpoint)
    const origin = of(engine, '001')
    expect(new URL(origin).host).toBe(host)
    expect(callbacks.filter(([, , each]) => each === origin)).toEqual(
      [true, false, true].map(up => [up, host, origin]),
    )
  })

  test('by refusing its first upgrade with 503 is up after its next attempt', async () => {
    const engine = await start()
    engine.origins[1]?.refuse(503)
    const { stream, seen } = open(engine, { reconnectInterval: 1000 })
    await stream.connect()
    await until(() => seen.statuses.filter(status('reconnecting')).length >= 1)
    expect(stream.getMetrics().originStatus).toEqual({
      [of(engine, '001')]: 'connected',
      [of(engine, '002')]: 'reconnecting',
    })
    engine.origins[1]?.refuse(undefined)
    hurry()
    const attempts = engine.origins[1]?.upgrades ?? 0
    await until(() => stream.getMetrics().activeConnections === 2)
    expect(engine.origins[1]?.upgrades).toBeLessThanOrEqual(attempts + 2)
  })

  test.each([
    ['by refusing with 401', (engine: DataEngine) => engine.origins[1]?.refuse(401)],
    ['by being down', (engine: DataEngine) => void engine.origins[0]?.kill()],
    ['by not answering its handshake', (engine: DataEngine) => engine.origins[1]?.blackhole(true)],
  ])('%s does not keep connect waiting', async (_name, fail) => {
    const engine = await start()
    fail(engine)
    const { stream, seen } = open(
      engine,
      // Longer than the test: connect would never be over.
      { connectTimeout: 600_000, reconnectInterval: 600_000 },
      { haConnectionTimeout: 150 },
    )
    await stream.connect()
    await until(() => names(seen.errors).includes('InsufficientConnectionsError'))
    // The origin may go down while it is asked which origins there are.
    const told = names(seen.errors).filter(name => name !== 'OriginDiscoveryError')
    expect(told).toEqual(['PartialConnectionFailureError', 'InsufficientConnectionsError'])
    engine.publish(ethUsd)
    await until(() => seen.times.length === 1)
  })

  test('with all others too is a MultiConnectionError with a cause each, from connect and on error', async () => {
    const engine = await start()
    for (const origin of engine.origins) origin.refuse(503)
    const { stream, seen } = open(engine, { maxReconnectAttempts: 1 })
    const error = await failureOf(stream.connect())
    expect(error).toMatchObject({ name: 'MultiConnectionError', code: 'ALL_CONNECTIONS_FAILED' })
    expect(error?.errors).toHaveLength(2)
    expect(seen.errors.filter(each => each === error)).toHaveLength(1)
    expect(seen.events.at(-1)).toBe('reconnecting')
    expect(await failureOf(stream.closed)).toBe(error)
    for (const origin of engine.origins) origin.refuse(undefined)
    await pause(600)
    expect(engine.connections).toBe(0)
  })
})

describe('an origin that is refused', () => {
  test('connects at once when the others are lost, also if they came after it began to wait', async () => {
    const engine = await start()
    const [first, second] = engine.origins
    const slow = { refusedInterval: 60_000, healthyAfter: 100 }
    const { stream, types } = await own(engine, {}, { maxReconnectAttempts: 50 }, slow)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    first?.refuse(503)
    second?.refuse(401)
    engine.disconnect()
    await until(() => types.includes('002 degraded'))
    first?.refuse(undefined)
    await until(() => stream.getMetrics().activeConnections === 1)
    await pause(150)
    second?.refuse(undefined)
    first?.refuse(503)
    first?.disconnect()
    await until(() => stream.getMetrics().originStatus[of(engine, '002')] === 'connected')
  })

  test('from the start is not given up when none is open for a moment, once the stream was accepted', async () => {
    const engine = await start()
    const [first, second] = engine.origins
    second?.refuse(401)
    const slow = { refusedInterval: 100 }
    const { stream, types } = await own(engine, {}, { maxReconnectAttempts: 50 }, slow)
    await stream.connect()
    await until(() => types.includes('002 degraded'))
    first?.refuse(503, 2)
    first?.disconnect()
    await until(() => types.filter(type => type === '001 connected').length === 2)
    expect(types).not.toContain('002 failed')
    second?.refuse(undefined)
    await until(() => stream.getMetrics().activeConnections === 2)
  })
})

describe('the last connection', () => {
  test('when it is lost, the others connect at once, however long they were to wait', async () => {
    const engine = await start()
    const [first, second] = engine.origins
    const wait = 600_000
    const { stream, types } = await own(engine, {}, { reconnectInterval: wait }, { maxDelay: wait })
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    await first?.kill()
    await until(() => types.includes('001 reconnecting'))
    await first?.restart()
    await second?.kill()
    await until(() => types.filter(type => type === '001 connected').length === 2)
  })

  test('and the others, when none of them lasts, end the stream after their attempts', async () => {
    const engine = await start()
    const { stream } = open(engine, { maxReconnectAttempts: 2 })
    const timer = setInterval(() => engine.disconnect(1000), 250)
    const error = await failureOf(stream.connect().then(() => stream.closed))
    clearInterval(timer)
    expect(error).toMatchObject({ code: 'ALL_CONNECTIONS_FAILED' })
    for (const { upgrades } of engine.origins) expect(upgrades).toBeLessThan(12)
  })
})
