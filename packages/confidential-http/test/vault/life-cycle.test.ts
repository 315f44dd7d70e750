import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { VaultError } from 'sluice/plugins/confidential-http'
import { encrypt } from 'sluice/tdh2'
import { createVault } from '../../vault/create-vault.js'
import { openVault } from '../../vault/open-vault.js'
import { type Dealer, reshareKey } from '../../vault/resharing.js'
import {
  at,
  edit,
  infoOf,
  nameOf,
  OTHER,
  place,
  release,
  reveal,
  secretFile,
  shareFile,
  VALUE,
  vault,
  walk,
} from '../support/vault/vault.js'

afterEach(() => void jest.restoreAllMocks())
/** Sets the clock forward. */
function later(ms: number): void {
  const time = Date.now() + ms
  jest.spyOn(Date, 'now').mockImplementation(() => time)
}

const files = (folder: string) => readdirSync(at(folder)).sort()

describe('resharing', () => {
  test('to other holders and another threshold changes neither the key nor what is stored', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const response = await encrypt(vault.publicKey, Buffer.from('response'))
    const { H, G_bar } = JSON.parse(Buffer.from(vault.publicKeyHex, 'hex').toString())
    const old = readFileSync(shareFile(0))
    expect(await vault.reshare({ holders: 5, threshold: 3 })).toEqual({
      generation: 2,
      leftOut: [],
    })
    expect([vault.generation, vault.holders.length, vault.threshold]).toEqual([2, 5, 3])
    expect(JSON.parse(Buffer.from(vault.publicKeyHex, 'hex').toString())).toMatchObject({
      H,
      G_bar,
    })
    expect(await reveal(vault, nameOf('key'), [1, 3, 4])).toBe(VALUE)
    expect(Buffer.from(await vault.decryptResponse(response)).toString()).toBe('response')
    expect(files('shares')).toEqual(['2'])
    // An old share is useless.
    writeFileSync(at('shares', '2', '0.json'), old)
    expect(await failureOf(release(vault, 0, nameOf('key')))).toMatchObject({
      message: "shares/2/0.json is not the share of this vault's holder 0",
    })
    expect(await vault.reshare()).toEqual({
      generation: 3,
      leftOut: ["shares/2/0.json: shares/2/0.json is not the share of this vault's holder 0"],
    })
    expect(await reveal(vault, nameOf('key'), [0, 1, 2])).toBe(VALUE)
  })

  test('needs as many of the old holders as release a secret, and says which are missing', async () => {
    rmSync(shareFile(0))
    rmSync(shareFile(2))
    expect(await failureOf(vault.reshare())).toMatchObject({
      code: 'VAULT',
      message: [
        '1 of the 2 holders it takes have dealt',
        '  shares/1/0.json: shares/1/0.json is missing',
        '  shares/1/2.json: shares/1/2.json is missing',
      ].join('\n'),
    })
    expect([vault.generation, files('shares')]).toEqual([1, ['1']])
  })

  test('names the holders in their order, whichever has failed first', async () => {
    const dealer = (index: number): Dealer => ({
      index,
      shown: `holder ${index}`,
      async deal() {
        if (index === 0) await new Promise(setImmediate)
        throw new VaultError('it has no share')
      },
    })
    const dealers = [dealer(0), dealer(1)]
    const facts = { publicKey: vault.publicKey, oldThreshold: 2, threshold: 2, isFresh: false }
    const { message } = await failureOf(reshareKey({ ...facts, dealers, receivers: [] }))
    expect(message.split('\n').slice(1)).toEqual([
      '  holder 0: it has no share',
      '  holder 1: it has no share',
    ])
  })

  test('is noticed by a vault that is open elsewhere, between two releases', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const other = await openVault(vault.directory)
    const before = await other.current()
    expect(await other.current()).toBe(before)
    await vault.reshare({ holders: 2 })
    expect(await failureOf(release(other, 0, nameOf('key')))).toMatchObject({
      message: 'shares/1/0.json is missing',
    })
    const now = await other.current()
    expect([now === before, now.generation, other.holders.length]).toEqual([false, 2, 2])
    expect(await reveal(other, nameOf('key'))).toBe(VALUE)
  })

  test('by two processes at once is done by one of them', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const vaults = [vault, await openVault(vault.directory), await openVault(vault.directory)]
    const settled = await Promise.allSettled(vaults.map(each => each.reshare()))
    const failed = settled.filter(each => each.status === 'rejected')
    expect(failed.length).toBeLessThan(3)
    for (const { reason } of failed) expect(reason).toMatchObject({ code: 'VAULT' })
    const opened = await openVault(vault.directory)
    expect(files('shares')).toEqual([String(opened.generation)])
    expect(await reveal(opened, nameOf('key'))).toBe(VALUE)
  })

  test('that fails after its manifest was written leaves its shares', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const seen = place()
    mkdirSync(seen, { recursive: true })
    const unlucky = await openVault(vault.directory, { rollbackState: join(seen, 'seen') })
    rmSync(seen, { recursive: true })
    writeFileSync(seen, '')
    expect(await failureOf(unlucky.reshare())).toMatchObject({ code: 'VAULT' })
    const opened = await openVault(vault.directory)
    expect(opened.generation).toBe(2)
    expect(await reveal(opened, nameOf('key'))).toBe(VALUE)
  })

  test('checks how many holders there will be', async () => {
    const of = (options: object) => failureOf(vault.reshare(options))
    expect(await of({ holders: 32 })).toMatchObject({
      message: 'holders must be at most 31, not 32',
    })
    expect(await of({ holders: 1 })).toMatchObject({
      message: 'threshold must be at most 1, not 2',
    })
    expect(await of({ holder: 1 })).toMatchObject({
      message: "unknown option 'holder' of reshare; did you mean 'holders'?",
    })
    expect(files('shares')).toEqual(['1'])
  })
})

