// What a proof takes: its bytes, and the milliseconds of a check with each curve library.
import { checkProof, createProof } from 'sluice/proof'
import { sampleReport, sampleSigners } from 'sluice/testing'
import { spread } from './rounds.mjs'
import { printTable, short } from './table.mjs'

const feedID = `0x0003${'ab'.repeat(30)}`
const START = 1_700_000_000
const libraries = ['secp256k1', 'wasm', 'noble']
/** The reports of a proof: of a moment, of the windows that TWAP feeds have, and of ten minutes. */
const sizes = [1, 30, 60, 600]
const ROUNDS = 5

/** A service in memory that has a report of each second. */
function clientOf(reports) {
  return {
    getReportsPage: async (_feedID, start) =>
      reports.filter(each => each.observationsTimestamp >= start).slice(0, 1),
    getReportsBetween(_feedID, from, to) {
      const found = reports.filter(
        each => each.observationsTimestamp >= from && each.observationsTimestamp <= to,
      )
      async function* walk() {
        yield* found
      }
      return Object.assign(walk(), { missing: [] })
    },
  }
}

async function median(work, rounds) {
  const times = []
  for (let round = 0; round <= rounds; round++) {
    const started = performance.now()
    await work()
    if (round > 0) times.push(performance.now() - started)
  }
  return spread(times).median
}

export default async function bench() {
  // A proof has the reports before and after its own as well.
  const reports = Array.from({ length: Math.max(...sizes) + 2 }, (_, second) =>
    sampleReport({
      feedID,
      validFromTimestamp: START + second - 1,
      observationsTimestamp: START + second - 1,
      signed: true,
    }),
  )
  const client = clientOf(reports)
  const rows = []
  for (const count of sizes) {
    const ends = { open: 'to', straddling: 'clip' }
    const options =
      count === 1 ? { feedID, at: START } : { feedID, from: START, to: START + count, ends }
    const text = JSON.stringify(await createProof(client, options))
    const row = [
      count,
      short(text.length / 1000),
      short(await median(() => createProof(client, options), ROUNDS)),
    ]
    for (const curveLibrary of libraries) {
      const check = () => checkProof(text, { signers: sampleSigners, curveLibrary })
      row.push(short(await median(check, curveLibrary === 'noble' && count > 100 ? 1 : ROUNDS)))
    }
    rows.push(row)
  }
  const heads = ['kB', 'ms to create', ...libraries.map(name => `ms to check, ${name}`)]
  printTable('reports', heads, rows)
}
