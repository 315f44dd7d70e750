import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { duckdb } from '@sluice/sinks/duckdb'
import { failureOf } from '@sluice/test-support/waiting.js'
import { v3 } from 'sluice/plugins/decoders'
import { defineDecoder } from 'sluice/report'
import { databaseError } from '../duckdb/database.js'
import { lazyLibrary } from '../library.js'
import { batchOf, makeFolder, opening, query } from './support/databases.js'
import { compileProgram, runProgram } from './support/programs.js'
import { feedOf, makeReport, makeReports, tableWith } from './support/reports.js'

/** The error that opening a path fails with. */
async function openFailure(path: string): Promise<Error & Record<string, unknown>> {
  const store = duckdb(path)
  try {
    return await failureOf(store.open(opening()))
  } finally {
    await store.close()
  }
}

describe('options', () => {
  test.each<[options: object, message: string]>([
    [{ raw: 'yes' }, 'raw must be true or false, not string'],
    [{ beyond: 'drop' }, "beyond must be 'text' or 'refuse', not 'drop'"],
    [{ name: ' ' }, 'name must not be empty'],
    [{ decimals: 19 }, 'decimals must be a whole number from 0 to 18'],
    [{ decimals: { '0x1': -1 } }, 'decimals[0x1] must be a whole number from 0 to 18'],
    [{ decoders: v3 }, 'decoders must be an array of decoders, not object'],
    [{ decoders: [v3, {}] }, 'decoders[1] must be a decoder: defineDecoder makes one'],
    [{ decoder: [] }, "unknown option 'decoder' of duckdb; did you mean 'decoders'?"],
  ])('%j is refused', (options, message) => {
    expect(() => duckdb('prices.db', options)).toThrow(
      expect.objectContaining({ name: 'ValidationError', message }),
    )
  })

  test.each([undefined, '', ':memory:', 'a\0b'])('the path %j is refused', path => {
    expect(() => duckdb(path as string)).toThrow(
      expect.objectContaining({ name: 'ValidationError', message: expect.stringMatching('path') }),
    )
  })
})

describe('a path that waiting does not mend ends the stream', () => {
  test('a folder that is missing', async () => {
    const folder = join(makeFolder(), 'no')
    expect(await openFailure(join(folder, 'prices.db'))).toMatchObject({
      name: 'ValidationError',
      message: `the database ${join(folder, 'prices.db')} can’t be opened: there is no folder ${folder}; make it, or give another path`,
    })
  })

  test('a folder that is a file', async () => {
    const file = join(makeFolder(), 'file')
    writeFileSync(file, '')
    expect(await openFailure(join(file, 'prices.db'))).toMatchObject({ name: 'ValidationError' })
  })

  test('a file that is no database', async () => {
    const path = join(makeFolder(), 'prices.db')
    writeFileSync(path, 'feed,price\n'.repeat(2000))
    expect(await openFailure(path)).toMatchObject({
      name: 'ValidationError',
      message: `duckdb ${path} can’t be opened: it is not a DuckDB database: give another path`,
    })
  })

  test('a folder', async () => {
    expect(await openFailure(makeFolder())).toMatchObject({
      name: 'ValidationError',
      message: expect.stringMatching(/it is not a file; give the path of a file$/),
    })
  })

  test('a database that this process has open with other settings', async () => {
    const path = join(makeFolder(), 'prices.db')
    const { DuckDBInstance } = await import('@duckdb/node-api')
    const instance = await DuckDBInstance.fromCache(path, { threads: '1' })
    expect(await openFailure(path)).toMatchObject({
      name: 'ValidationError',
      message: expect.stringMatching('other settings: open it with DuckDBInstance.fromCache'),
    })
    instance.closeSync()
  })
})

test('a database that another process has open can be opened when that has ended', async () => {
  const path = join(makeFolder(), 'prices.db')
  const { child, line, ended } = runProgram(compileProgram('locks-file'), path)
  await line('open')
  const store = duckdb(path)
  const error = await failureOf(store.open(opening()))
  expect(error).toMatchObject({
    name: 'DataStreamsError',
    isRetryable: true,
    message: `duckdb ${path} can’t be opened: another process has it open, and DuckDB lets one process open a file that is written (PID ${child.pid})`,
  })
  child.kill('SIGKILL')
  await ended
  await store.open(opening())
  const reports = makeReports(10)
  await store.write(batchOf({ reports }))
  await store.close()
  expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 10 }])
})

