import { join } from 'node:path'

/** Takes the place of plugins/verify/recovery-thread-file.ts in tests. */
export function recoveryThreadFile(): string {
  return join(__dirname, '../dist/cjs/plugins/verify/recovery-thread.js')
}
