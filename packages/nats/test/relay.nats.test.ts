import { describe, expect, test } from '@jest/globals'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { memoryCursors } from '@sluice/test-support/memory-cursors.js'
import { feed, keyOf, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { failureOf, pause, until } from '@sluice/test-support/waiting.js'
import { createRelay, RelayLogError } from '../index.js'

async function storedIn(world: LogWorld): Promise<number> {
  const manager = await jetstreamManager(await world.connect())
  return (await manager.streams.info('SLUICE')).state.messages
}

describe('a relay', () => {
  test('that is one of two has the log store each report once', async () => {
    const world = await startWorld()
    const engine = await world.engine({ origins: 2 })
    const relays = [
      await world.relay(engine, { name: 'one' }),
      await world.relay(engine, { name: 'two' }),
    ]
    const published = Array.from({ length: 60 }, (_, at) => engine.publish(feed(1 + (at % 2))))
    await until(() => relays.every(relay => relay.getMetrics().stored === published.length))
    expect(await storedIn(world)).toBe(published.length)
    expect(relays.reduce((sum, relay) => sum + relay.getMetrics().duplicates, 0)).toBe(60)
  })

  test('goes on where the log ends, also after what nobody acknowledged', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const first = await world.relay(engine)
    for (let at = 0; at < 10; at++) engine.publish(feed(1))
    await until(() => first.getMetrics().stored === 10)
    await first.close()
    for (let at = 0; at < 15; at++) engine.publish(feed(1))
    const second = await world.relay(engine)
    await until(() => second.getMetrics().stored >= 15)
    expect(await storedIn(world)).toBe(25)
  })

  test('moves no cursor while the log is away, holds the connections back, and publishes what came meanwhile', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const cursors = memoryCursors()
    const relay = await world.relay(engine, { cursors, maxUnacknowledged: 20 })
    const errors: string[] = []
    const slow: unknown[] = []
    relay.stream.on('error', error => void errors.push(error.message))
    relay.stream.on('status', status => void (status.type === 'backpressure' && slow.push(status)))
    const first = engine.publish(feed(1)).observationsTimestamp
    await until(() => cursors.saved[feed(1)] === first)
    const [node] = world.servers.nodes
    await node.kill()
    for (let at = 0; at < 200; at++) {
      engine.publish(feed(1 + (at % 2)))
      if (at % 20 === 0) await pause(5)
    }
    await until(() => relay.getMetrics().unacknowledged >= 20)
    await until(() => slow.length > 0)
    await pause(1200)
    expect(relay.getMetrics().unacknowledged).toBeLessThan(200)
    expect(cursors.saved[feed(1)]).toBe(first)
    await node.start()
    await until(() => relay.getMetrics().stored >= 201)
    expect(await storedIn(world)).toBe(201)
    const last = engine.ledger().findLast(({ feedID }) => feedID === feed(1))
    await until(() => cursors.saved[feed(1)] === last?.observationsTimestamp)
  })

  test('starts once a log that gave no answer gives one', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const connection = await world.connect()
    const [node] = world.servers.nodes
    node.freeze()
    const starting = world.relay(engine, { connection })
    await pause(6000)
    node.thaw()
    const relay = await starting
    engine.publish(feed(1))
    await until(() => relay.getMetrics().stored === 1)
  })

  test('publishes both of two reports that differ, and workers see the conflict', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const relay = await world.relay(engine)
    const worker = await world.worker()
    const conflicts: unknown[] = []
    worker.stream.on('conflict', conflict => void conflicts.push(conflict))
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = engine.publish(
      feed(1),
    )
    await until(() => worker.reports.length === 1)
    // Another price, at the same time.
    const forged = `${fullReport.slice(0, 2 + 64 * 14 + 60)}abcd${fullReport.slice(2 + 64 * 15)}`
    const envelope = { feedID, fullReport: forged, validFromTimestamp, observationsTimestamp }
    engine.send(JSON.stringify({ report: envelope }), feedID)
    await until(() => relay.getMetrics().stored === 2)
    await until(() => conflicts.length === 1)
    expect(await storedIn(world)).toBe(2)
  })
})

