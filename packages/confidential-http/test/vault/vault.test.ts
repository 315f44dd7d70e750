import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { inForm } from '@sluice/test-support/tier.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import type { SecretName } from 'sluice/plugins/confidential-http'
import { createVault } from '../../vault/create-vault.js'
import { openVault } from '../../vault/open-vault.js'
import { putMany } from '../support/vault/put-without-policy.js'
import {
  at,
  edit,
  infoOf,
  nameOf,
  OTHER,
  OWNER,
  place,
  release,
  reveal,
  secretFile,
  shareFile,
  storedValue,
  VALUE,
  vault,
  walk,
} from '../support/vault/vault.js'

describe('a vault', () => {
  test.each([
    [1, 1],
    [3, 2],
    [5, 3],
    [5, 5],
  ])('of %i holders releases a secret by any %i of them', async (holders, threshold) => {
    const made = await createVault(place(), { holders, threshold })
    expect(made.holders.map(holder => holder.index)).toEqual([...Array(holders).keys()])
    await made.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const name = nameOf('key', made.owner)
    const all = [...Array(holders).keys()]
    for (const indexes of [all, all.slice(-threshold)])
      expect(await reveal(made, name, indexes)).toBe(VALUE)
    expect(await failureOf(reveal(made, name, all.slice(1, threshold)))).toMatchObject({
      code: 'TDH2',
      message: expect.stringContaining('too few shares'),
    })
  })

  test('has 3 holders, a threshold of 2 and an owner of its own by default', async () => {
    const [one, other] = [await createVault(place()), await createVault(place())]
    expect([one.holders.length, one.threshold]).toEqual([3, 2])
    expect(one.owner).toMatch(/^[0-9a-f]{40}$/)
    expect(one.owner).not.toBe(other.owner)
    expect(one.publicKeyHex).not.toBe(other.publicKeyHex)
    expect(JSON.parse(Buffer.from(one.publicKeyHex, 'hex').toString())).toMatchObject({
      Group: 'P256',
      HArray: { length: 3 },
    })
    expect((await createVault(place(), { holders: 1 })).threshold).toBe(1)
  })

  test('is the same when it is opened again', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const again = await openVault(vault.directory)
    expect(again).toMatchObject({
      directory: vault.directory,
      threshold: 2,
      owner: OWNER,
      publicKeyHex: vault.publicKeyHex,
    })
    expect(await again.list()).toEqual([infoOf(nameOf('key'))])
    expect(await reveal(again, nameOf('key'))).toBe(VALUE)
  })

  test('stores every kind of text of up to 1022 bytes with its policy, and nothing longer', async () => {
    const longest = 'x'.repeat(1022 - 6 - JSON.stringify('anywhere').length)
    const values = ['', 'a', '\n', '\ufeffmarked', 'ключ 🔑', '\0', longest]
    for (const value of values) {
      await vault.put({ key: 'text' }, value, { policy: 'anywhere' })
      expect(await storedValue(vault, nameOf('text'))).toBe(value)
    }
    await vault.put({ key: 'bytes' }, Buffer.from('\ufeffключ'), { policy: 'anywhere' })
    expect(await storedValue(vault, nameOf('bytes'))).toBe('\ufeffключ')
    expect(Buffer.byteLength(await vault.ciphertext(nameOf('text')))).toBe(1999)
    for (const value of ['x'.repeat(1023), 'é'.repeat(512)])
      expect(
        await failureOf(vault.put({ key: 'text' }, value, { policy: 'anywhere' })),
      ).toMatchObject({
        code: 'VALIDATION',
        message: `the value of text must have at most 1022 bytes, not ${Buffer.byteLength(value)}`,
      })
    expect(
      await failureOf(vault.put({ key: 'text' }, `${longest}x`, { policy: 'anywhere' })),
    ).toMatchObject({ message: expect.stringMatching(/at most 1022 bytes together, not 1023$/) })
    expect(await storedValue(vault, nameOf('text'))).toBe(longest)
  })

  test.each([
    ['a lone surrogate', 'half \ud83d of it', /well-formed Unicode/],
    ['bytes that are no UTF-8', Uint8Array.of(0x41, 0xff), /well-formed Unicode/],
    ['a number', 12, /must be a string or a Uint8Array/],
    ['nothing', undefined, /must be a string or a Uint8Array/],
  ])('refuses %s as a value', async (_name, value, message) => {
    const error = await failureOf(
      vault.put({ key: 'key' }, value as string, { policy: 'anywhere' }),
    )
    expect(error).toMatchObject({ code: 'VALIDATION', message: expect.stringMatching(message) })
    expect(await vault.list()).toEqual([])
  })

  test('takes the value as it was when it was put', async () => {
    const value = Buffer.from('before')
    const done = vault.put({ key: 'key' }, value, { policy: 'anywhere' })
    value.write('after!')
    await done
    expect(await storedValue(vault, nameOf('key'))).toBe('before')
  })

  test('replaces, lists and forgets', async () => {
    await vault.put({ key: 'key' }, 'old', { policy: 'anywhere' })
    await vault.put({ key: 'key', namespace: 'main', owner: `0x${OWNER.toUpperCase()}` }, 'new', {
      policy: 'anywhere',
    })
    await vault.put({ key: 'key', namespace: 'other' }, 'elsewhere', { policy: 'anywhere' })
    await vault.put({ key: 'Key', namespace: '' }, 'of another case', { policy: 'anywhere' })
    await vault.put({ key: 'key', owner: OTHER }, 'theirs', { policy: 'anywhere' })
    const mine = [
      infoOf(nameOf('Key')),
      infoOf(nameOf('key'), 2),
      infoOf(nameOf('key', OWNER, 'other')),
    ]
    expect(await vault.list()).toEqual([...mine, infoOf(nameOf('key', OTHER))])
    expect(await vault.list({ owner: `0x${OWNER}` })).toEqual(mine)
    expect(await vault.list({ namespace: '' })).toHaveLength(3)
    expect(await vault.list({ owner: OWNER, namespace: 'other' })).toEqual([mine[2]])
    expect(await storedValue(vault, nameOf('key'))).toBe('new')
    expect(await storedValue(vault, nameOf('Key'))).toBe('of another case')
    expect(await storedValue(vault, nameOf('key', OTHER))).toBe('theirs')
    await vault.remove({ key: 'key' })
    expect(await vault.list({ owner: OWNER })).toEqual([mine[0], mine[2]])
    for (const gone of [
      () => vault.remove({ key: 'key' }),
      () => vault.ciphertext(nameOf('key')),
      () => release(vault, 0, nameOf('key')),
    ])
      expect(await failureOf(gone())).toMatchObject({
        code: 'VAULT',
        message: `key does not exist: 0x${OWNER}::main::key`,
      })
  })

  test('keeps 100 secrets of an owner, over all namespaces, and not one more', async () => {
    // Each put takes a while, so that most secrets are stored by one change.
    const few = inForm(3, 101)
    await putMany(vault, 101 - few)
    const puts = Array.from({ length: few }, (_, i) =>
      vault.put({ key: `key${i}`, namespace: `n${i % 3}` }, '', { policy: 'anywhere' }),
    )
    const settled = await Promise.allSettled(puts)
    expect(settled.filter(each => each.status === 'rejected')).toEqual([
      {
        status: 'rejected',
        reason: expect.objectContaining({
          code: 'VALIDATION',
          message: `owner 0x${OWNER} has 100 secrets already, which is all an owner may have`,
        }),
      },
    ])
    const [some] = await vault.list()
    expect(await vault.list()).toHaveLength(100)
    const { owner, namespace, key } = some as SecretName
    await vault.put({ owner, namespace, key }, 'replaced', { policy: 'anywhere' })
    await vault.put({ key: 'key', owner: OTHER }, 'of another owner', { policy: 'anywhere' })
    await vault.remove(some as SecretName)
    await vault.put({ key: 'instead' }, '', { policy: 'anywhere' })
    expect(await vault.list({ owner: OWNER })).toHaveLength(100)
  })

  test.each([
    ['an empty key', { key: '' }, /^key must be a string that is not empty$/],
    ['a missing key', {}, /^key must be a string that is not empty$/],
    ['a key with a dash', { key: 'a-b' }, /^key must only hold letters of ASCII, digits and _$/],
    ['a way out', { key: '../../vault' }, /^key must only hold/],
    ['a key with a line break', { key: 'a\n' }, /^key must only hold/],
    ['a key beyond ASCII', { key: 'ключ' }, /^key must only hold/],
    ['a key of 65 bytes', { key: 'k'.repeat(65) }, /^key must have at most 64 bytes, not 65$/],
    ['a namespace with a slash', { key: 'a', namespace: 'a/b' }, /^namespace must only hold/],
    ['a namespace of 65', { key: 'a', namespace: 'n'.repeat(65) }, /^namespace must have at most/],
    ['an owner that is no address', { key: 'a', owner: 'me' }, /^owner must be an address: 40 hex/],
    ['an empty owner', { key: 'a', owner: '' }, /^owner must be an address/],
    ['the zero address', { key: 'a', owner: `0x${'0'.repeat(40)}` }, /^owner must not be the zero/],
    ['no name', null, /^name must be an object/],
  ])('refuses %s', async (_name, name, message) => {
    for (const refused of [
      vault.put(name as { key: string }, VALUE, { policy: 'anywhere' }),
      vault.remove(name as { key: string }),
    ])
      expect(await failureOf(refused)).toMatchObject({
        code: 'VALIDATION',
        message: expect.stringMatching(message),
      })
    expect(existsSync(at('secrets'))).toBe(false)
  })

  test('takes names of 64 bytes in any letters, even those that systems keep for themselves', async () => {
    const keys = ['K'.repeat(64), '_', '0', 'NUL', 'nul', 'com1', 'Con']
    for (const key of keys) await vault.put({ key, namespace: key }, key, { policy: 'anywhere' })
    for (const key of keys) expect(await storedValue(vault, nameOf(key, OWNER, key))).toBe(key)
    const folders = readdirSync(at('secrets', OWNER))
    expect(new Set(folders.map(folder => folder.toLowerCase())).size).toBe(keys.length)
    expect(folders).toEqual(expect.arrayContaining(['nul-', '-n-u-l', 'com1-', '-con']))
  })

  test('tells what it wants of a new vault', async () => {
    const options = [
      [{ holders: 0 }, 'holders must be at least 1, not 0'],
      [{ holders: 32 }, 'holders must be at most 31, not 32'],
      [{ holders: 2.5 }, 'holders must be a whole number, not 2.5'],
      [{ threshold: 4 }, 'threshold must be at most 3, not 4'],
      [{ holders: 5, threshold: 0 }, 'threshold must be at least 1, not 0'],
      [{ owner: 'me' }, 'owner must be an address: 40 hexadecimal digits'],
      [null, 'createVault takes an object of options, not null'],
    ] as const
    const directory = place()
    for (const [wrong, message] of options)
      expect(await failureOf(createVault(directory, wrong as object))).toMatchObject({
        code: 'VALIDATION',
        message,
      })
    expect(existsSync(directory)).toBe(false)
    for (const open of [createVault, openVault])
      expect(await failureOf(open(''))).toMatchObject({ message: 'directory must be a path' })
  })

  test('is made only where there is none', async () => {
    const before = readFileSync(shareFile(0), 'utf8')
    expect(await failureOf(createVault(vault.directory))).toMatchObject({
      code: 'VAULT',
      message: `${vault.directory} is a vault already: it has vault.json`,
    })
    rmSync(at('vault.json'))
    expect(await failureOf(createVault(vault.directory))).toMatchObject({
      code: 'VAULT',
      message: expect.stringMatching(/has holders but no vault\.json/),
    })
    expect(readFileSync(shareFile(0), 'utf8')).toBe(before)
    const directory = place()
    const made = await Promise.allSettled([1, 2, 3].map(() => createVault(directory)))
    expect(made.filter(each => each.status === 'fulfilled')).toHaveLength(1)
    await (await openVault(directory)).put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    writeFileSync(`${directory}.file`, '')
    expect(await failureOf(createVault(`${directory}.file`))).toMatchObject({ code: 'VAULT' })
  })

  test('can be made where there are other things', async () => {
    const directory = place()
    mkdirSync(directory)
    writeFileSync(join(directory, 'README'), 'mine')
    await createVault(directory)
    expect(readdirSync(directory).sort()).toEqual([
      'README',
      'manifests',
      'shares',
      'vault.json',
      'writer.json',
    ])
  })

  test('lets nobody else read its files, and leaves no drafts', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const entries = walk(vault.directory)
    expect([...entries].sort()).toEqual([
      'audit.jsonl',
      'manifests',
      'manifests/1.json',
      'manifests/2.json',
      'secrets',
      `secrets/${OWNER}`,
      `secrets/${OWNER}/main`,
      `secrets/${OWNER}/main/${basename(secretFile())}`,
      'shares',
      'shares/1',
      'shares/1/0.json',
      'shares/1/1.json',
      'shares/1/2.json',
      'vault.json',
      'writer.json',
    ])
    for (const entry of ['.', ...entries]) {
      const stats = statSync(at(entry))
      expect([entry, stats.mode & 0o777]).toEqual([entry, stats.isFile() ? 0o600 : 0o700])
    }
  })
})

