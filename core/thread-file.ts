import { fileURLToPath, join } from './platform.js'

/** The file of a thread's program below dist/esm or dist/cjs, in the format of this module. */
export function threadFile(path: string): string {
  // ES modules have import.meta and no __dirname, CommonJS modules the opposite.
  const here =
    typeof __dirname === 'string' ? __dirname : fileURLToPath(new URL('.', import.meta.url))
  // The build puts this file into shared/.
  return join(here, '..', path)
}
