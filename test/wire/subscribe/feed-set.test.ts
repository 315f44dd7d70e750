import { describe, expect, test } from '@jest/globals'
import { failureOf, pause, until } from '../../support/waiting.js'
import {
  a,
  b,
  c,
  d,
  expectExact,
  of,
  open,
  published,
  settle,
  start,
} from '../../support/wire/subscribe.js'

describe('the set of feeds', () => {
  test('is just another one before connect', async () => {
    const engine = await start()
    const { stream, seen } = open(engine, [a])
    await stream.subscribe([b, c])
    await stream.unsubscribe(a)
    expect(stream.feedIDs).toEqual([b, c])
    expect(engine.requests()).toEqual([])
    await stream.connect()
    const connected = engine.ledger().length
    await pause(50)
    await settle(engine)
    expect(engine.requests()).toHaveLength(1)
    expectExact(
      seen.reports,
      [b, c].flatMap(each => published(engine, each, connected)),
    )
    expect(of(a, seen.reports)).toEqual([])
  })

  test('changes in the order asked for while the stream is connecting', async () => {
    const engine = await start()
    const { stream } = open(engine, [a])
    const connecting = stream.connect()
    const changes = [stream.subscribe([b, c]), stream.unsubscribe([a, b])]
    await connecting
    await Promise.all(changes)
    expect(stream.feedIDs).toEqual([c])
  })

  test('that is as asked for already costs no connection', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    await stream.subscribe([b, a])
    await stream.unsubscribe([c, d])
    expect(engine.requests()).toHaveLength(1)
    expect(seen.statuses.some(({ type }) => type.endsWith('subscribed'))).toBe(false)
  })

  test('is checked: what is no feed id is refused by name, and one must remain', async () => {
    const engine = await start()
    const { stream } = open(engine)
    for (const _state of ['before', 'after']) {
      const wrong = await failureOf(stream.subscribe(['0x12']))
      expect(wrong).toMatchObject({ name: 'ValidationError' })
      expect(wrong.message).toMatch(/feedIDs\[0\]/)
      expect((await failureOf(stream.unsubscribe([]))).message).toMatch(/at least one feed/)
      expect((await failureOf(stream.unsubscribe([b, a]))).message).toMatch(/one feed must remain/)
      expect(stream.feedIDs).toEqual([a, b])
      await stream.connect()
    }
  })

  test.each(['idle', 'open'])(
    'of a stream that was closed while %s can not be changed',
    async state => {
      const engine = await start()
      const { stream } = open(engine)
      if (state === 'open') await stream.connect()
      await stream.close()
      expect(await failureOf(stream.subscribe(c))).toMatchObject({ code: 'CLOSED' })
      expect(await failureOf(stream.unsubscribe(a))).toMatchObject({ code: 'CLOSED' })
      expect(stream.feedIDs).toEqual([a, b])
    },
  )

  test('of a stream that failed can not be changed, and it is said why it failed', async () => {
    const engine = await start()
    const { stream } = open(engine, [a], { maxReconnectAttempts: 0 })
    await stream.connect()
    await engine.stop()
    const failure = await failureOf(stream.closed)
    expect(await failureOf(stream.subscribe(c))).toMatchObject({ code: 'CLOSED', cause: failure })
  })
})

test('only subscribed feeds are reported as stale', async () => {
  const engine = await start({ intervalMs: 0 })
  const { stream, seen } = open(engine, [a, b], { staleAfter: 400 })
  await stream.connect()
  await stream.unsubscribe(b)
  await stream.subscribe(c)
  const timer = setInterval(() => engine.publish(a), 20)
  await until(() => seen.statuses.some(({ type }) => type === 'stale'))
  await pause(300)
  clearInterval(timer)
  expect(seen.statuses.filter(({ type }) => type === 'stale')).toEqual([
    { type: 'stale', feedIDs: [c], staleMs: 400 },
  ])
})
