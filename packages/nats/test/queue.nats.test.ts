import { describe, expect, test } from '@jest/globals'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import {
  feed,
  keyOf,
  type LogWorld,
  startWorld,
  type Worker,
} from '@sluice/test-support/nats/world.js'
import { pause, until } from '@sluice/test-support/waiting.js'
import type { Report } from 'sluice'
import {
  type DeadLetter,
  type NatsWireOptions,
  queuePreset,
  readDeadLetters,
  republishDeadLetters,
} from '../index.js'

const many = Array.from({ length: 150 }, (_, at) => feed(at))

interface QueueOptions extends Omit<NatsWireOptions, 'stream'> {
  readonly feeds?: readonly string[]
  readonly stream?: object
  readonly plugins?: ReturnType<typeof queuePreset>
  readonly connection?: NatsConnection
}

/** Starts a worker of a queue. */
async function open(
  world: LogWorld,
  handle: (report: Report) => unknown,
  {
    feeds = [feed(1), feed(2)],
    stream = {},
    plugins = queuePreset(),
    connection,
    ...wire
  }: QueueOptions = {},
): Promise<Worker> {
  const worker = await world.worker({
    plugins,
    feeds,
    stream,
    ...(connection === undefined ? {} : { connection }),
    wire: { queue: 'desk', redeliverAfter: 1, ...wire },
  })
  worker.stream.removeAllListeners('report')
  worker.stream.on('report', handle)
  return worker
}

/** A world whose engine publishes by call, and whose relay stores it. */
async function startPublishing(feeds: readonly string[] = [feed(1), feed(2)]) {
  const world = await startWorld()
  const engine = await world.engine({ feeds })
  const relay = await world.relay(engine)
  const published: string[] = []
  const publish = async (count: number, of: readonly string[] = feeds): Promise<void> => {
    const { stored } = relay.getMetrics()
    for (let at = 0; at < count; at++)
      published.push(keyOf(engine.publish(of[at % of.length] as string)))
    await until(() => relay.getMetrics().stored >= stored + count)
  }
  const manager = await jetstreamManager(await world.connect())
  return { world, engine, relay, publish, published, manager }
}

const countOf = (workers: readonly Worker[], name: 'redelivered' | 'deadLetters'): number =>
  workers.reduce((sum, { stream }) => sum + stream.getMetrics()[name], 0)

describe('a queue whose consumer is lost', () => {
  test('with its stream begins with the first report of the next stream, and says what was lost', async () => {
    const { world, engine, publish, manager } = await startPublishing()
    const got: string[] = []
    const held: (() => void)[] = []
    let isHolding = false
    const worker = await open(world, report => {
      got.push(keyOf(report))
      return isHolding ? new Promise<void>(resolve => held.push(resolve)) : undefined
    })
    await publish(20)
    await until(() => got.length === 20)
    isHolding = true
    await publish(5)
    await until(() => held.length === 5)
    isHolding = false
    await manager.streams.delete('SLUICE')
    got.length = 0
    // The next relay creates the stream, and has stored reports before the worker is back.
    const next = await world.relay(engine, { name: 'next' })
    const later: string[] = []
    for (let at = 0; at < 60; at++) later.push(keyOf(engine.publish(feed(1 + (at % 2)))))
    await until(() => next.getMetrics().stored >= 60)
    // Late answers for reports of the former stream don't acknowledge those of the next one.
    for (const resolve of held) resolve()
    await until(() => new Set(got.filter(key => later.includes(key))).size === 60)
    expect(worker.errors.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(
        /^stream SLUICE was created again: about \d+ reports of the former stream were not handled by queue desk/,
      ),
    )
    await until(() => worker.stream.getMetrics().activeConnections > 0)
  })

  test('alone begins after what was acknowledged, and loses nothing', async () => {
    const { world, publish, published, manager } = await startPublishing()
    const got: string[] = []
    const worker = await open(world, report => void got.push(keyOf(report)))
    await publish(20)
    await until(() => got.length === 20)
    await pause(1200)
    await manager.consumers.delete('SLUICE', 'desk')
    await publish(50)
    await until(() => new Set(got).size === published.length)
    expect(worker.errors.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/^queue desk was created again, and begins after report \d+:/),
    )
  })
})

