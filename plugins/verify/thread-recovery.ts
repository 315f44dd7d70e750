import { setImmediate } from '../../platform/globals.js'
import { countCores, startRecoveryThread, type Thread } from '../../platform/threads.js'
import type { CurveLibraryChoice } from './curve-library.js'
import { createLoopRecovery } from './loop-recovery.js'
import type { Recovered } from './recover-signers.js'
import { finish, type Job, type Recovery } from './recovery.js'
import { type Answer, type Batch, type RecoveryWorker, runWorker } from './recovery-worker.js'
import { createSpeed, type Speed } from './speed.js'

/** Jobs that a thread receives at a time. */
const MAX_BATCH = 32
/** Batches that a thread may hold, so that the next one is there when it finishes one. */
const MAX_LOAD = 2
/** Threads that may crash over a batch before it is recovered in the caller's thread. */
const MAX_CRASHES = 2
/** Threads in a row that may exit without any answer before no more are started. */
const MAX_FAILED_STARTS = 2

/** Threads that recover. */
const inUse = new WeakSet<Thread>()

/** The number of cores less one for the event loop: 1 to 4. */
export function defaultThreads(): number {
  return Math.min(4, Math.max(1, countCores() - 1))
}

/**
 * Recovers in threads, which are started as they are needed. Another thread takes the batches of one that exits; where no
 * thread can run, the caller's thread recovers.
 */
export function createThreadRecovery(
  choice: CurveLibraryChoice,
  maxThreads: number,
  speed: Speed = createSpeed(),
  startThread: StartThread = startRecoveryThread,
  onGivenUp: (reason: unknown) => void = () => undefined,
): Recovery {
  const workers = new Set<RecoveryWorker>()
  const unanswered: Batch[] = []
  let jobs: Job[] = []
  let limit = maxThreads
  let failedStarts = 0
  let isScheduled = false
  let isEnded = false
  let local: Recovery | undefined

  function start(): RecoveryWorker | undefined {
    try {
      const thread = startThread()
      if (typeof thread?.postMessage !== 'function') {
        void endLater(thread)
        throw new TypeError('it is no Worker')
      }
      // Each would take the answers of the other for its own.
      if (inUse.has(thread)) throw new TypeError('it is a Worker that runs already')
      inUse.add(thread)
      const worker: RecoveryWorker = runWorker(thread, choice, {
        answered,
        exited: (left, hasAnswered, reason) => exited(worker, left, hasAnswered, reason),
      })
      workers.add(worker)
      return worker
    } catch (thrown) {
      limit = workers.size
      if (limit === 0) onGivenUp(thrown)
      return undefined
    }
  }

  function answered(batch: Batch, { recovered, timed }: Answer): void {
    failedStarts = 0
    speed.add(timed, limit)
    batch.jobs.forEach((job, index) => {
      if (!isEnded) finish(job, recovered[index] as Recovered)
    })
    assign()
  }

  function exited(
    worker: RecoveryWorker,
    left: readonly Batch[],
    hasAnswered: boolean,
    reason: unknown,
  ): void {
    workers.delete(worker)
    if (!hasAnswered) failedStarts++
    if (!hasAnswered && failedStarts === MAX_FAILED_STARTS && !isEnded) onGivenUp(reason)
    for (const { jobs, crashes } of left) unanswered.push({ jobs, crashes: crashes + 1 })
    assign()
  }

  function recoverHere(batch: readonly Job[]): void {
    local ??= createLoopRecovery(choice, speed)
    for (const job of batch) local.add(job)
  }

  function mayUseThreads(): boolean {
    return limit > 0 && failedStarts < MAX_FAILED_STARTS
  }

  /** The thread for the next batch; undefined where all are busy. */
  function findWorker(): RecoveryWorker | undefined {
    let [freest] = workers
    for (const each of workers) if (freest === undefined || each.load < freest.load) freest = each
    if (freest?.load !== 0 && workers.size < limit) freest = start() ?? freest
    return freest !== undefined && freest.load < MAX_LOAD ? freest : undefined
  }

  function assign(): void {
    isScheduled = false
    if (isEnded) return
    while (unanswered.length > 0 || jobs.length > 0) {
      if (unanswered[0]?.crashes === MAX_CRASHES) {
        recoverHere(unanswered.shift()?.jobs ?? [])
        continue
      }
      const worker = mayUseThreads() ? findWorker() : undefined
      if (!mayUseThreads()) {
        for (const batch of unanswered.splice(0)) recoverHere(batch.jobs)
        recoverHere(jobs.splice(0))
        return
      }
      const batch = worker && (unanswered.shift() ?? takeBatch(jobs, limit))
      if (worker === undefined || batch === undefined) return
      worker.post(batch)
    }
  }

  return {
    add(job) {
      if (isEnded) return
      jobs.push(job)
      if (isScheduled) return
      // Jobs that are added together go into one batch.
      isScheduled = true
      setImmediate(assign)
    },
    end() {
      isEnded = true
      jobs = []
      local?.end()
      for (const worker of workers) worker.terminate()
    },
  }
}

/** Starts a thread of the program `sluice/plugins/verify/thread`; undefined where there can be none. */
export type StartThread = () => Thread | undefined

/** Ends a thread that an async function has started: nobody waits for it. */
async function endLater(starting: unknown): Promise<void> {
  try {
    await ((await starting) as Thread | undefined)?.terminate()
  } catch {}
}

/** Takes the next jobs, shared between the threads where they are few; undefined where all were cancelled. */
function takeBatch(jobs: Job[], threads: number): Batch | undefined {
  const size = Math.min(MAX_BATCH, Math.ceil(jobs.length / threads))
  const wanted: Job[] = []
  let taken = 0
  for (const job of jobs) {
    if (wanted.length === size) break
    taken++
    if (job.isWanted()) wanted.push(job)
  }
  jobs.splice(0, taken)
  return wanted.length === 0 ? undefined : { jobs: wanted, crashes: 0 }
}
