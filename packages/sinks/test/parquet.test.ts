import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import fs from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { type ParquetOptions, parquet } from '@sluice/sinks/parquet'
import { inForm } from '@sluice/test-support/tier.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import type { SinkBatch, SinkRefusal } from 'sluice/plugins/sink'
import { feedVersion, type Report } from 'sluice/report'
import { batchOf, makeFolder, opening, query, type Row } from './support/databases.js'
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

afterEach(() => {
  jest.useRealTimers()
  jest.restoreAllMocks()
})

const { setTimeout: realTimeout } = globalThis

/** Has the test move the store's timers and its date. The rest is real. */
function startTime(): void {
  const others = ['hrtime', 'nextTick', 'performance', 'queueMicrotask', 'setImmediate'] as const
  jest.useFakeTimers({ doNotFake: [...others, 'clearImmediate', 'setInterval', 'clearInterval'] })
}

/** Resolves when a folder has so many files. */
async function filesIn(folder: string, count: number): Promise<void> {
  while (filesOf(folder).length < count) await new Promise(resolve => realTimeout(resolve, 5))
}

const JOURNAL = '.sluice-parquet.duckdb'
const newFolder = (): string => join(makeFolder(), 'prices')
const filesOf = (folder: string, start = ''): readonly string[] =>
  readdirSync(folder)
    .filter(name => name.endsWith('.parquet') && name.startsWith(start))
    .sort()

/** Runs SQL over files, which it calls FILES. */
const inFiles = (folder: string, sql: string, start = 'reports_v3'): Promise<readonly Row[]> =>
  query(
    ':memory:',
    sql.replaceAll('FILES', `read_parquet('${folder}/${start}-*.parquet', union_by_name = true)`),
  )

const counted = async (folder: string): Promise<unknown> => {
  const [row] = await inFiles(
    folder,
    `SELECT count(*)::INT AS n, count(DISTINCT (feed_id, observations_timestamp))::INT AS keys
     FROM FILES`,
  )
  return row
}

/** Writes batches into a folder by a store that is then closed. */
async function written(
  batches: readonly Partial<SinkBatch>[],
  options: ParquetOptions = {},
  folder: string = newFolder(),
): Promise<{ readonly folder: string; readonly refusals: readonly SinkRefusal[] }> {
  const store = parquet(folder, options)
  await store.open(opening())
  const refusals: SinkRefusal[] = []
  for (const batch of batches) refusals.push(...(await store.write(batchOf(batch))))
  await store.close()
  return { folder, refusals }
}

const snakeCase = (name: string): string =>
  name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

