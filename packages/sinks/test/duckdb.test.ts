import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { type DuckDBOptions, duckdb } from '@sluice/sinks/duckdb'
import { inForm } from '@sluice/test-support/tier.js'
import { pause } from '@sluice/test-support/waiting.js'
import type { SinkBatch, SinkRefusal } from 'sluice/plugins/sink'
import { defineDecoder, feedVersion, Report } from 'sluice/report'
import { batchOf, makeFolder, opening, query, type Row, withDatabase } from './support/databases.js'
import {
  feedOf,
  makeCandle,
  makeReport,
  makeReports,
  positionOf,
  rangeOf,
  TIME,
  tableWith,
  versions,
} from './support/reports.js'

const pathOf = (folder: string): string => join(folder, 'prices.db')

/** Writes batches into a new database, and returns its path and what was refused. */
async function written(
  batches: readonly Partial<SinkBatch>[],
  options: DuckDBOptions = {},
  path: string = pathOf(makeFolder()),
): Promise<{ readonly path: string; readonly refusals: readonly SinkRefusal[] }> {
  const store = duckdb(path, options)
  await store.open(opening())
  const refusals: SinkRefusal[] = []
  for (const batch of batches) refusals.push(...(await store.write(batchOf(batch))))
  await store.close()
  return { path, refusals }
}

const snakeCase = (name: string): string =>
  name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

/** The column of a decoded field, as SQL that gives the exact value as text. */
function inSQL(field: string, value: unknown): readonly [sql: string, text: string] {
  const name = snakeCase(field.replace(/Raw$/, ''))
  // The other bigints of the library's versions are fees, times and counts.
  const isPrice = typeof value === 'bigint' && !/Fee$|Raw$|TimestampNs$/.test(field)
  return isPrice
    ? [`replace("${name}"::VARCHAR, '.', '')::HUGEINT::VARCHAR`, String(value)]
    : [`"${name}"::VARCHAR`, String(value)]
}

describe('every version', () => {
  test('comes back exactly', async () => {
    const reports = versions.flatMap(version =>
      (['s', 'ms'] as const).flatMap(unit =>
        Array.from({ length: inForm(2, 6) }, (_, index) =>
          makeReport({
            ...{ version, seed: version * 100 + index },
            feedID: feedOf(version, 1, unit),
            time: index + (unit === 's' ? TIME : TIME * 1000 + 1),
          }),
        ),
      ),
    )
    const { path } = await written([{ reports }])
    const fieldsOf = (report: Report): readonly (readonly [string, unknown])[] => {
      const decoded = report.decoded as Readonly<Record<string, unknown>>
      const twins = Object.keys(decoded).filter(name => `${name}Raw` in decoded)
      return Object.entries(decoded).filter(
        ([name]) => !['version', 'feedID', ...twins].includes(name),
      )
    }
    await withDatabase(path, async connection => {
      for (const version of versions) {
        const own = reports.filter(({ feedID }) => feedVersion(feedID) === version)
        const columns = fieldsOf(own[0] as Report).map(
          ([name, value], index) => `${inSQL(name, value)[0]} AS c${index}`,
        )
        const result = await connection.runAndReadAll(
          `SELECT ${columns.join(', ')},
             feed_id, source, origin_id, beyond, epoch_ms(observed_at)::VARCHAR AS observed,
             received_at > now() - INTERVAL 1 DAY AND received_at <= now() AS is_received,
             '0x' || lower(hex(full_report)) AS full_report
           FROM reports_v${version} ORDER BY observations_timestamp`,
        )
        expect(result.getRowObjectsJson()).toEqual(
          own.map(report => {
            const { feedID, source, originID, fullReport, observationsTimestamp } = report
            const texts = fieldsOf(report).map(([name, value]) => inSQL(name, value)[1])
            return {
              ...Object.fromEntries(texts.map((text, index) => [`c${index}`, text])),
              ...{ feed_id: feedID, source, origin_id: originID, beyond: null },
              observed: String(observationsTimestamp * (feedID.startsWith('0x0') ? 1000 : 1)),
              full_report: fullReport,
              is_received: true,
            }
          }),
        )
      }
    })
  })

  test('all in one batch', async () => {
    const reports = versions.map(version => makeReport({ version }))
    const { path } = await written([{ reports, candles: [makeCandle()] }])
    const tables = await query(
      path,
      `SELECT table_name, estimated_size::INT AS n FROM duckdb_tables()
       WHERE table_name LIKE 'reports%' OR table_name = 'candles' ORDER BY length(table_name), 1`,
    )
    expect(tables).toEqual([
      { table_name: 'candles', n: 1 },
      ...versions.map(version => ({ table_name: `reports_v${version}`, n: 1 })),
    ])
  })

  test('a report that nobody decodes is kept with its bytes', async () => {
    const odd = makeReport()
    const cut = new Report(
      odd.feedID,
      odd.fullReport.slice(0, -64),
      TIME,
      TIME,
      'wss://localhost',
      'backfill',
      tableWith(),
    )
    const unknown = new Report(feedOf(77), '0x1234', TIME, TIME, 'x', 'live', tableWith())
    const { path } = await written([{ reports: [cut, unknown, odd] }], { raw: false })
    const rows = await query(
      path,
      `SELECT feed_id, '0x' || lower(hex(full_report)) AS bytes, source, origin_id
       FROM reports_undecoded ORDER BY feed_id`,
    )
    expect(rows).toEqual([
      { feed_id: odd.feedID, bytes: cut.fullReport, source: 'backfill', origin_id: null },
      { feed_id: feedOf(77), bytes: '0x1234', source: 'live', origin_id: null },
    ])
    expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 1 }])
  })

  test('of a decoder of yours', async () => {
    const mine = defineDecoder({
      version: 42,
      fields: { price: 'int192', source: 'string', haltedSince: 'uint32', big: 'uint256' },
    })
    const fields = { price: -5n, source: 'one\0two', haltedSince: 7, big: 2n ** 200n }
    const table = {
      ...tableWith(),
      decode: () => ({ nativeFee: 1n, linkFee: 2n, expiresAt: 3, ...fields }),
    }
    const report = new Report(feedOf(42), '0x00', TIME, TIME, 'x', 'live', table)
    const { path } = await written([{ reports: [report] }], { decoders: [mine] })
    const [row] = await query(path, 'FROM reports_v42')
    expect(row).toMatchObject({
      price: '-0.000000000000000005',
      // The name is that of another column.
      source: 'live',
      source_: null,
      halted_since: '7',
      big: null,
      beyond: JSON.stringify({ source_: 'one\0two', big: String(2n ** 200n) }),
    })
  })
})

