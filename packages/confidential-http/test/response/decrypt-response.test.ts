import { describe, expect, test } from '@jest/globals'
import { openBody, sealBody } from '@sluice/source/plugins/confidential-http/response-encryption.js'
import { readVectors } from '@sluice/test-support/files.js'
import { ValidationError } from 'sluice/core'
import type { EnclaveError } from 'sluice/plugins/confidential-http'
import { decryptResponse } from '../../response/decrypt-response.js'

interface Vector {
  readonly name: string
  readonly blob_b64: string
  readonly blob_length: number
  readonly key_hex_as_stored_in_the_vault: string
  readonly nonce_hex: string
  readonly plaintext_b64: string
}
const { aes_gcm_response: vectors } = readVectors<{ aes_gcm_response: Vector[] }>('tdh2.json')

const bytes = (value: string, encoding: 'base64' | 'hex' | 'utf8'): Uint8Array =>
  new Uint8Array(Buffer.from(value, encoding))
const key = bytes('0123456789abcdef'.repeat(4), 'hex')

/** The EnclaveError of code ENCRYPTION that a promise is rejected with. */
async function refusalOf(promise: Promise<unknown>): Promise<EnclaveError> {
  const error = (await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )) as EnclaveError
  expect(error).toMatchObject({ name: 'EnclaveError', code: 'ENCRYPTION' })
  return error
}

describe.each(vectors)('the encrypted response $name', vector => {
  const { blob_b64: base64, key_hex_as_stored_in_the_vault: hex } = vector
  const blob = bytes(base64, 'base64')
  const plaintext = bytes(vector.plaintext_b64, 'base64')

  test('is laid out as nonce, ciphertext, tag', () => {
    expect(blob).toHaveLength(vector.blob_length)
    expect(blob).toHaveLength(12 + plaintext.length + 16)
    expect(blob.subarray(0, 12)).toEqual(bytes(vector.nonce_hex, 'hex'))
  })

  test.each([
    ['bytes', blob],
    ['a Buffer', Buffer.from(blob)],
    ['base64', base64],
    ['a response', { statusCode: 200, body: blob, multiHeaders: {} }],
    ['a JSON response', { statusCode: 200, body: base64 }],
  ])('opens, given as %s', async (_, given) => {
    expect(await decryptResponse(given, hex)).toStrictEqual(plaintext)
    expect(await decryptResponse(given, hex.toUpperCase())).toStrictEqual(plaintext)
    expect(await decryptResponse(given, bytes(hex, 'hex'))).toStrictEqual(plaintext)
    expect(await decryptResponse(given, hex, { crypto: globalThis.crypto })).toStrictEqual(
      plaintext,
    )
  })

  test('does not open with any bit flipped', async () => {
    for (let bit = 0; bit < blob.length * 8; bit++) {
      const changed = new Uint8Array(blob)
      changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7))
      await refusalOf(decryptResponse(changed, hex))
    }
  })

  test('does not open with any bit of the key flipped', async () => {
    for (let bit = 0; bit < 256; bit++) {
      const other = bytes(hex, 'hex')
      other[bit >> 3] = (other[bit >> 3] as number) ^ (1 << (bit & 7))
      await refusalOf(decryptResponse(blob, other))
    }
  })

  test('does not open shorter or longer', async () => {
    for (let length = 0; length < blob.length; length++)
      await refusalOf(decryptResponse(blob.subarray(0, length), hex))
    await refusalOf(decryptResponse(new Uint8Array([...blob, 0]), hex))
  })

  test('is not told of, nor is its key, by an error', async () => {
    const wrong = bytes('ff'.repeat(32), 'hex')
    const error = await refusalOf(decryptResponse(blob, wrong))
    expect(error.message).toBe(
      'encrypted bytes do not open: the key is another, or they were changed',
    )
    const short = await refusalOf(decryptResponse(blob.subarray(0, 27), hex))
    expect(short.message).toBe('encrypted bytes must be at least 28, nonce and tag, not 27')
  })
})

describe('decryptResponse', () => {
  const body = new Uint8Array(28)
  test.each([
    [body, 'abc', 'key must be 64 hexadecimal digits'],
    [body, 'g'.repeat(64), 'key must be 64 hexadecimal digits'],
    [body, new Uint8Array(16), 'key must be 32 bytes, not 16'],
    [body, undefined, 'key must be 64 hexadecimal digits'],
    ['!', key, 'body must be valid base64'],
    [undefined, key, 'response is required'],
    [Promise.resolve(body), key, 'response is a promise: await it first'],
  ])('refuses %p with key %p', async (given, wrong, complaint) => {
    await expect(decryptResponse(given as never, wrong as never)).rejects.toThrow(
      new ValidationError(complaint),
    )
  })
})

describe('sealBody', () => {
  const plaintext = bytes('{"a":"ü"}', 'utf8')

  test.each([
    ['the default', undefined],
    ['the platform’s own', globalThis.crypto],
  ])('makes with %s what either opens, each time under another nonce', async (_, crypto) => {
    const sealed = await sealBody(key, plaintext, { crypto })
    const again = await sealBody(key, plaintext, { crypto })
    expect(sealed).toHaveLength(12 + plaintext.length + 16)
    expect(sealed.subarray(0, 12)).not.toEqual(again.subarray(0, 12))
    expect(await openBody(key, sealed)).toStrictEqual(plaintext)
    expect(await openBody(key, sealed, { crypto: globalThis.crypto })).toStrictEqual(plaintext)
  })

  test('encrypts nothing to 28 bytes', async () => {
    const sealed = await sealBody(key, new Uint8Array())
    expect(sealed).toHaveLength(28)
    expect(await openBody(key, sealed)).toStrictEqual(new Uint8Array())
  })

  test.each([0, 16, 24, 31, 33])('has no key of %d bytes', async length => {
    const other = new Uint8Array(length)
    const complaint = new ValidationError(`key must be 32 bytes, not ${length}`)
    await expect(sealBody(other, plaintext)).rejects.toThrow(complaint)
    await expect(openBody(other, new Uint8Array(28))).rejects.toThrow(complaint)
  })
})
