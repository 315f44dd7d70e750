import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'

/**
 * Waits until a process that was asked to end has ended. If the process hangs, this kills it after `ms` milliseconds, so
 * that the tests end, and throws an error that lists the threads of the process.
 */
export async function whenEnded(child: ChildProcess, ms = 15_000): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  let threads: string | undefined
  const killing = setTimeout(() => {
    threads = threadsOf(child.pid)
    child.kill('SIGKILL')
  }, ms)
  try {
    await once(child, 'exit')
  } finally {
    clearTimeout(killing)
  }
  if (threads !== undefined)
    throw new Error(`process ${child.pid} did not end within ${ms} ms; its threads:\n${threads}`)
}

/** The name and the state of each thread, and where in the kernel it waits, as Linux shows them; elsewhere an empty string. */
function threadsOf(pid = 0): string {
  const folder = `/proc/${pid}/task`
  try {
    return readdirSync(folder)
      .map(id => {
        const [comm, status, wait] = ['comm', 'status', 'wchan'].map(read(`${folder}/${id}`))
        const state = /^State:\s*(.*)$/m.exec(status as string)?.[1]
        return `  ${id} ${comm?.trim()}: ${state}, ${wait}`
      })
      .join('\n')
  } catch {
    return ''
  }
}

const read =
  (folder: string) =>
  (name: string): string =>
    readFileSync(`${folder}/${name}`, 'utf8')
