// The store of Postgres against a real server: what it writes, read back by SQL.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { postgres } from '@sluice/sinks/postgres'
import { allDecoders } from '@sluice/source/plugins/decoders/versions.js'
import { createDecoderTable, defineDecoder, Report } from 'sluice/report'
import { integerOf } from './support/decimals.js'
import { batchOf, type Database, usePostgres } from './support/postgres.js'
import {
  feedOf,
  makeCandle,
  makeReport,
  makeReports,
  positionOf,
  rangeOf,
  TIME,
  versions,
} from './support/reports.js'

const world = usePostgres()

/** Every column of a table as a text, in the order of the key. */
async function textsOf(
  database: Database,
  table: string,
): Promise<readonly Readonly<Record<string, string | null>>[]> {
  const columns = await database.run<{ column_name: string }>(
    'SELECT column_name FROM information_schema.columns WHERE table_name = $1',
    [table],
  )
  const texts = columns.map(({ column_name: name }) => `"${name}"::text`)
  const time = table === 'candles' ? 'start_time' : 'observations_timestamp'
  return database.run(`SELECT ${texts.join(', ')} FROM ${table} ORDER BY feed_id, ${table}.${time}`)
}

const columnOf = (field: string): string =>
  field.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

/** Holds a row to the report that it was made of, field by field. */
function expectRow(
  row: Readonly<Record<string, string | null>> | undefined,
  report: Report,
  decimals = 18,
): void {
  const decoded = report.decoded as Readonly<Record<string, bigint | number | string | boolean>>
  const decoder = allDecoders.find(({ version }) => decoded.version === `V${version}`)
  const expected: Record<string, unknown> = {}
  const found: Record<string, unknown> = {}
  for (const [name, type] of Object.entries(decoder?.fields ?? {})) {
    const text = row?.[columnOf(name)] ?? ''
    if (type.startsWith('int')) found[name] = integerOf(text, decimals)
    else found[name] = type === 'bool' ? text === 'true' : BigInt(text)
    const exact = type === 'uint64-twin' ? `${name}Raw` : name
    const value = decoded[exact]
    expected[name] = type === 'bool' ? value : BigInt(value as bigint)
  }
  for (const name of ['nativeFee', 'linkFee', 'expiresAt', 'validFromTimestamp'] as const) {
    found[name] = BigInt(row?.[columnOf(name)] ?? -1)
    expected[name] = BigInt(decoded[name] as bigint)
  }
  expect(found).toEqual(expected)
  expect(row).toMatchObject({
    feed_id: report.feedID,
    observations_timestamp: String(report.observationsTimestamp),
    full_report: `\\x${report.fullReport.slice(2)}`,
    source: report.source,
    origin_id: report.originID ?? null,
    received_at: expect.stringMatching(/^\d{4}-\d\d-\d\d /),
  })
}

/** The least and the greatest values that a report of a version can hold. */
function ends(version: number, at: 0 | 1): Record<string, bigint> {
  const fields = allDecoders.find(each => each.version === version)?.fields ?? {}
  const limits = { nativeFee: rangeOf('uint192')[at], linkFee: rangeOf('uint192')[at] }
  const own = Object.entries(fields).map(([name, type]) => [
    name,
    rangeOf(type.replace('-twin', '').replace('bool', 'uint32') as 'int192')[at],
  ])
  return { ...limits, ...Object.fromEntries(own) }
}

