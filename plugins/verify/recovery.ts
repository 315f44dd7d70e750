import { type CurveLibrary, noCurveLibrary } from './curve-library.js'
import { type Recovered, recoverSigners } from './recover-signers.js'
import type { Timed } from './speed.js'

/** A report whose signers are to be recovered. */
export interface Task {
  readonly fullReport: string
  /** The addresses that may sign it. */
  readonly addresses: ReadonlySet<string>
}

/** Recovers signers and times it. */
export interface TimedRecovery {
  /** Recovers the signers of a report. */
  recover(task: Task): Recovered
  /** The valid reports since the last call. */
  take(): Timed
}

/** Reports before the first that is timed: the curve library is slow until it is compiled. */
const COLD = 3

/** Makes what recovers signers with a curve library. Forgeries, which cost little, are not timed. */
export function createTimedRecovery(curveLibrary: CurveLibrary | undefined): TimedRecovery {
  let cold = COLD
  let reports = 0
  let ms = 0

  return {
    recover({ fullReport, addresses }) {
      if (curveLibrary === undefined) return noCurveLibrary
      const begun = performance.now()
      const recovered = recoverSigners(fullReport, addresses, curveLibrary)
      if ('reason' in recovered || cold-- > 0) return recovered
      reports++
      ms += performance.now() - begun
      return recovered
    },
    take() {
      const timed = { curveLibrary: curveLibrary?.name, reports, ms }
      reports = 0
      ms = 0
      return timed
    },
  }
}

/** A task and its callbacks. */
export interface Job extends Task {
  /** False once the job was cancelled: it is skipped then, unless it has begun. */
  readonly isWanted: () => boolean
  /** Called once, after `add` has returned. */
  readonly done: (recovered: Recovered) => void
}

/** Recovers signers, in any order. */
export interface Recovery {
  add(job: Job): void
  /** Drops the jobs that are not done. */
  end(): void
}

/** Calls `done`. Its exception is thrown later, so that it does not stop the other jobs. */
export function finish({ done }: Job, recovered: Recovered): void {
  try {
    done(recovered)
  } catch (thrown) {
    queueMicrotask(() => {
      throw thrown
    })
  }
}
