import { setImmediate } from '../../platform/globals.js'
import { type EngineChoice, loadEngine } from './engine.js'
import type { Recovered } from './recover-signers.js'
import {
  createTimedRecovery,
  finish,
  type Job,
  type Recovery,
  type TimedRecovery,
} from './recovery.js'
import { createSpeed, type Speed } from './speed.js'

/** Milliseconds of work per iteration of the event loop; a report that takes longer is finished. */
const SLICE = 4

/** Recovers in the caller's thread, a few reports per iteration of its event loop. */
export function createLoopRecovery(choice: EngineChoice, speed: Speed = createSpeed()): Recovery {
  let jobs: Job[] = []
  let engine: Promise<TimedRecovery> | undefined
  let isRunning = false
  let isEnded = false

  async function run(): Promise<void> {
    isRunning = true
    engine ??= loadEngine(choice).then(createTimedRecovery)
    const loaded = await engine
    while (jobs.length > 0) {
      const taken = jobs
      jobs = []
      let until = performance.now() + SLICE
      for (const job of taken) {
        if (!job.isWanted()) continue
        if (performance.now() > until) {
          await new Promise<void>(resolve => setImmediate(resolve))
          until = performance.now() + SLICE
        }
        if (isEnded) return
        finish(job, recoverOne(job, loaded))
        speed.add(loaded.take(), 0)
      }
      await new Promise<void>(resolve => setImmediate(resolve))
    }
    isRunning = false
  }

  return {
    add(job) {
      jobs.push(job)
      if (!isRunning && !isEnded) void run()
    },
    end() {
      isEnded = true
      jobs = []
    },
  }
}

function recoverOne(job: Job, { recover }: TimedRecovery): Recovered {
  try {
    return recover(job)
  } catch (cause) {
    return { reason: 'malformed', rule: 'its signatures can’t be read', cause }
  }
}
