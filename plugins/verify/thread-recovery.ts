import { asError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { opensSockets, setImmediate } from '../../platform/globals.js'
import { countCores, startRecoveryThread, type Thread } from '../../platform/threads.js'
import type { CheckedVerifyOptions, CurveLibraryChoice } from './options.js'
import {
  finish,
  type Job,
  LoopRecovery,
  type Recovered,
  type Recovery,
  Speed,
  type Task,
  type Timed,
} from './recovery.js'

/** The most jobs that a thread receives at a time. */
const MAX_BATCH = 32
/**
 * The most batches that a thread may hold. With two, the next batch is ready when the thread
 * finishes a batch.
 */
const MAX_LOAD = 2
/**
 * How many threads may crash while they process a batch. Then the caller's thread processes the
 * batch.
 */
const MAX_CRASHES = 2
/** How many threads in a row may exit without any answer. Then no more threads are started. */
const MAX_FAILED_STARTS = 2
/**
 * Milliseconds within which a thread must answer. A thread that hangs would never answer. A thread
 * that has not loaded its library by then is kept: its machine may be slow. But the event loop does
 * its work until it answers, because a wrong program would never answer.
 */
const ANSWER_LIMIT = 5000

const IN_LOOP = 'verify runs in the event loop'

/**
 * The answer of a thread to a batch, or to a part of it. A thread that has loaded its library says
 * so with an answer without results.
 */
export interface RecoveryAnswer {
  /** The results, in the order of the jobs. */
  readonly recovered: readonly Recovered[]
  readonly timed: Timed
}

/** Jobs that a thread receives together. */
interface Batch {
  readonly jobs: readonly Job[]
  /** How many threads have exited without answering this batch. */
  readonly crashes: number
}

/** A thread of Node, or a web worker, with its functions for event listeners. */
type AnyThread = Thread & {
  on?(event: string, listener: (value: unknown) => void): void
  addEventListener?(event: string, listener: (event: { data?: unknown }) => void): void
}

/** All threads that recover signers for any verifier. */
const inUse = new WeakSet<AnyThread>()

/** A thread that recovers signers. It keeps the process alive while it has work. */
class RecoveryThread {
  /** The batches that the thread has not answered, in the order in which it will answer them. */
  readonly batches: Batch[] = []
  hasAnswered = false
  /** True while the thread is still starting after `ANSWER_LIMIT`. */
  isLate = false
  /** The error of the thread, if it is known. */
  failure: unknown
  readonly #thread: AnyThread
  readonly #owner: ThreadRecovery
  #isLoaded = false
  /** How many results are still to come of batches that the event loop has taken over. */
  #stale = 0
  #hasEnded = false
  #timer: ReturnType<typeof setTimeout> | undefined

  /** Takes over a thread. Throws if the value is not a thread. */
  constructor(thread: AnyThread, choice: CurveLibraryChoice, owner: ThreadRecovery) {
    this.#thread = thread
    this.#owner = owner
    if (typeof thread.on === 'function') {
      thread.on('message', message => this.#receive(message))
      // The event `exit` follows this event.
      thread.on('error', thrown => {
        this.failure = thrown
      })
      thread.on('exit', () => this.#end())
    } else if (typeof thread.addEventListener === 'function') {
      thread.addEventListener('message', ({ data }) => this.#receive(data))
      // A web worker has no event for its end, so a worker that fails is ended here.
      thread.addEventListener('error', event => this.#end((event as { message?: unknown }).message))
    } else throw new TypeError('it is no Worker')
    thread.unref?.()
    thread.postMessage(choice)
  }

  post(batch: Batch): void {
    if (this.batches.push(batch) === 1) {
      this.#thread.ref?.()
      this.#wait()
    }
    try {
      this.#thread.postMessage(
        batch.jobs.map(({ fullReport, addresses }): Task => ({ fullReport, addresses })),
      )
    } catch (thrown) {
      this.#end(thrown)
    }
  }

  terminate(): void {
    this.#hasEnded = true
    clearTimeout(this.#timer)
    void endLater(this.#thread)
  }

  #receive(message: unknown): void {
    if (this.#hasEnded) return
    const [batch] = this.batches
    const expected = this.#stale > 0 ? this.#stale : (batch?.jobs.length ?? 0)
    const count = isAnswer(message) ? message.recovered.length : Number.POSITIVE_INFINITY
    if (count > expected || (count === 0 && this.#isLoaded)) {
      this.#end(new Error('it has sent what is no answer: its program must be ours alone'))
      return
    }
    const answer = message as RecoveryAnswer
    this.#isLoaded = true
    this.isLate = false
    if (count > 0) this.hasAnswered = true
    if (this.#stale > 0 || batch === undefined || count === 0) {
      this.#stale -= Math.min(count, this.#stale)
      this.#wait()
      this.#owner.loaded(answer)
      return
    }
    if (count === batch.jobs.length) this.batches.shift()
    else this.batches[0] = { ...batch, jobs: batch.jobs.slice(count) }
    if (this.batches.length === 0) this.#thread.unref?.()
    this.#wait()
    this.#owner.answered(batch.jobs.slice(0, count), answer)
  }

  /** Starts the timer for the next answer. */
  #wait(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.batches.length === 0) return
    const timer = setTimeout(() => {
      // If this process was held up, the answer is there, and is read in this turn.
      setImmediate(() => {
        if (this.#timer === timer) this.#overdue()
      })
    }, ANSWER_LIMIT)
    this.#timer = timer
    timer.unref?.()
  }

  #overdue(): void {
    if (this.#hasEnded) return
    const failure = new Error(`it has not answered for ${ANSWER_LIMIT} ms`)
    if (this.#isLoaded) {
      this.#end(failure)
      return
    }
    this.isLate = true
    const taken = this.batches.splice(0)
    for (const { jobs } of taken) this.#stale += jobs.length
    this.#thread.unref?.()
    this.#owner.takeOver(taken, failure)
  }

  #end(failure?: unknown): void {
    this.failure ??= failure
    if (this.#hasEnded) return
    this.#hasEnded = true
    clearTimeout(this.#timer)
    void endLater(this.#thread)
    this.#owner.exited(this)
  }
}

function isAnswer(message: unknown): message is RecoveryAnswer {
  const { recovered, timed } = (message ?? {}) as Partial<RecoveryAnswer>
  return (
    Array.isArray(recovered) &&
    recovered.every(each => typeof each === 'object' && each !== null) &&
    Number.isFinite(timed?.reports) &&
    Number.isFinite(timed?.ms)
  )
}

/** The options that say how many threads there are, and how they are started. */
type ThreadOptions = Pick<CheckedVerifyOptions, 'curveLibrary' | 'workers' | 'worker'>

/**
 * Recovers signers in threads, which are started as they are needed. If a thread exits, another
 * thread takes over its batches. If no thread can run, the caller's thread recovers the signers.
 */
export class ThreadRecovery implements Recovery {
  readonly #options: ThreadOptions
  readonly #speed: Speed
  readonly #log: Log
  readonly #threads = new Set<RecoveryThread>()
  /** The unanswered batches of threads that have exited. */
  readonly #unanswered: Batch[] = []
  #jobs: Job[] = []
  #limit: number
  #failedStarts = 0
  #isScheduled = false
  #isEnded = false
  #local: LoopRecovery | undefined

  constructor(options: ThreadOptions, speed: Speed = new Speed(), log: Log = {}) {
    this.#options = options
    this.#speed = speed
    this.#log = log
    // One core is left for the event loop.
    this.#limit = options.workers ?? Math.min(4, Math.max(1, countCores() - 1))
  }

  add(job: Job): void {
    if (this.#isEnded) return
    this.#jobs.push(job)
    if (this.#isScheduled) return
    // Jobs that are added together go into one batch.
    this.#isScheduled = true
    setImmediate(() => this.#assign())
  }

  end(): void {
    this.#isEnded = true
    this.#jobs = []
    this.#local?.end()
    for (const thread of this.#threads) thread.terminate()
  }

  /** Called by a thread with the results of some jobs. */
  answered(jobs: readonly Job[], { recovered, timed }: RecoveryAnswer): void {
    this.#failedStarts = 0
    this.#speed.add(timed, this.#limit)
    jobs.forEach((job, index) => {
      if (!this.#isEnded) finish(job, recovered[index] as Recovered)
    })
    this.#assign()
  }

  /** Called by a thread that has loaded its library. */
  loaded({ timed }: RecoveryAnswer): void {
    this.#speed.add(timed, this.#limit)
    this.#assign()
  }

  /** Called by a thread that is still starting, with its batches. */
  takeOver(batches: readonly Batch[], failure: Error): void {
    if (this.#isEnded) return
    if (!this.#mayUseThreads())
      this.#log.warn?.(`${IN_LOOP} until a thread is ready: ${failure.message}`)
    for (const { jobs } of batches) this.#recoverHere(jobs)
    this.#assign()
  }

  /** Called by a thread that has ended. */
  exited(thread: RecoveryThread): void {
    const { batches, failure, hasAnswered } = thread
    this.#threads.delete(thread)
    if (!hasAnswered && ++this.#failedStarts === MAX_FAILED_STARTS && !this.#isEnded)
      this.#warn(failure)
    for (const { jobs, crashes } of batches) this.#unanswered.push({ jobs, crashes: crashes + 1 })
    this.#assign()
  }

  #assign(): void {
    this.#isScheduled = false
    while (!this.#isEnded && this.#unanswered.length + this.#jobs.length > 0) {
      const [first] = this.#unanswered
      if (first?.crashes === MAX_CRASHES) {
        this.#unanswered.shift()
        this.#recoverHere(first.jobs)
        continue
      }
      const thread = this.#mayUseThreads() ? this.#findThread() : undefined
      if (!this.#mayUseThreads()) {
        for (const { jobs } of this.#unanswered.splice(0)) this.#recoverHere(jobs)
        this.#recoverHere(this.#jobs.splice(0))
        return
      }
      const batch = thread && (this.#unanswered.shift() ?? takeBatch(this.#jobs, this.#limit))
      if (batch === undefined) return
      thread?.post(batch)
    }
  }

  #mayUseThreads(): boolean {
    let usable = this.#limit
    for (const { isLate } of this.#threads) if (isLate) usable--
    return usable > 0 && this.#failedStarts < MAX_FAILED_STARTS
  }

  /** The thread for the next batch; undefined if all threads are busy. */
  #findThread(): RecoveryThread | undefined {
    let freest: RecoveryThread | undefined
    for (const each of this.#threads) {
      if (each.isLate) continue
      if (freest === undefined || each.batches.length < freest.batches.length) freest = each
    }
    if (freest?.batches.length !== 0 && this.#threads.size < this.#limit)
      freest = this.#start() ?? freest
    return freest !== undefined && freest.batches.length < MAX_LOAD ? freest : undefined
  }

  #start(): RecoveryThread | undefined {
    try {
      const thread = (this.#options.worker ?? startRecoveryThread)()
      if (typeof thread?.postMessage !== 'function') {
        void endLater(thread)
        throw new TypeError('it is no Worker')
      }
      // If two verifiers shared a thread, each would take all answers for its own.
      if (inUse.has(thread)) throw new TypeError('it is a Worker that runs already')
      inUse.add(thread)
      const started = new RecoveryThread(thread, this.#options.curveLibrary, this)
      this.#threads.add(started)
      return started
    } catch (thrown) {
      this.#limit = this.#threads.size
      if (this.#limit === 0) this.#warn(thrown)
      return undefined
    }
  }

  #recoverHere(jobs: readonly Job[]): void {
    this.#local ??= new LoopRecovery(this.#options.curveLibrary, this.#speed)
    for (const job of jobs) this.#local.add(job)
  }

  /**
   * Warns that the event loop recovers signers. A web page without the option `worker` is not
   * warned, as it cannot have threads.
   */
  #warn(reason: unknown): void {
    if (this.#options.worker !== undefined)
      this.#log.warn?.(
        `${IN_LOOP}: the threads of the option worker have failed: ${asError(reason).message}`,
      )
    else if (opensSockets)
      this.#log.warn?.(
        `${IN_LOOP}: no thread could be started. In a bundle, give it the option worker`,
      )
  }
}

/**
 * Ends a thread, also one that an async function has started: the option `worker` must return the
 * thread itself, not a promise. Nobody waits for the end, because it may never come.
 */
async function endLater(starting: unknown): Promise<void> {
  try {
    await ((await starting) as Thread | undefined)?.terminate()
  } catch {}
}

/**
 * Takes the jobs of the next batch. A few jobs are divided between the threads. Undefined if all
 * jobs were cancelled.
 */
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
