import { ValidationError } from './errors.js'

/**
 * Makes a function that loads a part of the code with its first call. From then on the function
 * returns the part at once. The part is stored, not its promise: on edge platforms a promise
 * belongs to the request that created it.
 *
 * In a bundle of one file, Rollup puts such parts at the end. A program with a top-level await
 * above them gets undefined, which causes an error here.
 *
 * @example
 * ```ts
 * const loadTable = lazy(() => import('./table.js'))
 * // In a stage: the signal may abort during the load.
 * const { table } = await loadTable()
 * call.signal.throwIfAborted()
 * ```
 */
export function lazy<Part>(load: () => Promise<Part | undefined>): () => Part | Promise<Part> {
  let part: Part | undefined
  async function loadOnce(): Promise<Part> {
    const loaded = await load()
    part ??= loaded
    if (part !== undefined) return part
    throw new ValidationError(
      'a part of sluice is not loaded yet: in a bundle of one file, a top-level await runs before the parts below it. Put it into an async function',
    )
  }
  return () => part ?? loadOnce()
}
