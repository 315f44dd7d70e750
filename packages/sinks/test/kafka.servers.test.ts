// The store of Kafka against a real broker, read by a consumer that is not ours.
import { readFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import { kafka } from '@sluice/sinks/kafka'
import { allDecoders } from '@sluice/source/plugins/decoders/versions.js'
import { transformSync } from 'esbuild'
import { ValidationError } from 'sluice/core'
import { createDecoderTable, Report } from 'sluice/report'
import { type Consumed, consume, opening, useKafka } from './support/kafka.js'
import { batchOf } from './support/postgres.js'
import { feedOf, makeCandle, makeReport, makeReports, TIME, versions } from './support/reports.js'

const world = useKafka()

async function failureOf(promise: Promise<unknown>): Promise<Error> {
  const error = await promise.then(
    () => undefined,
    thrown => thrown,
  )
  if (!(error instanceof Error)) throw new Error('it did not reject')
  for (const shown of [inspect(error, { depth: 9, showHidden: true }), JSON.stringify(error)])
    for (const password of Object.values(world.server.passwords))
      expect(shown).not.toContain(password)
  return error
}

function expectFinal(error: unknown, message: RegExp): void {
  expect(error).toBeInstanceOf(ValidationError)
  expect((error as Error).message).toMatch(message)
}

function expectRetryable(error: unknown, message: RegExp): void {
  expect(error).not.toBeInstanceOf(ValidationError)
  expect(error).toMatchObject({ isRetryable: true, message: expect.stringMatching(message) })
}

/** The messages of each feed, in the order of the topic. */
function byFeed(messages: readonly Consumed[]): ReadonlyMap<string, readonly Consumed[]> {
  const feeds = new Map<string, Consumed[]>()
  for (const message of messages)
    feeds.set(message.key, [...(feeds.get(message.key) ?? []), message])
  return feeds
}

/** Holds a topic to the reports that were written: each once, in order per feed. */
function expectOnce(messages: readonly Consumed[], reports: readonly Report[]): void {
  expect(messages).toHaveLength(reports.length)
  for (const [feedID, found] of byFeed(messages)) {
    expect(new Set(found.map(({ partition }) => partition)).size).toBe(1)
    const times = reports
      .filter(report => report.feedID === feedID)
      .map(({ observationsTimestamp }) => observationsTimestamp)
    expect(found.map(({ value }) => value.observationsTimestamp)).toEqual(times)
  }
}

describe('a message', () => {
  test('of each version has the fields of the report, and its id', async () => {
    const topic = world.topic()
    const { plain: brokers } = world.server
    const store = await world.open({ brokers, topic, create: { partitions: 3 } })
    expect(store.name).toBe(`kafka ${brokers}/${topic}`)
    expect(store.position).toBeUndefined()
    const low = { price: -(2n ** 191n), nativeFee: 2n ** 192n - 1n }
    const reports = [
      ...versions.map(version => makeReport({ version })),
      makeReport({ time: TIME + 1, values: low, origin: 'wss://localhost', source: 'backfill' }),
      new Report(
        feedOf(42),
        makeReport().fullReport,
        TIME - 1,
        TIME,
        'wss://localhost#002',
        'live',
        createDecoderTable(allDecoders),
      ),
    ]
    const before = Date.now()
    expect(await store.write(batchOf({ reports, candles: [makeCandle()] }))).toEqual([])
    const messages = await consume(world.server, topic)
    expectOnce(messages, reports)
    for (const report of reports) {
      const { feedID, observationsTimestamp: time, validFromTimestamp, fullReport } = report
      const id = `${feedID}:${time}`
      const found = messages.find(({ headers }) => headers['sluice-id'] === id)
      expect(found?.key).toBe(feedID)
      expect(found?.headers['sluice-version']).toBe(`V${Number(`0x${feedID.slice(3, 6)}`)}`)
      const { receivedAt, ...value } = found?.value ?? {}
      expect(receivedAt).toBeGreaterThanOrEqual(before)
      expect(receivedAt).toBeLessThanOrEqual(Date.now())
      const { decoded } = JSON.parse(JSON.stringify(report))
      expect(value).toEqual({
        ...{ feedID, observationsTimestamp: time, validFromTimestamp, fullReport },
        source: report.source,
        ...(report.originID !== undefined && { originID: report.originID }),
        ...(decoded !== undefined && { decoded }),
      })
    }
    const lowest = messages.find(({ value }) => value.observationsTimestamp === TIME + 1)
    expect(lowest?.value.decoded).toMatchObject({
      price: '-3138550867693340381917894711603833208051177722232017256448',
      nativeFee: '6277101735386680763835789423207666416102355444464034512895',
    })
  })

  test('of a candle goes to a topic of its own', async () => {
    const [topic, candleTopic] = [world.topic(), world.topic()]
    const { plain: brokers } = world.server
    const store = await world.open({ brokers, topic, candleTopic, create: true })
    const candles = [makeCandle(), makeCandle({ revision: 61, high: 2n ** 191n - 1n })]
    await store.write(batchOf({ candles, reports: [makeReport()] }))
    const messages = await consume(world.server, candleTopic)
    expect(messages.map(({ key, headers }) => [key, headers['sluice-id']])).toEqual([
      [feedOf(3), `${feedOf(3)}:1m:${TIME}:60`],
      [feedOf(3), `${feedOf(3)}:1m:${TIME}:61`],
    ])
    expect(messages[1]?.value).toMatchObject({ high: String(2n ** 191n - 1n), revision: 61 })
  })
})

describe('a write', () => {
  test.each(['none', 'gzip', 'snappy', 'lz4'] as const)(
    'of more than a request holds keeps the order of each feed, compressed by %s',
    async compression => {
      const topic = world.topic()
      const { plain: brokers } = world.server
      const create = { partitions: 4, replicas: 1 }
      const store = await world.open({ brokers, topic, create, compression })
      const reports = makeReports(1500, 30)
      await store.write(batchOf({ reports }))
      const messages = await consume(world.server, topic)
      expectOnce(messages, reports)
      expect(new Set(messages.map(({ partition }) => partition)).size).toBe(4)
    },
  )

  test('fits a topic that takes less, and says so of a message that never fits', async () => {
    const topic = world.topic()
    const { plain: brokers } = world.server
    await setTopic(topic, 'max.message.bytes=20000')
    const store = await world.open({ brokers, topic })
    const reports = makeReports(100, 3)
    await store.write(batchOf({ reports }))
    const messages = await consume(world.server, topic)
    expect(new Set(messages.map(({ headers }) => headers['sluice-id'])).size).toBe(100)
    const small = world.topic()
    await setTopic(small, 'max.message.bytes=1000')
    const other = await world.open({ brokers, topic: small })
    const error = await failureOf(other.write(batchOf({ reports })))
    expectFinal(error, /a message of \d+ bytes is too large .*: raise its max\.message\.bytes/)
    expect(await consume(world.server, small)).toEqual([])
  })

  test('of two sinks puts both into the topic', async () => {
    const topic = world.topic()
    const { plain: brokers } = world.server
    const options = { brokers, topic, create: { partitions: 2 } }
    const stores = await Promise.all([world.open(options), world.open(options)])
    const reports = makeReports(200, 4)
    await Promise.all(stores.map(store => store.write(batchOf({ reports }))))
    const messages = await consume(world.server, topic)
    const ids = messages.map(({ headers }) => headers['sluice-id'])
    expect(ids).toHaveLength(400)
    expect(new Set(ids).size).toBe(200)
  })
})

/** Makes a topic by Kafka's own tool. */
async function setTopic(topic: string, config: string): Promise<void> {
  const { spawnSync } = await import('node:child_process')
  const args = ['--bootstrap-server', world.server.plain, '--create', '--topic', topic]
  const tool = 'org.apache.kafka.tools.TopicCommand'
  const { status, stderr } = spawnSync(
    'java',
    world.server.tool(tool, ...args, '--config', config),
    { encoding: 'utf8' },
  )
  if (status !== 0) throw new Error(stderr)
}

describe('connections', () => {
  test('log in, and say what a refused login needs', async () => {
    const { sasl: brokers, plain, passwords } = world.server
    const topic = world.topic()
    await world.open({ brokers: plain, topic, create: true })
    const login = { mechanism: 'PLAIN', username: 'admin' } as const
    const right = await world.open({
      ...{ brokers, topic },
      sasl: { ...login, password: () => Promise.resolve(passwords.admin) },
    })
    await right.write(batchOf({ reports: [makeReport()] }))
    expect(await consume(world.server, topic)).toHaveLength(1)
    const wrong = kafka({ brokers, topic, sasl: { ...login, password: passwords.reader } })
    expectFinal(await failureOf(wrong.open(opening)), /correct sasl.username and sasl.password/)
    const scram = { ...login, mechanism: 'SCRAM-SHA-256', password: passwords.admin } as const
    const other = kafka({ brokers, topic, sasl: scram })
    expectFinal(await failureOf(other.open(opening)), /give another sasl.mechanism/)
    for (const store of [right, wrong, other])
      for (const shown of [inspect(store, { depth: 9, showHidden: true }), JSON.stringify(store)])
        for (const password of Object.values(passwords)) expect(shown).not.toContain(password)
    await Promise.all([wrong.close(), other.close()])
  })

  test('of a user without rights say which are needed', async () => {
    const { sasl: brokers, plain, passwords } = world.server
    const topic = world.topic()
    await world.open({ brokers: plain, topic, create: true })
    const sasl = {
      mechanism: 'PLAIN',
      username: 'reader',
      password: passwords.reader,
    } as const
    const store = kafka({ brokers, topic, sasl })
    expectFinal(
      await failureOf(store.open(opening)),
      /allow the user to Describe and Write .* the topic/,
    )
    await store.close()
  })

  test('go over TLS, whose certificate is checked', async () => {
    const { tls: brokers, plain, certificate } = world.server
    const topic = world.topic()
    const store = await world.open({ brokers, topic, create: true, tls: { ca: certificate } })
    await store.write(batchOf({ reports: [makeReport()] }))
    expect(await consume(world.server, topic)).toHaveLength(1)
    const untrusting = kafka({ brokers, topic, tls: true })
    expectFinal(await failureOf(untrusting.open(opening)), /authority as tls.ca/)
    const plaintext = kafka({ brokers: plain, topic, tls: true, timeout: 3000 })
    await failureOf(plaintext.open(opening))
    await Promise.all([untrusting.close(), plaintext.close()])
  })
})

describe('a failure', () => {
  test('for want of a topic says how it is made', async () => {
    const { plain: brokers } = world.server
    const store = kafka({ brokers, topic: world.topic() })
    expectFinal(await failureOf(store.open(opening)), /create the topic, or set the option create/)
    await store.close()
    const many = kafka({ brokers, topic: world.topic(), create: { replicas: 3 } })
    expectFinal(
      await failureOf(many.open(opening)),
      /create.replicas no more than there are brokers/,
    )
    await many.close()
  })

  test('of a broker that is away passes: the next write works when it is back', async () => {
    const { server } = world
    const topic = world.topic()
    // The library repeats a request for half of it.
    const timeout = 4000
    const store = await world.open({ brokers: server.plain, topic, create: true, timeout })
    const reports = makeReports(60, 3)
    await store.write(batchOf({ reports: reports.slice(0, 20) }))
    await server.stop('SIGKILL')
    const batch = batchOf({ reports: reports.slice(20, 40) })
    expectRetryable(await failureOf(store.write(batch)), /ECONNREFUSED|closed|ECONNRESET/)
    expectRetryable(await failureOf(store.write(batch)), /ECONNREFUSED/)
    expectRetryable(
      await failureOf(kafka({ brokers: server.plain, topic }).open(opening)),
      /ECONNREFUSED/,
    )
    await server.start()
    await untilDone(() => store.write(batch))
    await store.write(batchOf({ reports: reports.slice(40) }))
    // Nothing of a refused write was stored, so nothing is there twice.
    expectOnce(await consume(server, topic), reports)
  })

  test('of a broker that restarts during a write makes no duplicates', async () => {
    const { server } = world
    const topic = world.topic()
    const store = await world.open({ brokers: server.plain, topic, create: true })
    const reports = makeReports(6000, 3)
    let failures = 0
    const writing = (async () => {
      for (let from = 0; from < reports.length; from += 100) {
        const batch = batchOf({ reports: reports.slice(from, from + 100) })
        failures += await untilDone(() => store.write(batch))
      }
    })()
    await sleep(100)
    await server.stop('SIGKILL')
    await server.start()
    await writing
    const messages = await consume(server, topic)
    if (failures === 0) return expectOnce(messages, reports)
    // The restart took longer than the patience of the library, on a machine that is busy.
    expect(new Set(messages.map(({ headers }) => headers['sluice-id'])).size).toBe(6000)
    expect(messages.length - 6000).toBeLessThanOrEqual(100 * failures)
  })

  test('that loses an answer makes no duplicates', async () => {
    const { server } = world
    const topic = world.topic()
    await world.open({ brokers: server.plain, topic, create: true })
    let lost = 0
    const proxy = createServer(client => {
      const upstream = connect(server.lossy, '127.0.0.1')
      let isProduce = false
      client.on('data', data => {
        // After its length a request has its kind, and 0 is Produce. One is on its way at a time.
        isProduce ||= data.length > 6 && data.readInt16BE(4) === 0
        upstream.write(data)
      })
      upstream.on('data', data => {
        if (!isProduce || lost === 3) {
          isProduce = false
          client.write(data)
        } else {
          lost++
          client.destroy()
        }
      })
      client.on('error', () => undefined).on('close', () => upstream.destroy())
      upstream.on('error', () => undefined).on('close', () => client.destroy())
    }).listen(server.proxy, '127.0.0.1')
    try {
      const store = await world.open({ brokers: `127.0.0.1:${server.proxy}`, topic })
      const reports = makeReports(30, 3)
      await store.write(batchOf({ reports }))
      expect(lost).toBe(3)
      expectOnce(await consume(server, topic), reports)
      await store.close()
    } finally {
      proxy.close()
    }
  })

  test('of a broker that stands still ends after the time limit', async () => {
    const { server } = world
    const topic = world.topic()
    const options = { brokers: server.plain, topic, create: true, timeout: 1000 }
    const store = await world.open(options)
    await store.write(batchOf({ reports: [makeReport()] }))
    server.signal('SIGSTOP')
    const batch = batchOf({ reports: [makeReport({ time: TIME + 1 })] })
    try {
      const error = await failureOf(store.write(batch))
      expectRetryable(error, /no broker has answered for 1 s|timed out/)
    } finally {
      server.signal('SIGCONT')
    }
    await untilDone(() => store.write(batch))
    // The request of the first attempt may have waited in the broker. Its id tells the duplicate.
    const messages = await consume(server, topic)
    const ids = messages.map(({ headers }) => headers['sluice-id'])
    expect(new Set(ids).size).toBe(2)
    expect(ids.length).toBeLessThanOrEqual(3)
    // A repetition has the same bytes.
    const values = messages.slice(1).map(({ value }) => JSON.stringify(value))
    expect(new Set(values).size).toBe(1)
  })
})

test('the consumer of the recipe passes each report on once, also if it was sent again', async () => {
  const brokers = world.server.plain
  const store = await world.open({ brokers, topic: 'reports', create: { partitions: 2 } })
  const reports = [3, 4, 8].flatMap(version =>
    Array.from({ length: 20 }, (_, index) => makeReport({ version, time: TIME + index })),
  )
  await store.write(batchOf({ reports }))
  // A process that was killed before it saved its cursors.
  await store.write(batchOf({ reports: reports.slice(0, 30) }))
  const last = makeReport({ version: 11, time: TIME + 60 })
  await store.write(batchOf({ reports: [last] }))
  const page = readFileSync(join(__dirname, '../../../docs/guides/sinks-servers.md'), 'utf8')
  const source = /```ts\n(import \{ Consumer[^`]*)```/.exec(page)?.[1] ?? ''
  const { code } = transformSync(source, { loader: 'ts', format: 'cjs' })
  const module = { exports: {} as { readOnce: ReadOnce } }
  new Function('module', 'exports', 'require', code)(module, module.exports, require)
  const read: { readonly feedID: string; readonly observationsTimestamp: number }[] = []
  const end = new AbortController()
  await module.exports.readOnce(
    brokers,
    async text => {
      read.push(JSON.parse(text))
      // Copies may still come from the other partition.
      if (read.length === reports.length + 1) setTimeout(() => end.abort(), 500)
    },
    end.signal,
  )
  expect(read).toHaveLength(reports.length + 1)
  for (const { feedID } of [...new Map(reports.map(each => [each.feedID, each])).values()]) {
    const times = read
      .filter(each => each.feedID === feedID)
      .map(each => each.observationsTimestamp)
    expect(times).toEqual(Array.from({ length: 20 }, (_, index) => TIME + index))
  }
})

type ReadOnce = (
  brokers: string,
  handle: (report: string) => Promise<void>,
  signal: AbortSignal,
) => Promise<void>

/** Repeats a call until it succeeds. Returns how often it has failed. */
async function untilDone(call: () => Promise<unknown>): Promise<number> {
  for (let failures = 0; ; failures++) {
    try {
      await call()
      return failures
    } catch (error) {
      if (error instanceof ValidationError || failures === 200) throw error
      await sleep(100)
    }
  }
}
