import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { ValidationError } from '../../../core/errors.js'
import {
  createClient,
  defaultPreset,
  type Plugin,
  type Stream,
  type StreamOptions,
} from '../../../index.js'
import { candles } from '../../../plugins/candles/index.js'
import { type SinkOptions, type SinkStatus, sink } from '../../../plugins/sink/index.js'
import { hurry } from '../../support/hurry.js'
import { memoryCursors } from '../../support/memory-cursors.js'
import { MemoryStore } from '../../support/memory-store.js'
import { feedID, type Service, startService } from '../../support/service/service.js'
import { failureOf, pause, until } from '../../support/waiting.js'

beforeEach(() => hurry())

const feed = feedID(3, 1, { milliseconds: true })
const other = feedID(3, 2, { milliseconds: true })
const far = feedID(3, 3, { milliseconds: true })
let service: Service
const closers: (() => Promise<void>)[] = []
beforeAll(async () => {
  service = await startService({ feeds: [feed, other, far], signatures: 'dummy' })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  await until(() => service.open === 0)
})
afterAll(() => service.close())

function open(
  store: MemoryStore,
  { sink: sinkOptions, more = [], feeds = feed, ...options }: Given = {},
) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const stored = sink(store, { maxDelay: 20, closeTimeout: 300, ...sinkOptions })
  const plugins = [stored, ...more, ...defaultPreset({ apiKey, userSecret, retryDelay: 5 })]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  const stream = client.createStream(feeds, { saveInterval: 0, ...options })
  const statuses: SinkStatus[] = []
  const errors: Error[] = []
  stream.on('sink', status => void statuses.push(status))
  stream.on('error', error => void errors.push(error))
  closers.push(async () => {
    await client.close()
    await stored.close()
  })
  const states = () => statuses.map(({ state }) => state)
  return { client, stream, sink: stored, statuses, states, errors }
}

interface Given extends StreamOptions {
  readonly sink?: SinkOptions
  readonly more?: readonly Plugin<never>[]
  readonly feeds?: string | readonly string[]
}

const publish = (count: number, id = feed): number[] =>
  Array.from({ length: count }, () => service.publish(id).observed)

function collect(stream: Stream): number[] {
  const times: number[] = []
  stream.on('report', report => void times.push(report.observationsTimestamp))
  return times
}

