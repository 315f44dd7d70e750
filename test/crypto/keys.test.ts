import { inspect } from 'node:util'
import { expect, test } from '@jest/globals'
import { createKeys } from '../../crypto/keys.js'

test('a key pair does not show its secret key to logs', () => {
  const keys = createKeys()
  const { secretKey } = keys
  expect(secretKey).toMatch(/^[0-9a-f]{64}$/)
  for (const shown of [inspect(keys), JSON.stringify(keys), String(Object.values({ ...keys }))]) {
    expect(shown).toContain(keys.publicKey)
    expect(shown).not.toContain(secretKey)
  }
})

test('a key pair is made of its secret key again', () => {
  const { publicKey, secretKey } = createKeys()
  const again = createKeys(secretKey)
  expect([again.publicKey, again.secretKey]).toEqual([publicKey, secretKey])
})
