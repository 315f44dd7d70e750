import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The file of the program that recovers signers, in whichever format this one is. */
export function recoveryThreadFile(): string {
  // An ES module has import.meta and no __dirname, CommonJS the other way round.
  const here =
    typeof __dirname === 'string' ? __dirname : fileURLToPath(new URL('.', import.meta.url))
  return join(here, 'recovery-thread.js')
}
