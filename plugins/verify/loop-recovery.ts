import { setImmediate } from '../../platform/globals.js'
import { type CurveLibraryChoice, loadCurveLibrary } from './curve-library.js'
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
export function createLoopRecovery(
  choice: CurveLibraryChoice,
  speed: Speed = createSpeed(),
): Recovery {
  let jobs: Job[] = []
  let curveLibrary: TimedRecovery | undefined
  /** Of the loop that runs; 0 where none does. */
  let runner = 0
  let runners = 0
  let turns = 0
  let isEnded = false

  function start(): void {
    run().catch(cause => {
      runner = 0
      const rule = 'what recovers its signers has failed'
      for (const job of jobs.splice(0))
        finish(job, { reason: 'curve-library-unavailable', rule, cause })
    })
  }

  async function run(): Promise<void> {
    runners++
    const own = runners
    runner = own
    // Whoever adds a job goes on before the job is done.
    const loaded = curveLibrary === undefined ? await loadCurveLibrary(choice) : await undefined
    curveLibrary ??= createTimedRecovery(loaded)
    let until = performance.now() + SLICE
    for (let next = 0; runner === own && !isEnded; next++) {
      const job = jobs[next]
      if (job === undefined || performance.now() > until) {
        jobs.splice(0, next)
        next = -1
        await turn()
        if (jobs.length === 0 && runner === own) runner = 0
        until = performance.now() + SLICE
      } else if (job.isWanted()) {
        finish(job, recoverOne(job, curveLibrary))
        speed.add(curveLibrary.take(), 0)
      }
    }
  }

  async function turn(): Promise<void> {
    await new Promise<void>(resolve => setImmediate(resolve))
    turns++
  }

  /** At the edge, a loop ends with the request that has begun it: where no turn has come, another begins. */
  async function check(): Promise<void> {
    const before = turns
    await new Promise<void>(resolve => setImmediate(resolve))
    if (turns === before && jobs.length > 0 && !isEnded) start()
  }

  return {
    add(job) {
      jobs.push(job)
      if (runner === 0 && !isEnded) start()
      else void check()
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
