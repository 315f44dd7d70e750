import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { duckdb } from '@sluice/sinks/duckdb'
import { batchOf, makeFolder, opening, query } from './support/databases.js'
import { makeReports, positionOf } from './support/reports.js'

test('smoke', async () => {
  const path = join(makeFolder(), 'prices.db')
  const store = duckdb(path)
  await store.open(opening())
  const reports = makeReports(100)
  await store.write(batchOf({ reports, position: positionOf(reports) }))
  await store.write(batchOf({ reports, position: positionOf(reports) }))
  expect(await query(path, 'SELECT count(*) AS n FROM reports_v3')).toEqual([{ n: '100' }])
  expect(await store.position?.()).toEqual(positionOf(reports))
  await store.close()
  console.log(await query(path, 'FROM reports_v3 LIMIT 2'))
})