describe('the files', () => {
  // With DuckDB, the quick tier has all of them.
  test('versions come back exactly', async () => {
    const some = versions.slice(-inForm(4, versions.length))
    const reports = some.flatMap(version =>
      (['s', 'ms'] as const).map(unit =>
        makeReport({
          ...{ version, seed: version },
          feedID: feedOf(version, 1, unit),
          time: unit === 's' ? TIME : TIME * 1000 + 1,
        }),
      ),
    )
    const { folder } = await written([{ reports }])
    const names = some.map(version => `reports_v${version}`).sort()
    expect(filesOf(folder).map(name => name.replace(/-.*/, ''))).toEqual(names)
    const exact = (name: string, value: unknown): string => {
      const column = `"${snakeCase(name.replace(/Raw$/, ''))}"::VARCHAR`
      const isPrice = typeof value === 'bigint' && !/Fee$|Raw$|TimestampNs$/.test(name)
      return isPrice ? `replace(${column}, '.', '')::HUGEINT::VARCHAR` : column
    }
    const fieldsOf = (report: Report): readonly (readonly [string, unknown])[] => {
      const decoded = report.decoded as Readonly<Record<string, unknown>>
      return Object.entries(decoded).filter(
        ([name]) => !['version', 'feedID'].includes(name) && !(`${name}Raw` in decoded),
      )
    }
    for (const version of some) {
      const own = reports.filter(({ feedID }) => feedVersion(feedID) === version)
      const columns = fieldsOf(own[0] as Report).map(
        ([name, value], index) => `${exact(name, value)} AS c${index}`,
      )
      const rows = await inFiles(
        folder,
        `SELECT ${columns.join(', ')},
           '0x' || lower(hex(full_report)) AS full_report, epoch_ms(observed_at)::VARCHAR AS observed
         FROM FILES ORDER BY observations_timestamp`,
        `reports_v${version}`,
      )
      expect(rows).toEqual(
        own.map(report => ({
          ...Object.fromEntries(
            fieldsOf(report).map(([, value], index) => [`c${index}`, String(value)]),
          ),
          full_report: report.fullReport,
          observed: String(
            report.observationsTimestamp * (report.feedID.startsWith('0x0') ? 1000 : 1),
          ),
        })),
      )
    }
  })

  test('have exact types, also where DuckDB would write others', async () => {
    const { folder } = await written([{ reports: makeReports(2), candles: [makeCandle()] }])
    const types = await inFiles(
      folder,
      'SELECT column_name, column_type FROM (DESCRIBE FROM FILES)',
    )
    expect(Object.fromEntries(types.map(row => [row.column_name, row.column_type]))).toEqual({
      feed_id: 'VARCHAR',
      observations_timestamp: 'BIGINT',
      valid_from_timestamp: 'BIGINT',
      observed_at: 'TIMESTAMP WITH TIME ZONE',
      price: 'DECIMAL(38,18)',
      bid: 'DECIMAL(38,18)',
      ask: 'DECIMAL(38,18)',
      native_fee: 'DECIMAL(38,0)',
      link_fee: 'DECIMAL(38,0)',
      expires_at: 'BIGINT',
      full_report: 'BLOB',
      source: 'VARCHAR',
      origin_id: 'VARCHAR',
      received_at: 'TIMESTAMP WITH TIME ZONE',
      beyond: 'VARCHAR',
    })
  })

  test('are named for their table, the time and a number', async () => {
    const odd = makeReport({ version: 3, values: { price: 1 } })
    Object.defineProperty(odd, 'decoded', {
      get() {
        throw new Error('odd')
      },
    })
    const batch = { reports: [makeReport({ version: 8 }), odd], candles: [makeCandle()] }
    const { folder } = await written([batch])
    await written([{ reports: makeReports(1) }], {}, folder)
    const stamp = String.raw`\d{8}T\d{6}Z`
    const names = filesOf(folder)
    expect(names).toHaveLength(4)
    for (const [index, [table, number]] of (
      [
        ['candles', 1],
        ['reports_undecoded', 1],
        ['reports_v3', 2],
        ['reports_v8', 1],
      ] as const
    ).entries())
      expect(names[index]).toMatch(new RegExp(`^${table}-${stamp}-00000${number}\\.parquet$`))
    expect(readdirSync(folder).filter(name => !name.endsWith('.parquet'))).toEqual([JOURNAL])
  })

  test('keep what DECIMAL(38,18) can’t hold, or the report is refused', async () => {
    const [least, most] = rangeOf('int192')
    const edge = 10n ** 38n - 1n
    const prices = [edge, -edge, edge + 1n, -edge - 1n, most, least]
    const reports = prices.map((price, index) =>
      makeReport({ time: TIME + index, values: { price } }),
    )
    const sql = `SELECT replace(price::VARCHAR, '.', '')::HUGEINT::VARCHAR AS price, beyond
      FROM FILES ORDER BY observations_timestamp`
    const kept = await written([{ reports }])
    expect(await inFiles(kept.folder, sql)).toEqual(
      prices.map((price, index) =>
        index < 2
          ? { price: String(price), beyond: null }
          : { price: null, beyond: JSON.stringify({ price: String(price) }) },
      ),
    )
    const { folder, refusals } = await written([{ reports }], { beyond: 'refuse' })
    expect(await inFiles(folder, sql)).toEqual(
      [edge, -edge].map(price => ({ price: String(price), beyond: null })),
    )
    expect(refusals.map(({ report }) => report.observationsTimestamp - TIME)).toEqual([2, 3, 4, 5])
  })

  test('without the bytes and with decimals', async () => {
    const { folder } = await written([{ reports: [makeReport({ values: { price: 150n } })] }], {
      raw: false,
      decimals: 2,
    })
    expect(await inFiles(folder, 'SELECT price FROM FILES')).toEqual([
      { price: '1.500000000000000000' },
    ])
    await written([{ reports: [makeReport({ time: TIME + 1 })] }], {}, folder)
    expect(
      await inFiles(
        folder,
        'SELECT full_report IS NULL AS bare FROM FILES ORDER BY observations_timestamp',
      ),
    ).toEqual([{ bare: true }, { bare: false }])
  })
})

