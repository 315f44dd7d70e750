import { describe, expect, test } from '@jest/globals'
import type { ConnectionChange } from '../../../client/index.js'
import { createClient, defaultPreset, type Plugin } from '../../../index.js'
import { hurry } from '../../support/hurry.js'
import { pause, until } from '../../support/waiting.js'
import {
  a,
  b,
  c,
  closers,
  expectFlow,
  expectUnauthorised,
  open,
  start,
  upgrades,
} from '../../support/wire/feed-access.js'

describe('where there is no room for both the old and the new connections', () => {
  test.each([
    [1, 1],
    [4, 4],
    [4, 6],
  ])(
    'with %d origins and maxConnections %d, a withdrawn right costs its feed alone',
    async (origins, maxConnections) => {
      const engine = await start({ origins, intervalMs: 0 })
      const { stream, seen } = open(engine, [a, c], { maxConnections })
      hurry()
      await stream.connect()
      await until(() => stream.getMetrics().activeConnections === origins)
      engine.entitle(c, false)
      engine.origins[0]?.disconnect()
      await until(() => stream.feedIDs.length === 1)
      await until(() => stream.getMetrics().activeConnections === origins)
      await expectFlow(engine, [a], seen.reports)
      expect(seen.errors).toContainEqual(
        expect.objectContaining({ code: 'ENTITLEMENT', feedIDs: [c] }),
      )
      expect(engine.connections).toBeLessThanOrEqual(maxConnections)
    },
  )

  test.each([1, 4])(
    'a stream of %d origins starts without a feed it may not read',
    async origins => {
      const engine = await start({ origins, intervalMs: 0 })
      const { stream, seen } = open(engine, [a, b], { maxConnections: origins })
      await stream.connect()
      expectUnauthorised(seen.errors, [b])
      await until(() => stream.getMetrics().activeConnections === origins)
      await expectFlow(engine, [a], seen.reports)
    },
  )
})

describe('a stream that was accepted goes on', () => {
  test('with its last attempt', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine, [a, c], { maxReconnectAttempts: 1 })
    await stream.connect()
    engine.entitle(c, false)
    engine.disconnect()
    await until(() => stream.feedIDs.length === 1)
    await expectFlow(engine, [a], seen.reports)
    expectUnauthorised(seen.errors, [c])
  })

  test('without an error of redundancy, where one of two origins is connected to again', async () => {
    const engine = await start({ origins: 2, intervalMs: 0 })
    const { stream, seen } = open(engine, [a, c])
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    engine.entitle(c, false)
    engine.origins[0]?.disconnect()
    await until(() => stream.feedIDs.length === 1)
    await until(() => engine.connections === 2 && stream.getMetrics().activeConnections === 2)
    expectUnauthorised(seen.errors, [c])
    expect(seen.events).toEqual(['connected'])
  })

  test('where the right to its only feed is withdrawn, and is degraded', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine, [a])
    await stream.connect()
    engine.entitle(a, false)
    engine.disconnect()
    await until(() => seen.statuses.some(({ type }) => type === 'degraded'))
    expect(seen.errors).toEqual([])
    expect(seen.events).toEqual(['connected', 'disconnected'])
  })

  test('where the other feeds are rejected, too', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine, [c, a])
    await stream.connect()
    engine.entitle(c, false)
    engine.fail({ status: 401, path: `/api/v1/ws?feedIDs=${a}`, times: 100 })
    engine.disconnect()
    await until(() => seen.statuses.some(({ type }) => type === 'degraded'))
    expect(seen.errors).toEqual([])
    expect(stream.feedIDs).toEqual([c, a])
  })

  test('over the connections that are open, where there are no others to be had', async () => {
    const engine = await start({ origins: 2, intervalMs: 0 })
    const { stream, seen } = open(engine, [c, a], { maxReconnectAttempts: 1 })
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    engine.entitle(c, false)
    engine.fail({ status: 503, path: `/api/v1/ws?feedIDs=${a}`, times: 100 })
    engine.origins[0]?.disconnect()
    await until(() => upgrades(engine).filter(({ status }) => status === 503).length === 4)
    await pause(300)
    await expectFlow(engine, [a], seen.reports)
    expect(stream.feedIDs).toEqual([c, a])
    expect(seen.events).toEqual(['connected'])
  })
})

test('a connection without the feed is restored only where one was lost', async () => {
  const engine = await start({ intervalMs: 0 })
  const { stream } = open(engine, [a, b, c])
  let restored = 0
  stream.on('connection-restored', () => restored++)
  await stream.connect()
  expect(restored).toBe(0)
  engine.entitle(c, false)
  engine.disconnect()
  await until(() => stream.feedIDs.length === 1)
  expect(restored).toBe(1)
  expect(stream.getMetrics()).toMatchObject({ fullReconnects: 1, partialReconnects: 0 })
})

test('plugins hear of the connections that take over', async () => {
  const engine = await start({ intervalMs: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const types: ConnectionChange['type'][] = []
  const watcher: Plugin<never> = {
    name: 'watcher',
    report(next, scope) {
      if (scope.kind === 'stream') scope.connections.watch(({ type }) => void types.push(type))
      return next
    },
  }
  const plugins = [...defaultPreset({ apiKey, userSecret }), watcher]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const stream = client.createStream([a, c], { reconnectInterval: 200 })
  await stream.connect()
  engine.entitle(c, false)
  engine.disconnect()
  await until(() => stream.feedIDs.length === 1)
  await pause(0)
  expect(types.filter(type => type === 'connected' || type === 'disconnected')).toEqual([
    'connected',
    'disconnected',
    'disconnected',
    'connected',
  ])
})
