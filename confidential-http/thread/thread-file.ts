import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The file of a thread's program, below confidential-http, in whichever format this one is. */
export function threadFile(path: string): string {
  // An ES module has import.meta and no __dirname, CommonJS the other way round.
  const here =
    typeof __dirname === 'string' ? __dirname : fileURLToPath(new URL('.', import.meta.url))
  return join(here, '..', path)
}
