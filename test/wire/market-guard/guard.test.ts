import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import {
  type Client,
  createClient,
  defaultPreset,
  type Plugin,
  type Report,
  type StreamOptions,
} from '../../../index.js'
import { decoders, v2 } from '../../../plugins/decoders/index.js'
import {
  type MarketGuardOptions,
  type MarketVerdict,
  marketGuard,
} from '../../../plugins/market-guard/index.js'
import { memoryCursors } from '../../support/memory-cursors.js'
import { pause, until } from '../../support/waiting.js'

const feed = `0x1008${'ab'.repeat(30)}`
const other = `0x1002${'cd'.repeat(30)}`
const ns = (ms: number): bigint => BigInt(ms) * 1_000_000n
let engine: DataEngine
const clients: Client[] = []

beforeEach(async () => {
  engine = await startDataEngine({ feeds: [feed, other], intervalMs: 0, history: 0 })
})
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close()
  await engine.close()
})

/** Publishes a report of a market that is open (2) or closed (1). */
function publish(marketStatus: number, more = {}, how = {}) {
  const fields = { marketStatus, lastUpdateTimestamp: ns(Date.now()), ...more }
  return engine.publish(feed, fields, how).observationsTimestamp
}

async function open(
  options?: MarketGuardOptions,
  stream: StreamOptions = {},
  plugins: readonly Plugin[] = [],
) {
  const guard = marketGuard(options)
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  const stack = [guard, ...plugins, ...defaultPreset({ apiKey, userSecret })]
  const client = createClient({ endpoint, wsEndpoint, plugins: stack })
  clients.push(client)
  const opened = client.createStream([feed, other], stream)
  const reports: Report[] = []
  const verdicts: MarketVerdict[] = []
  const gaps: unknown[] = []
  opened.on('report', report => void reports.push(report))
  opened.on('market', verdict => void verdicts.push(verdict))
  opened.on('gap', gap => void gaps.push(gap))
  await opened.connect()
  const times = () => reports.map(report => report.observationsTimestamp)
  const reasons = () => verdicts.map(({ reason }) => reason)
  return { guard, client, stream: opened, reports, verdicts, times, reasons, gaps }
}

/** Resolves when a marker of the other feed has come, and so all reports before it. */
async function settled({ reports }: { reports: Report[] }): Promise<void> {
  const marker = engine.publish(other, { price: 5n }).observationsTimestamp
  await until(() =>
    reports.some(each => each.feedID === other && each.observationsTimestamp === marker),
  )
}

describe('drop', () => {
  test('keeps reports that are not tradable, and announces no gap for them', async () => {
    const opened = await open({ drop: true, openingTime: 0 })
    const first = publish(2)
    publish(1)
    publish(1)
    await settled(opened)
    const last = publish(2)
    await settled(opened)
    await pause(50)
    expect(opened.times().filter((_, at) => opened.reports[at]?.feedID === feed)).toEqual([
      first,
      last,
    ])
    expect(opened.reasons().filter(reason => reason !== 'open')).toEqual(['closed'])
    expect(opened.gaps).toEqual([])
    // Nothing is fetched again.
    expect(opened.stream.getMetrics()).toMatchObject({ backfilled: 0, gaps: 0, accepted: 4 })
  })

  test('without it, every report comes', async () => {
    const opened = await open()
    const times = [publish(2), publish(1), publish(0)]
    await settled(opened)
    expect(opened.times().slice(0, 3)).toEqual(times)
  })

  test.each(['automatic', 'manual'] as const)(
    'moves cursors: acknowledge %s',
    async acknowledge => {
      const cursors = memoryCursors()
      const opened = await open({ drop: true }, { cursors, acknowledge, saveInterval: 0 })
      const first = publish(2)
      const dropped = publish(1)
      await settled(opened)
      if (acknowledge === 'manual') {
        await pause(60)
        // The first report is not acknowledged: the cursor stays below it.
        expect(cursors.saved[feed] ?? 0).toBeLessThan(first)
        opened.reports[0]?.acknowledge?.()
      }
      await until(() => cursors.saved[feed] === dropped)
    },
  )

  test('tells other plugins that a dropped report is acknowledged, once', async () => {
    const acknowledged: number[] = []
    const returned: Report[] = []
    const sender: Plugin<never> = {
      name: 'sender',
      acknowledged: report =>
        void (report.feedID === feed && acknowledged.push(report.observationsTimestamp)),
      unacknowledged: report => void returned.push(report),
    }
    const opened = await open({ drop: true }, {}, [sender])
    const times = [publish(2), publish(1)]
    await settled(opened)
    expect(acknowledged).toEqual(times)
    expect(returned).toEqual([])
  })

  test('never drops the report of a request', async () => {
    const { client, guard } = await open({ drop: true })
    const time = publish(1)
    const report = await client.getLatestReport(feed)
    expect(report.observationsTimestamp).toBe(time)
    await until(() => guard.of(feed).reason === 'closed')
  })

  test('a fetched report is judged by what it says, and does not turn the verdict back', async () => {
    const opened = await open({ drop: true })
    const first = publish(2)
    await until(() => opened.reports.length === 1)
    const shut = publish(1, {}, { streamed: false })
    const missed = publish(2, {}, { streamed: false })
    const last = publish(2)
    await until(() => opened.times().includes(missed))
    expect(opened.times()).toEqual([first, last, missed])
    expect(opened.times()).not.toContain(shut)
    expect(opened.guard.of(feed).reason).toBe('open')
    expect(opened.gaps).toEqual([])
  })
})

