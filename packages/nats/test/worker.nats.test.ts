import { describe, expect, test } from '@jest/globals'
import { jetstream } from '@nats-io/jetstream'
import { feed, keyOf, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { failureOf, pause, until } from '@sluice/test-support/waiting.js'
import { verify } from 'sluice/plugins/verify'
import { feedsOfShare, natsWire, queuePreset, workerPreset } from '../index.js'

describe('requests', () => {
  test('are answered from the log as the service answers them', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const relay = await world.relay(engine)
    const published = Array.from({ length: 30 }, () => engine.publish(feed(1)))
    await until(() => relay.getMetrics().stored === 30)
    const { client } = await world.worker()
    const requests = engine.requests().length
    const [first, , third] = published as [(typeof published)[0], unknown, (typeof published)[0]]
    expect(keyOf(await client.getLatestReport(feed(1)))).toBe(keyOf(published[29] as never))
    const at = await client.getReportByTimestamp(feed(1), third.observationsTimestamp)
    expect(at.fullReport).toBe(third.fullReport)
    const page = await client.getReportsPage(feed(1), first.observationsTimestamp, 7)
    expect(page.map(keyOf)).toEqual(published.slice(0, 7).map(keyOf))
    const bulk = await client.getReportsBulk([feed(1), feed(2)], third.observationsTimestamp)
    expect(bulk.map(keyOf)).toEqual([keyOf(third)])
    expect(bulk.missing).toEqual([feed(2)])
    const all: string[] = []
    for await (const report of client.reports(feed(1), { from: first.observationsTimestamp }))
      all.push(keyOf(report))
    expect(all).toEqual(published.map(keyOf))
    const error = await failureOf(client.getLatestReport(feed(3)))
    expect(error).toMatchObject({ code: 'API_STATUS' })
    expect(engine.requests()).toHaveLength(requests)
  })

  test('find reports in the order of observation, whatever that of publishing', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    await world.relay(engine)
    const { client } = await world.worker()
    engine.origins[0]?.reorder(5)
    const published = Array.from({ length: 40 }, () => engine.publish(feed(1)))
    engine.origins[0]?.reorder(0)
    const [first] = published
    const start = first?.observationsTimestamp as number
    await until(() => engine.connections > 0)
    let page: readonly string[] = []
    for (let tries = 0; tries < 100 && page.length < 40; tries++) {
      await pause(20)
      page = (await client.getReportsPage(feed(1), start, 100)).map(keyOf)
    }
    expect(page).toEqual(published.map(keyOf))
    const five = await client.getReportsPage(feed(1), start, 5)
    expect(five.map(keyOf)).toEqual(published.slice(0, 5).map(keyOf))
  })
})

describe('a worker', () => {
  test('that loses its log goes on where it was', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const relay = await world.relay(engine)
    const worker = await world.worker()
    const publish = (count: number) =>
      Array.from({ length: count }, (_, at) => engine.publish(feed(1 + (at % 2))))
    publish(20)
    await until(() => worker.reports.length === 20)
    const [node] = world.servers.nodes
    await node.kill()
    publish(50)
    await pause(500)
    await node.start()
    publish(20)
    await until(() => relay.getMetrics().stored === 90)
    await until(() => worker.reports.length >= 90)
    expect(new Set(worker.reports.map(keyOf)).size).toBe(90)
    expect(worker.reports).toHaveLength(90)
    expect(worker.gaps).toEqual([])
  })

  test('that is slow is given no more than it can hold, and everything in the end', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    await world.relay(engine)
    const worker = await world.worker({ stream: { queue: 10 } })
    worker.stream.removeAllListeners('report')
    const lost: unknown[] = []
    worker.stream.on('status', status => void (status.type === 'disconnected' && lost.push(status)))
    for (let at = 0; at < 300; at++) engine.publish(feed(1 + (at % 2)))
    // The request for messages expires meanwhile, since nobody reads on.
    await pause(10_000)
    expect(lost).toEqual([])
    expect(worker.stream.getMetrics().queued).toBeLessThan(25)
    const read: string[] = []
    while (read.length < 300) read.push(keyOf(await worker.stream.read()))
    expect(new Set(read).size).toBe(300)
  })

  test('reports a poisoned message once, and goes on', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const relay = await world.relay(engine)
    const { f, signers } = engine.network
    const plugins = workerPreset({ verify: { signers: { f, signers: [...signers] } } })
    const worker = await world.worker({ plugins })
    const first = engine.publish(feed(1))
    await until(() => worker.reports.length === 1)
    const log = jetstream(await world.connect())
    const subject = `sluice.3.${feed(1)}`
    const envelope = (fullReport: string, feedID = feed(1)) =>
      JSON.stringify({ report: { feedID, fullReport } })
    await log.publish(subject, 'no frame')
    await log.publish(subject, envelope(first.fullReport, feed(9)))
    const { fullReport } = engine.publish(feed(2))
    await log.publish(subject, envelope(fullReport, feed(1)))
    const digits = first.fullReport
    const forged = `${digits.slice(0, 2 + 64 * 14 + 60)}abcd${digits.slice(2 + 64 * 15)}`
    await log.publish(subject, envelope(forged))
    engine.publish(feed(1))
    await until(() => relay.getMetrics().stored === 3)
    await until(() => worker.reports.length === 3 && worker.errors.length >= 4)
    await pause(200)
    expect(worker.errors.map(error => (error as Error & { code: string }).code)).toEqual([
      'WS_FRAME',
      'DECODING',
      'DECODING',
      'VERIFICATION',
    ])
    const page = await worker.client.getReportsPage(feed(2), 1, 5)
    expect(page).toHaveLength(1)
    expect(verify.name).toBe('verify')
  })

  test('of a share reads the feeds of that share alone, and each feed is of one', async () => {
    const world = await startWorld()
    const feeds = Array.from({ length: 40 }, (_, at) => feed(at))
    const engine = await world.engine({ feeds })
    const relay = await world.relay(engine)
    for (const feedID of feeds) engine.publish(feedID)
    await until(() => relay.getMetrics().stored === 40)
    const shares = [0, 1, 2].map(index => feedsOfShare(feeds, { index, of: 3 }))
    expect(shares.flat().sort()).toEqual([...feeds].sort())
    for (const share of shares) expect(share.length).toBeGreaterThan(5)
    const wire = { share: { index: 1, of: 3 } }
    const worker = await world.worker({ feeds: shares[1] as string[], wire })
    expect((await worker.client.listFeeds()).map(({ feedID }) => feedID)).toEqual(
      [...(shares[1] as string[])].sort(),
    )
    for (const feedID of feeds) engine.publish(feedID)
    await until(() => worker.reports.length === shares[1]?.length)
    const stream = worker.client.createStream(feeds, { maxReconnectAttempts: 0 })
    stream.on('error', () => undefined)
    expect((await failureOf(stream.connect())).message).toMatch(/is not of share 1 of 3/)
  })
})