describe('a stream', () => {
  test('that does not exist is created where that is asked for, and an error where not', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const error = await failureOf(world.relay(engine, { create: false }))
    expect(error).toBeInstanceOf(RelayLogError)
    expect(error.message).toBe(
      'stream SLUICE does not exist: a relay with create makes it, at its start and while it runs',
    )
    await world.relay(engine, { create: { hours: 2, bytes: 10_000_000 } })
    const manager = await jetstreamManager(await world.connect())
    const { config } = await manager.streams.info('SLUICE')
    expect(config).toMatchObject({
      subjects: ['sluice.*.*'],
      max_age: 2 * 3600e9,
      max_bytes: 10_000_000,
      duplicate_window: 600e9,
      allow_direct: true,
    })
  })

  test('with the wrong settings is rejected, and each is named', async () => {
    const world = await startWorld()
    const manager = await jetstreamManager(await world.connect())
    await manager.streams.add({
      name: 'SLUICE',
      subjects: ['other.>'],
      retention: 'workqueue',
      allow_direct: false,
      duplicate_window: 60e9,
      max_msgs_per_subject: 5,
      max_msg_size: 1000,
    })
    const { message } = await failureOf(world.relay(await world.engine()))
    for (const rule of [
      'subjects must hold sluice.*.*, not other.>',
      'retention must be limits, not workqueue',
      'allow_direct must be true',
      'duplicate_window must be at least 2 minutes, not 1',
      'max_msgs_per_subject must be -1, not 5',
      'max_msg_size must be -1 or at least 65536, not 1000',
    ])
      expect(message).toContain(rule)
  })

  test('that is full and discards what is new holds the relay back, until there is room', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const manager = await jetstreamManager(await world.connect())
    await manager.streams.add({
      name: 'SLUICE',
      subjects: ['sluice.*.*'],
      discard: 'new',
      max_msgs: 5,
      allow_direct: true,
    })
    const relay = await world.relay(engine)
    const errors: string[] = []
    relay.stream.on('error', ({ message }) => void errors.push(message))
    for (let at = 0; at < 8; at++) engine.publish(feed(1))
    await until(() => errors.length > 0)
    expect(errors[0]).toContain('the log rejects messages: maximum messages exceeded')
    expect(relay.getMetrics()).toMatchObject({ stored: 5, unacknowledged: 3 })
    await manager.streams.update('SLUICE', { max_msgs: 100 })
    await until(() => relay.getMetrics().stored === 8)
  })

  test('has subjects of feeds that a relay no longer carries: they stay until they are too old', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const first = await world.relay(engine)
    engine.publish(feed(1))
    engine.publish(feed(2))
    await until(() => first.getMetrics().stored === 2)
    await first.close()
    await world.relay(engine, { feedIDs: feed(1) })
    const { client } = await world.worker({ feeds: [feed(1)] })
    expect((await client.listFeeds()).map(({ feedID }) => feedID)).toEqual([feed(1), feed(2)])
    expect((await client.getLatestReport(feed(2))).feedID).toBe(feed(2))
  })
})

test('options that are wrong are named', async () => {
  const world = await startWorld()
  const connection = await world.connect()
  const cases: readonly (readonly [object, string])[] = [
    [{}, 'createRelay needs client or config, and not both'],
    [{ stream: 'a.b' }, 'stream must be at most 64 letters, digits, - and _'],
    [{ prefix: 'a b' }, 'prefix must be names of letters'],
    [{ maxUnacknowledged: 0 }, 'maxUnacknowledged must be at least 1, not 0'],
    [{ connection: {} }, 'connection must be a connection of NATS'],
    [{ create: { replicas: 9 } }, 'create.replicas must be at most 5, not 9'],
  ]
  for (const [options, message] of cases) {
    const error = await failureOf(createRelay({ connection, feedIDs: feed(1), ...options }))
    expect(error.message).toContain(message)
  }
})

test('a report is known by its time and what is signed, and stored by its version and feed', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  const published = engine.publish(feed(1))
  await until(() => relay.getMetrics().stored === 1)
  const { streams } = jetstream(await world.connect())
  const message = await (await streams.get('SLUICE')).getMessage({ seq: 1 })
  expect(message?.subject).toBe(`sluice.3.${feed(1)}`)
  expect(message?.header.get('Nats-Msg-Id')).toMatch(
    new RegExp(`^${feed(1)}-${published.observationsTimestamp}-[0-9a-f]{32}$`),
  )
  expect(message?.json()).toEqual({
    report: expect.objectContaining({ feedID: feed(1), fullReport: published.fullReport }),
  })
  expect(keyOf(published)).toContain('01@')
})
