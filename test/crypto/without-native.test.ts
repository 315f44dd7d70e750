import { expect, jest, test } from '@jest/globals'
import type { PrivateShare } from '../../crypto/tdh2/index.js'

// As in a browser, where the libraries alone multiply.
jest.mock('../../platform/p256.js', () => jest.requireActual('../../platform/p256.web.js'))
jest.mock('../../platform/x25519.js', () => jest.requireActual('../../platform/x25519.web.js'))

test('without products of the platform everything works the same', async () => {
  const { boxKeys, openSealed, seal } = await import('../../crypto/sealed-box.js')
  const tdh2 = await import('../../crypto/tdh2/index.js')
  const { combine, createShare, encrypt, generateKeys } = tdh2
  const { parseCiphertext, parseDecryptionShare, verifyShare } = tdh2
  const { G, multiplyNatively } = await import('../../crypto/tdh2/group.js')
  expect(multiplyNatively(G, 2n)).toBeUndefined()
  const { publicKey, shares } = generateKeys({ threshold: 3, nodes: 7 })
  const ciphertext = parseCiphertext(publicKey, await encrypt(publicKey, Uint8Array.of(1, 2, 3)))
  const keys = boxKeys()
  // The coefficients of the first holders are whole, those of others are not.
  for (const indexes of [
    [0, 1, 2],
    [0, 3, 6],
  ]) {
    const made = indexes.map(index => {
      const text = createShare(ciphertext, shares[index] as PrivateShare)
      const opened = openSealed(seal(Buffer.from(text), keys.publicKey), keys) as Uint8Array
      return parseDecryptionShare(Buffer.from(opened).toString())
    })
    for (const share of made) verifyShare(publicKey, ciphertext, share)
    expect(await combine(ciphertext, made, { threshold: 3 })).toEqual(Uint8Array.of(1, 2, 3))
  }
})
