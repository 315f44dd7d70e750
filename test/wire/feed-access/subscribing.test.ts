import { describe, expect, test } from '@jest/globals'
import { AuthenticationError, createClient, defaultPreset, type Plugin } from '../../../index.js'
import { failureOf, until } from '../../support/waiting.js'
import {
  a,
  b,
  c,
  closers,
  d,
  expectFlow,
  expectUnauthorised,
  keyOf,
  open,
  start,
  upgrades,
} from '../../support/wire/feed-access.js'

describe('subscribing', () => {
  test.each([1, 2])(
    'to an unreadable feed rejects and changes nothing, with %d origins',
    async origins => {
      const engine = await start({ origins, intervalMs: 0 })
      const { stream, seen } = open(engine)
      await stream.connect()
      await until(() => stream.getMetrics().activeConnections === origins)
      const before = seen.statuses.length
      const error = await failureOf(stream.subscribe(b.toUpperCase().replace('X', 'x')))
      expectUnauthorised([error], [b])
      expect(seen.errors).toHaveLength(1)
      expect(stream.feedIDs).toEqual([a, c])
      expect(seen.statuses.slice(before)).toEqual([])
      await until(() => engine.connections === origins)
      await expectFlow(engine, [a, c], seen.reports)
      expect(stream.getMetrics()).toMatchObject({ activeConnections: origins, fullReconnects: 0 })
      expect(seen.events).toEqual(['connected'])
    },
  )

  test('to another feed, and to none of the rejected, continues as before', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine)
    await stream.connect()
    const before = upgrades(engine).length
    await stream.subscribe(a)
    await stream.unsubscribe(b)
    expect(upgrades(engine)).toHaveLength(before)
    await stream.subscribe(d)
    expect(stream.feedIDs).toEqual([a, c, d])
    await stream.unsubscribe(a)
    await until(() => engine.connections === 1)
    await expectFlow(engine, [c, d], seen.reports)
    expect(upgrades(engine).at(-1)?.path).toBe(`/api/v1/ws?feedIDs=${c},${d}`)
    expect(upgrades(engine)).toHaveLength(before + 2)
    expect(seen.errors).toHaveLength(1)
  })

  test('to feeds of which one is rejected adds the others and names it', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine, [a])
    await stream.connect()
    await stream.subscribe([b, c])
    expect(stream.feedIDs).toEqual([a, c])
    expectUnauthorised(seen.errors, [b])
    await expectFlow(engine, [a, c], seen.reports)
    expect(seen.statuses.filter(({ type }) => type.endsWith('subscribed'))).toEqual([
      { type: 'subscribed', feedIDs: [c] },
    ])
  })

  test('to a feed that was rejected, and may be read by now, receives it', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine)
    await stream.connect()
    engine.entitle(b, true)
    await stream.subscribe(b)
    expect(stream.feedIDs).toEqual([a, c, b])
    await expectFlow(engine, [a, b, c], seen.reports)
    expect(seen.errors).toHaveLength(1)
  })

  test('finds other feeds that may no longer be read', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine, [a, c])
    await stream.connect()
    engine.entitle(a, false)
    await stream.subscribe(d)
    expect(stream.feedIDs).toEqual([c, d])
    expectUnauthorised(seen.errors, [a])
    await expectFlow(engine, [c, d], seen.reports)
  })

  test('to a single feed that may no longer be read ends the stream', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine, [a, c])
    await stream.connect()
    engine.entitle(a, false)
    expectUnauthorised([await failureOf(stream.unsubscribe(c))], [a])
    expect(stream.feedIDs).toEqual([a])
    expect(seen.errors).toEqual([])
    await expectFlow(engine, [a], seen.reports)
    // The new connection may carry only the other feed, which was unsubscribed.
    engine.disconnect()
    await until(() => seen.statuses.some(({ type }) => type === 'degraded'))
    expect(seen.statuses.find(({ type }) => type === 'degraded')).toMatchObject({
      error: { code: 'ENTITLEMENT', feedIDs: [a] },
    })
    expect(stream.feedIDs).toEqual([a])
    expect(seen.errors).toEqual([])
  })
})

test('a plugin that rejects feeds by an error that names them ends their subscription', async () => {
  const engine = await start({ intervalMs: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const policy: Plugin<never> = {
    name: 'policy',
    attempt: next =>
      async function reject(call) {
        if (call.kind === 'stream' && call.scope.feedIDs.includes(c))
          throw new AuthenticationError('not today', { feedIDs: [c] })
        return next(call)
      },
  }
  const plugins = [...defaultPreset({ apiKey, userSecret }), policy]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const stream = client.createStream([a, c])
  const reports: string[] = []
  const errors: Error[] = []
  stream.on('report', report => void reports.push(keyOf(report)))
  stream.on('error', error => void errors.push(error))
  await stream.connect()
  expect(stream.feedIDs).toEqual([a])
  engine.publish(c)
  await expectFlow(engine, [a], reports)
  expect(reports).toHaveLength(1)
  expect(errors.map(({ message }) => message)).toEqual(['not today'])
  expect((await failureOf(stream.subscribe(c))).message).toBe('not today')
  expect(stream.getMetrics().malformed).toBe(0)
})
