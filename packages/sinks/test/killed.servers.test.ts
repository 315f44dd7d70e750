import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { type KeyedRow, killSinks } from './support/kills.js'

/** `SINK_KILLS=100 npm run test:sinks -- packages/sinks/test/killed` kills each a hundred times. */
const kills = Number(process.env.SINK_KILLS ?? 5)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-killed-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Runs a query of DuckDB over files of ours. */
async function query(database: string, sql: string): Promise<readonly KeyedRow[]> {
  const instance = await DuckDBInstance.create(database)
  const connection = await instance.connect()
  try {
    const reader = await connection.runAndReadAll(sql)
    return reader.getRowObjectsJS().map(row => ({
      feedID: String(row.feed_id),
      observationsTimestamp: Number(row.observations_timestamp),
      fullReport: `0x${String(row.raw).toLowerCase()}`,
    }))
  } finally {
    connection.closeSync()
    instance.closeSync()
  }
}

const columns = 'feed_id, observations_timestamp, hex(full_report) AS raw'

test(`DuckDB: killed ${kills} times, it has each report once`, async () => {
  const path = join(folder, 'prices.db')
  const { published, stored, ...wrong } = await killSinks({
    to: `duckdb:${path}`,
    kills,
    rows: () => query(path, `SELECT ${columns} FROM reports_v3`),
  })
  expect(wrong).toEqual({ doubled: 0, missing: 0, strange: 0 })
  expect(stored.length).toBe(published.length)
}, 600_000)

test(`Parquet: killed ${kills} times, it has each report once`, async () => {
  const { published, stored, ...wrong } = await killSinks({
    to: `parquet:${folder}`,
    kills,
    rows: () => query(':memory:', `SELECT ${columns} FROM '${folder}/reports_v3-*.parquet'`),
  })
  expect(wrong).toEqual({ doubled: 0, missing: 0, strange: 0 })
  expect(stored.length).toBe(published.length)
}, 600_000)