/** The price column of reports with these prices, as text of the exact integer, and `beyond`. */
async function storedPrices(
  prices: readonly bigint[],
  options: DuckDBOptions = {},
): Promise<{ readonly rows: readonly Row[]; readonly refusals: readonly SinkRefusal[] }> {
  const reports = prices.map((price, index) =>
    makeReport({ time: TIME + index, values: { price, bid: 1, ask: 2 } }),
  )
  const { path, refusals } = await written([{ reports }], options)
  const rows = await query(
    path,
    `SELECT replace(price::VARCHAR, '.', '')::HUGEINT::VARCHAR AS price, beyond
     FROM reports_v3 ORDER BY observations_timestamp`,
  )
  return { rows, refusals }
}

describe('a value that its column can’t hold', () => {
  const most = 10n ** 38n - 1n
  const [least192, most192] = rangeOf('int192')

  test('the ends of DECIMAL(38,18) fit', async () => {
    const prices = [most, -most, most - 1n, 1n - most, 0n, 1n, -1n, 10n ** 18n, -(10n ** 18n)]
    const { rows } = await storedPrices(prices)
    expect(rows).toEqual(prices.map(price => ({ price: String(price), beyond: null })))
  })

  test('what is beyond them by one, and the ends of int192, are kept as text', async () => {
    const prices = [most + 1n, -most - 1n, most192, least192, most192 - 1n, least192 + 1n]
    const { rows, refusals } = await storedPrices(prices)
    expect(rows).toEqual(
      prices.map(price => ({ price: null, beyond: JSON.stringify({ price: String(price) }) })),
    )
    expect(refusals).toEqual([])
  })

  test('they are refused instead, and the others are stored', async () => {
    const prices = [1n, most + 1n, 2n, least192, most]
    const { rows, refusals } = await storedPrices(prices, { beyond: 'refuse' })
    expect(rows.map(({ price }) => price)).toEqual(['1', '2', String(most)])
    expect(
      refusals.map(({ report, reason }) => [report.observationsTimestamp - TIME, reason]),
    ).toEqual([
      [1, 'price needs 39 digits, and a DECIMAL(38,18) holds 38'],
      [3, 'price needs 58 digits, and a DECIMAL(38,18) holds 38'],
    ])
  })

  test('a batch of which all reports are refused', async () => {
    const { path, refusals } = await written(
      [{ reports: [makeReport({ values: { bid: most192 } })], position: { [feedOf(3)]: 5 } }],
      { beyond: 'refuse' },
    )
    expect(refusals.map(({ reason }) => reason)).toEqual([
      'bid needs 58 digits, and a DECIMAL(38,18) holds 38',
    ])
    expect(await query(path, 'SELECT position::INT AS p FROM sink_positions')).toEqual([{ p: 5 }])
  })

  test('fees, up to uint192', async () => {
    const [, most] = rangeOf('uint192')
    const fees = [10n ** 38n - 1n, 10n ** 38n, most, 0n]
    const reports = fees.map((nativeFee, index) =>
      makeReport({ time: TIME + index, values: { nativeFee, linkFee: nativeFee } }),
    )
    const { path } = await written([{ reports }])
    const rows = await query(
      path,
      'SELECT native_fee, link_fee, beyond FROM reports_v3 ORDER BY observations_timestamp',
    )
    const beyond = (fee: bigint): Row => ({
      ...{ native_fee: null, link_fee: null },
      beyond: JSON.stringify({ native_fee: String(fee), link_fee: String(fee) }),
    })
    expect(rows).toEqual([
      {
        native_fee: '99999999999999999999999999999999999999',
        link_fee: '9'.repeat(38),
        beyond: null,
      },
      beyond(10n ** 38n),
      beyond(most),
      { native_fee: '0', link_fee: '0', beyond: null },
    ])
  })

  test('of a candle it is always kept', async () => {
    const high = most + 1n
    const { path, refusals } = await written([{ candles: [makeCandle({ high })] }], {
      beyond: 'refuse',
    })
    expect(await query(path, 'SELECT high, low, beyond FROM candles')).toEqual([
      { high: null, low: '-0.000000000000000001', beyond: JSON.stringify({ high: String(high) }) },
    ])
    expect(refusals).toEqual([])
  })
})

