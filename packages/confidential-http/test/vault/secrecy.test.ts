import { readFileSync, writeFileSync } from 'node:fs'
import { inspect } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import {
  at,
  nameOf,
  shareFile,
  shown,
  storedValue,
  VALUE,
  vault,
  walk,
} from '../support/vault/vault.js'

describe('what must not be seen', () => {
  test('is neither in the vault nor in the directory, in any form', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    await storedValue(vault, nameOf('key'))
    const shares = [0, 1, 2].map(index => JSON.parse(readFileSync(shareFile(index), 'utf8')).V)
    const scalars = shares.map(each => BigInt(`0x${Buffer.from(each, 'base64').toString('hex')}`))
    // The master secret, from the shares of the holders 0 and 1: 2 f(1) - f(2).
    const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
    const [one = 0n, two = 0n] = scalars
    const master = (((2n * one - two) % order) + order) % order
    const forms = (scalar: bigint) => {
      const hex = scalar.toString(16).padStart(64, '0')
      return [hex, `${scalar}`, Buffer.from(hex, 'hex').toString('base64')]
    }
    const seen = [vault, vault.holders, vault.publicKey]
      .map(each => inspect(each, { depth: 20, showHidden: true, getters: true }))
      .join()
    for (const secret of [VALUE, ...scalars.flatMap(forms), ...forms(master)])
      expect(seen).not.toContain(secret)
    const files = walk(vault.directory)
      .filter(entry => entry.endsWith('.json'))
      .map(entry => readFileSync(at(entry), 'utf8'))
    expect(files).toHaveLength(8)
    for (const secret of [VALUE, Buffer.from(VALUE).toString('base64'), ...forms(master)])
      expect(files.join()).not.toContain(secret)
  })

  test('is in no error', async () => {
    const value = `${VALUE} `.repeat(40)
    const errors = [
      await failureOf(vault.put({ key: 'key' }, value, { policy: 'anywhere' })),
      await failureOf(vault.put({ key: 'key' }, Buffer.from(value), { policy: 'anywhere' })),
      await failureOf(vault.put({ key: 'key' }, `${VALUE}\ud83d`, { policy: 'anywhere' })),
      await failureOf(vault.put({ key: '-' }, VALUE, { policy: 'anywhere' })),
    ]
    writeFileSync(at('secrets'), '')
    errors.push(await failureOf(vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })))
    expect(errors.map(error => error.code)).toEqual([...Array(4).fill('VALIDATION'), 'VAULT'])
    for (const error of errors) expect(shown(error)).not.toContain(VALUE)
  })
})
