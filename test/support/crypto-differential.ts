import { expect } from '@jest/globals'
import { p256 } from '@noble/curves/nist'
import nacl from 'tweetnacl'
import { boxKeys, openSealed, seal, sharedKey } from '../../crypto/sealed-box.js'
import { multiplyNatively, type Point, pointDigits } from '../../crypto/tdh2/group.js'

const { BASE, Fn } = p256.Point

/** Compares products of random points of P-256 with those of the library, which knows their logarithms. */
export function compareP256(runs: number): void {
  for (let run = 0; run < runs; run++) {
    const [log, scalar] = [0, 1].map(() => Fn.fromBytes(p256.utils.randomSecretKey())) as [
      bigint,
      bigint,
    ]
    compareProduct(log, scalar)
  }
}

/** Compares the platform's product of a point with this logarithm with that of the library. */
export function compareProduct(log: bigint, scalar: bigint): void {
  const product = multiplyNatively(BASE.multiply(log) as unknown as Point, scalar)
  expect(product).toBeDefined()
  expect(pointDigits(product)).toBe(BASE.multiply(Fn.mul(log, scalar)).toHex(false))
}

/** Compares the keys that random parties share with those of tweetnacl, which computes them in JavaScript. */
export function compareX25519(runs: number): void {
  const keys = boxKeys()
  expect(nacl.box.keyPair.fromSecretKey(keys.secretKey).publicKey).toEqual(keys.publicKey)
  for (let run = 0; run < runs; run++) {
    // Any 32 bytes are a public key, in the field or above it, on the curve or on its twist.
    const other = nacl.randomBytes(32)
    expect(sharedKey(other, keys.secretKey)).toEqual(nacl.box.before(other, keys.secretKey))
  }
  const message = nacl.randomBytes(100)
  expect(openSealed(seal(message, keys.publicKey), keys)).toEqual(message)
}
