import { createHash } from 'node:crypto'
import { expect, test } from '@jest/globals'
import { secp256k1 } from '@noble/curves/secp256k1'
import { loadCurve } from '../network.js'

test('whatever signs, keys and signatures are the same bytes', async () => {
  const curve = await loadCurve()
  for (let n = 0; n < 100; n++) {
    const key = createHash('sha256').update(`key ${n}`).digest()
    const hash = createHash('sha256').update(`hash ${n}`).digest()
    const { rs, recovery } = curve.sign(hash, key)
    const expected = secp256k1.sign(hash, key)
    expect([...rs]).toEqual([...expected.toCompactRawBytes()])
    expect(recovery).toBe(expected.recovery)
    expect([...curve.publicKey(key)]).toEqual([...secp256k1.getPublicKey(key, false)])
  }
})