describe('options', () => {
  test('decimals: a price of the feed’s decimals is the same price in the column', async () => {
    const feeds = [feedOf(3, 1), feedOf(3, 2), feedOf(3, 3)]
    const [one = '', two = ''] = feeds
    const values = { price: 123_456_789n, bid: -1n, ask: 10n ** 36n }
    const reports = feeds.map(feedID => makeReport({ feedID, values }))
    const { path } = await written(
      [{ reports, candles: [makeCandle({ feedID: one, open: 5n })] }],
      {
        decimals: { [one.toUpperCase().replace('0X', '0x')]: 8, [two]: 0 },
      },
    )
    const rows = await query(
      path,
      `SELECT price, bid, ask, beyond FROM reports_v3 ORDER BY list_position(['${one}', '${two}'], feed_id) NULLS LAST`,
    )
    expect(rows).toEqual([
      {
        price: '1.234567890000000000',
        bid: '-0.000000010000000000',
        ask: null,
        // The integer as the report has it, not as the column would.
        beyond: JSON.stringify({ ask: String(10n ** 36n) }),
      },
      {
        price: '123456789.000000000000000000',
        bid: '-1.000000000000000000',
        ask: null,
        beyond: JSON.stringify({ ask: String(10n ** 36n) }),
      },
      {
        price: '0.000000000123456789',
        bid: '-0.000000000000000001',
        ask: '1000000000000000000.000000000000000000',
        beyond: null,
      },
    ])
    expect(await query(path, 'SELECT open FROM candles')).toEqual([
      { open: '0.000000050000000000' },
    ])
  })

  test('raw: without the bytes, and with them again', async () => {
    const { path } = await written([{ reports: makeReports(2) }], { raw: false })
    expect(await query(path, 'DESCRIBE reports_v3')).not.toContainEqual(
      expect.objectContaining({ column_name: 'full_report' }),
    )
    await written([{ reports: makeReports(2, 5, TIME + 10) }], {}, path)
    await written([{ reports: makeReports(2, 5, TIME + 20) }], { raw: false }, path)
    expect(
      await query(
        path,
        `SELECT (full_report IS NULL) AS bare, count(*)::INT AS n FROM reports_v3 GROUP BY 1 ORDER BY 1`,
      ),
    ).toEqual([
      { bare: false, n: 2 },
      { bare: true, n: 4 },
    ])
  })

  test('name: each sink has its own position, and the rows are there once', async () => {
    const path = pathOf(makeFolder())
    const [one, other] = [duckdb(path), duckdb(path, { name: 'other' })]
    await one.open(opening())
    await other.open(opening())
    const reports = makeReports(20)
    const [a = '', b = ''] = [feedOf(3, 1), feedOf(3, 2)]
    await one.write(batchOf({ reports, position: { [a]: 1, [b]: 2 } }))
    await other.write(batchOf({ reports, position: { [a]: 7 } }))
    // A feed that is not in the position keeps the one that it has.
    await one.write(batchOf({ position: { [b]: 3 } }))
    expect(await one.position?.()).toEqual({ [a]: 1, [b]: 3 })
    expect(await other.position?.()).toEqual({ [a]: 7 })
    await Promise.all([one.close(), other.close()])
    expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 20 }])
  })

  test('two sinks that write the same reports at once', async () => {
    const rounds = inForm(3, 10)
    const path = pathOf(makeFolder())
    const stores = ['one', 'two', 'three'].map(name => duckdb(path, { name }))
    await Promise.all(stores.map(store => store.open(opening())))
    for (let round = 0; round < rounds; round++) {
      const reports = makeReports(40, 5, TIME + 8 * round)
      const batch = batchOf({
        ...{ reports, position: positionOf(reports) },
        candles: [makeCandle({ revision: round })],
      })
      await Promise.all(stores.map(store => store.write(batch)))
    }
    await Promise.all(stores.map(store => store.close()))
    expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([
      { n: 40 * rounds },
    ])
    expect(await query(path, 'SELECT count(*)::INT AS n FROM sink_positions')).toEqual([{ n: 15 }])
  })
})

