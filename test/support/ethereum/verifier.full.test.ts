import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'

test('verifier.json is what verifier.sol compiles to', async () => {
  const program = join(__dirname, 'compile.mjs')
  const running = promisify(execFile)(process.execPath, [program, '--check'])
  await expect(running).resolves.toMatchObject({ stderr: '' })
})
