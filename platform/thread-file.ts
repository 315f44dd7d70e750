import { fileURLToPath } from 'node:url'

/** The file of a thread's program below dist/esm or dist/cjs, in the format of this module. */
export function threadFile(path: string): string {
  // The build puts this file into shared/platform/.
  return fileURLToPath(new URL(`../../${path}`, import.meta.url))
}
