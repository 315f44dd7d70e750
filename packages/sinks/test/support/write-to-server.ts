// Writes numbered batches to a server until it is killed, as a sink does that resumes from its
// position, and that tries again what a server away refuses. Says `acked N` when the store has
// resolved for the batches up to number N.
import { readFileSync, renameSync, writeFileSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { kafka } from '@sluice/sinks/kafka'
import { postgres } from '@sluice/sinks/postgres'
import { DataStreamsError, ValidationError } from 'sluice/core'
import type { SinkPosition } from 'sluice/plugins/sink'
import { batchNumber, firstAfter } from './server-batches.js'

const [kind, place = '', topic = '', file = '', total = '0'] = process.argv.slice(2)
const store =
  kind === 'postgres' ? postgres(place, { timeout: 5000 }) : kafka({ brokers: place, topic })

async function untilDone<Result>(call: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof DataStreamsError) || error instanceof ValidationError) throw error
      writeSync(1, `failed ${error.message}\n`)
      await sleep(50)
    }
  }
}

/** A cursor file, for a store that keeps no position. */
function readCursor(): SinkPosition {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return {}
  }
}

function saveCursor(position: SinkPosition): void {
  writeFileSync(`${file}.draft`, JSON.stringify(position))
  renameSync(`${file}.draft`, file)
}

async function main(): Promise<void> {
  await untilDone(() => store.open({ log: {}, signal: new AbortController().signal }))
  const { position } = store
  const resumed = position ? await untilDone(() => position.call(store)) : readCursor()
  writeSync(1, 'opened\n')
  for (let next = firstAfter(resumed); next < Number(total); next++) {
    const batch = batchNumber(next)
    await untilDone(() => store.write(batch))
    if (position === undefined) saveCursor(batch.position ?? {})
    writeSync(1, `acked ${next}\n`)
  }
  await store.close()
}

main().catch(error => {
  writeSync(1, `ended ${error.stack}\n`)
  process.exitCode = 1
})