describe('a rotation', () => {
  test('by bytes', async () => {
    const folder = newFolder()
    const store = parquet(folder, { rotateBytes: 80_000 })
    await store.open(opening())
    const numbers: number[] = []
    for (let at = 0; at < 10; at++) {
      await store.write(batchOf({ reports: makeReports(50, 5, TIME + 10 * at) }))
      numbers.push(filesOf(folder).length)
    }
    // A report has about 1,000 bytes.
    expect(numbers).toEqual([0, 1, 1, 2, 2, 3, 3, 4, 4, 5])
    await store.close()
    expect(await counted(folder)).toEqual({ n: 500, keys: 500 })
  })

  test('by time, also where no more reports come', async () => {
    const folder = newFolder()
    startTime()
    const store = parquet(folder, { rotateMs: 1000 })
    await store.open(opening())
    await store.write(batchOf({ reports: makeReports(5) }))
    jest.advanceTimersByTime(600)
    await store.write(batchOf({ reports: makeReports(5, 5, TIME + 1) }))
    const timers = jest.getTimerCount()
    jest.advanceTimersByTime(399)
    expect([jest.getTimerCount(), filesOf(folder)]).toEqual([timers, []])
    jest.advanceTimersByTime(1)
    await filesIn(folder, 1)
    await store.close()
    expect(await counted(folder)).toEqual({ n: 10, keys: 10 })
    expect(filesOf(folder)).toHaveLength(1)
  })

  test('not by close, where that is not wanted: the next process goes on', async () => {
    startTime()
    const options = { rotateOnClose: false, rotateMs: 4000 }
    const { folder } = await written([{ reports: makeReports(5) }], options)
    expect(filesOf(folder)).toEqual([])
    jest.advanceTimersByTime(1000)
    const store = parquet(folder, options)
    await store.open(opening())
    await store.write(batchOf({ reports: makeReports(10) }))
    // The first row had waited for a second already.
    const timers = jest.getTimerCount()
    jest.advanceTimersByTime(2999)
    expect([jest.getTimerCount(), filesOf(folder)]).toEqual([timers, []])
    jest.advanceTimersByTime(1)
    await filesIn(folder, 1)
    await store.close()
    expect(await counted(folder)).toEqual({ n: 10, keys: 10 })
  })

  test('of nothing makes no file', async () => {
    const { folder } = await written([{}, { position: { [feedOf(3)]: 9 } }])
    expect(filesOf(folder)).toEqual([])
    const store = parquet(folder)
    await store.open(opening())
    expect(await store.position?.()).toEqual({ [feedOf(3)]: 9 })
    await store.close()
  })

  test('that fails is logged, and the rows go into files later', async () => {
    const folder = newFolder()
    const lines: string[] = []
    const store = parquet(folder, { rotateBytes: 70_000 })
    await store.open(opening(lines))
    const full = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })
    jest.spyOn(fs, 'rename').mockRejectedValue(full)
    let at = 0
    const write = (): Promise<unknown> =>
      store.write(batchOf({ reports: makeReports(50, 5, TIME + 10 * at) }))
    for (; at < 4; at++) await write()
    expect(lines).toEqual([
      `parquet ${folder} can’t be put into files: the disk is full; the rows wait in the journal`,
    ])
    // Once much waits, writes fail, too.
    let failure: (Error & Record<string, unknown>) | undefined
    while (failure === undefined) {
      const result = await write().catch(error => error)
      if (result instanceof Error) failure = result as Error & Record<string, unknown>
      else at++
    }
    expect(failure).toMatchObject({
      name: 'DataStreamsError',
      isRetryable: true,
      message: `parquet ${folder} can’t be written: the disk is full`,
    })
    expect(filesOf(folder)).toEqual([])
    expect(readdirSync(folder).filter(name => name.endsWith('.tmp'))).toEqual([])
    jest.restoreAllMocks()
    for (const end = at + 3; at < end; at++) await write()
    await store.close()
    expect(await counted(folder)).toEqual({ n: 50 * at, keys: 50 * at })
  })
})

