import { mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { createVault } from '../../vault/create-vault.js'

test('a change of a file that was read before is noticed', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-secret-files-'))
  try {
    const vault = await createVault(join(directory, 'vault'))
    await vault.put({ key: 'apiKey' }, 'value', { policy: 'anywhere' })
    const name = { key: 'apiKey', namespace: 'main', owner: vault.owner }
    const folder = join(vault.directory, 'secrets', vault.owner, 'main')
    const [entry = ''] = readdirSync(folder)
    const text = readFileSync(join(folder, entry), 'utf8')
    const ciphertext = await vault.ciphertext(name)
    expect(await vault.ciphertext(name)).toBe(ciphertext)

    writeFileSync(join(folder, entry), text.replace('Nonce', 'nonce'))
    expect(await failureOf(vault.ciphertext(name))).toMatchObject({
      message: expect.stringMatching(/does not hold the ciphertext that was put$/),
    })
    writeFileSync(join(folder, entry), text)
    expect(await vault.ciphertext(name)).toBe(ciphertext)
    rmSync(join(folder, entry))
    expect(await failureOf(vault.ciphertext(name))).toMatchObject({
      message: expect.stringMatching(/is missing$/),
    })
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})

test('what a killed process has left is removed by a change an hour later, and nothing else', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-secret-files-'))
  try {
    const vault = await createVault(join(directory, 'vault'))
    await vault.put({ key: 'a' }, 'value', { policy: 'anywhere' })
    const folder = join(vault.directory, 'secrets', vault.owner, 'main')
    const [entry = ''] = readdirSync(folder)
    const old = ['a.0123456789abcdef.json', '.a.json.0123456789abcdef', 'notes.txt', entry]
    const recent = ['a.fedcba9876543210.json', '.a.json.fedcba9876543210']
    const before = new Date(Date.now() - 2 * 3_600_000)
    for (const file of [...old, ...recent])
      if (file !== entry) writeFileSync(join(folder, file), '')
    for (const file of old) utimesSync(join(folder, file), before, before)

    await vault.put({ key: 'b' }, 'value', { policy: 'anywhere' })
    const left = readdirSync(folder).filter(file => !file.startsWith('b.'))
    expect(left.sort()).toEqual([...recent, 'notes.txt', entry].sort())
    expect(await vault.listDamaged()).toEqual([])
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})