describe('the verdict', () => {
  test('is at hand in the handler of the report, and before it', async () => {
    const { guard, stream, client } = await open()
    const at: unknown[] = []
    stream.on('market', ({ reason }) => void at.push(reason))
    stream.on('report', ({ feedID }) => void at.push(guard.of(feedID).tradable))
    publish(2)
    await until(() => at.length === 2)
    expect(at).toEqual(['open', true])
    await client.close()
    expect(guard.of(feed)).toMatchObject({ reason: 'no-report', tradable: false })
  })

  test('says since when it holds, and is one object while it does', async () => {
    const { guard, stream, verdicts } = await open({ maxAge: 1000 })
    const held: MarketVerdict[] = []
    stream.on('market', () => held.push(guard.of(feed), guard.of(feed)))
    const before = Date.now()
    publish(2)
    await until(() => verdicts.length === 2)
    expect(verdicts[0]?.reason).toBe('open')
    for (const [index, verdict] of held.entries()) expect(verdict).toBe(verdicts[index >> 1])
    expect(verdicts[0]?.since).toBeGreaterThanOrEqual(before - 5)
    expect(verdicts[0]?.since).toBeLessThanOrEqual(Date.now() + 5)
    expect(verdicts[1]).toMatchObject({ feedID: feed, reason: 'stale', tradable: false })
    // The present has fractions of a millisecond.
    expect(verdicts[1]?.since).toBeGreaterThan(before + 999)
  })

  test('is looked up by the clock even if the timer is late', async () => {
    const { guard, reports } = await open({ maxAge: 300 })
    publish(2)
    await until(() => reports.length === 1)
    const end = performance.now() + 350
    // Nothing else runs in the meantime.
    while (performance.now() < end);
    expect(guard.of(feed)).toMatchObject({ reason: 'stale', tradable: false })
  })

  test('is not changed by a report dated in the future', async () => {
    const opened = await open()
    publish(2)
    engine.publish(feed, { marketStatus: 1, observationsTimestamp: Date.now() + 60_000 })
    await settled(opened)
    expect(opened.guard.of(feed).reason).toBe('open')
  })

  test('of a report that can’t be decoded is a refusal', async () => {
    const guard = marketGuard({ catalogue: false })
    const { endpoint, wsEndpoint, apiKey, userSecret } = engine
    const preset = defaultPreset({ apiKey, userSecret }).filter(({ name }) => name !== 'decoders')
    const plugins = [guard, decoders(v2), ...preset]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    clients.push(client)
    const stream = client.createStream(feed)
    let count = 0
    stream.on('report', () => void count++)
    await stream.connect()
    publish(2)
    await until(() => count === 1)
    expect(guard.of(feed)).toMatchObject({ reason: 'undecodable', tradable: false })
  })

  test('has what a calendar says in its text, and survives a calendar that throws', async () => {
    const calendar = jest.fn((_feedID: string, _time: number): string | undefined => 'Thanksgiving')
    const { guard, verdicts } = await open({ calendar })
    publish(1)
    await until(() => verdicts.length === 1)
    expect(guard.of(feed).text).toBe('the market is closed; Thanksgiving')
    expect(calendar).toHaveBeenCalledWith(feed, verdicts[0]?.since as number)
    calendar.mockImplementation(() => {
      throw new Error('no calendar')
    })
    publish(0)
    await until(() => verdicts.length === 2)
    expect(guard.of(feed).text).toBe('the status of the market is unknown')
  })

  test('of a jump is lifted by accept', async () => {
    const { guard, verdicts, reasons } = await open()
    publish(2, { midPrice: 100n })
    publish(2, { midPrice: 300n })
    await until(() => verdicts.length === 2)
    guard.accept(feed)
    expect(reasons()).toEqual(['open', 'jump', 'open'])
    expect(guard.of(feed.toUpperCase().replace('0X', '0x')).reason).toBe('open')
    expect(() => guard.of('0x1')).toThrow('feedID must be 0x and 64 hexadecimal digits')
  })

  test('of a feed that is unsubscribed is forgotten', async () => {
    const { guard, stream, verdicts } = await open()
    publish(2)
    await until(() => verdicts.length === 1)
    await stream.unsubscribe(feed)
    expect(guard.of(feed).reason).toBe('no-report')
  })
})

