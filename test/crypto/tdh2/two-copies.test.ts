import { expect, jest, test } from '@jest/globals'
import * as first from '../../../crypto/tdh2/index.js'

test('keys, ciphertexts and shares of one copy of the package serve another', async () => {
  let second: typeof first | undefined
  await jest.isolateModulesAsync(async () => {
    second = await import('../../../crypto/tdh2/index.js')
  })
  if (second === undefined) throw new Error('no second copy')
  expect(second.generateKeys).not.toBe(first.generateKeys)

  const { publicKey, shares } = first.generateKeys({ threshold: 2, nodes: 3 })
  const text = await second.encrypt(publicKey, new TextEncoder().encode('across'))
  const ciphertext = second.parseCiphertext(publicKey, text)
  const made = shares.slice(1).map(share => {
    const decryptionShare = first.parseDecryptionShare(first.createShare(ciphertext, share))
    second?.verifyShare(publicKey, ciphertext, decryptionShare)
    return decryptionShare
  })
  const opened = await second.combine(ciphertext, made, { threshold: 2 })
  expect(new TextDecoder().decode(opened)).toBe('across')
})