describe('a queue that is deployed anew', () => {
  test('with one feed more keeps what waits, and gets all of the new feed', async () => {
    const { world, publish, published, manager } = await startPublishing([feed(1), feed(2)])
    const got: string[] = []
    const take = (report: Report) => void got.push(keyOf(report))
    const first = await open(world, take, { feeds: [feed(1)] })
    await publish(20, [feed(1)])
    await until(() => got.length === 20)
    await first.client.close()
    await publish(200, [feed(1)])
    const second = await open(world, take, { feeds: [feed(1), feed(2)] })
    await publish(50, [feed(2)])
    await until(() => got.length === 270)
    await pause(300)
    expect(got.sort()).toEqual(published.sort())
    expect(countOf([second], 'redelivered')).toBe(0)
    expect([...first.errors, ...second.errors]).toEqual([])
    const names: string[] = []
    for await (const { name, num_pending } of manager.consumers.list('SLUICE'))
      names.push(`${name} ${num_pending}`)
    expect(names).toEqual(['desk 0'])
  })

  test('worker by worker, has each report handled once by a worker that reads its feed', async () => {
    const feeds = [feed(1), feed(2), feed(3)]
    const { world, publish, published } = await startPublishing(feeds)
    const got: string[] = []
    const start = (own: readonly string[]) =>
      open(
        world,
        report => {
          if (!own.includes(report.feedID)) throw new Error('it is of another feed')
          got.push(keyOf(report))
        },
        { feeds: own },
      )
    const old = [await start(feeds.slice(0, 2)), await start(feeds.slice(0, 2))]
    await publish(40, feeds.slice(0, 2))
    const late = await start(feeds)
    await publish(90)
    await old[0]?.client.close()
    // One of the former version starts again in the midst.
    const again = await start(feeds.slice(0, 2))
    await publish(90)
    await until(() => got.length >= 220)
    await pause(300)
    expect(got.sort()).toEqual(published.sort())
    expect(countOf([...old, late, again], 'deadLetters')).toBe(0)
    expect(again.errors.map(({ message }) => message)).toEqual([
      `queue desk has 1 feeds that this worker does not read, such as ${feed(3)}: it hands their reports back`,
    ])
  }, 60_000)

  test('with one feed fewer leaves that feed in time, and says so', async () => {
    const feeds = [feed(1), feed(2)]
    const { world, publish, manager } = await startPublishing(feeds)
    const first = await open(world, () => undefined, { feeds })
    await first.client.close()
    const got: string[] = []
    const second = await open(world, report => void got.push(keyOf(report)), { feeds: [feed(1)] })
    await publish(20)
    await until(() => got.length === 10)
    await until(() => second.errors.some(({ message }) => message.includes('no longer reads')))
    const { config } = await manager.consumers.info('SLUICE', 'desk')
    expect(config.filter_subjects).toEqual([`sluice.3.${feed(1)}`, 'sluice.desk-again.*'])
    await publish(20)
    await until(() => got.length === 20)
    // Those that were given out in vain are not lost.
    await until(() => second.stream.getMetrics().deadLetters === 10)
  }, 90_000)

  test('by this version drains what former consumers have left', async () => {
    const { world, publish, published, manager } = await startPublishing([feed(1), feed(2)])
    const old = (name: string, feeds: readonly string[]) =>
      manager.consumers.add('SLUICE', {
        durable_name: name,
        filter_subjects: feeds.map(each => `sluice.3.${each}`),
        ack_policy: 'explicit',
        max_deliver: 10,
        deliver_policy: 'new',
      })
    await old('desk-0123456789abcdef', [feed(1)])
    await publish(200, [feed(1)])
    await old('other-0123456789abcdef', [feed(1)])
    const got: string[] = []
    const worker = await open(world, report => void got.push(keyOf(report)))
    await publish(50)
    await until(() => got.length >= 250)
    let filter: string | undefined
    while (filter?.endsWith('-drained.none') !== true) {
      await pause(100)
      const { config } = await manager.consumers.info('SLUICE', 'desk-0123456789abcdef')
      filter = config.filter_subjects?.[0]
    }
    await publish(50)
    await until(() => got.length >= 300)
    await pause(300)
    expect(got.sort()).toEqual(published.sort())
    expect(worker.errors).toEqual([])
    expect((await manager.consumers.info('SLUICE', 'other-0123456789abcdef')).num_pending).toBe(50)
  })
})

