// Writes four batches into a folder of Parquet files, two to a file, and kills itself just before a
// step: a statement, or a change in the folder. Says `step N NAME` of each step.
import { writeSync } from 'node:fs'
import files from 'node:fs/promises'
import { DuckDBConnection } from '@duckdb/node-api'
import { parquet } from '@sluice/sinks/parquet'
import { BATCH, batchAt } from './numbered.js'

const [folder = '', last = '0'] = process.argv.slice(2)
let steps = 0

function step(name: string): void {
  steps++
  writeSync(1, `step ${steps} ${name}\n`)
  if (steps === Number(last)) process.kill(process.pid, 'SIGKILL')
}

const { run } = DuckDBConnection.prototype
DuckDBConnection.prototype.run = function (sql, values, types) {
  step(sql.trim().replace(/\s+/g, ' ').slice(0, 60))
  return run.call(this, sql, values, types)
}
for (const name of ['rename', 'rm', 'open'] as const) {
  const call = files[name] as (...args: unknown[]) => unknown
  Object.assign(files, {
    [name]: (...args: unknown[]) => {
      step(name)
      return call(...args)
    },
  })
}

async function main(): Promise<void> {
  const store = parquet(folder, { rotateBytes: 70_000 })
  await store.open({ log: {}, signal: new AbortController().signal })
  for (let batch = 0; batch < 4; batch++) {
    await store.write(batchAt(batch * BATCH))
    writeSync(1, `acked ${(batch + 1) * BATCH - 1}\n`)
  }
}

main().catch(error => {
  writeSync(1, `failed ${error.stack}\n`)
  process.exitCode = 1
})
