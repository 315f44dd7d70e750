import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
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

test('a file in whose folder others may write by now is told, and read once the folder is right', async () => {
  const inner = join(folder, 'inner')
  mkdirSync(inner, { mode: 0o700 })
  const [file, errors] = [join(inner, 'entries.json'), [] as string[]]
  writeFileSync(file, '["a"]', { mode: 0o600 })
  const entries = openChangingFile(file, {
    entries: 'entries',
    parse: text => new Set(JSON.parse(text) as string[]),
    log: { error: message => void errors.push(message) },
  })
  chmodSync(inner, 0o777)
  expect([...entries.read()]).toEqual(['a'])
  expect(errors).toEqual([
    expect.stringContaining(`${inner} has the mode 0777: anybody may replace`),
  ])
  expect(entries.refusal).toMatch(/0777/)
  for (const mode of [0o1777, 0o755, 0o700]) {
    chmodSync(inner, mode)
    await until(() => [...entries.read()].length === 1 && entries.refusal === undefined)
  }
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
