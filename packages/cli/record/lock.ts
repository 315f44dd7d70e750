import { join } from 'node:path'
import { ValidationError } from 'sluice/core'
import { codeOf, type Lock, takeLock } from 'sluice/internal'

const NAME = 'recording.lock'

/**
 * Makes sure that one process alone records into a directory; resolves with a function that gives it free. The lock of a process
 * that was killed is taken over.
 */
export async function lock(directory: string): Promise<() => void> {
  const path = join(directory, NAME)
  let taken: Lock | string
  try {
    taken = await takeLock(path)
  } catch (cause) {
    throw new ValidationError(`--dir: ${directory} can’t be written: ${codeOf(cause)}`, { cause })
  }
  if (typeof taken !== 'string') return taken.release
  throw new ValidationError(`--dir: ${taken} records into ${directory}: ${path} is its lock`)
}
