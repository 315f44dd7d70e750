// What reports take in QuickJS, the engine of CRE's workflows: milliseconds to load the program, to decode, and to verify.
import { startDataEngine } from '@sluice/engine'
import { bundleProgram, startQuickJS } from '../support/quickjs.mjs'
import { spread } from './rounds.mjs'
import { printTable, short } from './table.mjs'

const feedID = `0x0003${'ab'.repeat(30)}`
/** How many signers may be faulty: a report has one signature more. */
const faulty = [1, 3, 5, 10]
const ROUNDS = 7

/** A signed report, and who may sign it. */
async function signReport(f) {
  const engine = await startDataEngine({ feeds: [feedID], f })
  const [{ fullReport }] = engine.ledger()
  const { network: signers } = engine
  await engine.close()
  return { fullReport, signers }
}

async function timed(work) {
  const started = performance.now()
  const result = await work()
  return { ms: performance.now() - started, result }
}

export default async function bench() {
  const code = await bundleProgram()
  const reports = await Promise.all(faulty.map(signReport))
  const times = new Map()
  const note = (what, ms) => times.set(what, [...(times.get(what) ?? []), ms])
  // The first round is not counted: until then, QuickJS itself is not compiled.
  for (let round = 0; round <= ROUNDS; round++) {
    if (round === 1) times.clear()
    const { ms, result: world } = await timed(() => startQuickJS(code))
    note('load the program', ms)
    const run = async (what, call) => {
      const { ms, result: answer } = await timed(() => world.run(call))
      if (answer.result === undefined) throw new Error(answer.message)
      note(what, ms)
    }
    await run('decodeReport', ['decodeReport', reports[0].fullReport, feedID])
    const six = reports[faulty.indexOf(5)]
    await run('the first verifyReport, 6 signatures', [
      'verifyReport',
      six.fullReport,
      { signers: six.signers },
    ])
    for (const [index, { fullReport, signers }] of reports.entries())
      await run(`verifyReport, ${faulty[index] + 1} signatures`, [
        'verifyReport',
        fullReport,
        { signers },
      ])
    world.end()
  }
  const rows = [...times].map(([what, all]) => [what, short(spread(all).median)])
  printTable('in QuickJS', ['ms'], rows)
}
