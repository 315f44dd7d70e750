import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { openChangingFile } from '../../platform/node/changing-file.js'
import { until } from '../support/waiting.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-changing-'))
const file = join(folder, 'entries.json')
afterAll(() => rmSync(folder, { recursive: true }))

test('a file that was refused is read once the reason is gone, though its content is the same', async () => {
  writeFileSync(file, '["a"]', { mode: 0o600 })
  const errors: string[] = []
  const entries = openChangingFile(file, {
    entries: 'entries',
    parse: text => new Set(JSON.parse(text) as string[]),
    log: { error: message => void errors.push(message) },
  })
  writeFileSync(file, '["b","c"]')
  chmodSync(file, 0o666)
  expect([...entries.read()]).toEqual(['a'])
  expect(errors).toEqual([expect.stringContaining('the entries are still those of before')])
  chmodSync(file, 0o600)
  await until(() => entries.read().has('b'))
  expect([...entries.read()]).toEqual(['b', 'c'])
  expect(errors).toHaveLength(1)
})

test('a device without an end is refused', () => {
  const open = () =>
    openChangingFile('/dev/zero', {
      entries: 'entries',
      parse: () => new Set(),
      insecurePermissions: true,
    })
  expect(open).toThrow('/dev/zero is not a file')
})
