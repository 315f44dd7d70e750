// Runs rows with both SDKs, several at once, and says what came of it.
import { writeFileSync } from 'node:fs'
import { cpus, platform } from 'node:os'
import { Worker } from 'node:worker_threads'
import { recordRows, updatePages } from '../../support/results.mjs'
import { notShown } from '../not-shown.mjs'
import { findMisses } from './bounds.mjs'
import { compareRows, readRows } from './rows.mjs'
import { resultOf, tableOf } from './table.mjs'

/** Rows mostly wait, so several run at once; more, and they would wait for the processor. */
const AT_ONCE = 3 * cpus().length
/** Milliseconds beyond what a row says it takes: for starting, for what comes late, and for closing. */
const PATIENCE = 120_000

/** Runs a row with an SDK in a thread of its own. One that breaks, or does not end, has no figures. */
function runInThread(row, sdk, seed) {
  return new Promise(resolve => {
    const worker = new Worker(new URL('./worker.mjs', import.meta.url), {
      workerData: { id: row.row, sdk, seed },
    })
    const guard = setTimeout(() => fail('it does not end'), row.seconds * 1000 + PATIENCE)
    function settle(outcome) {
      clearTimeout(guard)
      void worker.terminate()
      resolve(outcome)
    }
    function fail(broken) {
      settle({ figures: {}, says: [], broken })
    }
    worker.once('message', settle)
    worker.once('error', error => fail(String(error.stack)))
    worker.once('exit', () => fail('its thread has ended'))
  })
}

/** Runs tasks, so many at once, the longest first. */
async function runAll(tasks, atOnce, run) {
  const waiting = [...tasks].sort((a, b) => b.row.seconds - a.row.seconds)
  async function runWaiting() {
    for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) await run(task)
  }
  await Promise.all(Array.from({ length: atOnce }, runWaiting))
}

const missesOf = ({ figures, broken }, row) =>
  broken === undefined ? findMisses(figures, row) : [{ text: broken, isOfTime: false }]

/** Records the rows that held their bounds, and writes them into the page. */
async function record(outcomes, run) {
  const held = outcomes.filter(({ misses }) => misses.length === 0)
  recordRows('faults', {
    run,
    rows: held.map(resultOf),
    keyOf: ({ row }) => row,
    order: compareRows,
  })
  console.error(
    `${held.length} of ${outcomes.length} rows recorded, in ${updatePages(await readRows()).join(', ')}`,
  )
}

const textsOf = misses => misses.map(({ text }) => text)

/** Runs the rows, prints their table, and fails where one of sluice's misses its bound. */
export async function runMatrix(rows, options) {
  const seed = Number(options.seed)
  const cores = cpus()
  const processor = `${cores.length} × ${cores[0]?.model.trim() ?? 'unknown processor'}`
  const machine = `${processor}, ${platform()}, Node ${process.version}`
  const outcomes = rows.map(row => ({ row, misses: [] }))
  const start = performance.now()
  const seconds = () => Math.round((performance.now() - start) / 1000)

  async function run({ row, sdk, outcome }) {
    outcome[sdk] = await runInThread(row, sdk, seed)
    let verdict = outcome[sdk].broken ?? 'recorded'
    if (sdk === 'sluice') {
      outcome.misses = missesOf(outcome.sluice, row)
      verdict = textsOf(outcome.misses).join('; ') || 'ok'
    }
    console.error(`${seconds()} s: row ${row.row}, ${sdk}: ${verdict}`)
  }

  console.error(`faults: ${rows.length} rows, seed ${seed}, ${machine}`)
  const tasks = outcomes.flatMap(outcome => {
    const { row } = outcome
    const hasOther = options['ours-only'] !== true && row.official !== false
    return (hasOther ? ['sluice', 'official'] : ['sluice']).map(sdk => ({ row, sdk, outcome }))
  })
  await runAll(tasks, Number(options['at-once'] ?? AT_ONCE), run)
  // A row that is late because of others runs once more, with nothing beside it.
  for (const outcome of outcomes) {
    const { row, misses, sluice } = outcome
    if (misses.length === 0 || !misses.every(({ isOfTime }) => isOfTime)) continue
    outcome.besideOthers = sluice
    await run({ row, sdk: 'sluice', outcome })
  }

  const table = tableOf(outcomes, options.isWhole ? notShown : [])
  console.log(`Seed ${seed}, ${machine}, in ${seconds()} s.\n\n${table}`)
  if (options.markdown !== undefined) writeFileSync(options.markdown, `${table}\n`)
  if (options.json !== undefined) {
    const written = outcomes.map(({ row: { row, fault, bound = {} }, misses, ...sides }) => ({
      ...{ row, fault, bound, misses: textsOf(misses) },
      ...sides,
    }))
    const report = { seed, machine, seconds: seconds(), rows: written, notShown }
    writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`)
  }
  if (options.record) await record(outcomes, `${machine}, seed ${seed}`)
  for (const { row, misses } of outcomes)
    for (const { text } of misses) {
      console.error(`row ${row.row} misses its bound: ${text}`)
      console.error(`  ${row.fault}; again: npm run faults -- --rows ${row.row} --seed ${seed}`)
    }
  process.exitCode = outcomes.some(({ misses }) => misses.length > 0) ? 1 : 0
}
