// Writes batches of reports into a store until it is killed, as a sink does that resumes from the
// store's position. Says `acked N` when the store has resolved for the reports up to number N.
import { writeSync } from 'node:fs'
import { duckdb } from '@sluice/sinks/duckdb'
import { parquet } from '@sluice/sinks/parquet'
import { BATCH, batchAt, FEEDS, firstAfter } from './numbered.js'

const [kind, path = '', total = '0'] = process.argv.slice(2)
const store =
  kind === 'duckdb' ? duckdb(path) : parquet(path, { rotateBytes: 150_000, rotateMs: 3_600_000 })

async function main(): Promise<void> {
  await store.open({ log: {}, signal: new AbortController().signal })
  const position = (await store.position?.()) ?? {}
  writeSync(1, `opened with ${Object.keys(position).length} of ${FEEDS} feeds\n`)
  for (let next = firstAfter(position); next < Number(total); next += BATCH) {
    await store.write(batchAt(next))
    writeSync(1, `acked ${next + BATCH - 1}\n`)
  }
  await store.close()
}

main().catch(error => {
  writeSync(1, `failed ${error.stack}\n`)
  process.exitCode = 1
})
