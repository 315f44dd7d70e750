import { inspect } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import { EnclaveError } from '../../core/errors.js'
import { withhold } from '../../core/withhold.js'

const SECRET = 'sk-live-"quoted"\nand on'
const secrets = ['12', '', SECRET]

describe('withhold', () => {
  test.each([
    ['its message', new Error(`bad key ${SECRET}!`)],
    ['one of our own messages', new EnclaveError(`bad key ${SECRET}!`, { code: 'TEMPLATE' })],
    ['its message, as JSON', new Error(JSON.stringify({ key: SECRET }))],
    ['its message, as a URL', new Error(`?k=${encodeURIComponent(SECRET)}`)],
    ['the cause of its cause', new Error('a', { cause: new Error('b', { cause: SECRET }) })],
    ['its stack', Object.assign(new Error('a'), { stack: `Error: ${SECRET}\n at x` })],
    ['a property', Object.assign(new Error('a'), { request: { headers: [['x', SECRET]] } })],
    ['bytes', Object.assign(new Error('a'), { body: Buffer.from(`{"k":"${SECRET}"}`) })],
    ['a map', Object.assign(new Error('a'), { headers: new Map([['x', SECRET]]) })],
    ['a set', Object.assign(new Error('a'), { values: new Set([SECRET]) })],
    ['a function', Object.assign(new Error('a'), { run: Object.assign(() => {}, { k: SECRET }) })],
    ['a property that is not shown', Object.defineProperty(new Error('a'), 'k', { value: SECRET })],
    ['the name of a property', Object.assign(new Error('a'), { [SECRET]: 1 })],
    ['one of several', new AggregateError([new Error('a'), new Error(SECRET)])],
    ['itself', SECRET],
  ])('withholds what repeats a secret in %s', (_name, thrown) => {
    const error = withhold(thrown, secrets)
    expect(error).toMatchObject({
      name: 'EnclaveError',
      code: 'ENCLAVE',
      message: 'the request failed inside the enclave, and the reason repeats a secret',
    })
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('sk-live')
  })

  test('returns everything else as it is', () => {
    const circular: Error & { self?: unknown } = new Error('a')
    circular.self = circular
    const hostile = Object.defineProperty(new Error('a'), 'b', {
      get: () => {
        throw new Error('c')
      },
    })
    const error = new EnclaveError('x', { code: 'LIMIT' })
    for (const thrown of [circular, hostile, error, undefined, null, 7, Symbol('a'), 'text'])
      expect(withhold(thrown, secrets)).toBe(thrown)
  })

  test('leaves what repeats a secret too short to tell', () => {
    const error = new Error('port 1234')
    expect(withhold(error, ['12', '123', ''])).toBe(error)
    expect(withhold(error, ['1234'])).not.toBe(error)
  })
})
