import type { Recovered } from './recover-signers.js'

/** What there is to do about a report. */
export interface Task {
  readonly fullReport: string
  /** Who may sign it. */
  readonly addresses: ReadonlySet<string>
}

/** One report whose signers are wanted. */
export interface Job extends Task {
  /** False once nobody wants to know any more: it is passed over, unless it is under way. */
  readonly isWanted: () => boolean
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
