import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { pause, until } from '@sluice/test-support/waiting.js'
import { makeFolder, query } from './support/databases.js'
import { BATCH, reportAt } from './support/numbered.js'
import { compileProgram, runProgram } from './support/programs.js'

const KILLS = 5

test('a process that is killed loses no report that it has acknowledged, and stores none twice', async () => {
  const path = join(makeFolder(), 'prices.db')
  const program = compileProgram('write-loop')
  let acked = -1
  for (let kill = 0; kill < KILLS; kill++) {
    const { child, lines, line, ended } = runProgram(program, 'duckdb', path, '1000000')
    await line('acked')
    await until(() => lines.filter(each => each.startsWith('acked')).length >= 6)
    await pause(17 * kill)
    child.kill('SIGKILL')
    expect(await ended).toBe('SIGKILL')
    const last = lines.filter(each => each.startsWith('acked')).at(-1)
    acked = Math.max(acked, Number(last?.slice('acked '.length)))
    // The position was stored with the rows.
    expect(lines[0]).toBe(`opened with ${kill === 0 ? 0 : 5} of 5 feeds`)
    const [row] = await query(
      path,
      `SELECT count(*)::INT AS n, count(DISTINCT (feed_id, observations_timestamp))::INT AS keys
       FROM reports_v3`,
    )
    expect(row?.keys).toBe(row?.n)
    // All or nothing of each batch is there.
    expect(Number(row?.n)).toBeGreaterThan(acked)
  }
  const total = acked + 1 + 4 * BATCH
  const { ended } = runProgram(program, 'duckdb', path, String(total))
  expect(await ended).toBe(0)
  const rows = await query(
    path,
    `SELECT (observations_timestamp - 1800000000)::INT AS second, count(*)::INT AS n
     FROM reports_v3 GROUP BY ALL ORDER BY ALL`,
  )
  // All five feeds have a report of each second, and no second is missing.
  expect(rows.map(({ second }) => second)).toEqual(rows.map((_, index) => index))
  expect(rows.filter(({ n }) => n !== 5)).toEqual([])
  expect(5 * rows.length).toBeGreaterThanOrEqual(total)
  // The values are those of the reports.
  const some = [0, 1, acked, total - 1]
  for (const number of some) {
    const { feedID, observationsTimestamp, decoded } = reportAt(number)
    const [row] = await query(
      path,
      `SELECT replace(price::VARCHAR, '.', '') AS price FROM reports_v3
       WHERE feed_id = '${feedID}' AND observations_timestamp = ${observationsTimestamp}`,
    )
    expect(BigInt(String(row?.price))).toBe((decoded as { readonly price: bigint }).price)
  }
  const candles = await query(
    path,
    'SELECT start_time, revision::INT AS revision FROM candles ORDER BY start_time',
  )
  // A candle of each minute, the last one issued. The last minute may have had no last one yet.
  expect(candles.slice(0, -1).filter(({ revision }) => Number(revision) < 60)).toEqual([])
  expect(new Set(candles.map(each => each.start_time)).size).toBe(candles.length)
})
