import { setImmediate } from '../../platform/globals.js'
import { type Engine, type EngineChoice, loadEngine, noEngine } from './engine.js'
import { type Recovered, recoverSigners } from './recover-signers.js'
import { finish, type Job, type Recovery } from './recovery.js'

/** Milliseconds of work per iteration of the event loop; a report that takes longer is finished. */
const SLICE = 4

/** Recovers in the caller's thread, a few reports per iteration of its event loop. */
export function createLoopRecovery(choice: EngineChoice): Recovery {
  let jobs: Job[] = []
  let engine: Promise<Engine | undefined> | undefined
  let isRunning = false
  let isEnded = false

  async function run(): Promise<void> {
    isRunning = true
    engine ??= loadEngine(choice)
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
        finish(job, loaded === undefined ? noEngine : recoverOne(job, loaded))
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

function recoverOne({ fullReport, addresses }: Job, engine: Engine): Recovered {
  try {
    return recoverSigners(fullReport, addresses, engine)
  } catch (cause) {
    return { reason: 'malformed', rule: 'its signatures can’t be read', cause }
  }
}
