import type { Recovered } from './recover-signers.js'

/** A report whose signers are to be recovered. */
export interface Task {
  readonly fullReport: string
  /** The addresses that may sign it. */
  readonly addresses: ReadonlySet<string>
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
