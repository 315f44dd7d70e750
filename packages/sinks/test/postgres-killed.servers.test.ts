// A process that writes to Postgres, and the server itself, are killed: nothing is lost, nothing is
// there twice, and the position never says more than the table holds.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { killSinks } from './support/kills.js'
import { type Database, usePostgres } from './support/postgres.js'
import { compileProgram, type Program, runProgram } from './support/programs.js'
import { TIME } from './support/reports.js'
import { BATCH, EACH, FEEDS } from './support/server-batches.js'

/** `SINK_KILLS=100 npm run test:sinks -- packages/sinks/test/postgres-killed` kills a hundred times. */
const kills = Number(process.env.SINK_KILLS ?? 3)

const world = usePostgres()

/** The number of the last batch that a program says is stored. */
function lastAcked({ lines }: Program): number {
  const numbers = lines.flatMap(line => /^acked (\d+)$/.exec(line)?.[1] ?? [])
  return Number(numbers.at(-1) ?? -1)
}

/** Holds the table to the ledger, and the position to the table. */
async function expectStored(database: Database, acked: number): Promise<number> {
  // One statement, which sees one state of the tables, as the program may go on meanwhile.
  const [found] = await database.run<{ rows: number; keys: number; whole: number; at: number[] }>(`
    SELECT count(*)::int AS rows,
      count(DISTINCT (feed_id, observations_timestamp))::int AS keys,
      count(*) FILTER (WHERE observations_timestamp < ${TIME + (acked + 1) * EACH})::int AS whole,
      (SELECT array_agg(DISTINCT position::int) FROM sink_positions) AS at
    FROM reports_v3`)
  expect(found?.keys).toBe(found?.rows)
  // Every report that was acknowledged.
  expect(found?.whole).toBe((acked + 1) * BATCH)
  expect(found?.at).toHaveLength(1)
  const held = (found?.at[0] ?? 0) - TIME + 1
  // All rows up to the position, and none after it: both are of one transaction.
  expect(found?.rows).toBe(held * FEEDS)
  expect(held).toBeGreaterThanOrEqual((acked + 1) * EACH)
  return (found?.rows ?? 0) / BATCH
}

test(`the command is killed ${kills} times, and in every other round the server, too`, async () => {
  const database = await world.create()
  const url = new URL(database.url)
  const env = { PGPASSWORD: decodeURIComponent(url.password) }
  url.password = ''
  const { published, stored, ...wrong } = await killSinks({
    to: url.href,
    kills,
    env,
    async rows() {
      const rows = await database.run<{ feed_id: string; time: string; raw: string }>(
        `SELECT feed_id, observations_timestamp AS time, encode(full_report, 'hex') AS raw
         FROM reports_v3`,
      )
      return rows.map(({ feed_id: feedID, time, raw }) => ({
        ...{ feedID, observationsTimestamp: Number(time), fullReport: `0x${raw}` },
      }))
    },
    async harm(kill) {
      if (kill % 2 === 0) return
      await world.server.stop('SIGKILL')
      await sleep(100)
      await world.server.start()
      await sleep(Math.random() * 800)
    },
  })
  expect(wrong).toEqual({ doubled: 0, missing: 0, strange: 0 })
  expect(stored.length).toBe(published.length)
}, 900_000)

test('the server is killed while a process writes', async () => {
  const database = await world.create()
  const path = compileProgram('write-to-server')
  const total = 500
  const program = runProgram(path, 'postgres', database.url, '', '', String(total))
  await program.line('acked')
  for (const signal of ['SIGKILL', 'SIGQUIT', 'SIGKILL', 'SIGINT'] as const) {
    await sleep(150)
    await world.server.stop(signal)
    await sleep(100)
    // Stored by the server that died: it is not back yet.
    const acked = lastAcked(program)
    await world.server.start()
    await expectStored(database, acked)
  }
  expect(await program.ended).toBe(0)
  expect(await expectStored(database, total - 1)).toBe(total)
  expect(program.lines.filter(line => line.startsWith('failed')).length).toBeGreaterThan(3)
})