describe('a report that comes again', () => {
  const all = makeReports(100)
  const [early, late] = [all.slice(0, 50), all.slice(50)]

  test('before its rotation, after it, and in another process', async () => {
    const { folder } = await written([{ reports: early }, { reports: all }])
    await written([{ reports: all }, { reports: early }], {}, folder)
    await written([{ reports: [...late, ...makeReports(5, 5, TIME + 20)] }], {}, folder)
    expect(await counted(folder)).toEqual({ n: 105, keys: 105 })
    expect(filesOf(folder)).toHaveLength(2)
  })

  test('with its position, as a sink does whose write failed after the transaction', async () => {
    const { folder } = await written([{ reports: all, position: positionOf(all) }])
    await written([{ reports: all, position: positionOf(all) }], {}, folder)
    expect(await counted(folder)).toEqual({ n: 100, keys: 100 })
  })

  test('a rotation later, although its position is stored', async () => {
    const batch = { reports: early, position: positionOf(early) }
    const { folder } = await written([batch])
    await written([{ reports: late, position: positionOf(late) }], {}, folder)
    await written([batch], {}, folder)
    expect(await counted(folder)).toEqual({ n: 100, keys: 100 })
  })

  test('and is newer than the position, many rotations later', async () => {
    const folder = newFolder()
    const position = positionOf(early)
    await written([{ reports: all, position }], {}, folder)
    for (let round = 0; round < 4; round++)
      await written([{ reports: makeReports(5, 5, TIME + 100 + round) }], {}, folder)
    await written([{ reports: late, position }], {}, folder)
    expect(await counted(folder)).toEqual({ n: 120, keys: 120 })
    // The keys of those that can’t come again are gone.
    const rows = await query(
      join(folder, JOURNAL),
      `SELECT min(time)::INT AS least, count(*)::INT AS n FROM parquet_keys`,
    )
    expect(rows).toEqual([{ least: TIME + 10, n: 70 }])
  })

  test('of a feed without a position: its keys are kept for a day', async () => {
    const at = (time: number): readonly Report[] => [
      makeReport({ time }),
      makeReport({ feedID: feedOf(3, 1, 'ms'), time: time * 1000 }),
    ]
    const times = [0, 3600, 80_000, 86_400, 86_401, 90_000].map(second => TIME + second)
    const folder = newFolder()
    for (const time of times) await written([{ reports: at(time) }], {}, folder)
    await written([{ reports: at(TIME + 3601) }], {}, folder)
    const rows = await query(
      join(folder, JOURNAL),
      `SELECT DISTINCT CASE WHEN feed_id LIKE '0x1%' THEN time // 1000 ELSE time END::INT AS second,
         count(*)::INT AS n FROM parquet_keys GROUP BY 1 ORDER BY 1`,
    )
    expect(rows.map(row => [Number(row.second) - TIME, row.n])).toEqual([
      [3601, 2],
      [80_000, 2],
      [86_400, 2],
      [86_401, 2],
      [90_000, 2],
    ])
  })
})

