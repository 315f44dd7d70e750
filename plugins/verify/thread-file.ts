import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The file of a thread's program, below dist/esm or dist/cjs, in whichever format this one is. */
export function threadFile(path: string): string {
  // An ES module has import.meta and no __dirname, CommonJS the other way round.
  const here =
    typeof __dirname === 'string' ? __dirname : fileURLToPath(new URL('.', import.meta.url))
  // Built, this lies in shared/ or in plugins/verify.js: one folder down, either way.
  return join(here, '..', path)
}