describe('a row', () => {
  test.each(versions)('of V%d holds every field, also at both ends', async version => {
    const database = await world.create()
    const store = await database.open(postgres(database.url))
    const reports = [
      makeReport({ version, time: TIME, seed: version }),
      makeReport({ version, time: TIME + 1, values: ends(version, 0) }),
      makeReport({ version, time: TIME + 2, values: ends(version, 1), origin: 'wss://localhost' }),
    ]
    expect(await store.write(batchOf({ reports }))).toEqual([])
    const rows = await textsOf(database, `reports_v${version}`)
    expect(rows).toHaveLength(3)
    for (const [index, report] of reports.entries()) expectRow(rows[index], report)
  })

  test('has decimals as the option says, for all feeds or for each', async () => {
    const values = { price: rangeOf('int192')[0], bid: 1n, ask: -123_456_789n }
    for (const [decimals, digits] of [
      [8, 8],
      [0, 0],
      [{ [feedOf(3).toUpperCase().replace('0X', '0x')]: 6 }, 6],
      [{ [feedOf(3, 2)]: 6 }, 18],
    ] as const) {
      const database = await world.create()
      const store = await database.open(postgres(database.url, { decimals }))
      const report = makeReport({ values })
      await store.write(batchOf({ reports: [report] }))
      expectRow((await textsOf(database, 'reports_v3'))[0], report, digits)
    }
  })

  test('has the moment of the observations, in seconds and in milliseconds', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url))
    const ms = feedOf(3, 1, 'ms')
    // The last is the greatest time that a report can have.
    const times = [1_800_000_000_001, 253_402_300_800_123, Number.MAX_SAFE_INTEGER]
    await store.write(
      batchOf({
        reports: [
          makeReport({ time: 4_294_967_295, values: { expiresAt: 4_294_967_295 } }),
          ...times.map(time => makeReport({ feedID: ms, time, values: { expiresAt: time } })),
        ],
      }),
    )
    const rows = await database.run<{ ms: string }>(
      'SELECT (extract(epoch FROM observed_at) * 1000)::bigint::text AS ms FROM reports_v3 ORDER BY observations_timestamp',
    )
    expect(rows.map(({ ms }) => Number(ms))).toEqual([4_294_967_295_000, ...times])
  })

  test('that nobody decodes keeps its bytes in a table of its own', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url, { raw: false }))
    const { fullReport } = makeReport()
    const table = createDecoderTable(allDecoders)
    const unknown = new Report(feedOf(42), fullReport, TIME, TIME, 'wss://x', 'backfill', table)
    const broken = new Report(
      feedOf(3),
      fullReport.slice(0, -2),
      TIME,
      TIME,
      'wss://x',
      'live',
      table,
    )
    await store.write(batchOf({ reports: [unknown, broken, makeReport({ time: TIME + 1 })] }))
    const rows = await textsOf(database, 'reports_undecoded')
    expect(rows.map(({ feed_id, source, full_report }) => [feed_id, source, full_report])).toEqual(
      [broken, unknown].map(({ feedID, source, fullReport }) => [
        feedID,
        source,
        `\\x${fullReport.slice(2)}`,
      ]),
    )
    expect(Object.keys((await textsOf(database, 'reports_v3'))[0] ?? {})).not.toContain(
      'full_report',
    )
  })

  test('of a decoder of yours has its columns', async () => {
    const v42 = defineDecoder({
      version: 42,
      fields: { price: 'int192', venue: 'bytes32', isHalted: 'bool' },
    })
    const database = await world.create()
    const store = await database.open(postgres(database.url, { decoders: [v42], decimals: 2 }))
    const table = createDecoderTable([v42])
    const { fullReport: model } = makeReport({ version: 3, time: TIME, values: { price: -1_234n } })
    const words = model.slice(2)
    const at = words.indexOf(feedOf(3).slice(2))
    const tail = `${'ab'.repeat(32)}${'0'.repeat(63)}1`
    const fullReport = `0x${words.slice(0, at)}${feedOf(42).slice(2)}${words.slice(at + 64, at + 7 * 64)}${tail}${words.slice(at + 9 * 64)}`
    await store.write(
      batchOf({
        reports: [new Report(feedOf(42), fullReport, TIME, TIME, 'wss://x', 'live', table)],
      }),
    )
    expect((await textsOf(database, 'reports_v42'))[0]).toMatchObject({
      price: '-12.34',
      venue: `0x${'ab'.repeat(32)}`,
      is_halted: 'true',
    })
  })

  test('has a text as it is, with quotes, backslashes and letters of any script', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url))
    const origin = 'wss://x#a"b\\c{d},NULL été 😀'
    await store.write(batchOf({ reports: [makeReport({ origin })] }))
    expect((await textsOf(database, 'reports_v3'))[0]?.origin_id).toBe(origin.split('#')[1])
  })
})

describe('a candle', () => {
  test('is replaced by a revision that is as high or higher', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url, { decimals: 18 }))
    const read = () =>
      database.run('SELECT close::text, revision::text, complete FROM candles ORDER BY start_time')
    await store.write(batchOf({ candles: [makeCandle({ revision: 5, close: 1n })] }))
    await store.write(batchOf({ candles: [makeCandle({ revision: 4, close: 2n })] }))
    expect(await read()).toEqual([{ close: '0.000000000000000001', revision: '5', complete: true }])
    await store.write(
      batchOf({ candles: [makeCandle({ revision: 5, close: 3n, complete: false })] }),
    )
    expect(await read()).toEqual([
      { close: '0.000000000000000003', revision: '5', complete: false },
    ])
    // Several revisions of one candle in one batch, and out of order.
    await store.write(
      batchOf({
        candles: [7, 9, 8].map(revision => makeCandle({ revision, close: BigInt(revision) })),
      }),
    )
    expect(await read()).toEqual([{ close: '0.000000000000000009', revision: '9', complete: true }])
  })

  test('holds every field', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url, { decimals: 18 }))
    const [low, high] = rangeOf('int192')
    const missing = [{ from: TIME, to: TIME + 4 }]
    const candle = makeCandle({ low, high, missing, complete: false, count: 3, revision: 4 })
    await store.write(batchOf({ candles: [candle] }))
    const [row] = await textsOf(database, 'candles')
    for (const name of ['open', 'high', 'low', 'close', 'twap'] as const)
      expect(integerOf(row?.[name] ?? '', 18)).toBe(candle[name])
    expect(row).toMatchObject({
      feed_id: candle.feedID,
      candle_interval: '1m',
      start_time: String(candle.start),
      end_time: String(candle.end),
      report_count: '3',
      revision: '4',
      complete: 'false',
      missing: JSON.stringify(missing),
    })
    expect(Date.parse(row?.started_at ?? '')).toBe(candle.start * 1000)
  })
})

