import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { parquet } from '@sluice/sinks/parquet'
import { failureOf, pause, until } from '@sluice/test-support/waiting.js'
import { makeFolder, opening, query, type Row } from './support/databases.js'
import { BATCH, reportAt } from './support/numbered.js'
import { compileProgram, runProgram } from './support/programs.js'

const KILLS = 5

/** Runs SQL over the files of a folder. */
const inFiles = (folder: string, sql: string): Promise<readonly Row[]> =>
  query(':memory:', sql.replaceAll('FILES', `read_parquet('${folder}/reports_v3-*.parquet')`))

/** How often each second of the reports is in the files: five feeds have one each. */
const seconds = (folder: string): Promise<readonly Row[]> =>
  inFiles(
    folder,
    `SELECT (observations_timestamp - 1800000000)::INT AS second, count(*)::INT AS n
     FROM FILES GROUP BY ALL ORDER BY ALL`,
  )

test('a folder has one store at a time, also of another process', async () => {
  const folder = join(makeFolder(), 'prices')
  const program = compileProgram('write-loop')
  const { child, line, ended } = runProgram(program, 'parquet', folder, '1000000')
  await line('acked')
  const store = parquet(folder)
  expect(await failureOf(store.open(opening()))).toMatchObject({
    name: 'DataStreamsError',
    isRetryable: true,
    message: expect.stringMatching(
      `process ${child.pid} on .* writes into it, and .*lock is its lock`,
    ),
  })
  child.kill('SIGKILL')
  await ended
  await store.open(opening())
  await store.close()
})

test('a process that is killed loses no report that it has acknowledged, and puts none into two files', async () => {
  const folder = join(makeFolder(), 'prices')
  const program = compileProgram('write-loop')
  let acked = -1
  for (let kill = 0; kill < KILLS; kill++) {
    const { child, lines, line, ended } = runProgram(program, 'parquet', folder, '1000000')
    await line('acked')
    await until(() => lines.filter(each => each.startsWith('acked')).length >= 6)
    await pause(17 * kill)
    child.kill('SIGKILL')
    expect(await ended).toBe('SIGKILL')
    const last = lines.filter(each => each.startsWith('acked')).at(-1)
    acked = Math.max(acked, Number(last?.slice('acked '.length)))
    expect(lines[0]).toBe(`opened with ${kill === 0 ? 0 : 5} of 5 feeds`)
  }
  const total = acked + 1 + 4 * BATCH
  const { ended } = runProgram(program, 'parquet', folder, String(total))
  expect(await ended).toBe(0)
  const rows = await seconds(folder)
  expect(rows.map(({ second }) => second)).toEqual(rows.map((_, index) => index))
  expect(rows.filter(({ n }) => n !== 5)).toEqual([])
  expect(5 * rows.length).toBeGreaterThanOrEqual(total)
  for (const number of [0, 1, acked, total - 1]) {
    const { feedID, observationsTimestamp, decoded } = reportAt(number)
    const [row] = await inFiles(
      folder,
      `SELECT replace(price::VARCHAR, '.', '') AS price FROM FILES
       WHERE feed_id = '${feedID}' AND observations_timestamp = ${observationsTimestamp}`,
    )
    expect(BigInt(String(row?.price))).toBe((decoded as { readonly price: bigint }).price)
  }
  expect(readdirSync(folder).filter(name => name.startsWith('reports')).length).toBeGreaterThan(1)
  // Nothing is left of drafts.
  expect(readdirSync(folder).filter(name => name.endsWith('.tmp'))).toEqual([])
})

/** The steps after which something else is on the disk, or is about to be. */
const changing = /parquet_rotations VALUES|DROP TABLE temp|COPY|open|rename|DELETE FROM parquet_rot/

/** Such steps of the first rotation, and what they are, and the step after the rotation. */
async function findSteps(program: string): Promise<readonly (readonly [number, string])[]> {
  const { lines, ended } = runProgram(program, join(makeFolder(), 'prices'))
  expect(await ended).toBe(0)
  const steps = lines.filter(each => each.startsWith('step')).map(each => each.slice(5))
  const first = steps.findIndex(each => /DELETE FROM parquet_keys/.test(each)) - 1
  const end = steps.findIndex(each => /DELETE FROM parquet_rotations/.test(each)) + 2
  const chosen = steps.slice(first, end).filter(each => changing.test(each))
  return [...chosen, steps[end] ?? ''].map(each => {
    const [number = '', ...name] = each.split(' ')
    return [Number(number), name.join(' ')]
  })
}

test('a process can be killed before each step of a rotation', async () => {
  const [killed, loop] = [compileProgram('killed-at-step'), compileProgram('write-loop')]
  const steps = await findSteps(killed)
  const names = steps.map(([, name]) => name).join('; ')
  expect(names).toMatch(/VALUES.*DROP.*COPY.*open.*rename.*COPY.*open.*rename.*open.*DELETE/)
  const failures: string[] = []
  async function tryStep([number, name]: readonly [number, string]): Promise<void> {
    const folder = join(makeFolder(), 'prices')
    expect(await runProgram(killed, folder, String(number)).ended).toBe('SIGKILL')
    // The next process has the same number of reports to write in all.
    expect(await runProgram(loop, 'parquet', folder, String(4 * BATCH)).ended).toBe(0)
    const rows = await seconds(folder)
    const wrong = rows.filter((row, index) => row.second !== index || row.n !== 5)
    if (wrong.length > 0 || rows.length < (4 * BATCH) / 5)
      failures.push(
        `before step ${number}, ${name}: ${rows.length} seconds, ${JSON.stringify(wrong.slice(0, 3))}`,
      )
  }
  const left = [...steps]
  const workers = Array.from({ length: 3 }, async () => {
    for (let each = left.shift(); each !== undefined; each = left.shift()) await tryStep(each)
  })
  await Promise.all(workers)
  expect(failures).toEqual([])
}, 60_000)