describe('opening', () => {
  const spoil = (change: (fields: Record<string, unknown>) => object) => () =>
    edit(at('vault.json'), change)
  test.each([
    ['no vault.json', () => rmSync(at('vault.json')), /is not a vault: it has no vault\.json$/],
    ['half of vault.json', () => writeFileSync(at('vault.json'), '{"v'), /is not a JSON object$/],
    [
      'too long a vault.json',
      () => writeFileSync(at('vault.json'), ' '.repeat(70_000)),
      /^vault\.json has more than 4096 bytes$/,
    ],
    ['another version', spoil(all => ({ ...all, version: 3 })), /^vault\.json: its version is not/],
    ['version 1', spoil(all => ({ ...all, version: 1 })), /of sluice 0\.1: make a vault, and put/],
    ['no owner', spoil(({ owner, ...all }) => all), /^vault\.json: owner must be an address/],
    ['no key of a writer', spoil(({ writer, ...all }) => all), /writer must be 64 lower-case/],
    [
      'the key of another writer',
      spoil(all => ({ ...all, writer: 'ab'.repeat(32) })),
      /^manifests\/1\.json is not signed by the vault's writer$/,
    ],
    [
      'a manifest that was changed',
      () => edit(at('manifests', '1.json'), all => ({ ...all, body: { threshold: 1 } })),
      /^manifests\/1\.json is not signed by the vault's writer$/,
    ],
    [
      'half a manifest',
      () => writeFileSync(at('manifests', '1.json'), '{"body'),
      /^manifests\/1\.json is not a manifest$/,
    ],
    [
      'a manifest under another number',
      () => renameSync(at('manifests', '1.json'), at('manifests', '2.json')),
      /^manifests\/2\.json is not that of its number$/,
    ],
    ['no manifest', () => rmSync(at('manifests', '1.json')), /^manifests has no manifest$/],
  ])('refuses %s', async (_name, change, message) => {
    change()
    expect(await failureOf(openVault(vault.directory))).toMatchObject({
      code: 'VAULT',
      message: expect.stringMatching(message),
    })
  })

  test('refuses what is not there', async () => {
    expect(await failureOf(openVault(place()))).toMatchObject({ code: 'VAULT' })
    expect(await failureOf(openVault(at('vault.json')))).toMatchObject({ code: 'VAULT' })
  })

  test('gives an absolute directory', async () => {
    expect(vault.directory).toBe(resolve(vault.directory))
  })
})