describe('workers of a queue', () => {
  const open = (world: LogWorld, handle: (key: string) => unknown, redeliverAfter = 2) =>
    world
      .worker({
        plugins: queuePreset(),
        wire: { queue: 'pricing', redeliverAfter, handlingTimeout: redeliverAfter },
        feeds: [feed(1), feed(2)],
      })
      .then(worker => {
        worker.stream.removeAllListeners('report')
        worker.stream.on('report', report => handle(keyOf(report)))
        return worker
      })

  test('get each report once between them, and have it acknowledged when its handler has settled', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    await world.relay(engine)
    const got: string[][] = [[], []]
    for (const list of got)
      await open(world, async key => {
        await pause(5)
        list.push(key)
      })
    const published = Array.from({ length: 400 }, (_, at) => engine.publish(feed(1 + (at % 2))))
    await until(() => got.flat().length >= 400)
    await pause(2500)
    expect(got.flat().sort()).toEqual(published.map(keyOf).sort())
    for (const list of got) expect(list.length).toBeGreaterThan(20)
  })

  test('get what another had taken and not dealt with when it died, and no poisoned message again', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const relay = await world.relay(engine)
    const stuck: string[] = []
    const first = await open(world, key => {
      stuck.push(key)
      return new Promise(() => undefined)
    })
    const published = Array.from({ length: 10 }, () => engine.publish(feed(1)))
    await until(() => stuck.length === 10 && relay.getMetrics().stored === 10)
    await jetstream(await world.connect()).publish(`sluice.3.${feed(1)}`, 'no frame')
    await until(() => first.stream.getMetrics().deadLetters === 1)
    await first.client.close()
    const got: string[] = []
    const second = await open(world, key => void got.push(key))
    await until(() => got.length === 10)
    expect(got.sort()).toEqual(published.map(keyOf).sort())
    await pause(2500)
    expect(got).toHaveLength(10)
    expect(second.errors).toEqual([])
  })

  test('need the plugin that acknowledges', async () => {
    const world = await startWorld()
    await world.relay(await world.engine())
    const error = await failureOf(
      world.worker({ wire: { queue: 'q' }, stream: { maxReconnectAttempts: 0 } }),
    )
    expect(error.message).toContain('queue needs the plugin queueDeliveries')
  })
})

test('options that are wrong are named', async () => {
  const world = await startWorld()
  const connection = await world.connect()
  const cases: readonly (readonly [object, string])[] = [
    [{ share: { index: 3, of: 3 } }, 'share.index must be at most 2, not 3'],
    [{ share: { index: 0, of: 0 } }, 'share.of must be at least 1, not 0'],
    [{ queue: 'a b' }, 'queue must be at most 64 letters'],
    [{ redeliverAfter: 0 }, 'redeliverAfter must be at least 1, not 0'],
    [{ maxPublishDelay: -1 }, 'maxPublishDelay must be at least 0, not -1'],
    [{ streem: 'x' }, 'streem'],
  ]
  for (const [options, message] of cases)
    expect(() => natsWire(connection, options)).toThrow(message)
})
