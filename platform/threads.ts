import { availableParallelism } from 'node:os'
import host from 'node:process'
import { Worker } from 'node:worker_threads'
import { threadFile } from './thread-file.js'

/** A thread that was started. */
export type Thread = Worker

/** How many threads can run at once. */
export const countCores: () => number = availableParallelism

/** Starts a program of the build; undefined where the platform allows no more threads, as under Node's permissions. */
export function startThread(program: string, data: unknown): Thread | undefined {
  try {
    return new Worker(threadFile(program), {
      workerData: data,
      name: 'sluice',
      // Node passes its own arguments on, and a program in a file can't have --input-type.
      ...(host.execArgv.some(each => each.startsWith('--input-type')) && { execArgv: [] }),
    })
  } catch {
    return undefined
  }
}