describe('a sink', () => {
  test('stores each report, without a handler, and is resumed from its position', async () => {
    const store = new MemoryStore()
    const first = open(store, { feeds: [feed, other] })
    await first.stream.connect()
    const times = [...publish(50), ...publish(50)]
    const others = publish(10, other)
    await until(() => store.rows.size === 110)
    await first.client.close()
    await first.sink.close()
    expect(store.times(feed)).toEqual(times)
    expect(store.times(other)).toEqual(others)
    expect(store.kept).toEqual({ [feed]: times.at(-1), [other]: others.at(-1) })
    expect([store.opened, store.closed]).toEqual([1, 1])

    const missed = publish(20)
    const next = open(store, { feeds: [feed, other] })
    await next.stream.connect()
    const later = publish(5)
    await until(() => store.times(feed).length === 125)
    expect(store.times(feed)).toEqual([...times, ...missed, ...later])
    // Nothing came again, since the end was clean.
    await next.sink.flush()
    expect(next.sink.metrics()).toMatchObject({ written: 25, refused: 0, failures: 0, pending: 0 })
  })

  test('passes each report on to handlers and loops, which need not wait for the store', async () => {
    const store = new MemoryStore()
    store.before = () => pause(50)
    const { stream } = open(store)
    const heard = collect(stream)
    const looped: number[] = []
    void (async () => {
      for await (const report of stream) looped.push(report.observationsTimestamp)
    })()
    await stream.connect()
    const times = publish(30)
    await until(() => heard.length === 30 && looped.length === 30)
    await until(() => store.rows.size === 30)
    expect([heard, looped, store.times(feed)]).toEqual([times, times, times])
  })

  test('acknowledges a report only when the store has it', async () => {
    const store = new MemoryStore()
    let answer: (() => void) | undefined
    store.before = () => new Promise<void>(resolve => (answer = resolve))
    const cursors = memoryCursors()
    const { stream } = open(store, { cursors })
    collect(stream)
    await stream.connect()
    const [time = 0] = publish(1)
    await until(() => answer !== undefined)
    await pause(100)
    expect(cursors.saved[feed] ?? 0).toBeLessThan(time)
    store.before = () => undefined
    answer?.()
    await until(() => cursors.saved[feed] === time)
  })

  test('waits for a store that is away, pauses the stream, and loses nothing', async () => {
    const store = new MemoryStore()
    const { stream, states, statuses, sink: stored } = open(store, { queue: 64 })
    await stream.connect()
    const before = publish(10)
    await until(() => store.rows.size === 10)
    store.before = () => {
      throw new Error('the disk is full')
    }
    const away: number[] = []
    for (let round = 0; round < 20; round++) {
      away.push(...publish(20))
      await pause(5)
    }
    await until(() => states().includes('away'))
    expect(statuses.find(({ state }) => state === 'away')?.error?.message).toBe('the disk is full')
    // What the socket had read before the pause still comes.
    expect(stored.metrics().pending).toBeLessThan(400)
    expect(stored.metrics().awaySince).toBeGreaterThan(0)
    store.before = () => undefined
    await until(() => store.rows.size === 410)
    expect(store.times(feed)).toEqual([...before, ...away])
    await until(() => states().at(-1) === 'back')
  })

  test('stores once what a store had taken when its answer was lost', async () => {
    const store = new MemoryStore()
    let lost = 0
    store.after = () => {
      if (lost++ < 3) throw new Error('the connection was reset')
    }
    const { stream, sink: stored } = open(store)
    await stream.connect()
    const times = publish(5)
    await until(() => stored.metrics().written === 5)
    expect(store.times(feed)).toEqual(times)
    expect(stored.metrics()).toMatchObject({ failures: 3, batches: expect.any(Number) })
  })

  test('writes by count, by bytes and by time', async () => {
    const store = new MemoryStore()
    const { stream } = open(store, {
      cursors: memoryCursors(),
      sink: { maxReports: 10, maxDelay: 60_000 },
    })
    await stream.connect()
    publish(25)
    await until(() => store.rows.size === 20)
    await pause(50)
    expect(store.rows.size).toBe(20)
    expect(Math.max(...store.batches)).toBe(10)

    const byBytes = new MemoryStore()
    const second = open(byBytes, {
      cursors: memoryCursors(),
      sink: { maxBytes: 2000, maxDelay: 60_000 },
    })
    await second.stream.connect()
    publish(3)
    await until(() => byBytes.rows.size > 0)
  })

  test('ends the stream with the reason if waiting does not help', async () => {
    const store = new MemoryStore()
    const { stream, sink: stored } = open(store)
    await stream.connect()
    publish(1)
    await until(() => store.rows.size === 1)
    store.before = () => {
      throw new ValidationError('the table reports_v3 has another shape')
    }
    publish(1)
    const error = await failureOf(stream.closed)
    expect(error).toMatchObject({
      code: 'SINK',
      message: 'sink memory: write failed for good: the table reports_v3 has another shape',
    })
    await expect(stored.flush()).rejects.toThrow('failed for good')
    expect(stored.metrics().pending).toBe(1)
  })

  test('rejects connect if the store can not be opened', async () => {
    const store = new MemoryStore()
    store.open = async () => {
      throw new ValidationError('prices.db is no database')
    }
    const { stream } = open(store)
    await expect(stream.connect()).rejects.toThrow('prices.db is no database')
    await expect(stream.closed).rejects.toThrow('prices.db is no database')
  })

  test('opens a store that is away at the start once it is back', async () => {
    const store = new MemoryStore()
    const openStore = store.open.bind(store)
    let failures = 2
    store.open = async () => {
      if (failures-- > 0) throw new Error('connection refused')
      return openStore()
    }
    const { stream, states } = open(store)
    await stream.connect()
    publish(1)
    await until(() => store.rows.size === 1)
    expect(states()).toEqual(['away', 'back', 'open'])
  })

  test('announces each report that the store can not hold, and goes on', async () => {
    const store = new MemoryStore()
    const { stream, errors, sink: stored } = open(store)
    await stream.connect()
    const [, wide] = publish(3)
    store.refuse = report =>
      report.observationsTimestamp === wide
        ? 'price needs 58 digits, and a DECIMAL holds 38'
        : undefined
    await until(() => stored.metrics().refused === 1)
    expect(errors).toMatchObject([
      {
        code: 'SINK_REFUSED',
        message: `sink memory can't hold report ${feed} of ${wide}: price needs 58 digits, and a DECIMAL holds 38`,
      },
    ])
    await stored.flush()
    await until(() => store.kept[feed] !== undefined && store.kept[feed] > (wide ?? 0))
  })

  test('leaves what it could not write to the next stream', async () => {
    const store = new MemoryStore()
    const first = open(store)
    await first.stream.connect()
    const [known = 0] = publish(1)
    await until(() => store.kept[feed] === known)
    store.before = () => {
      throw new Error('away')
    }
    const left = publish(5)
    await until(() => first.sink.metrics().pending === 5)
    await first.client.close()
    await first.sink.close()
    expect(first.sink.metrics().pending).toBe(5)
    store.before = () => undefined
    const next = open(store)
    await next.stream.connect()
    await until(() => store.rows.size === 6)
    expect(store.times(feed)).toEqual([known, ...left])
  })

  test('fetches from a time on, and then goes on live', async () => {
    const store = new MemoryStore()
    const past = Array.from({ length: 30 }, () => service.store(far).observed)
    const [, , third = 0] = past
    const { stream } = open(store, { feeds: far, sink: { from: third } })
    await stream.connect()
    const live = publish(3, far)
    await until(() => store.rows.size === 31)
    expect(store.times(far)).toEqual([...past.slice(2), ...live])
  })

  test('advances the position with each page, also from a time within a report', async () => {
    const store = new MemoryStore()
    service.store(far)
    await pause(500)
    const { validFrom, observed } = service.store(far)
    const last = service.store(far).observed
    expect(observed - validFrom).toBeGreaterThan(5)
    const { stream } = open(store, { feeds: far, sink: { from: observed - 1 } })
    await stream.connect()
    await until(() => store.kept[far] === last)
    expect(store.times(far)).toEqual([observed, last])
  })

  test('is closed in time, also in the middle of a write that never ends', async () => {
    const store = new MemoryStore()
    store.before = ({ reports }) => (reports.length > 0 ? new Promise(() => undefined) : undefined)
    const { client, stream, sink: stored } = open(store)
    await stream.connect()
    publish(3)
    await until(() => stored.metrics().pending === 3)
    await client.close()
    await stored.close()
    expect(store.closed).toBe(1)
    expect(stored.metrics().pending).toBe(3)
  })

  test.each([
    ['no list', 'abc'],
    ['a report of its own', [{ report: {}, reason: 'strange' }]],
    ['no reason', undefined],
  ])('ends if the store answers with %s', async (_, answer) => {
    const store = new MemoryStore()
    const write = store.write.bind(store)
    store.write = async batch => {
      await write(batch)
      if (batch.reports.length === 0) return []
      return (answer ?? [{ report: batch.reports[0] }]) as never
    }
    const { stream, sink: stored } = open(store)
    await stream.connect()
    publish(2)
    expect(await failureOf(stream.closed)).toMatchObject({
      code: 'SINK',
      message: expect.stringContaining('write must resolve with a list of { report, reason }'),
    })
    expect(stored.metrics()).toMatchObject({ written: 0, refused: 0 })
  })

  test('keeps where a feed begins before its first report is stored', async () => {
    const store = new MemoryStore()
    const [time = 0] = Array.from({ length: 3 }, () => service.store(far).observed)
    store.before = ({ reports }) => {
      if (reports.length > 0) throw new Error('away')
    }
    const first = open(store, { feeds: far, sink: { from: time } })
    await first.stream.connect()
    await until(() => first.states().includes('away'))
    expect(store.kept).toEqual({ [far]: time - 1 })
    await first.client.close()
    await first.sink.close()
    // A later process would begin later, if it had to go by `from`.
    store.before = () => undefined
    const next = open(store, { feeds: far, sink: { from: Date.now() + 60_000 } })
    await next.stream.connect()
    await until(() => store.rows.size === 3)
  })

  test('two sinks each store all, and the next stream begins where the later one ended', async () => {
    const [quick, slow] = [new MemoryStore(), new MemoryStore()]
    const { apiKey, userSecret, endpoint, wsEndpoint } = service
    const start = () => {
      const sinks = [sink(quick, { maxDelay: 5 }), sink(slow, { name: 'slow', maxDelay: 5 })]
      const plugins = [...sinks, ...defaultPreset({ apiKey, userSecret, retryDelay: 5 })]
      const client = createClient({ endpoint, wsEndpoint, plugins })
      closers.push(() => client.close())
      return { client, sinks }
    }
    const first = start()
    await first.client.createStream(other, { saveInterval: 0 }).connect()
    const times = publish(4, other)
    await until(() => quick.rows.size === 4 && slow.rows.size === 4)
    slow.before = () => {
      throw new Error('away')
    }
    const later = publish(4, other)
    await until(() => quick.rows.size === 8)
    await first.client.close()
    expect(slow.kept[other]).toBeLessThan(later[0] as number)
    slow.before = () => undefined
    const second = start()
    await second.client.createStream(other, { saveInterval: 0 }).connect()
    await until(() => slow.rows.size === 8)
    expect([quick.times(other), slow.times(other)]).toEqual([
      [...times, ...later],
      [...times, ...later],
    ])
  })

  test('serves several clients and streams, and is closed with the last', async () => {
    const store = new MemoryStore()
    const { apiKey, userSecret, endpoint, wsEndpoint } = service
    const stored = sink(store, { maxDelay: 5 })
    const plugins = [stored, ...defaultPreset({ apiKey, userSecret, retryDelay: 5 })]
    const clients = [1, 2].map(() => createClient({ endpoint, wsEndpoint, plugins }))
    closers.push(...clients.map(client => () => client.close()))
    const [one, two] = clients.map((client, at) => client.createStream(at === 0 ? feed : other))
    await Promise.all([one?.connect(), two?.connect()])
    const times = [publish(3), publish(3, other)]
    await until(() => store.rows.size === 6)
    await clients[0]?.close()
    expect(store.closed).toBe(0)
    const [last] = publish(1, other)
    await until(() => store.rows.size === 7)
    await clients[1]?.close()
    await until(() => store.closed === 1)
    expect([store.times(feed), store.times(other)]).toEqual([
      times[0],
      [...(times[1] as number[]), last],
    ])
    expect(store.kept[other]).toBe(last)
  })

  test('of two clients that share it, stores the candles of the client that makes candles', async () => {
    const store = new MemoryStore()
    const { apiKey, userSecret, endpoint, wsEndpoint } = service
    const stored = sink(store, { maxDelay: 5 })
    const preset = defaultPreset({ apiKey, userSecret })
    const bars = candles({ intervals: ['1s'], warmUp: 0 })
    const [one, two] = [
      [stored, bars, ...preset],
      [stored, ...preset],
    ].map(plugins => {
      const client = createClient({ endpoint, wsEndpoint, plugins })
      closers.push(() => client.close())
      return client.createStream(other)
    })
    await Promise.all([one?.connect(), two?.connect()])
    const start = Math.ceil(Date.now() / 1000) * 1000 + 1000
    service.publish(other, { observed: start - 1, validFrom: start - 1 })
    service.publish(other, { observed: start + 999, validFrom: start })
    await until(() => store.candles.size === 1)
  })

  test('stores candles with the reports', async () => {
    const store = new MemoryStore()
    const bars = candles({ intervals: ['1s'], warmUp: 0 })
    const { stream } = open(store, { more: [bars], feeds: other })
    await stream.connect()
    const start = Math.ceil(Date.now() / 1000) * 1000 + 1000
    service.publish(other, { observed: start - 1, validFrom: start - 1 })
    service.publish(other, { observed: start + 999, validFrom: start, fields: { price: -7n } })
    await until(() => store.candles.size === 1)
    expect([...store.candles.values()]).toMatchObject([
      { feedID: other, interval: '1s', start, open: -7n, twap: -7n, complete: true, revision: 1 },
    ])
    expect(bars.of(other, '1s')).toBe([...store.candles.values()][0])
  })

  test.each([
    [() => sink(undefined as never), /store.open must be a function/],
    [() => sink({ open() {}, write() {}, close() {} } as never), /store.name is required/],
    [() => sink(new MemoryStore(), { maxReports: 0 }), /maxReports must be/],
    [() => sink(new MemoryStore(), { max: 1 } as never), /unknown option 'max' of sink/],
  ])('checks what it is given (%#)', (make, message) => {
    expect(make).toThrow(message)
  })

  test('has to stand above continuity', () => {
    const { apiKey, userSecret, endpoint, wsEndpoint } = service
    const stored = sink(new MemoryStore())
    const preset = defaultPreset({ apiKey, userSecret })
    expect(() => createClient({ endpoint, wsEndpoint, plugins: [...preset, stored] })).toThrow(
      /(continuity|dedup) must stand below sink, which gets what you get/,
    )
  })
})

test('a stream begins where the store that is furthest behind ended', async () => {
  const [ahead, behind] = [new MemoryStore(), new MemoryStore()]
  const times = publish(4, far)
  ahead.kept = { [far]: times[3] as number }
  behind.kept = { [far]: times[0] as number }
  const { stream } = open(ahead, { feeds: far, more: [sink(behind, { name: 'behind' })] })
  await stream.connect()
  await until(() => behind.rows.size === 3)
  expect(behind.times(far)).toEqual(times.slice(1))
})
