import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { runInShell } from './support/shell.js'

// Standard output that can't be written. Only Linux has a device that is always full.

const onLinux = process.platform === 'linux' ? test : test.skip
const folder = mkdtempSync(join(tmpdir(), 'sluice-full-'))
afterAll(() => rmSync(folder, { recursive: true }))

onLinux.each([
  '--version',
  '--help',
  'completion bash',
  'serve --port 0',
  `vault init --vault ${folder}/vault`,
  `keygen ${folder}/enclave.key`,
])('sluice %s > /dev/full fails, and says why', async args => {
  expect(await runInShell('exec "$@" > /dev/full', args.split(' '))).toEqual({
    code: 1,
    out: '',
    err: 'sluice: standard output can’t be written: ENOSPC, the disk is full\n',
  })
  // Its public key is lost.
  expect(existsSync(join(folder, 'enclave.key'))).toBe(false)
})