describe('rotation', () => {
  test('makes a new key, and encrypts the newest version of each secret with it', async () => {
    await vault.put({ key: 'key' }, 'old', { policy: 'anywhere' })
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    await vault.put({ key: 'short' }, 'lived', {
      policy: 'anywhere',
      expiresAt: Date.now() + 60_000,
    })
    await vault.put({ key: 'theirs', owner: OTHER }, 'their value', { policy: 'anywhere' })
    const before = { ...(await vault.current()) }
    const response = await encrypt(vault.publicKey, Buffer.from('response'))
    later(60_000)
    expect(await vault.rotate()).toEqual({ generation: 2, leftOut: [] })
    expect(vault.publicKey.h).not.toEqual(before.publicKey.h)
    expect(await vault.list()).toEqual([infoOf(nameOf('key'), 2), infoOf(nameOf('theirs', OTHER))])
    expect(await vault.versions({ key: 'key' })).toHaveLength(1)
    expect(await reveal(vault, nameOf('key'))).toBe(VALUE)
    expect(await reveal(vault, nameOf('theirs', OTHER), [1, 2])).toBe('their value')
    expect(await failureOf(vault.decryptResponse(response))).toMatchObject({ code: 'VAULT' })
    expect(files('shares')).toEqual(['2'])
    expect(walk(at('secrets')).filter(each => each.endsWith('.json'))).toHaveLength(2)
  })

  test('leaves the vault as it was where a secret can not be decrypted', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    rmSync(secretFile())
    expect(await failureOf(vault.rotate())).toMatchObject({
      message: expect.stringMatching(/key\.\w+\.json is missing$/),
    })
    expect([vault.generation, files('shares')]).toEqual([1, ['1']])
  })

  test('while others put loses nothing', async () => {
    const other = await openVault(vault.directory)
    await vault.put({ key: 'first' }, VALUE, { policy: 'anywhere' })
    const puts = Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        other.put({ key: `key${i}` }, `value ${i}`, { policy: 'anywhere' }),
      ),
    )
    await vault.rotate()
    await puts
    expect(await vault.list()).toHaveLength(9)
    expect(await reveal(vault, nameOf('first'))).toBe(VALUE)
    for (let i = 0; i < 8; i += 3) expect(await reveal(vault, nameOf(`key${i}`))).toBe(`value ${i}`)
  })
})

