import { inspect } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import type { HeaderLines } from '../../../../plugins/confidential-http/call.js'
import { EnclaveError } from '../../../../plugins/confidential-http/errors.js'
import { REDACTED, Redactor } from '../../../../plugins/confidential-http/secrets/redact.js'

const SECRET = 'sk-live-"quoted"\nand on'
const secrets = ['12', '', SECRET]

const redactError = (thrown: unknown, all: readonly string[]): unknown =>
  new Redactor(all).error(thrown)

describe('an error', () => {
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
  ])('that repeats a secret in %s becomes an error that says only so', (_name, thrown) => {
    const error = redactError(thrown, secrets)
    expect(error).toMatchObject({
      name: 'EnclaveError',
      code: 'ENCLAVE',
      message: 'the request failed inside the enclave, and the reason repeats a secret',
    })
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('sk-live')
  })

  test('of any other kind is returned as it is', () => {
    const circular: Error & { self?: unknown } = new Error('a')
    circular.self = circular
    const hostile = Object.defineProperty(new Error('a'), 'b', {
      get: () => {
        throw new Error('c')
      },
    })
    const error = new EnclaveError('x', { code: 'LIMIT' })
    for (const thrown of [circular, hostile, error, undefined, null, 7, Symbol('a'), 'text'])
      expect(redactError(thrown, secrets)).toBe(thrown)
  })

  test('is searched for a short secret as a word, and not in its stack frames', () => {
    const error = new Error('port 1234')
    expect(redactError(error, ['12', '123', ''])).toBe(error)
    expect(redactError(error, ['1234'])).not.toBe(error)
    expect(redactError(new Error('port 12'), ['12'])).not.toEqual(new Error('port 12'))
    for (const usual of ['ts', 'at', 'core', 'node', 'Object', 'stack', 'code'])
      expect(redactError(error, [usual])).toBe(error)
  })

  test('that is too long to be searched becomes such an error, too', () => {
    const error = Object.assign(new Error('a'), { body: 'x'.repeat(1_100_000) })
    expect(redactError(error, [SECRET])).toMatchObject({ code: 'ENCLAVE' })
    expect(redactError(error, [])).toBe(error)
    const parts = Object.assign(new Error('a'), { parts: Array(1100).fill('x'.repeat(1000)) })
    expect(redactError(parts, [SECRET])).toMatchObject({ code: 'ENCLAVE' })
  })
})

describe('a log', () => {
  test('has another line in place of one that repeats a secret', () => {
    const lines: unknown[][] = []
    const write = (...line: unknown[]): void => void lines.push(line)
    const log = new Redactor(secrets).log({ info: write, debug: write })
    expect(Object.keys(log)).toEqual(['info', 'debug'])
    log.info?.('fine', { host: 'a' })
    log.info?.(`bad ${SECRET}`)
    log.debug?.('bad', { headers: [btoa(`user:${SECRET}`)] })
    expect(lines).toEqual([['fine', { host: 'a' }], [REDACTED], [REDACTED]])
  })
})

describe('headers', () => {
  const redactor = new Redactor(secrets)
  const headers = (given: HeaderLines) => redactor.headers(given)

  test('are the same object where they hold no secret', () => {
    const given = new Map([['X', ['a', 'b']]])
    expect(headers(given)).toBe(given)
    expect(new Redactor([]).headers(given)).toBe(given)
  })

  test('lose the values that hold one, and the names that do', () => {
    const given = new Map([
      ['X', ['a', `k=${encodeURIComponent(SECRET)}; path=/`, 'b']],
      ['Y', [btoa(`user:${SECRET}`)]],
      ['X-Sk-Live-', ['c']],
    ])
    expect([...new Redactor(['SK-live-']).headers(given)]).toEqual([
      ['X', ['a', REDACTED, 'b']],
      ['Y', [REDACTED]],
    ])
  })
})
