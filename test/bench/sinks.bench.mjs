// Reports into a database of DuckDB and into Parquet files, on a disk. A report is decoded in it, and its signed bytes are kept.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { duckdb } from '@sluice/sinks/duckdb'
import { parquet } from '@sluice/sinks/parquet'
import { v3 } from 'sluice/plugins/decoders'
import { createDecoderTable, Report } from 'sluice/report'
import { feedIDs, makeReport, START } from './frames.mjs'
import { spread } from './rounds.mjs'
import { atLeast, perSecond, printTable } from './table.mjs'

const rounds = 5
const warmup = 1
/** Reports of a round. */
const COUNT = 20_000
const ids = feedIDs(50)
const table = createDecoderTable([v3])

const stores = {
  duckdb: folder => duckdb(join(folder, 'prices.db')),
  // Two files a round, or so: their making counts.
  parquet: folder => parquet(join(folder, 'prices'), { rotateBytes: 10_000_000 }),
}
const sides = [
  { store: 'duckdb', batch: 500 },
  // What a sink writes if nothing else is set.
  { store: 'duckdb', batch: 5000, goal: 20_000 },
  { store: 'parquet', batch: 500 },
  { store: 'parquet', batch: 5000 },
]

/** Batches of reports that are not decoded yet: one of each feed for a second, then for the next. */
function makeBatches(first, size) {
  const reports = Array.from({ length: COUNT }, (_, index) => {
    const id = ids[index % ids.length]
    const time = START + first + Math.floor(index / ids.length)
    const { fullReport } = makeReport({ id, time, seed: first * ids.length + index })
    return new Report(id, fullReport, time, time, 'wss://host#001', 'live', table)
  })
  return Array.from({ length: COUNT / size }, (_, index) =>
    reports.slice(index * size, (index + 1) * size),
  )
}

const positionOf = time => Object.fromEntries(ids.map(id => [id, time]))

/** The reports that a store takes in a second, round by round, and milliseconds of its slowest write. */
async function measure({ store, batch }) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const opened = stores[store](folder)
  const rates = []
  let slowest = 0
  try {
    await opened.open({ log: {}, signal: new AbortController().signal })
    for (let round = 0; round < warmup + rounds; round++) {
      const batches = makeBatches((round * COUNT) / ids.length, batch)
      const started = performance.now()
      for (const reports of batches) {
        const position = positionOf(reports.at(-1).observationsTimestamp)
        const before = performance.now()
        await opened.write({
          reports,
          receivedAt: reports.map(() => Date.now()),
          candles: [],
          position,
        })
        if (round >= warmup) slowest = Math.max(slowest, performance.now() - before)
      }
      if (round >= warmup) rates.push(COUNT / ((performance.now() - started) / 1000))
    }
  } finally {
    await opened.close()
    rmSync(folder, { recursive: true })
  }
  return { rates: spread(rates), slowest }
}

export default async function bench() {
  const results = []
  for (const side of sides) results.push({ ...side, ...(await measure(side)) })
  printTable(
    'reports with their bytes, onto the disk',
    ['batch', 'reports/s', 'least to most', 'slowest write, ms'],
    results.map(({ store, batch, rates: { median, min, max }, slowest }) => [
      ...[store, batch, perSecond(median), `${perSecond(min)} to ${perSecond(max)}`],
      slowest.toFixed(),
    ]),
  )
  return results.map(({ store, batch, goal, rates }) => ({
    work: `reports a second that the ${store} sink writes, in batches of ${batch.toLocaleString('en')}`,
    ...atLeast(goal, rates, '/s'),
  }))
}