test('a worker that subscribes to another feed gets all of it from then on', async () => {
  const { world, publish, published } = await startPublishing([feed(1), feed(2)])
  const got: string[] = []
  const worker = await open(world, report => void got.push(keyOf(report)), {
    feeds: [feed(1)],
    redeliverAfter: 30,
  })
  await publish(10, [feed(1)])
  await worker.stream.subscribe(feed(2))
  await publish(40)
  await until(() => got.length >= 50)
  await worker.stream.unsubscribe(feed(1))
  await publish(10, [feed(2)])
  await until(() => got.length >= 60)
  await pause(300)
  expect(got.sort()).toEqual(published.sort())
  expect(countOf([worker], 'redelivered')).toBe(0)
})

/** Publishes reports of a feed without a pause while the work goes on. */
async function amidTraffic(
  publish: (count: number, of: readonly string[]) => Promise<void>,
  work: () => Promise<void>,
): Promise<void> {
  let isWorking = true
  async function publishAll(): Promise<void> {
    while (isWorking) await publish(50, [feed(1)])
  }
  const done = work().finally(() => {
    isWorking = false
  })
  await Promise.all([publishAll(), done])
}

test('a worker whose feeds change amid the traffic waits for none of its reports', async () => {
  const { world, publish, published } = await startPublishing([feed(1), feed(2)])
  const got: string[] = []
  const { stream } = await open(world, report => void got.push(keyOf(report)), {
    feeds: [feed(1)],
    redeliverAfter: 30,
  })
  await amidTraffic(publish, async () => {
    for (let change = 0; change < 6; change++) {
      await stream.subscribe(feed(2))
      await pause(350)
      await stream.unsubscribe(feed(2))
      await pause(350)
    }
  })
  await until(() => got.length >= published.length)
  expect(got.sort()).toEqual(published.sort())
}, 60_000)

test('workers that are closed amid the traffic hand back what was on its way', async () => {
  const { world, publish, published } = await startPublishing([feed(1)])
  const got = new Set<string>()
  const take = (report: Report): void => void got.add(keyOf(report))
  const start = () => open(world, take, { feeds: [feed(1)], redeliverAfter: 30 })
  await start()
  await amidTraffic(publish, async () => {
    for (let change = 0; change < 8; change++) {
      const other = await start()
      await pause(200)
      await other.stream.close()
    }
  })
  await until(() => got.size >= published.length)
}, 60_000)

describe('a queue of many feeds', () => {
  test('is one, in whichever order its workers have them', async () => {
    const { world, publish, published, manager } = await startPublishing(many)
    const got: string[] = []
    const take = (report: Report) => void got.push(keyOf(report))
    const orders = [many, [...many].reverse(), [...many.slice(70), ...many.slice(0, 70)]]
    const workers = await Promise.all(orders.map(feeds => open(world, take, { feeds })))
    await publish(900)
    await until(() => got.length >= 900)
    await pause(500)
    expect(got.sort()).toEqual(published.sort())
    expect(countOf(workers, 'redelivered')).toBe(0)
    expect((await manager.streams.info('SLUICE')).state.consumer_count).toBe(1)
  }, 60_000)

  test('takes a thousand of them', async () => {
    const feeds = Array.from({ length: 1000 }, (_, at) => feed(at))
    const world = await startWorld()
    const connection = await world.connect()
    const engine = await world.engine()
    await world.relay(engine)
    const got: string[] = []
    const worker = await open(world, report => void got.push(keyOf(report)), { feeds })
    engine.publish(feed(1))
    await until(() => got.length === 1)
    const manager = await jetstreamManager(connection)
    const { config } = await manager.consumers.info('SLUICE', 'desk')
    expect(config.filter_subjects).toHaveLength(1001)
    expect(worker.errors).toEqual([])
  }, 30_000)
})

