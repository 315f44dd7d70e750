import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'

test('the tables of results are those that were recorded, a row for each of the fault matrix', async () => {
  const out = await new Promise<string>(resolve => {
    const args = [join(__dirname, 'results.mjs'), '--check']
    execFile(process.execPath, args, (_error, stdout, stderr) => resolve(stdout + stderr))
  })
  expect(out).toBe('')
})