test('candles are appended, and a view has the newest of each', async () => {
  const candle = (revision: number, start = TIME) => makeCandle({ start, revision })
  const folder = newFolder()
  await written([{ candles: [candle(1), candle(2), candle(1, TIME + 60)] }], {}, folder)
  await written([{ candles: [candle(3)] }, { candles: [candle(4), candle(3)] }], {}, folder)
  expect(
    await inFiles(folder, 'SELECT revision::INT AS r FROM FILES ORDER BY start_time, 1', 'candles'),
  ).toEqual([{ r: 2 }, { r: 4 }, { r: 1 }])
  expect(
    await inFiles(
      folder,
      `SELECT start_time::INT AS start, revision::INT AS r FROM FILES
       QUALIFY row_number() OVER (
         PARTITION BY feed_id, candle_interval, start_time ORDER BY revision DESC
       ) = 1 ORDER BY 1`,
      'candles',
    ),
  ).toEqual([
    { start: TIME, r: 4 },
    { start: TIME + 60, r: 1 },
  ])
})

describe('the folder', () => {
  test('is made, but not those above it', async () => {
    const { folder } = await written([{ reports: makeReports(1) }])
    const store = parquet(join(folder, 'no', 'prices'))
    expect(await failureOf(store.open(opening()))).toMatchObject({
      name: 'ValidationError',
      message: `parquet ${join(folder, 'no', 'prices')} can’t be opened: the folder that it should be in does not exist; make it, or give another path`,
    })
    await store.close()
  })

  test('must be a folder', async () => {
    const path = join(makeFolder(), 'prices')
    writeFileSync(path, '')
    for (const folder of [path, join(path, 'deeper')]) {
      const store = parquet(folder)
      expect(await failureOf(store.open(opening()))).toMatchObject({ name: 'ValidationError' })
      await store.close()
    }
  })

  // With a store of another process: in the full tier.
  test('has one store at a time', async () => {
    const folder = newFolder()
    const [one, other] = [parquet(folder), parquet(folder)]
    await one.open(opening())
    expect(await failureOf(other.open(opening()))).toMatchObject({
      name: 'DataStreamsError',
      isRetryable: true,
      message: expect.stringMatching('writes into it'),
    })
    await one.close()
    await other.open(opening())
    await other.close()
  })

  test('may lose its journal: numbers go on', async () => {
    const { folder } = await written([{ reports: makeReports(5) }])
    await written([{ reports: makeReports(5, 5, TIME + 1) }], {}, folder)
    rmSync(join(folder, JOURNAL))
    await written([{ reports: makeReports(5, 5, TIME + 2) }], {}, folder)
    expect(filesOf(folder).map(name => name.slice(-'000001.parquet'.length))).toEqual([
      '000001.parquet',
      '000002.parquet',
      '000003.parquet',
    ])
  })

  test('has a journal that is no database', async () => {
    const folder = makeFolder()
    writeFileSync(join(folder, JOURNAL), 'x'.repeat(9999))
    const store = parquet(folder)
    expect(await failureOf(store.open(opening()))).toMatchObject({
      name: 'ValidationError',
      message: expect.stringMatching('it is not a DuckDB database'),
    })
    await store.close()
    // Nothing is left behind.
    expect(existsSync(join(folder, '.sluice-parquet.lock'))).toBe(false)
  })
})

test.each<[options: object, message: string]>([
  [{ rotateMs: 999 }, 'rotateMs must be at least 1000, not 999'],
  [{ rotateMs: Number.POSITIVE_INFINITY }, 'rotateMs must be finite'],
  [{ rotateBytes: 65_535 }, 'rotateBytes must be at least 65536, not 65535'],
  [{ rotateOnClose: 1 }, 'rotateOnClose must be true or false, not number'],
  [{ beyond: 'no' }, "beyond must be 'text' or 'refuse', not 'no'"],
  [{ rotatMs: 1 }, "unknown option 'rotatMs' of parquet; did you mean 'rotateMs'?"],
])('the options %j are refused', (options, message) => {
  expect(() => parquet('prices', options)).toThrow(
    expect.objectContaining({ name: 'ValidationError', message }),
  )
})
