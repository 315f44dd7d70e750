import { describe, expect, test } from '@jest/globals'
import { p256 } from '@noble/curves/nist'
import nacl from 'tweetnacl'
import { box, boxKeys, openBox, openSealed, seal, sharedKey } from '../../crypto/sealed-box.js'
import { compareP256, compareProduct, compareX25519 } from '../support/crypto-differential.js'

const { Fn } = p256.Point

describe("the platform's P-256", () => {
  test('multiplies random points as the library does', () => {
    compareP256(100)
  })

  test('multiplies by scalars, and points, at the edges', () => {
    const edges = [1n, 2n, 3n, Fn.ORDER >> 1n, Fn.ORDER - 3n, Fn.ORDER - 2n, Fn.ORDER - 1n]
    for (const log of edges)
      for (const scalar of edges) {
        compareProduct(log, scalar)
      }
  })
})

describe("the platform's X25519", () => {
  test('shares the same keys as tweetnacl', () => {
    compareX25519(100)
  })

  test('reads public keys above the field, and the top bit, as tweetnacl does', () => {
    const { secretKey } = boxKeys()
    for (const first of [0xef, 0xf0, 0xff])
      for (const last of [0x7f, 0xff]) {
        const other = new Uint8Array(32).fill(0xff)
        other[0] = first
        other[31] = last
        expect(sharedKey(other, secretKey)).toEqual(nacl.box.before(other, secretKey))
      }
  })

  test('makes boxes that tweetnacl opens, and opens its boxes', () => {
    const [one, other] = [boxKeys(), nacl.box.keyPair()]
    const message = Uint8Array.of(1, 2, 3)
    const boxed = box(message, other.publicKey, one)
    expect(
      nacl.box.open(boxed.slice(24), boxed.slice(0, 24), one.publicKey, other.secretKey),
    ).toEqual(message)
    const nonce = nacl.randomBytes(24)
    const theirs = nacl.box(message, nonce, one.publicKey, other.secretKey)
    expect(openBox(Uint8Array.from([...nonce, ...theirs]), other.publicKey, one)).toEqual(message)
  })

  test('opens nothing any more with a secret key that was wiped', () => {
    const keys = boxKeys()
    const sealed = seal(Uint8Array.of(1), keys.publicKey)
    expect(openSealed(sealed, keys)).toEqual(Uint8Array.of(1))
    keys.secretKey.fill(0)
    expect(openSealed(sealed, keys)).toBeUndefined()
  })
})