// With a full disk, and with a file of another user: in the full tier.
test.each([
  ['IO Error: Could not write file: No space left on device', true, 'the disk is full'],
  ['IO Error: Could not write file: File too large', true, 'the disk is full'],
  ['IO Error: Cannot open file: Permission denied', false, 'this process may not write it: '],
])('%s is an error that says so', (message, isRetryable, said) => {
  const error = databaseError('duckdb x', 'written', new Error(message))
  expect(error.message).toContain(`duckdb x can’t be written: ${said}`)
  expect([error.isRetryable ?? false, error.name]).toEqual([
    isRetryable,
    isRetryable ? 'DataStreamsError' : 'ValidationError',
  ])
})

describe('a table that is not ours is an error that says what to do', () => {
  const key = 'PRIMARY KEY (feed_id, observations_timestamp)'
  const head =
    'feed_id VARCHAR NOT NULL, observations_timestamp BIGINT NOT NULL, valid_from_timestamp BIGINT NOT NULL, observed_at TIMESTAMPTZ NOT NULL, expires_at BIGINT NOT NULL'
  const rule = (table: string, what: string): RegExp =>
    new RegExp(
      `^the table ${table} of duckdb .*prices\\.db is not one that this sink can write: ${what}; rename the table, or give the sink another database$`,
    )

  test.each<[what: string, sql: string, message: RegExp]>([
    [
      'another type',
      `CREATE TABLE reports_v3 (${head}, price DOUBLE, ${key})`,
      rule('reports_v3', 'its column price is DOUBLE, and DECIMAL\\(38,18\\) is wanted'),
    ],
    [
      'no key',
      `CREATE TABLE reports_v3 (${head})`,
      rule(
        'reports_v3',
        'its column feed_id is not in the primary key, and the key \\(feed_id, observations_timestamp\\) is wanted',
      ),
    ],
    [
      'a larger key',
      `CREATE TABLE reports_v3 (${head}, source VARCHAR, PRIMARY KEY (feed_id, observations_timestamp, source))`,
      rule('reports_v3', 'its column source is in the primary key, and the key .* is wanted'),
    ],
    [
      'a column that is missing',
      `CREATE TABLE reports_v3 (feed_id VARCHAR, observations_timestamp BIGINT, ${key})`,
      rule('reports_v3', 'it has no column valid_from_timestamp, and BIGINT is wanted'),
    ],
    [
      'a value that must not be NULL',
      `CREATE TABLE reports_v3 (${head}, price DECIMAL(38,18) NOT NULL, ${key})`,
      rule('reports_v3', 'its column price is NOT NULL, and a column that takes NULL is wanted'),
    ],
    [
      'a column of others that must not be NULL',
      `CREATE TABLE reports_v3 (${head}, desk VARCHAR NOT NULL, ${key})`,
      rule('reports_v3', 'its column desk is NOT NULL, and the sink has no value for it'),
    ],
    [
      'other candles',
      'CREATE TABLE candles (feed_id VARCHAR PRIMARY KEY)',
      rule('candles', 'it has no column candle_interval, and VARCHAR is wanted'),
    ],
    [
      'other positions',
      'CREATE TABLE sink_positions (sink VARCHAR, feed_id VARCHAR, position VARCHAR)',
      rule('sink_positions', 'its column sink is not in the primary key.*'),
    ],
    [
      'a later version',
      'CREATE TABLE sluice_schema (version INTEGER NOT NULL); INSERT INTO sluice_schema VALUES (99)',
      /has tables of version 99, and this version of @sluice\/sinks knows version 1: install a later one$/,
    ],
  ])('%s', async (_what, sql, message) => {
    const path = join(makeFolder(), 'prices.db')
    await query(path, sql)
    expect(await openFailure(path)).toMatchObject({
      name: 'ValidationError',
      message: expect.stringMatching(message),
    })
  })

  test('a view', async () => {
    const path = join(makeFolder(), 'prices.db')
    await query(path, 'CREATE VIEW reports_v3 AS SELECT 1 AS feed_id')
    const store = duckdb(path)
    await store.open(opening())
    expect(await failureOf(store.write(batchOf({ reports: makeReports(1) })))).toMatchObject({
      name: 'ValidationError',
      message: `duckdb ${path} has a view reports_v3, and the sink needs a table of this name: rename the view`,
    })
    await store.close()
  })

  test('a column of your own does not disturb', async () => {
    const path = join(makeFolder(), 'prices.db')
    await query(
      path,
      `CREATE TABLE reports_v3 (desk VARCHAR, ${head}, Price DECIMAL(38,18), shelf INTEGER NOT NULL DEFAULT 7, ${key})`,
    )
    const store = duckdb(path)
    await store.open(opening())
    await store.write(batchOf({ reports: makeReports(3) }))
    await store.close()
    const rows = await query(
      path,
      'SELECT desk, shelf, price > 0 OR price < 0 AS p FROM reports_v3',
    )
    expect(rows).toEqual(Array(3).fill({ desk: null, shelf: 7, p: true }))
  })
})