describe('a batch that comes again', () => {
  test('is stored once, and its first values stay', async () => {
    const [first, ...others] = makeReports(10)
    const changed = makeReport({ feedID: first?.feedID as string, time: TIME, seed: 99 })
    const batch = { reports: [first as Report, ...others], candles: [makeCandle()] }
    const { path } = await written([batch, batch, { reports: [changed] }, batch])
    expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 10 }])
    expect(await query(path, 'SELECT count(*)::INT AS n FROM candles')).toEqual([{ n: 1 }])
    const [row] = await query(
      path,
      `SELECT '0x' || lower(hex(full_report)) AS bytes FROM reports_v3
       WHERE feed_id = '${first?.feedID}' AND observations_timestamp = ${TIME}`,
    )
    expect(row?.bytes).toBe(first?.fullReport)
  })

  test('has the same report twice', async () => {
    const reports = makeReports(10)
    const { path } = await written([{ reports: [...reports, ...reports] }])
    expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 10 }])
  })

  test('is larger than a chunk of DuckDB', async () => {
    const reports = makeReports(2100)
    const { path } = await written([{ reports }, { reports }])
    expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 2100 }])
  })

  test('is empty', async () => {
    const { path } = await written([{}, { position: {} }])
    expect(await query(path, 'SELECT count(*)::INT AS n FROM sink_positions')).toEqual([{ n: 0 }])
  })
})

describe('candles', () => {
  const closes = async (path: string): Promise<unknown> =>
    query(
      path,
      'SELECT start_time::INT AS start, close, revision::INT AS revision FROM candles ORDER BY 1',
    )
  const close = (units: number): string => `${units}.000000000000000000`
  const candle = (revision: number, units: number, start = TIME) =>
    makeCandle({ start, revision, close: BigInt(units) * 10n ** 18n })

  test('a candle replaces that with a lower or the same revision, within a batch and after it', async () => {
    const { path } = await written([
      { candles: [candle(3, 1), candle(5, 2), candle(4, 3), candle(1, 9, TIME + 60)] },
      { candles: [candle(4, 4)] },
      { candles: [candle(5, 5), candle(5, 6)] },
      { candles: [candle(2, 7, TIME + 60)] },
      { candles: [candle(4, 8)] },
    ])
    expect(await closes(path)).toEqual([
      { start: TIME, close: close(6), revision: 5 },
      { start: TIME + 60, close: close(7), revision: 2 },
    ])
  })

  test('all columns', async () => {
    const missing = [{ from: TIME + 3, to: TIME + 9 }]
    const { path } = await written([{ candles: [makeCandle({ complete: false, missing })] }])
    expect(await query(path, 'FROM candles')).toEqual([
      {
        feed_id: feedOf(3),
        candle_interval: '1m',
        start_time: String(TIME),
        end_time: String(TIME + 59),
        started_at: '2027-01-15 08:00:00+00',
        open: '4231.000000000000000001',
        high: '4239.000000000000000002',
        low: '-0.000000000000000001',
        close: '4235.000000000000000003',
        twap: '4234.000000000000000004',
        report_count: '60',
        complete: false,
        missing: JSON.stringify(missing),
        revision: '60',
        beyond: null,
      },
    ])
  })
})