describe('the position', () => {
  test('is that of the last write, for each name', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url))
    const other = await database.open(postgres(database.url, { name: 'other' }))
    expect(await store.position?.()).toEqual({})
    const position = { [feedOf(3)]: TIME, [feedOf(3, 2)]: Number.MAX_SAFE_INTEGER }
    await store.write(batchOf({ position }))
    await other.write(batchOf({ position: { [feedOf(3)]: 7 } }))
    await store.write(batchOf({ reports: [makeReport()] }))
    expect(await store.position?.()).toEqual(position)
    expect(await other.position?.()).toEqual({ [feedOf(3)]: 7 })
    await store.write(batchOf({ position: { [feedOf(3)]: TIME - 1 } }))
    const again = await database.open(postgres(database.url))
    expect(await again.position?.()).toEqual({ ...position, [feedOf(3)]: TIME - 1 })
  })

  test('is written with the reports or not at all', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url))
    await store.write(batchOf({ reports: [makeReport()], position: { [feedOf(3)]: TIME } }))
    await database.run(`
      CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '40001'; END $$`)
    const reports = [makeReport({ time: TIME + 1 })]
    const batch = batchOf({ reports, position: { [feedOf(3)]: TIME + 1 } })
    for (const table of ['sink_positions', 'reports_v3']) {
      await database.run(
        `CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION fail()`,
      )
      await expect(store.write(batch)).rejects.toMatchObject({ isRetryable: true })
      expect(await database.count('reports_v3')).toBe(1)
      expect(await store.position?.()).toEqual({ [feedOf(3)]: TIME })
      await database.run(`DROP TRIGGER fail ON ${table}`)
    }
    await store.write(batch)
    expect(await database.count('reports_v3')).toBe(2)
    expect(await store.position?.()).toEqual({ [feedOf(3)]: TIME + 1 })
  })
})

describe('a write', () => {
  test('that is repeated stores nothing twice', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url))
    const reports = versions.flatMap(version => [
      makeReport({ version }),
      makeReport({ version, time: TIME + 1 }),
    ])
    const batch = batchOf({ reports: [...reports, ...reports], candles: [makeCandle()] })
    await store.write(batch)
    await store.write(batch)
    for (const version of versions) expect(await database.count(`reports_v${version}`)).toBe(2)
    expect(await database.count('candles')).toBe(1)
  })

  test('does not bring back what a retention has deleted', async () => {
    const database = await world.create()
    const first = await database.open(postgres(database.url))
    const reports = makeReports(100)
    await first.write(batchOf({ reports, position: positionOf(reports) }))
    await database.run(
      `DELETE FROM reports_v3 WHERE observed_at < to_timestamp(${TIME + 10}) AT TIME ZONE 'UTC'`,
    )
    const kept = await database.count('reports_v3')
    await first.close()
    const second = await database.open(postgres(database.url))
    // A stream resumes behind the position.
    const resumed = (await second.position?.()) ?? {}
    const later = makeReports(25, 5, TIME + 18).filter(
      ({ feedID, observationsTimestamp }) => observationsTimestamp > (resumed[feedID] ?? 0),
    )
    await second.write(batchOf({ reports: later, position: positionOf(later) }))
    expect(kept).toBe(50)
    expect(await database.count('reports_v3')).toBe(kept + 15)
    const [oldest] = await database.run<{ at: number }>(
      'SELECT min(observations_timestamp)::int AS at FROM reports_v3',
    )
    expect(oldest?.at).toBe(TIME + 10)
  })

  test('of nothing is one transaction without rows', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url))
    expect(await store.write(batchOf({}))).toEqual([])
    expect(await store.position?.()).toEqual({})
  })
})