describe('versions', () => {
  test('count up, and the oldest of more than three goes', async () => {
    for (const value of ['one', 'two', 'three', 'four'])
      await vault.put({ key: 'key' }, value, { policy: 'anywhere' })
    expect(await vault.versions({ key: 'key' })).toEqual(
      [4, 3, 2].map(version => infoOf(nameOf('key'), version)),
    )
    expect(walk(at('secrets')).filter(each => each.endsWith('.json'))).toHaveLength(3)
    expect(await reveal(vault, nameOf('key'))).toBe('four')
    expect(await vault.restore({ key: 'key' }, 2)).toBe(5)
    expect(await reveal(vault, nameOf('key'))).toBe('two')
    expect(await failureOf(vault.restore({ key: 'key' }, 1))).toMatchObject({
      message: 'there is no version 1 of key',
    })
    // Version 2 went; its ciphertext is that of version 5.
    expect((await vault.versions({ key: 'key' })).map(each => each.version)).toEqual([5, 4, 3])
    await vault.remove({ key: 'key' })
    expect(walk(at('secrets')).filter(each => each.endsWith('.json'))).toEqual([])
  })

  test('expire, and the error names the secret', async () => {
    const expiresAt = new Date(Date.now() + 60_000)
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere', expiresAt })
    expect(await vault.list()).toEqual([
      { ...infoOf(nameOf('key')), expiresAt: expiresAt.getTime() },
    ])
    expect(await reveal(vault, nameOf('key'))).toBe(VALUE)
    later(60_000)
    const expired = {
      code: 'SECRET_EXPIRED',
      message: `0x${vault.owner}::main::key expired at ${expiresAt.toISOString()}: put version 2`,
    }
    expect(await failureOf(vault.ciphertext(nameOf('key')))).toMatchObject(expired)
    expect(await failureOf(release(vault, 0, nameOf('key')))).toMatchObject(expired)
    await vault.put({ key: 'key' }, 'again', { policy: 'anywhere' })
    expect(await reveal(vault, nameOf('key'))).toBe('again')
  })

  test('expire in the future only, and not by a name', async () => {
    const put = (options: object) =>
      failureOf(vault.put({ key: 'key' }, VALUE, { policy: 'anywhere', ...options }))
    expect(await put({ expiresAt: 1 })).toMatchObject({
      message: 'expiresAt must be in the future',
    })
    expect(await put({ expiresAt: new Date('x') })).toMatchObject({ code: 'VALIDATION' })
    expect(
      await failureOf(
        vault.put({ key: 'key', expiresAt: 9e15 } as never, VALUE, { policy: 'anywhere' }),
      ),
    ).toMatchObject({ message: expect.stringMatching(/unknown option 'expiresAt' of name/) })
  })
})

