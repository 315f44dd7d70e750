// Runs jest in a process of its own: every script of tests does so by this function.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const jest = fileURLToPath(new URL('../../../node_modules/jest/bin/jest.js', import.meta.url))

/** Resolves with the exit code. `env` is added to the environment. */
export async function runJest(args, env = {}) {
  const isCI = process.env.CI !== undefined
  // A program that a test has left running keeps jest waiting, and so shows itself. In CI, where nobody looks, jest ends all the
  // same, and what its process group still holds is ended with it.
  const hasGroup = isCI && process.platform !== 'win32'
  const given = isCI ? ['--forceExit', ...args] : args
  // Workers inherit the option: with larger new spaces they collect garbage less often.
  const child = spawn(process.execPath, ['--max-semi-space-size=64', jest, ...given], {
    env: { ...process.env, ...env },
    stdio: 'inherit',
    detached: hasGroup,
  })
  if (hasGroup)
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
      process.once(signal, () => {
        endGroup(child.pid)
        process.exit(1)
      })
  const [code] = await once(child, 'exit')
  if (hasGroup) endGroup(child.pid)
  return code ?? 1
}

/** Ends the processes of a group. */
function endGroup(id) {
  try {
    process.kill(-id, 'SIGKILL')
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}
