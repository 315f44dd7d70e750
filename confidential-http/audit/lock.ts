import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import host from 'node:process'
import { codeOf } from '../../local/files.js'
import { isRunning } from '../../local/running.js'
import { auditError } from './record.js'

/**
 * Takes a file for this process, and returns what gives it up. A lock of a process that has ended counts for nothing; that of a
 * process on another machine can't be looked at, and counts.
 */
export function lock(file: string): () => void {
  const path = `${file}.lock`
  const text = JSON.stringify({ pid: host.pid, host: hostname(), since: Date.now() })
  for (let attempt = 0; ; attempt++) {
    try {
      writeFileSync(path, text, { flag: 'wx', mode: 0o600 })
      return () => rmSync(path, { force: true })
    } catch (thrown) {
      if (codeOf(thrown) !== 'EEXIST')
        throw auditError(`${path} can't be written: ${codeOf(thrown)}`)
      if (attempt > 0 || isHeld(path))
        throw auditError(
          `${file} is written by another enclave, which an audit log has one of: ${path} names it, and may be deleted if it has ended`,
        )
      rmSync(path, { force: true })
    }
  }
}

function isHeld(path: string): boolean {
  try {
    const { pid, host: name, since } = JSON.parse(readFileSync(path, 'utf8'))
    if (name !== hostname()) return true
    // Numbers of processes are given again, as in a container that starts anew.
    if (pid === host.pid) return since >= Date.now() - host.uptime() * 1000
    return isRunning(pid)
  } catch (thrown) {
    return codeOf(thrown) !== 'ENOENT'
  }
}
