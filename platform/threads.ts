import { availableParallelism } from 'node:os'
import host from 'node:process'
import { Worker } from 'node:worker_threads'

/** A thread that was started. */
export type Thread = Worker

/** How many threads can run at once. */
export const countCores: () => number = availableParallelism

/** Starts a thread that recovers signers; undefined where the platform allows no more threads, as under Node's permissions. */
export function startRecoveryThread(data: unknown): Thread | undefined {
  try {
    return new Worker(new URL('../plugins/verify/recovery-thread.js', import.meta.url), {
      workerData: data,
      name: 'sluice',
      // Node passes its own arguments on, and a program in a file can't have --input-type.
      ...(host.execArgv.some(each => each.startsWith('--input-type')) && { execArgv: [] }),
    })
  } catch {
    return undefined
  }
}