test('a database of an earlier version gets the columns that it lacks', async () => {
  const path = pathOf(makeFolder())
  await written(
    [{ reports: makeReports(4), candles: [makeCandle()], position: { x: 1 } }],
    {},
    path,
  )
  // As that version had made them.
  await query(
    path,
    'ALTER TABLE reports_v3 DROP COLUMN origin_id',
    'ALTER TABLE reports_v3 DROP COLUMN received_at',
    'ALTER TABLE reports_v3 DROP COLUMN beyond',
    'ALTER TABLE candles DROP COLUMN beyond',
    'DROP TABLE sluice_schema',
    'CREATE VIEW mine AS SELECT feed_id, price FROM reports_v3',
  )
  const later = makeReports(4, 5, TIME + 9)
  const wide = makeReport({ time: TIME + 50, values: { price: 10n ** 40n } })
  await written([{ reports: [...makeReports(4), ...later, wide] }], {}, path)
  const rows = await query(
    path,
    `SELECT origin_id, received_at IS NULL AS is_old, beyond
     FROM reports_v3 ORDER BY observations_timestamp`,
  )
  expect(rows).toEqual([
    ...Array(4).fill({ origin_id: null, is_old: true, beyond: null }),
    ...Array(4).fill({ origin_id: '001', is_old: false, beyond: null }),
    { origin_id: '001', is_old: false, beyond: JSON.stringify({ price: String(10n ** 40n) }) },
  ])
  expect(await query(path, 'SELECT version FROM sluice_schema')).toEqual([{ version: 1 }])
  expect(await query(path, 'SELECT count(*)::INT AS n FROM mine')).toEqual([{ n: 9 }])
})

const isRefused = (running: Promise<unknown>): Promise<boolean> =>
  running.then(
    () => false,
    (error: Error) => {
      if (!error.message.includes('there are other write transactions active')) throw error
      return true
    },
  )

test('rows that a user deletes while the sink runs don’t come back', async () => {
  const path = pathOf(makeFolder())
  const store = duckdb(path)
  await store.open(opening())
  const all = makeReports(500)
  await store.write(
    batchOf({ reports: all.slice(0, 250), position: positionOf(all.slice(0, 250)) }),
  )
  const deleted = withDatabase(path, async connection => {
    const cut = `to_timestamp(${TIME + 20})`
    await connection.run(`DELETE FROM reports_v3 WHERE observed_at < ${cut}`)
    // DuckDB refuses it while the sink is within a write: a user tries again.
    while (await isRefused(connection.run('CHECKPOINT'))) await pause(1)
  })
  // The sink writes at the same time.
  for (let at = 250; at < 500; at += 50) {
    const reports = all.slice(at, at + 50)
    await store.write(batchOf({ reports, position: positionOf(reports) }))
  }
  await deleted
  await store.close()
  const again = duckdb(path)
  await again.open(opening())
  // A stream would resume from here.
  const position = (await again.position?.()) ?? {}
  const rest = all.filter(each => each.observationsTimestamp > (position[each.feedID] ?? 0))
  expect(rest).toEqual([])
  await again.close()
  const [row] = await query(
    path,
    'SELECT count(*)::INT AS n, min(observations_timestamp)::INT AS least FROM reports_v3',
  )
  expect(row).toEqual({ n: 400, least: TIME + 20 })
})

test('a key that a user deleted can be stored again', async () => {
  const path = pathOf(makeFolder())
  const store = duckdb(path)
  await store.open(opening())
  await store.write(batchOf({ reports: makeReports(10) }))
  await query(path, 'DELETE FROM reports_v3 WHERE observations_timestamp = 1800000000')
  await store.write(batchOf({ reports: makeReports(10) }))
  await store.close()
  expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 10 }])
})

test('a user reads while the sink writes', async () => {
  const path = pathOf(makeFolder())
  const store = duckdb(path)
  await store.open(opening())
  let last = 0
  for (let at = 0; at < 300; at += 50) {
    await store.write(batchOf({ reports: makeReports(50, 5, TIME + at) }))
    const [row] = await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')
    expect(row?.n).toBe(last + 50)
    last += 50
  }
  await store.close()
})
