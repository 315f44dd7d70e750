import type { Recovered } from './recover-signers.js'

/** One report whose signers are wanted. */
export interface Job {
  readonly fullReport: string
  /** Called once, but not before the call that brought the job has returned. */
  readonly done: (recovered: Recovered) => void
}

/** What recovers signers, in whatever order. */
export interface Recovery {
  add(job: Job): void
  /** Jobs that are not done are forgotten. */
  end(): void
}

/** Tells who wants to know. An error of theirs reaches the process as it is, and keeps nothing from the other jobs. */
export function finish({ done }: Job, recovered: Recovered): void {
  try {
    done(recovered)
  } catch (thrown) {
    queueMicrotask(() => {
      throw thrown
    })
  }
}