describe('the catalogue', () => {
  const equity = `0x100b${'ef'.repeat(30)}`
  let answers: (() => unknown)[]
  let asked = 0
  const catalogue: Plugin<never> = {
    name: 'catalogue',
    call: next => async call => {
      if (call.kind !== 'request' || !call.url.includes('/discovery')) return next(call)
      asked++
      const feeds = answers.shift()?.() ?? []
      const body = new TextEncoder().encode(JSON.stringify({ feeds }))
      return { kind: 'request', status: 200, headers: new Headers(), body }
    },
  }
  beforeEach(async () => {
    await engine.close()
    asked = 0
    engine = await startDataEngine({ feeds: [equity], intervalMs: 0, history: 0 })
  })

  async function openEquity(options?: MarketGuardOptions) {
    const { endpoint, wsEndpoint, apiKey, userSecret } = engine
    const guard = marketGuard(options)
    const plugins = [guard, catalogue, ...defaultPreset({ apiKey, userSecret })]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    clients.push(client)
    const stream = client.createStream(equity)
    const verdicts: MarketVerdict[] = []
    stream.on('market', verdict => void verdicts.push(verdict))
    await stream.connect()
    const see = async (marketStatus: number): Promise<MarketVerdict> => {
      const time = ns(Date.now())
      engine.publish(equity, { marketStatus, lastSeenTimestampNs: time })
      await until(
        () =>
          stream.latest(equity)?.observationsTimestamp ===
          engine.ledger().at(-1)?.observationsTimestamp,
      )
      return guard.of(equity)
    }
    return { guard, see, verdicts }
  }

  test('that answers late turns the verdict', async () => {
    let release: () => void = () => undefined
    const late = new Promise<void>(resolve => {
      release = resolve
    })
    const slow: Plugin<never> = {
      name: 'slow',
      call: next => async call => {
        if (call.url.includes('/discovery')) await late
        return next(call)
      },
    }
    answers = [() => [{ feedId: equity, attributeType: 'OvernightHoursEquityPrice' }]]
    const { endpoint, wsEndpoint, apiKey, userSecret } = engine
    const guard = marketGuard()
    const plugins = [guard, slow, catalogue, ...defaultPreset({ apiKey, userSecret })]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    clients.push(client)
    const stream = client.createStream(equity)
    const verdicts: MarketVerdict[] = []
    stream.on('market', verdict => void verdicts.push(verdict))
    await stream.connect()
    engine.publish(equity, { marketStatus: 4, lastSeenTimestampNs: ns(Date.now()) })
    await until(() => verdicts.length === 1)
    expect(verdicts[0]).toMatchObject({
      reason: 'unexpected-status',
      text: 'the status has no meaning on this feed; status 4; the hours of the feed are unknown: the catalogue has not answered',
    })
    release()
    await until(() => verdicts.length === 2)
    expect(verdicts[1]).toMatchObject({ reason: 'open', tradable: true })
  })

  test('that is down leaves the cautious model, and the text says so', async () => {
    answers = [
      () => {
        throw new Error('down')
      },
    ]
    const { see } = await openEquity()
    await until(() => asked === 1)
    await pause(10)
    expect(await see(2)).toMatchObject({
      reason: 'hours-unknown',
      caution: true,
      text: expect.stringContaining('the catalogue is unavailable'),
    })
    expect((await see(3)).tradable).toBe(false)
  })

  test('that lacks the feed leaves the cautious model', async () => {
    answers = [() => [{ feedId: feed }]]
    const { see } = await openEquity()
    await pause(20)
    expect((await see(2)).text).toContain('the catalogue does not say them')
  })

  test('is not asked if told so', async () => {
    answers = []
    const { see } = await openEquity({ catalogue: false })
    expect((await see(2)).text).toContain('the catalogue is not asked')
    expect(asked).toBe(0)
  })
})

