import { readFileSync } from 'node:fs'
import host from 'node:process'
import { codeOf } from './files.js'

/**
 * Whether a process runs, and is the one that started then: numbers of processes are given again. Without `start`, and where the
 * platform does not say when a process started, any process of the number is the one.
 */
export function isRunning(pid: number, start?: string): boolean {
  try {
    host.kill(pid, 0)
  } catch (thrown) {
    if (codeOf(thrown) === 'ESRCH') return false
  }
  const found = statOf(pid)
  if (found === undefined) return true
  // A zombie has ended, and only its parent has not asked how.
  return found.state !== 'Z' && (start === undefined || start === found.start)
}

/** When a process started, in a form to compare; undefined where the platform does not say. */
export function startOf(pid: number): string | undefined {
  return statOf(pid)?.start
}

/** Linux alone has it. */
function statOf(pid: number): { readonly state: string; readonly start: string } | undefined {
  try {
    // The name of the process is in parentheses, and may hold any character.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')
    const [state, start] = [fields?.[0], fields?.[19]]
    return state === undefined || start === undefined ? undefined : { state, start }
  } catch {
    return undefined
  }
}
