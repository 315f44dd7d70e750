import { describe, expect, test } from '@jest/globals'
import { ValidationError } from 'sluice/core'
import { TYPE_NAMES } from '../../request/message.js'
import { normalizeRequest } from '../../request/normalize-request.js'
import { required } from '../support/requests.js'

describe('secrets', () => {
  const secrets = (vaultDonSecrets: unknown): unknown =>
    normalizeRequest({ request: required, vaultDonSecrets }).vaultDonSecrets

  test('are in the namespace main where they name none', () => {
    const main = [{ $typeName: TYPE_NAMES.SecretIdentifier, key: 'k', namespace: 'main' }]
    expect(secrets([{ key: 'k' }])).toStrictEqual(main)
    expect(secrets([{ key: 'k', namespace: '', owner: '' }])).toStrictEqual(main)
  })

  const word = 'must only have letters, digits and underscores'
  const repeated =
    'vaultDonSecrets[1] must not repeat vaultDonSecrets[0]: duplicate request for secret identifier'
  const sameKey =
    'vaultDonSecrets[1].key must not be that of vaultDonSecrets[0]: placeholders find a secret by its key alone'
  test.each([
    ['token', 'vaultDonSecrets must be an array, not string'],
    [['token'], 'vaultDonSecrets[0] must be a plain object, not string'],
    [[undefined], 'vaultDonSecrets[0] is required'],
    [[{}], 'vaultDonSecrets[0].key is required'],
    [[{ key: '' }], 'vaultDonSecrets[0].key must not be empty'],
    [[{ key: 'a-b' }], `vaultDonSecrets[0].key ${word}`],
    [[{ key: 'é' }], `vaultDonSecrets[0].key ${word}`],
    [[{ key: 'a\n' }], `vaultDonSecrets[0].key ${word}`],
    [[{ key: 'k'.repeat(65) }], 'vaultDonSecrets[0].key must have at most 64 characters'],
    [[{ key: 'k', namespace: 'a b' }], `vaultDonSecrets[0].namespace ${word}`],
    [[{ key: 'k', namespace: 5 }], 'vaultDonSecrets[0].namespace must be a string, not number'],
    [[{ key: 'k', owner: '0x-' }], `vaultDonSecrets[0].owner ${word}`],
    [[{ name: 'k' }], 'vaultDonSecrets[0].name is unknown: give key'],
    [[{ key: 'k' }, { key: 'k' }], repeated],
    [[{ key: 'k' }, { key: 'k', namespace: 'main' }], repeated],
    [[{ key: 'k' }, { key: 'k', namespace: 'team' }], sameKey],
    [[{ key: 'k' }, { key: 'k', owner: '0x01' }], sameKey],
    [
      Array.from({ length: 11 }, (_, at) => ({ key: `k${at}` })),
      'vaultDonSecrets must have at most 10 elements, not 11',
    ],
  ])('refuses %j', (vaultDonSecrets, complaint) => {
    expect(() => secrets(vaultDonSecrets)).toThrow(new ValidationError(complaint))
  })

  test('ten of them, with names of 64 characters, are taken in the order given', () => {
    const keys = Array.from({ length: 10 }, (_, at) => `${at}${'k'.repeat(63)}`).reverse()
    expect(secrets(keys.map(key => ({ key })))).toMatchObject(keys.map(key => ({ key })))
  })
})
