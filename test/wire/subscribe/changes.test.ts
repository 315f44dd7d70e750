import { describe, expect, test } from '@jest/globals'
import { failureOf, pause, until } from '../../support/waiting.js'
import {
  a,
  b,
  c,
  d,
  expectExact,
  isOpen,
  of,
  open,
  published,
  settle,
  start,
} from '../../support/wire/subscribe.js'

describe.each([
  ['one origin', 1],
  ['two origins', 2],
])('with %s', (_name, origins) => {
  test('subscribing adds feeds, and nothing of the others is lost or doubled', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(isOpen(engine, stream))
    const connected = engine.ledger().length
    await pause(50)
    await stream.subscribe([c, d.toUpperCase().replace('X', 'x')])
    expect(stream.feedIDs).toEqual([a, b, c, d])
    const subscribed = engine.ledger().length
    await until(() => engine.connections === origins)
    await settle(engine)
    expectExact(seen.reports, [
      ...[a, b].flatMap(each => published(engine, each, connected)),
      ...[c, d].flatMap(each => published(engine, each, subscribed)),
    ])
    expect(of(c, seen.reports).length).toBeGreaterThan(0)
    expect(seen.errors.filter(({ name }) => name !== 'InsufficientConnectionsError')).toEqual([])
    expect(stream.getMetrics()).toMatchObject({
      malformed: 0,
      fullReconnects: 0,
      partialReconnects: 0,
      activeConnections: origins,
      configuredConnections: origins,
      accepted: seen.reports.length,
    })
  })

  test('unsubscribing stops reports at once, and nothing of the others is lost or doubled', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine, [a, b, c])
    await stream.connect()
    await until(isOpen(engine, stream))
    const connected = engine.ledger().length
    await pause(50)
    const leaving = stream.unsubscribe(`${b},${c}`)
    await until(() => stream.feedIDs.length === 1)
    const before = [of(b, seen.reports).length, of(c, seen.reports).length]
    await leaving
    await until(() => engine.connections === origins)
    const swapped = engine.ledger().length
    await pause(50)
    await settle(engine)
    expect([of(b, seen.reports).length, of(c, seen.reports).length]).toEqual(before)
    expectExact(seen.reports, published(engine, a, connected))
    const wasted = engine.ledger().slice(swapped)
    expect(
      wasted.filter(({ feedID }) => feedID !== a).flatMap(report => engine.deliveries(report)),
    ).toEqual([])
    expect(stream.getMetrics().malformed).toBe(0)
    expect(seen.errors).toEqual([])
  })

  test('changes are no outage: no event, status or callback tells of one', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(isOpen(engine, stream))
    const before = seen.statuses.length
    await stream.subscribe(c)
    await stream.unsubscribe([a, c])
    await until(() => engine.connections === origins)
    await pause(50)
    expect(seen.events).toEqual(['connected'])
    expect(seen.callbacks).toEqual(Array.from({ length: origins }, () => true))
    expect(seen.statuses.slice(before)).toEqual([
      { type: 'subscribed', feedIDs: [c] },
      { type: 'unsubscribed', feedIDs: [a, c] },
    ])
  })

  test('changes asked for at once are made in their order, however many', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine, [a])
    await stream.connect()
    await until(isOpen(engine, stream))
    const connected = engine.ledger().length
    const order: number[] = []
    const changes = [
      () => stream.subscribe([b, c]),
      () => stream.unsubscribe(b),
      () => stream.subscribe([b, d]),
      () => stream.unsubscribe([c, d]),
      () => stream.unsubscribe(d),
      () => stream.subscribe(c),
    ].map((change, index) => change().then(() => order.push(index)))
    await Promise.all(changes)
    expect(order).toEqual([0, 1, 2, 3, 4, 5])
    expect(stream.feedIDs).toEqual([a, b, c])
    const done = engine.ledger().length
    await until(() => engine.connections === origins)
    await settle(engine)
    expectExact(seen.reports, [
      ...published(engine, a, connected),
      ...[b, c].flatMap(each => published(engine, each, done)),
    ])
    await stream.close()
    expect(engine.connections).toBe(0)
  })

  test('changes again and again lose nothing of what stays, and leave nothing', async () => {
    const engine = await start({ origins, intervalMs: 8 })
    const { client, stream, seen } = open(engine, [a])
    await stream.connect()
    await until(isOpen(engine, stream))
    const connected = engine.ledger().length
    for (let round = 0; round < 8; round++) {
      await stream.subscribe([b, c, d].slice(0, 1 + (round % 3)))
      await stream.unsubscribe([d, c, b].slice(0, 1 + (round % 2)))
    }
    await until(() => engine.connections === origins)
    await settle(engine)
    expectExact(seen.reports, published(engine, a, connected))
    expect(stream.getMetrics().activeConnections).toBe(origins)
    const { origins: byOrigin } = stream.getMetrics()
    const firsts = Object.values(byOrigin).reduce((sum, { first }) => sum + first, 0)
    expect(firsts).toBe(seen.reports.length)
    await client.close()
    expect(engine.connections).toBe(0)
  })

  test('a change asked for in an outage is made when that ends', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine, [a], { maxReconnectAttempts: 100 })
    await stream.connect()
    await until(isOpen(engine, stream))
    await engine.stop()
    await until(() => seen.events.includes('disconnected'))
    let isDone = false
    const changing = stream.subscribe(b).then(() => {
      isDone = true
    })
    await pause(300)
    expect({ isDone, feedIDs: stream.feedIDs }).toEqual({ isDone: false, feedIDs: [a] })
    await engine.start()
    await changing
    const back = engine.ledger().length
    expect(stream.feedIDs).toEqual([a, b])
    await until(() => engine.connections === origins && isOpen(engine, stream)())
    await settle(engine)
    expectExact(
      seen.reports,
      [a, b].flatMap(each => published(engine, each, back)),
    )
    expect(seen.events.filter(event => event !== 'reconnecting')).toEqual([
      'connected',
      'disconnected',
      'connected',
    ])
    const callbacks = seen.callbacks.reduce((sum, isUp) => sum + (isUp ? 1 : -1), 0)
    expect(callbacks).toBe(origins)
    const last = new Map(
      seen.statuses.flatMap(each => ('origin' in each ? [[each.origin, each.type]] : [])),
    )
    expect(new Set(last.values())).toEqual(new Set(['connected']))
  })

  test('a server that refuses changes nothing: the promise rejects and the old connections stay', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(isOpen(engine, stream))
    const connected = engine.ledger().length
    const before = seen.statuses.length
    for (const origin of engine.origins) origin.refuse(403)
    const error = await failureOf(stream.subscribe(c))
    expect(error.name).toBe(origins === 1 ? 'EntitlementError' : 'MultiConnectionError')
    expect(stream.feedIDs).toEqual([a, b])
    expect(engine.connections).toBe(origins)
    expect(seen.statuses.slice(before)).toEqual([])
    expect(seen.errors).toEqual([])
    for (const origin of engine.origins) origin.refuse(undefined)
    await stream.subscribe(c)
    const subscribed = engine.ledger().length
    await until(() => engine.connections === origins)
    await settle(engine)
    expectExact(seen.reports, [
      ...[a, b].flatMap(each => published(engine, each, connected)),
      ...published(engine, c, subscribed),
    ])
    expect(seen.events).toEqual(['connected'])
  })

  test('a feed is unsubscribed even where the service goes on sending it', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(isOpen(engine, stream))
    for (const origin of engine.origins) origin.refuse(403)
    await failureOf(stream.unsubscribe(b))
    const before = of(b, seen.reports).length
    await pause(50)
    expect(stream.feedIDs).toEqual([a])
    expect(of(b, seen.reports)).toHaveLength(before)
    expect(stream.getMetrics().malformed).toBe(0)
    for (const origin of engine.origins) origin.refuse(undefined)
    await stream.unsubscribe(b)
    await until(() => engine.connections === origins)
    const swapped = engine.ledger().length
    await pause(50)
    const sent = engine
      .ledger()
      .slice(swapped)
      .filter(({ feedID }) => feedID === b)
    expect(sent.flatMap(report => engine.deliveries(report))).toEqual([])
  })

  test('closing while connections are changed rejects the change and leaves nothing', async () => {
    const engine = await start({ origins })
    for (const wait of [0, 5, 30, 150]) {
      const { stream, seen } = open(engine, [a])
      await stream.connect()
      const changes = [stream.subscribe(b), stream.subscribe(c)].map(change =>
        change.then(
          () => 'made',
          ({ code }) => code,
        ),
      )
      if (wait > 0) await pause(wait)
      await stream.close()
      const before = seen.reports.length
      const ends = await Promise.all(changes)
      if (wait === 0) expect(ends).toEqual(['CLOSED', 'CLOSED'])
      for (const end of ends) expect(['made', 'CLOSED']).toContain(end)
      await until(() => engine.connections === 0)
      await pause(20)
      expect(seen.reports).toHaveLength(before)
    }
  })
})
