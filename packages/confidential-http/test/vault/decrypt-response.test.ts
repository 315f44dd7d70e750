import { cpSync, rmSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { encrypt, ownerLabel } from 'sluice/tdh2'
import { createVault } from '../../vault/create-vault.js'
import { openShareResponse } from '../../vault/release.js'
import type { RespondingHolder } from '../../vault/vault.js'
import { nameOf, OTHER, place, shareFile, shown, VALUE, vault } from '../support/vault/vault.js'

describe('a response', () => {
  const response = (value: string, label?: Uint8Array) =>
    encrypt(vault.publicKey, Buffer.from(value), label === undefined ? {} : { label })

  test('is decrypted by the quorum, as text and as bytes', async () => {
    for (const value of ['', 'body', 'x'.repeat(500_000)]) {
      const body = await response(value)
      for (const given of [body, Buffer.from(body), new Uint8Array(Buffer.from(body))])
        expect(Buffer.from(await vault.decryptResponse(given)).toString()).toBe(value)
    }
  })

  test('is not decrypted when it is a secret of anybody', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const bodies = [
      await vault.ciphertext(nameOf('key')),
      await response(VALUE, ownerLabel(OTHER)),
      await response(VALUE, new Uint8Array(32).fill(1, 0, 1)),
    ]
    for (const body of bodies)
      expect(await failureOf(vault.decryptResponse(body))).toMatchObject({
        code: 'VAULT',
        message: '0 of the 2 holders needed gave a share: the response has the label of a secret',
      })
  })

  test('is not decrypted when too few holders give a share', async () => {
    rmSync(shareFile(0))
    cpSync(shareFile(1), shareFile(2))
    expect(await failureOf(vault.decryptResponse(await response(VALUE)))).toMatchObject({
      code: 'VAULT',
      message:
        '1 of the 2 holders needed gave a share: shares/1/0.json is missing; shares/1/2.json is the share of holder 1',
    })
  })

  test('is not decrypted when it was changed, or is none, or of another vault', async () => {
    const body = await response(VALUE)
    const outer = JSON.parse(body)
    const changed = (field: string): string => {
      const bytes = Buffer.from(outer[field], 'base64')
      bytes[5] = (bytes[5] as number) ^ 1
      return JSON.stringify({ ...outer, [field]: bytes.toString('base64') })
    }
    const other = await createVault(place())
    for (const wrong of [
      '',
      'plain text',
      '{}',
      '\ud83d',
      body.slice(1),
      changed('SymCtxt'),
      changed('Nonce'),
      changed('TDH2Ctxt'),
      await encrypt(other.publicKey, Buffer.from(VALUE)),
    ]) {
      const error = await failureOf(vault.decryptResponse(wrong))
      expect(error).toMatchObject({
        code: 'VAULT',
        message: expect.stringMatching(/^the response can't be decrypted: /),
        cause: expect.objectContaining({ code: 'TDH2' }),
      })
      expect(shown(error)).not.toContain(VALUE)
    }
    expect(await failureOf(vault.decryptResponse(12 as unknown as string))).toMatchObject({
      code: 'VALIDATION',
    })
  })
})

test('a holder that gives a share of something else is found out, and the others decrypt', async () => {
  const [body, other] = await Promise.all(
    [VALUE, 'other'].map(value => encrypt(vault.publicKey, Buffer.from(value))),
  )
  const state = await vault.current()
  const [first, ...others] = state.holders as [RespondingHolder, RespondingHolder, RespondingHolder]
  const liar: RespondingHolder = {
    index: first.index,
    release: () => Promise.reject(new Error('not asked')),
    releaseResponse: (_body, recipient) => first.releaseResponse(other as string, recipient),
  }
  const open = (holders: readonly RespondingHolder[]) =>
    openShareResponse({ ...state, holders }, body as string)
  expect(Buffer.from(await open([liar, ...others])).toString()).toBe(VALUE)
  expect(await failureOf(open([liar, first]))).toMatchObject({
    message: expect.stringMatching(/^1 of the 2 holders needed gave a share: .*verification/),
  })
})
