import { describe, expect, test } from '@jest/globals'
import { box, boxKeys, openBox, openSealed, seal } from '../../crypto/sealed-box.js'
import { readVectors } from '../support/files.js'

interface Vector {
  readonly secretKey: string
  readonly publicKey: string
  readonly message: string
  readonly sealed: string
}
const { vectors } = readVectors<{ vectors: Vector[] }>('sealed-box.json')

/** A view like any other: a Buffer may have others' bytes around its own. */
const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'))
const hexOf = (bytes: Uint8Array | undefined): string | undefined =>
  bytes && Buffer.from(bytes).toString('hex')

const keys = boxKeys()
const message = bytesOf('00ff10')
/** Each with one bit of another byte changed. */
const changed = (bytes: Uint8Array): Uint8Array[] =>
  Array.from(bytes, (_, at) => bytes.map((byte, index) => (index === at ? byte ^ 0x40 : byte)))

describe('a sealed box', () => {
  test.each(vectors)('of libsodium for $publicKey opens', vector => {
    const { secretKey, publicKey, message, sealed } = vector
    const keys = boxKeys(bytesOf(secretKey))
    expect(hexOf(keys.publicKey)).toBe(publicKey)
    expect(hexOf(openSealed(bytesOf(sealed), keys))).toBe(message)
  })

  test('is opened by its recipient alone', () => {
    const sealed = seal(message, keys.publicKey)
    expect(sealed.byteLength).toBe(32 + 16 + 3)
    expect(openSealed(sealed, keys)).toEqual(message)
    expect(openSealed(sealed, boxKeys())).toBeUndefined()
  })

  test('is another each time, of a key that is used once', () => {
    const [one, other] = [seal(message, keys.publicKey), seal(message, keys.publicKey)]
    expect(hexOf(one.subarray(0, 32))).not.toBe(hexOf(other.subarray(0, 32)))
    expect(hexOf(one.subarray(32))).not.toBe(hexOf(other.subarray(32)))
  })

  test('does not open with any of its bytes changed, or some missing', () => {
    const sealed = seal(message, keys.publicKey)
    // The top bit of a public key is not looked at, but it is part of the nonce.
    for (const each of changed(sealed)) expect(openSealed(each, keys)).toBeUndefined()
    for (const length of [0, 1, 31, 32, 47, 48, 50])
      expect(openSealed(sealed.subarray(0, length), keys)).toBeUndefined()
  })

  test('of nothing opens to nothing, which is not the same as not opening', () => {
    const opened = openSealed(seal(new Uint8Array(), keys.publicKey), keys)
    expect(opened).toEqual(new Uint8Array())
  })

  test('refuses keys that are none', () => {
    expect(() => seal(message, new Uint8Array(31))).toThrow()
    expect(() => boxKeys(new Uint8Array(33))).toThrow()
  })
})

describe('a box', () => {
  const sender = boxKeys()

  test('is opened by its recipient, who knows the sender', () => {
    const boxed = box(message, keys.publicKey, sender)
    expect(boxed.byteLength).toBe(24 + 16 + 3)
    expect(openBox(boxed, sender.publicKey, keys)).toEqual(message)
    expect(openBox(boxed, boxKeys().publicKey, keys)).toBeUndefined()
    expect(openBox(boxed, sender.publicKey, boxKeys())).toBeUndefined()
  })

  test('is another each time', () => {
    const [one, other] = [
      box(message, keys.publicKey, sender),
      box(message, keys.publicKey, sender),
    ]
    expect(hexOf(one)).not.toBe(hexOf(other))
  })

  test('does not open with any of its bytes changed, or some missing', () => {
    const boxed = box(message, keys.publicKey, sender)
    for (const each of changed(boxed)) expect(openBox(each, sender.publicKey, keys)).toBeUndefined()
    for (const length of [0, 23, 24, 39, 42])
      expect(openBox(boxed.subarray(0, length), sender.publicKey, keys)).toBeUndefined()
  })
})
