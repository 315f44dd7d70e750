import { join } from 'node:path'

/** Takes the place of each thread-file.ts in tests. */
export function threadFile(path: string): string {
  return join(__dirname, '../../../dist/cjs', path)
}
