// Writes numbered batches into a database until a write fails, then again and again until it
// succeeds, and goes on.
import { writeSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { duckdb } from '@sluice/sinks/duckdb'
import { BATCH, batchAt } from './numbered.js'

const [path = '', total = '0'] = process.argv.slice(2)
const store = duckdb(path)

async function writeUntilDone(first: number): Promise<void> {
  for (;;) {
    try {
      await store.write(batchAt(first))
      return
    } catch (thrown) {
      const { name, message, isRetryable } = thrown as Error & { isRetryable: boolean }
      writeSync(1, `failed ${JSON.stringify({ name, message, isRetryable, first })}\n`)
      await setTimeout(100)
    }
  }
}

async function main(): Promise<void> {
  await store.open({ log: {}, signal: new AbortController().signal })
  for (let first = 0; first < Number(total); first += BATCH) await writeUntilDone(first)
  await store.close()
}

main().catch(error => {
  writeSync(1, `ended ${error.stack}\n`)
  process.exitCode = 1
})
