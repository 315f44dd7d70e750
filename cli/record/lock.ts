import { open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ValidationError } from '../../core/errors.js'
import { codeOf } from '../../local/files.js'

const NAME = 'recording.lock'

/**
 * Makes sure that one process alone records into a directory; returns what gives it free. The lock of a process that was killed
 * is taken over.
 */
export async function lock(directory: string): Promise<() => Promise<void>> {
  const path = join(directory, NAME)
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      const file = await open(path, 'wx')
      await file.writeFile(String(process.pid))
      await file.close()
      return () => rm(path, { force: true })
    } catch (cause) {
      if (codeOf(cause) !== 'EEXIST')
        throw new ValidationError(`--dir: ${directory} can’t be written: ${codeOf(cause)}`, {
          cause,
        })
    }
    const owner = Number(await readFile(path, 'utf8').catch(() => ''))
    if (isRunning(owner)) break
    await rm(path, { force: true })
  }
  throw new ValidationError(`--dir: another process records into ${directory} (${path})`)
}

function isRunning(pid: number): boolean {
  // In a container each process may have the same number.
  if (pid === 0 || pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}