describe('a slow worker', () => {
  test('keeps what it has for as long as it makes progress, and takes no more', async () => {
    const { world, publish, published } = await startPublishing()
    const got: string[] = []
    const worker = await world.worker({
      plugins: queuePreset(),
      wire: { queue: 'desk', redeliverAfter: 1, maxUnacknowledged: 50 },
    })
    worker.stream.removeAllListeners('report')
    await publish(150)
    let most = 0
    void (async () => {
      for await (const report of worker.stream) {
        most = Math.max(most, worker.stream.getMetrics().queued)
        await pause(40)
        got.push(keyOf(report))
      }
    })()
    await until(() => got.length >= 150)
    await pause(1500)
    expect(got).toEqual(published)
    expect(countOf([worker], 'redelivered')).toBe(0)
    expect(most).toBeLessThanOrEqual(50)
  }, 40_000)

  test('whose stream is full keeps what came, and workers that disagree in redeliverAfter keep theirs', async () => {
    const { world, publish, published, manager } = await startPublishing()
    const got: string[] = []
    const full = await world.worker({
      plugins: queuePreset(),
      wire: { queue: 'desk', redeliverAfter: 4 },
      stream: { queue: 3 },
    })
    full.stream.removeAllListeners('report')
    const paused: unknown[] = []
    full.stream.on('status', status => void (status.type === 'backpressure' && paused.push(status)))
    await publish(40)
    void (async () => {
      for await (const report of full.stream) {
        await pause(100)
        got.push(keyOf(report))
      }
    })()
    await until(() => got.length > 3)
    const quick = await open(world, report => void got.push(keyOf(report)))
    await until(() => got.length >= 40)
    await pause(1500)
    expect(got.sort()).toEqual(published.sort())
    expect(countOf([full, quick], 'redelivered')).toBe(0)
    expect(paused.length).toBeGreaterThan(0)
    expect((await manager.consumers.info('SLUICE', 'desk')).config.ack_wait).toBe(4e9)
  }, 40_000)

  test('whose handler takes longer than redeliverAfter keeps its report; past handlingTimeout another gets it', async () => {
    const { world, publish } = await startPublishing()
    const starts: string[] = []
    const slow = await open(
      world,
      report => {
        starts.push(keyOf(report))
        return pause(2500)
      },
      { handlingTimeout: 5 },
    )
    await publish(4)
    await pause(4000)
    expect(starts).toHaveLength(4)
    expect(countOf([slow], 'redelivered')).toBe(0)
    await slow.client.close()

    const stuck: string[] = []
    const first = await open(
      world,
      report => {
        stuck.push(keyOf(report))
        return new Promise(() => undefined)
      },
      { handlingTimeout: 2, maxUnacknowledged: 4 },
    )
    await publish(4)
    await until(() => stuck.length === 4)
    const got: string[] = []
    const second = await open(world, report => void got.push(keyOf(report)))
    await pause(500)
    expect(got).toEqual([])
    await until(() => got.length === 4)
    expect([...new Set(got)].sort()).toEqual([...new Set(stuck)].sort())
    expect(countOf([first, second], 'redelivered')).toBeGreaterThanOrEqual(4)
    expect(first.errors[0]?.message).toMatch(/was worked on for 2 s/)
  }, 40_000)

  test('that is closed in the midst finishes what it works on; others get the rest', async () => {
    const { world, publish, published } = await startPublishing()
    const got: string[] = []
    const slow = await world.worker({
      plugins: queuePreset(),
      wire: { queue: 'desk', redeliverAfter: 1 },
    })
    slow.stream.removeAllListeners('report')
    await publish(20)
    const loop = (async () => {
      for await (const report of slow.stream) {
        await pause(2500)
        got.push(keyOf(report))
      }
    })()
    await until(() => slow.stream.getMetrics().queued >= 15)
    const other = await open(world, report => void got.push(keyOf(report)))
    await slow.client.close()
    await loop
    await until(() => got.length >= 20)
    await pause(2000)
    expect(got.sort()).toEqual(published.sort())
    expect(countOf([other], 'redelivered')).toBe(19)
  }, 40_000)
})

