import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { isFull } from '@sluice/test-support/tier.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import { boxKeys, openSealed } from 'sluice/internal'
import type { SecretName } from 'sluice/plugins/confidential-http'
import { encrypt, ownerLabel } from 'sluice/tdh2'
import { createVault } from '../../vault/create-vault.js'
import { openVault } from '../../vault/open-vault.js'
import { plant } from '../support/vault/plant.js'
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
  shown,
  storedValue,
  VALUE,
  vault,
} from '../support/vault/vault.js'

describe('a holder', () => {
  const broken: [string, () => void, RegExp][] = [
    ['is missing', () => rmSync(shareFile(1)), /^shares\/1\/1\.json is missing$/],
    [
      'is empty',
      () => writeFileSync(shareFile(1), ''),
      /^shares\/1\/1\.json is not a JSON object$/,
    ],
    [
      'lacks quotes',
      () => {
        const text = readFileSync(shareFile(1), 'utf8')
        writeFileSync(shareFile(1), text.replace('"V":"', '"V":?'))
      },
      /^shares\/1\/1\.json is not a JSON object$/,
    ],
    [
      'is too long',
      () => writeFileSync(shareFile(1), `{${' '.repeat(1100)}}`),
      /^shares\/1\/1\.json has more than 1024 bytes$/,
    ],
    [
      'is a folder',
      () => {
        rmSync(shareFile(1))
        mkdirSync(shareFile(1))
      },
      /^shares\/1\/1\.json (is not a file|can't be read: E\w+)$/,
    ],
    [
      'has no scalar',
      () => edit(shareFile(1), fields => ({ ...fields, V: 'AAAA' })),
      /^shares\/1\/1\.json is not a private share$/,
    ],
    [
      'has another scalar',
      () =>
        edit(shareFile(1), fields => ({
          ...fields,
          V: Buffer.alloc(32, 7).toString('base64'),
        })),
      /^shares\/1\/1\.json is not the share of this vault's holder 1$/,
    ],
    [
      'is that of another holder',
      () => cpSync(shareFile(0), shareFile(1)),
      /^shares\/1\/1\.json is the share of holder 0$/,
    ],
    [
      'is that of another holder in disguise',
      () => {
        cpSync(shareFile(0), shareFile(1))
        edit(shareFile(1), fields => ({ ...fields, Index: 1 }))
      },
      /^shares\/1\/1\.json is not the share of this vault's holder 1$/,
    ],
  ]

  test.each(isFull ? broken : broken.slice(-2))(
    'fails when its share %s, and the others do not',
    async (_name, spoil, message) => {
      await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
      const { V: share } = JSON.parse(readFileSync(shareFile(1), 'utf8'))
      spoil()
      const again = await openVault(vault.directory)
      for (const opened of [vault, again]) {
        const error = await failureOf(release(opened, 1, nameOf('key')))
        expect(error).toMatchObject({ code: 'VAULT', message: expect.stringMatching(message) })
        // What JSON.parse throws quotes a few characters.
        const text = shown(error)
        for (let from = 0; from + 6 <= share.length; from++)
          expect(text.includes(share.slice(from, from + 6))).toBe(false)
        expect(await reveal(opened, nameOf('key'), [0, 2])).toBe(VALUE)
      }
      const response = await encrypt(vault.publicKey, Buffer.from('response'))
      expect(Buffer.from(await again.decryptResponse(response)).toString()).toBe('response')
    },
  )

  test('fails when its share is of another vault', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const other = await createVault(place())
    cpSync(join(other.directory, 'shares', '1', '1.json'), shareFile(1))
    expect(await failureOf(release(vault, 1, nameOf('key')))).toMatchObject({
      code: 'VAULT',
      message: "shares/1/1.json is not the share of this vault's holder 1",
    })
  })

  test('fails when its share has changed places with another', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    renameSync(shareFile(0), at('kept'))
    renameSync(shareFile(2), shareFile(0))
    renameSync(at('kept'), shareFile(2))
    for (const [index, holder] of [
      [0, 2],
      [2, 0],
    ] as const)
      expect(await failureOf(release(vault, index, nameOf('key')))).toMatchObject({
        message: `shares/1/${index}.json is the share of holder ${holder}`,
      })
  })

  test('refuses a ciphertext that was copied to another owner', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    mkdirSync(at('secrets', OTHER, 'main'), { recursive: true })
    cpSync(secretFile('key'), join(at('secrets', OTHER, 'main'), basename(secretFile('key'))))
    expect(await failureOf(release(vault, 0, nameOf('key', OTHER)))).toMatchObject({
      message: `key does not exist: 0x${OTHER}::main::key`,
    })
    // Somebody who has the key of the writer.
    await plant(vault, nameOf('key', OTHER), await vault.ciphertext(nameOf('key')), 'anywhere')
    expect(await vault.list({ owner: OTHER })).toEqual([infoOf(nameOf('key', OTHER))])
    for (const index of [0, 1, 2])
      expect(await failureOf(release(vault, index, nameOf('key', OTHER)))).toMatchObject({
        code: 'VAULT',
        message: `0x${OTHER}::main::key was encrypted for another owner`,
      })
  })

  test('refuses a response in the place of a secret', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const ciphertext = await encrypt(vault.publicKey, Buffer.from('response'))
    await plant(vault, nameOf('key'), ciphertext)
    expect(await failureOf(release(vault, 0, nameOf('key')))).toMatchObject({
      code: 'VAULT',
      message: expect.stringContaining('was encrypted for another owner'),
    })
  })

  test('refuses a ciphertext whose label was changed', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const outer = JSON.parse(await vault.ciphertext(nameOf('key')))
    const inner = JSON.parse(Buffer.from(outer.TDH2Ctxt, 'base64').toString())
    inner.Label = Buffer.from(ownerLabel(OTHER)).toString('base64')
    outer.TDH2Ctxt = Buffer.from(JSON.stringify(inner)).toString('base64')
    await plant(vault, nameOf('key'), JSON.stringify(outer))
    expect(await failureOf(release(vault, 0, nameOf('key')))).toMatchObject({
      code: 'VAULT',
      message: `0x${OWNER}::main::key: the TDH2 ciphertext is rejected: E: wrong e`,
      cause: expect.objectContaining({ code: 'TDH2' }),
    })
  })

  test.each([
    ['is not JSON', () => writeFileSync(secretFile(), 'no'), /is not a JSON object$/],
    ['is a list', () => writeFileSync(secretFile(), '[]'), /is not a JSON object$/],
    [
      'is too long',
      () => writeFileSync(secretFile(), ' '.repeat(9000)),
      /has more than 8192 bytes$/,
    ],
    [
      'has no ciphertext',
      () => edit(secretFile(), ({ ciphertext, ...fields }) => fields),
      /key\.\w+\.json has no ciphertext$/,
    ],
    [
      'has a ciphertext that is too long',
      () => edit(secretFile(), fields => ({ ...fields, ciphertext: 'x'.repeat(2001) })),
      /key\.\w+\.json: ciphertext has more than 2000 bytes$/,
    ],
    [
      'has a ciphertext that is none',
      () => edit(secretFile(), fields => ({ ...fields, ciphertext: '{}' })),
      /key\.\w+\.json does not hold the ciphertext that was put$/,
    ],
    [
      'names another key',
      () => edit(secretFile(), fields => ({ ...fields, key: 'other' })),
      /key\.\w+\.json is not the file of the secret it names$/,
    ],
    [
      'names none',
      () => edit(secretFile(), fields => ({ ...fields, key: '../key' })),
      /key\.\w+\.json is not the file of the secret it names$/,
    ],
  ])('refuses a secret whose file %s', async (_name, spoil, message) => {
    await vault.put({ key: 'key' }, 'old', { policy: 'anywhere' })
    spoil()
    expect(await failureOf(release(vault, 0, nameOf('key')))).toMatchObject({
      code: 'VAULT',
      message: expect.stringMatching(message),
    })
    await vault.put({ key: 'key' }, 'new', { policy: 'anywhere' })
    expect(await storedValue(vault, nameOf('key'))).toBe('new')
  })

  test('checks name and recipient', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const [holder] = vault.holders
    for (const recipient of [new Uint8Array(31), new Uint8Array(33), 'x'.repeat(32), undefined])
      expect(
        await failureOf(
          holder?.release(nameOf('key'), recipient as Uint8Array) as Promise<unknown>,
        ),
      ).toMatchObject({
        code: 'VALIDATION',
        message: 'recipient must be a Uint8Array of 32 bytes',
      })
    expect(await failureOf(release(vault, 0, { key: 'key' } as SecretName))).toMatchObject({
      message: 'owner must be an address: 40 hexadecimal digits',
    })
  })

  test('seals its share to the recipient alone, differently each time', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const [keys, others] = [boxKeys(), boxKeys()]
    const [one, two] = await Promise.all([
      vault.holders[0]?.release(nameOf('key'), keys.publicKey),
      vault.holders[0]?.release(nameOf('key'), keys.publicKey),
    ])
    expect(openSealed(one as Uint8Array, others)).toBeUndefined()
    const texts = [one, two].map(each =>
      Buffer.from(openSealed(each as Uint8Array, keys) as Uint8Array).toString(),
    )
    expect(texts[0]).toMatch(/^\{"Group":"P256","Index":0,"U_i":"/)
    expect(texts[0]).not.toBe(texts[1])
  })
})