describe('the place in the stack', () => {
  test.each(['continuity', 'dedup'])('must be before %s', name => {
    const { endpoint, wsEndpoint, apiKey, userSecret } = engine
    const plugins: Plugin[] = [...defaultPreset({ apiKey, userSecret })]
    plugins.splice(plugins.findIndex(each => each.name === name) + 1, 0, marketGuard())
    expect(() => createClient({ endpoint, wsEndpoint, plugins })).toThrow(
      /(continuity|dedup) must stand below market-guard, which gets what you get/,
    )
  })
})

describe('a wrong option names its field and rule', () => {
  const throwing =
    (options: object): (() => unknown) =>
    () =>
      marketGuard(options as never)
  test.each<[object, string]>([
    [{ maxAge: -1 }, 'maxAge must be at least 0, not -1'],
    [{ maxage: 1 }, "unknown option 'maxage' of marketGuard; did you mean 'maxAge'?"],
    [{ sessionChange: 'stop' }, "sessionChange must be 'caution' or 'pause', not 'stop'"],
    [{ values: true }, "values must be 'positive', 'not-negative' or 'any', not boolean"],
    [{ drop: 'yes' }, 'drop must be true or false, not string'],
    [{ openStatus: 2 }, 'openStatus must be an array of statuses, not number'],
    [{ openStatus: [2, 1.5] }, 'openStatus[1] must be a whole number, not 1.5'],
    [{ calendar: {} }, 'calendar must be a function, not object'],
    [
      { feeds: { [feed]: { maxSpread: 'x' } } },
      `feeds[${feed}].maxSpread must be a number, not string`,
    ],
    [{ feeds: { [feed]: 5 } }, `feeds[${feed}] takes an object of options, not number`],
    [
      { feeds: { 'ETH/USD': {} } },
      'a key of feeds must be 0x and 64 hexadecimal digits, not "ETH/USD"',
    ],
    [{ feeds: [] }, 'feeds must be an object, not an array'],
    [
      { hours: { [feed]: '24/6' } },
      `hours[${feed}] must be 'standard', '24/5', '24/5-regular', '24/5-extended', '24/5-overnight', '24/7' or 'top-of-book', not '24/6'`,
    ],
  ])('%j', (options, message) => {
    expect(throwing(options)).toThrow(expect.objectContaining({ code: 'VALIDATION', message }))
  })

  test('a feed’s own policy adds to that of all feeds', async () => {
    const { guard, reports, verdicts } = await open({
      maxAge: 1,
      feeds: { [feed.replace('ab', 'AB')]: { maxAge: 60_000 } },
    })
    publish(2)
    engine.publish(other, { price: 5n })
    await until(() => reports.length === 2 && verdicts.length >= 2)
    await pause(20)
    expect([guard.of(feed).reason, guard.of(other).reason]).toEqual(['open', 'stale'])
  })
})

test('a stream with many feeds has one timer', async () => {
  const ids = Array.from(
    { length: 50 },
    (_, index) => `0x1002${String(index).padStart(4, '0').repeat(15)}`,
  )
  const many = await startDataEngine({ feeds: ids, intervalMs: 0, history: 0 })
  const { endpoint, wsEndpoint, apiKey, userSecret } = many
  const plugins = [marketGuard({ maxAge: 987_654 }), ...defaultPreset({ apiKey, userSecret })]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  clients.push(client)
  const stream = client.createStream(ids)
  let count = 0
  stream.on('report', () => void count++)
  await stream.connect()
  const timers = jest.spyOn(globalThis, 'setTimeout')
  try {
    for (let round = 0; round < 20; round++) for (const id of ids) many.publish(id, { price: 5n })
    await until(() => count === 1000)
    const ours = timers.mock.calls.filter(
      ([, ms]) => ms !== undefined && ms > 900_000 && ms < 1_000_000,
    )
    expect(ours.length).toBeLessThanOrEqual(2)
  } finally {
    timers.mockRestore()
    await many.close()
  }
})
