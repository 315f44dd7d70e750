import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { command } from '@sluice/test-support/command.js'
import { createVault } from '../../vault/create-vault.js'
import type { Vault } from '../../vault/vault.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-damaged-'))
const other = 'ab'.repeat(20)
let vault: Vault
let secrets: string
let files: readonly string[]
beforeAll(async () => {
  vault = await createVault(join(folder, 'vault'))
  for (const key of ['first', 'second', 'third'])
    await vault.put({ key }, 'value', { policy: 'anywhere' })
  await vault.put({ key: 'fourth', owner: other }, 'value', { policy: 'anywhere' })
  secrets = `secrets/${vault.owner}/main`
  files = readdirSync(join(vault.directory, secrets))
  const fileOf = (key: string): string => join(vault.directory, secrets, nameOf(key))
  writeFileSync(fileOf('second'), '{"ciphertext": "cut o')
  rmSync(fileOf('third'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The name of the file of a secret. */
const nameOf = (key: string): string => files.find(each => each.startsWith(`${key}.`)) as string
const keysOf = (names: readonly { readonly key: string }[]) => names.map(({ key }) => key)

test('damaged files are named, each with what is wrong', async () => {
  expect(keysOf(await vault.list()).sort()).toEqual(['first', 'fourth', 'second', 'third'])
  const damaged = await vault.listDamaged()
  const [second, third] = ['second', 'third'].map(key => `${secrets}/${nameOf(key)}`)
  expect(damaged.map(({ file, owner, error }) => [file, owner, error.message])).toEqual([
    [second, vault.owner, `${second} is not a JSON object`],
    [third, vault.owner, `${third} is missing`],
  ])
  expect(damaged.every(({ error }) => error.code === 'VAULT')).toBe(true)
  expect(await vault.listDamaged({ owner: other })).toEqual([])
})

test('sluice vault list prints the names, warns of the damaged, and ends with 1', () => {
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
  ).toEqual(['first', 'fourth', 'second', 'third'])
  expect(stderr.match(/^sluice: damaged: .*/gm)).toHaveLength(2)
  expect(status).toBe(1)
  expect(run('--owner', other)).toMatchObject({ status: 0, stderr: '' })
})

test('a damaged secret can be put again, and removed', async () => {
  await vault.put({ key: 'second' }, 'value', { policy: 'anywhere' })
  await vault.remove({ key: 'third' })
  expect(await vault.listDamaged()).toEqual([])
  expect(keysOf(await vault.list({ owner: vault.owner }))).toEqual(['first', 'second'])
})
