import { availableParallelism } from 'node:os'
import host from 'node:process'
import { Worker } from 'node:worker_threads'
import { setImmediate } from '../../core/platform.js'
import { threadFile } from '../../core/thread-file.js'
import type { EngineChoice } from './engines/engine.js'
import { createLoopRecovery } from './loop-recovery.js'
import type { Recovered } from './recover-signers.js'
import { finish, type Job, type Recovery, type Task } from './recovery.js'

/** Jobs that a thread is given at once. */
const BATCH = 32
/** Batches that lie with a thread, so that it has another when one is done. */
const AHEAD = 2
/** A batch that so many threads died over is done here. */
const MAX_DEATHS = 2
/** So many threads that die without an answer, one after another, and no other is started. */
const MAX_STILLBORN = 2

interface Batch {
  readonly jobs: readonly Job[]
  readonly deaths: number
}

interface Thread {
  readonly worker: Worker
  /** In the order of the answers. */
  readonly batches: Batch[]
}

/** One less than there are cores, for the event loop has one: 1 to 4. */
export function defaultThreads(): number {
  return Math.min(4, Math.max(1, availableParallelism() - 1))
}

/**
 * Recovers in threads, which are started as they are needed. They keep the process alive while they have work. What a
 * thread leaves undone by dying is done by another; where no thread can live, it is done in the thread of the caller.
 */
export function createThreadRecovery(choice: EngineChoice, allowed: number): Recovery {
  const threads: Thread[] = []
  let most = allowed
  let jobs: Job[] = []
  const again: Batch[] = []
  let isScheduled = false
  let isEnded = false
  let stillborn = 0
  let here: Recovery | undefined

  function open(): Worker | undefined {
    try {
      return new Worker(threadFile('plugins/verify/recovery-thread.js'), {
        workerData: choice,
        name: 'sluice',
        // Node passes on what it was started with; of this a program in a file will have nothing.
        ...(host.execArgv.some(each => each.startsWith('--input-type')) && { execArgv: [] }),
      })
    } catch {
      // There may be no more threads than there are: none at all under Node's permissions.
      most = threads.length
      return undefined
    }
  }

  function start(): Thread | undefined {
    const worker = open()
    if (worker === undefined) return undefined
    worker.unref()
    const thread: Thread = { worker, batches: [] }
    let isBorn = false
    worker.on('message', (answers: readonly Recovered[]) => {
      isBorn = true
      stillborn = 0
      const batch = thread.batches.shift()
      if (thread.batches.length === 0) worker.unref()
      batch?.jobs.forEach((job, index) => {
        if (!isEnded) finish(job, answers[index] as Recovered)
      })
      assign()
    })
    // Its exit follows.
    worker.on('error', () => undefined)
    worker.on('exit', () => {
      if (isEnded) return
      if (!isBorn) stillborn++
      threads.splice(threads.indexOf(thread), 1)
      again.push(...thread.batches.map(({ jobs, deaths }) => ({ jobs, deaths: deaths + 1 })))
      assign()
    })
    threads.push(thread)
    return thread
  }

  function post(thread: Thread, batch: Batch): void {
    if (thread.batches.push(batch) === 1) thread.worker.ref()
    thread.worker.postMessage(
      batch.jobs.map(({ fullReport, addresses }): Task => ({ fullReport, addresses })),
    )
  }

  function doHere(batch: readonly Job[]): void {
    here ??= createLoopRecovery(choice)
    for (const job of batch) here.add(job)
  }

  function mayLive(): boolean {
    return most > 0 && stillborn < MAX_STILLBORN
  }

  /** The thread that takes the next batch, if any does. */
  function findThread(): Thread | undefined {
    let freest = threads[0]
    for (const each of threads)
      if (freest === undefined || each.batches.length < freest.batches.length) freest = each
    if (freest?.batches.length !== 0 && threads.length < most) freest = start() ?? freest
    return freest !== undefined && freest.batches.length < AHEAD ? freest : undefined
  }

  function nextBatch(): Batch | undefined {
    const undone = again.shift()
    if (undone !== undefined || jobs.length === 0) return undone
    // Where a few came at once, each thread has its share.
    const size = Math.min(BATCH, Math.ceil(jobs.length / most))
    const wanted: Job[] = []
    let passed = 0
    for (const job of jobs) {
      if (wanted.length === size) break
      passed++
      if (job.isWanted()) wanted.push(job)
    }
    jobs.splice(0, passed)
    return wanted.length === 0 ? undefined : { jobs: wanted, deaths: 0 }
  }

  function assign(): void {
    isScheduled = false
    if (isEnded) return
    while (again.length > 0 || jobs.length > 0) {
      if (again[0]?.deaths === MAX_DEATHS) {
        doHere(again.shift()?.jobs ?? [])
        continue
      }
      const thread = mayLive() ? findThread() : undefined
      const batch = thread && nextBatch()
      if (thread !== undefined && batch !== undefined) post(thread, batch)
      else if (mayLive()) return
      else {
        for (const undone of again.splice(0)) doHere(undone.jobs)
        doHere(jobs.splice(0))
      }
    }
  }

  return {
    add(job) {
      if (isEnded) return
      jobs.push(job)
      if (isScheduled) return
      // Those of the same turn go together.
      isScheduled = true
      setImmediate(assign)
    },
    end() {
      isEnded = true
      jobs = []
      here?.end()
      for (const { worker } of threads) void worker.terminate()
    },
  }
}