describe('a rollback', () => {
  const copy = (): string => {
    const to = place()
    cpSync(vault.directory, to, { recursive: true })
    return to
  }
  /** Puts the directory back to a copy of it. */
  function putBack(from: string): void {
    rmSync(vault.directory, { recursive: true })
    cpSync(from, vault.directory, { recursive: true })
  }

  test('is noticed by who has seen a newer state, also after a restart', async () => {
    await vault.put({ key: 'key' }, 'old', { policy: 'anywhere' })
    const seen = join(vault.directory, '..', 'seen')
    const before = copy()
    const holder = await openVault(vault.directory, { rollbackState: seen })
    await vault.put({ key: 'key' }, 'new', { policy: 'anywhere' })
    await holder.list()
    expect(readFileSync(seen, 'utf8')).toMatch(/^3 [0-9a-f]{64} [0-9a-f]{64}\n$/)
    putBack(before)
    const older = {
      code: 'ROLLBACK',
      message: `${vault.directory} is older than it was: change 3 was seen, and this is 2`,
    }
    expect(await failureOf(holder.ciphertext(nameOf('key')))).toMatchObject(older)
    expect(await failureOf(release(holder, 0, nameOf('key')))).toMatchObject(older)
    expect(await failureOf(holder.put({ key: 'key' }, 'x', { policy: 'anywhere' }))).toMatchObject(
      older,
    )
    expect(await failureOf(openVault(vault.directory, { rollbackState: seen }))).toMatchObject(
      older,
    )
    // Another history of the same length is no better.
    const fresh = await openVault(vault.directory)
    await fresh.put({ key: 'other' }, 'x', { policy: 'anywhere' })
    const other = {
      code: 'ROLLBACK',
      message: `${vault.directory} has another history than was seen: its change 3 was another`,
    }
    expect(await failureOf(openVault(vault.directory, { rollbackState: seen }))).toMatchObject(
      other,
    )
    await fresh.put({ key: 'other' }, 'x', { policy: 'anywhere' })
    expect(await failureOf(openVault(vault.directory, { rollbackState: seen }))).toMatchObject(
      other,
    )
  })

  test('is not hidden by manifests that somebody else has signed', async () => {
    const seen = join(vault.directory, '..', 'seen')
    await openVault(vault.directory, { rollbackState: seen })
    const other = await createVault(place(), { owner: vault.owner })
    putBack(other.directory)
    expect(await failureOf(openVault(vault.directory, { rollbackState: seen }))).toMatchObject({
      code: 'ROLLBACK',
      message: `the vault has another writer than ${seen} has seen: ${other.writerKey.slice(0, 8)}…`,
    })
  })

  test('of a single secret is noticed by everybody', async () => {
    await vault.put({ key: 'key' }, 'old', { policy: 'anywhere' })
    const old = readFileSync(secretFile())
    await vault.put({ key: 'key' }, 'new', { policy: 'anywhere' })
    const { digest } = JSON.parse(readFileSync(at('manifests', '3.json'), 'utf8')).body.secrets[0]
    writeFileSync(at('secrets', vault.owner, 'main', `key.${digest.slice(0, 16)}.json`), old)
    expect(await failureOf(vault.ciphertext(nameOf('key')))).toMatchObject({
      message: expect.stringMatching(/does not hold the ciphertext that was put$/),
    })
    // Nor can the manifest be changed without the key of its writer.
    edit(at('manifests', '3.json'), all => ({
      ...all,
      body: { ...(all.body as object), secrets: [] },
    }))
    expect(await failureOf(openVault(vault.directory))).toMatchObject({
      message: "manifests/3.json is not signed by the vault's writer",
    })
  })

  test('needs a file that holds what was seen', async () => {
    const seen = join(vault.directory, '..', 'seen')
    writeFileSync(seen, 'nothing', { mode: 0o600 })
    expect(await failureOf(openVault(vault.directory, { rollbackState: seen }))).toMatchObject({
      message: `${seen} does not hold the newest state of a vault`,
    })
  })
})

test('a vault without the key of its writer is read, and not changed', async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  rmSync(at('writer.json'))
  const reader = await openVault(vault.directory)
  expect(await reveal(reader, nameOf('key'))).toBe(VALUE)
  for (const change of [
    () => reader.put({ key: 'key' }, VALUE, { policy: 'anywhere' }),
    () => reader.remove({ key: 'key' }),
    () => reader.reshare(),
    () => reader.rotate(),
  ])
    expect(await failureOf(change())).toMatchObject({
      message: 'writer.json is missing: only who has it can change the vault',
    })
  expect(existsSync(at('shares', '2'))).toBe(false)
})
