import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { testCursorStore } from 'sluice/testing'
import { jsonCursors } from './index.js'

/** The path of a file in a folder of its own. */
const newPath = async (): Promise<string> =>
  join(await mkdtemp(join(tmpdir(), 'cursors-')), 'cursors.json')

test('keeps the rules of a cursor store', async () => {
  const path = await newPath()
  await testCursorStore(() => jsonCursors(path), {
    // A folder in place of the file can be neither read nor written.
    fail: async () => {
      await rm(path)
      await mkdir(path)
    },
  })
})

test('takes over the lock of a process that was killed', async () => {
  const path = await newPath()
  const { pid } = spawnSync(process.execPath, ['--version'])
  await writeFile(`${path}.lock`, `process ${pid}, killed`)
  const release = await jsonCursors(path).lock?.(AbortSignal.timeout(1000), assert.fail)
  await release?.()
})