describe('two sinks', () => {
  test('make their tables at once', async () => {
    for (let round = 0; round < 5; round++) {
      const database = await world.create()
      const stores = Array.from({ length: 4 }, (_, index) =>
        postgres(database.url, { name: `sink ${index}` }),
      )
      await Promise.all(stores.map(store => database.open(store)))
      const batch = batchOf({
        reports: versions.map(version => makeReport({ version })),
        candles: [makeCandle()],
      })
      await Promise.all(stores.map(store => store.write(batch)))
      for (const version of versions) expect(await database.count(`reports_v${version}`)).toBe(1)
      expect(await database.count('sluice_schema')).toBe(versions.length + 1)
    }
  })

  test('of the same feeds store each report once, and never deadlock', async () => {
    const database = await world.create()
    const [one, other] = await Promise.all([
      database.open(postgres(database.url, { name: 'one' })),
      database.open(postgres(database.url, { name: 'other' })),
    ])
    const rounds = 8
    const size = 1500
    for (let round = 0; round < rounds; round++) {
      const v3 = makeReports(size, 20, TIME + size * round)
      const v4 = v3.map(({ observationsTimestamp: time }, index) =>
        makeReport({ version: 4, feedID: feedOf(4, 1 + (index % 20)), time, seed: index }),
      )
      const reports = [...v3, ...v4]
      const candles = Array.from({ length: 20 }, (_, number) =>
        makeCandle({ feedID: feedOf(3, 1 + number), revision: round }),
      )
      // The two get the same at once, in opposite orders.
      await Promise.all([
        one.write(batchOf({ reports, candles })),
        other.write(batchOf({ reports: reports.toReversed(), candles: candles.toReversed() })),
      ])
    }
    expect(await database.count('reports_v3')).toBe(size * rounds)
    expect(await database.count('reports_v4')).toBe(size * rounds)
    expect(await database.count('candles')).toBe(20)
    const [{ deadlocks } = {}] = await database.run(
      'SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()',
    )
    expect(deadlocks).toBe(0)
  })

  test('of different feeds keep both positions, even under one name', async () => {
    const database = await world.create()
    const stores = [
      await database.open(postgres(database.url)),
      await database.open(postgres(database.url)),
    ]
    const reports = [
      makeReports(50, 1),
      makeReports(50, 1).map(({ observationsTimestamp: time }) =>
        makeReport({ feedID: feedOf(3, 2), time }),
      ),
    ]
    await Promise.all(
      stores.map((store, index) =>
        store.write(
          batchOf({ reports: reports[index] ?? [], position: positionOf(reports[index] ?? []) }),
        ),
      ),
    )
    expect(await database.count('reports_v3')).toBe(100)
    expect(await stores[0]?.position?.()).toEqual(positionOf(reports.flat()))
  })
})

afterAll(() => expect(world.server.output).not.toContain('PANIC'))

/** A query of Grafana as its data source of Postgres sends it. */
function expandMacros(query: string, from: string, to: string): string {
  const named = { '1m': 60 } as const
  return query
    .replace(/\$__timeFilter\((\w+)\)/g, `$1 BETWEEN '${from}' AND '${to}'`)
    .replace(
      /\$__timeGroup\((\w+), '(1m)'\)/g,
      (_, column: string, length: keyof typeof named) =>
        `floor(extract(epoch from ${column})/${named[length]})*${named[length]}`,
    )
}

test('the queries for Grafana give prices, averages and delays', async () => {
  const database = await world.create()
  const store = await database.open(postgres(database.url))
  const feedID = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
  const minute = TIME - (TIME % 60)
  const reports = Array.from({ length: 90 }, (_, index) =>
    makeReport({ feedID, time: minute + index, values: { price: BigInt(index) * 10n ** 18n } }),
  )
  const receivedAt = reports.map((_, index) => (minute + index) * 1000 + 250)
  await store.write(batchOf({ reports, receivedAt }))
  const page = readFileSync(join(__dirname, '../../../docs/guides/sinks-servers.md'), 'utf8')
  const queries = [...page.matchAll(/```sql\n([^`]*)```/g)].map(([, sql = '']) => sql)
  const [prices, averages, delays] = await Promise.all(
    queries
      .filter(sql => sql.includes('$__'))
      .map(sql => {
        const at = (time: number): string => new Date(time * 1000).toISOString()
        return database.run<Record<string, unknown>>(expandMacros(sql, at(minute), at(minute + 89)))
      }),
  )
  expect(prices).toEqual(
    reports.map((_, index) => ({
      time: new Date((minute + index) * 1000),
      price: expect.stringMatching(new RegExp(`^${index}(\\.0*)?$`)),
    })),
  )
  const rows = averages?.map(({ time, metric, price }) => [Number(time), metric, Number(price)])
  expect(rows).toEqual([
    [minute, feedID, 29.5],
    [minute + 60, feedID, 74.5],
  ])
  expect(delays?.map(({ p99 }) => Number(p99))).toEqual([250, 250])
})