describe('a report that no worker can deal with', () => {
  test('is a dead letter after maxDeliveries, and can be published again to its queue alone', async () => {
    const { world, publish, published } = await startPublishing()
    let isBroken = true
    const got: string[] = []
    const others: string[] = []
    const broadcast = await world.worker({})
    await open(world, report => void others.push(keyOf(report)), { queue: 'other' })
    const handle = (report: Report) => {
      const isBad = isBroken && report.feedID === feed(2)
      return isBad ? new Promise(() => undefined) : got.push(keyOf(report))
    }
    const worker = await open(world, handle, { handlingTimeout: 1, maxDeliveries: 2 })
    await publish(6)
    await until(() => worker.stream.getMetrics().deadLetters === 3)
    const connection = await world.connect()
    const letters: DeadLetter[] = []
    for await (const letter of readDeadLetters(connection, { queue: 'desk' })) letters.push(letter)
    expect(letters).toHaveLength(3)
    expect(letters[0]).toMatchObject({ feedID: feed(2), reason: 'deliveries', deliveries: 3 })
    expect(worker.errors.map(({ message }) => message)).toContain(
      `queue desk: a report of feed ${feed(2)} is a dead letter, since it was given out 2 times, and never acknowledged`,
    )
    isBroken = false
    expect(await republishDeadLetters(connection, { queue: 'desk' })).toBe(3)
    await until(() => got.length === 6)
    expect(got.sort()).toEqual(published.sort())
    expect(await republishDeadLetters(connection, { queue: 'desk' })).toBe(0)
    await pause(300)
    expect(others).toHaveLength(6)
    expect(broadcast.reports).toHaveLength(6)
    expect(broadcast.errors).toEqual([])
  }, 60_000)

  test('is one too where it ends each worker that gets it; the others are handled', async () => {
    const { world, publish, published } = await startPublishing()
    const got = new Set<string>()
    const workers: Worker[] = []

    /** A process that lives until it gets the report: then its connection ends in the midst of all. */
    async function live(): Promise<void> {
      const connection = await world.connect()
      const handle = (report: Report) =>
        report.feedID === feed(1) ? got.add(keyOf(report)) : connection.close()
      const worker = await open(world, handle, { connection, maxDeliveries: 3 })
      workers.push(worker)
      if (workers.length === 1) await publish(6, [feed(1), feed(1), feed(2), feed(1)])
      while (!connection.isClosed() && countOf(workers, 'deadLetters') === 0) await pause(20)
      await worker.client.close()
    }

    while (countOf(workers, 'deadLetters') === 0) await live()
    // Three had it, and the fourth moved it without looking.
    expect(workers).toHaveLength(4)
    const good = published.filter(key => key.startsWith('01'))
    await until(() => got.size === good.length)
    const letters: string[] = []
    for await (const { feedID, deliveries } of readDeadLetters(await world.connect(), {
      queue: 'desk',
    }))
      letters.push(`${feedID} ${deliveries}`)
    expect(letters).toEqual([`${feed(2)} 4`])
    expect(countOf(workers, 'redelivered')).toBeGreaterThanOrEqual(3)
  }, 60_000)

  test('or is no report, or is forged, is a dead letter at once', async () => {
    const { world, engine, publish, published } = await startPublishing()
    const { f, signers } = engine.network
    const plugins = queuePreset({ verify: { signers: { f, signers: [...signers] } } })
    const got: string[] = []
    const worker = await open(world, report => void got.push(keyOf(report)), { plugins })
    const first = engine.publish(feed(1))
    published.push(keyOf(first))
    const log = jetstream(await world.connect())
    const subject = `sluice.3.${feed(1)}`
    await log.publish(subject, 'no frame')
    const digits = first.fullReport
    const forged = `${digits.slice(0, 2 + 64 * 14 + 60)}abcd${digits.slice(2 + 64 * 15)}`
    const envelope = { report: { feedID: feed(1), fullReport: forged } }
    await log.publish(subject, JSON.stringify(envelope))
    await publish(4)
    await until(() => worker.stream.getMetrics().deadLetters === 2)
    await until(() => got.length === 5)
    const reasons: string[] = []
    for await (const { reason, data } of readDeadLetters(await world.connect(), {
      queue: 'desk',
    })) {
      reasons.push(reason)
      if (reason === 'no-report') expect(new TextDecoder().decode(data)).toBe('no frame')
    }
    expect(reasons.sort()).toEqual(['no-report', 'signature'])
    expect(got.sort()).toEqual(published.sort())
    expect(worker.errors.map(error => (error as Error & { code: string }).code).sort()).toEqual([
      'RELAY_LOG',
      'RELAY_LOG',
      'VERIFICATION',
      'WS_FRAME',
    ])
  })
})
