import { describe, expect, test } from '@jest/globals'
import { jetstreamManager } from '@nats-io/jetstream'
import { memoryCursors } from '@sluice/test-support/memory-cursors.js'
import { feed, keyOf, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { pause, until } from '@sluice/test-support/waiting.js'
import { createTakenCheck, timeAtEnd } from '../log-positions.js'

const publish = (engine: Awaited<ReturnType<LogWorld['engine']>>, count: number) =>
  Array.from({ length: count }, (_, at) => engine.publish(feed(1 + (at % 2))))

describe('a worker with cursors', () => {
  test('reads the log from there on, each report once, and asks for no page', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const relay = await world.relay(engine)
    const cursors = memoryCursors()
    const first = await world.worker({ stream: { cursors, saveInterval: 10 } })
    const before = publish(engine, 30)
    await until(() => first.reports.length === 30)
    await first.client.close()
    const missed = publish(engine, 400)
    await until(() => relay.getMetrics().stored === 430)
    const asked = engine.requests().length
    const second = await world.worker({ stream: { cursors, saveInterval: 10 } })
    const live = publish(engine, 20)
    await until(() => second.reports.length >= 420)
    // By then a feed that is not caught up with would be asked for.
    await pause(2500)
    expect(second.reports.map(keyOf)).toEqual([...missed, ...live].map(keyOf))
    expect(second.reports.every(({ source }) => source === 'live')).toBe(true)
    expect(second.requests).toEqual([])
    expect(engine.requests()).toHaveLength(asked)
    expect([...second.gaps, ...second.errors]).toEqual([])
    expect(before).toHaveLength(30)
  })

  test('begins with now where nothing came since, however long ago that is', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const relay = await world.relay(engine)
    const quiet = engine.publish(feed(1))
    for (let at = 0; at < 50; at++) engine.publish(feed(2))
    const last = engine.publish(feed(2))
    await until(() => relay.getMetrics().stored === 52)
    const cursors = memoryCursors()
    cursors.saved = {
      [feed(1)]: quiet.observationsTimestamp,
      [feed(2)]: last.observationsTimestamp,
    }
    const worker = await world.worker({ stream: { cursors } })
    const next = publish(engine, 2)
    await until(() => worker.reports.length === 2)
    const manager = await jetstreamManager(await world.connect())
    const starts: unknown[] = []
    for await (const { config } of manager.consumers.list('SLUICE'))
      starts.push(config.opt_start_seq)
    expect(starts).toEqual([53])
    expect(worker.reports.map(keyOf)).toEqual(next.map(keyOf))
  })

  test('of a feed that was unsubscribed and is subscribed to again gets what comes from then on', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const relay = await world.relay(engine)
    const cursors = memoryCursors()
    cursors.saved = { [feed(1)]: Date.now() - 60_000, [feed(2)]: Date.now() - 60_000 }
    publish(engine, 10)
    await until(() => relay.getMetrics().stored === 10)
    const { stream, reports } = await world.worker({ stream: { cursors } })
    await until(() => reports.length === 10)
    await stream.unsubscribe(feed(2))
    for (let at = 0; at < 5; at++) engine.publish(feed(2))
    await until(() => relay.getMetrics().stored === 15)
    await pause(400)
    await stream.subscribe(feed(2))
    const next = engine.publish(feed(2))
    await until(() => reports.length >= 11)
    await pause(200)
    expect(reports.slice(10).map(keyOf)).toEqual([keyOf(next)])
  })
})

test('a feed without a cursor begins with now, whatever others missed', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  const cursors = memoryCursors()
  cursors.saved = { [feed(1)]: engine.publish(feed(1)).observationsTimestamp }
  const missed = publish(engine, 10)
  await until(() => relay.getMetrics().stored === 11)
  const { reports } = await world.worker({ stream: { cursors } })
  const next = publish(engine, 2)
  await until(() => reports.length >= 7)
  await pause(200)
  const expected = [...missed.filter(({ feedID }) => feedID === feed(1)), ...next]
  expect(reports.map(keyOf)).toEqual(expected.map(keyOf))
})

test('a page that is read while reports are stored stops no server', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  const { client } = await world.worker()
  const [one, other] = publish(engine, 100)
  await until(() => relay.getMetrics().stored === 100)
  let isDone = false
  async function publishMore(): Promise<void> {
    while (!isDone) {
      publish(engine, 4)
      await pause(2)
    }
  }
  const readPage = (report: typeof one) =>
    client.getReportsPage(report?.feedID as string, report?.observationsTimestamp as number, 40)
  const publishing = publishMore()
  for (let round = 0; round < 20; round++) await Promise.all([one, other, one, other].map(readPage))
  isDone = true
  await publishing
  const manager = await jetstreamManager(await world.connect())
  await until(() => relay.getMetrics().stored === engine.ledger().length)
  expect((await manager.streams.info('SLUICE')).state.messages).toBe(engine.ledger().length)
})

test('a cluster whose servers are killed one after the other loses nothing, and nobody asks for a page', async () => {
  const world = await startWorld({ nodes: 3 })
  const engine = await world.engine({ origins: 2 })
  const relay = await world.relay(engine, { create: { replicas: 3 } })
  const workers = [await world.worker(), await world.worker()]
  const published: string[] = []
  let isDone = false
  async function publishAll(): Promise<void> {
    for (; !isDone; await pause(10)) published.push(...publish(engine, 2).map(keyOf))
  }
  const publishing = publishAll()
  for (const node of world.servers.nodes) {
    await pause(1000)
    await node.kill()
    await pause(1000)
    await node.start()
    const stored = relay.getMetrics().stored
    await until(() => relay.getMetrics().stored > stored + 100)
  }
  isDone = true
  await publishing
  for (const { reports, gaps } of workers) {
    await until(() => reports.length >= published.length)
    expect(reports.map(keyOf).sort()).toEqual(published.toSorted())
    expect(gaps).toEqual([])
  }
}, 60_000)

test('what a cursor says was taken is left out, also where a new leader knows less of the log', () => {
  const places = { cursors: { get: () => 100 }, feeds: new Map() }
  const info = { created: 'then', state: { last_seq: 4 }, ts: new Date().toISOString() } as never
  const isTaken = createTakenCheck([feed(1)], places, info)
  const message = (streamSequence: number, ago: number, time: number) =>
    ({
      subject: `sluice.3.${feed(1)}`,
      info: { streamSequence, timestampNanos: 1e6 * (Date.now() - ago) },
      data: new TextEncoder().encode(`{"report":{"observationsTimestamp":${time}}}`),
    }) as never
  expect(isTaken(message(4, 5000, 100))).toBe(true)
  expect(isTaken(message(9, 1000, 99))).toBe(true)
  expect(isTaken(message(10, 1000, 101))).toBe(false)
  // A late report that is published now is none that was taken.
  expect(isTaken(message(11, -20_000, 98))).toBe(false)
})

test('the time at the end of a frame is read, whatever stands there', () => {
  const bytes = (text: string) => new TextEncoder().encode(text)
  expect(timeAtEnd(bytes('{"report":{"observationsTimestamp":1795435446558}}'))).toBe(
    1_795_435_446_558,
  )
  for (const text of ['', '}}', '17}}', '{"report":{"validFromTimestamp":12}}', '{"a":[1]}'])
    expect(timeAtEnd(bytes(text))).toBe(Number.POSITIVE_INFINITY)
})
