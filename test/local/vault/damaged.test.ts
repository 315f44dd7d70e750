import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { createVault, type Vault } from '../../../local/index.js'
import { command } from '../../support/command.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-damaged-'))
const other = 'ab'.repeat(20)
let vault: Vault
let secrets: string
beforeAll(async () => {
  vault = await createVault(join(folder, 'vault'))
  for (const key of ['first', 'second', 'third']) await vault.put({ key }, 'value')
  await vault.put({ key: 'fourth', owner: other }, 'value')
  secrets = `secrets/${vault.owner}/main`
  const at = (name: string): string => join(vault.directory, secrets, name)
  writeFileSync(at('second.json'), '{"ciphertext": "cut o')
  writeFileSync(
    at('moved.json'),
    JSON.stringify({ key: 'a', namespace: 'b', owner: other, ciphertext: '{}' }),
  )
  mkdirSync(at('folder.json'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const keysOf = (names: readonly { readonly key: string }[]) => names.map(({ key }) => key)

test('a damaged file does not keep the good secrets from being listed', async () => {
  expect(keysOf(await vault.list({ owner: vault.owner }))).toEqual(['first', 'third'])
  expect(keysOf(await vault.list()).sort()).toEqual(['first', 'fourth', 'third'])
})

test('damaged files are named, each with what is wrong', async () => {
  const damaged = await vault.listDamaged()
  expect(damaged.map(({ file, owner, error }) => [file, owner, error.message])).toEqual([
    [`${secrets}/folder.json`, vault.owner, `${secrets}/folder.json is not a file`],
    [
      `${secrets}/moved.json`,
      vault.owner,
      `${secrets}/moved.json is not the file of the secret it names`,
    ],
    [`${secrets}/second.json`, vault.owner, `${secrets}/second.json is not a JSON object`],
  ])
  expect(damaged.every(({ error }) => error.code === 'VAULT')).toBe(true)
  expect(await vault.listDamaged({ owner: other })).toEqual([])
})

test('sluice vault list prints the good ones, warns of the damaged, and ends with 1', () => {
  const run = (...more: readonly string[]) =>
    spawnSync(
      process.execPath,
      [command, 'vault', 'list', '--json', '--vault', vault.directory, ...more],
      {
        encoding: 'utf8',
      },
    )
  const { status, stdout, stderr } = run()
  expect(
    keysOf(
      stdout
        .trim()
        .split('\n')
        .map(line => JSON.parse(line)),
    ).sort(),
  ).toEqual(['first', 'fourth', 'third'])
  expect(stderr.match(/^sluice: damaged: .*/gm)).toHaveLength(3)
  expect(status).toBe(1)
  expect(run('--owner', other)).toMatchObject({ status: 0, stderr: '' })
})

test('a damaged secret can be put anew', async () => {
  await vault.put({ key: 'second' }, 'value')
  expect(keysOf(await vault.list({ owner: vault.owner }))).toEqual(['first', 'second', 'third'])
})
