import { fileURLToPath } from './platform.js'

/** The file of a thread's program below dist/esm or dist/cjs, in the format of this module. */
export function threadFile(path: string): string {
  // The build puts this file into shared/core/.
  return fileURLToPath(new URL(`../../${path}`, import.meta.url))
}
