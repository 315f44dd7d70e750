// Runs jest in a process of its own: every script of tests but `npm test` does so by this function.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const jest = fileURLToPath(new URL('../../../node_modules/jest/bin/jest.js', import.meta.url))

/** Resolves with the exit code. `env` is added to the environment. */
export async function runJest(args, env = {}) {
  // Workers inherit the option: with larger new spaces they collect garbage less often.
  const child = spawn(process.execPath, ['--max-semi-space-size=64', jest, ...args], {
    env: { ...process.env, ...env },
    stdio: 'inherit',
  })
  const [code] = await once(child, 'close')
  return code ?? 1
}