test('a table that is changed while the sink runs is an error that ends the stream', async () => {
  const path = join(makeFolder(), 'prices.db')
  const store = duckdb(path)
  await store.open(opening())
  await store.write(batchOf({ reports: makeReports(5) }))
  await query(path, 'ALTER TABLE reports_v3 RENAME COLUMN observed_at TO seen_at')
  const batch = batchOf({ reports: makeReports(10) })
  await failureOf(store.write(batch))
  expect(await failureOf(store.write(batch))).toMatchObject({
    name: 'ValidationError',
    message: expect.stringMatching('it has no column observed_at, and TIMESTAMP WITH TIME ZONE'),
  })
  await query(path, 'ALTER TABLE reports_v3 RENAME COLUMN seen_at TO observed_at')
  await store.write(batch)
  await store.close()
  expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 10 }])
})

test('a table that is dropped while the sink runs is made again', async () => {
  const path = join(makeFolder(), 'prices.db')
  const store = duckdb(path)
  await store.open(opening())
  await store.write(batchOf({ reports: makeReports(5) }))
  await query(path, 'DROP TABLE reports_v3')
  const batch = batchOf({ reports: makeReports(10) })
  expect(await failureOf(store.write(batch))).toMatchObject({ isRetryable: true })
  await store.write(batch)
  await store.close()
  expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 10 }])
})

test('an error within a write leaves nothing of it, and the next write succeeds', async () => {
  const path = join(makeFolder(), 'prices.db')
  const store = duckdb(path)
  await store.open(opening())
  await store.write(batchOf({ reports: makeReports(5) }))
  // The position is written after the rows.
  await query(path, 'ALTER TABLE sink_positions RENAME TO aside')
  const batch = batchOf({ reports: makeReports(10), position: { [feedOf(3)]: 1 } })
  expect(await failureOf(store.write(batch))).toMatchObject({
    name: 'DataStreamsError',
    isRetryable: true,
    message: expect.stringMatching(/^duckdb .* can’t be written: Catalog Error: .*sink_positions/),
  })
  expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 5 }])
  await store.write(batch)
  expect(await query(path, 'SELECT count(*)::INT AS n FROM reports_v3')).toEqual([{ n: 10 }])
  expect(await store.position?.()).toEqual({ [feedOf(3)]: 1 })
  await store.close()
})

test('two sinks of one name in a database are an error', async () => {
  const path = join(makeFolder(), 'prices.db')
  const [one, other] = [duckdb(path), duckdb(join(path, '..', 'prices.db'))]
  await one.open(opening())
  expect(await failureOf(other.open(opening()))).toMatchObject({
    name: 'ValidationError',
    message: expect.stringMatching('under the name default: give each a name of its own'),
  })
  await other.close()
  await one.write(batchOf({ reports: makeReports(1) }))
  await one.close()
  await other.open(opening())
  await other.close()
})

test('a decoder that the store does not know is an error that names it', async () => {
  const other = defineDecoder({
    version: 3,
    fields: { price: 'int192', spread: 'int192', ask: 'int192' },
  })
  const path = join(makeFolder(), 'prices.db')
  const report = makeReport({ table: tableWith(other) })
  const store = duckdb(path)
  await store.open(opening())
  expect(await failureOf(store.write(batchOf({ reports: [report] })))).toMatchObject({
    name: 'ValidationError',
    message: `the report of feed ${report.feedID} has no value for the column bid of reports_v3: if your stack decodes it by a decoder of its own, give the store that decoder, in decoders`,
  })
  await store.close()
  const knowing = duckdb(path, { decoders: [other] })
  await knowing.open(opening())
  await knowing.write(batchOf({ reports: [report] }))
  await knowing.close()
  expect(await query(path, 'SELECT spread IS NOT NULL AS s, bid FROM reports_v3')).toEqual([
    { s: true, bid: null },
  ])
})

test('a library that is not installed is an error that says what to install', async () => {
  let calls = 0
  const load = lazyLibrary('some-library', async () => {
    if (calls++ === 0) throw new Error('Cannot find package')
    return 'loaded'
  })
  expect(await failureOf(load())).toMatchObject({
    name: 'ValidationError',
    message: 'the package some-library could not be loaded: npm install some-library',
  })
  // It may be installed meanwhile. Then it is loaded once.
  expect([await load(), await load(), calls]).toEqual(['loaded', 'loaded', 2])
})

test('a store that never opened can be closed', async () => {
  await duckdb(join(makeFolder(), 'no', 'prices.db')).close()
})
