import { describe, expect, test } from '@jest/globals'
import { ValidationError } from 'sluice/core'
import { normalizeRequest } from '../../request/normalize-request.js'
import { normalize } from '../support/requests.js'

describe('headers', () => {
  const token = `must be a header's name: letters, digits and hyphens, no spaces`
  test.each([
    [
      { Authorization: { values: [7] } },
      'request.multiHeaders.Authorization.values[0] must be a string, not number',
    ],
    [
      { Authorization: { values: ['a', null] } },
      'request.multiHeaders.Authorization.values[1] must be a string, not null',
    ],
    [
      { Authorization: 'x' },
      'request.multiHeaders.Authorization must be { values: […] }, not string: give { values: [value] }',
    ],
    [
      { Authorization: ['x'] },
      'request.multiHeaders.Authorization must be { values: […] }, not an array: give { values: array }',
    ],
    [
      { Authorization: { values: 'x' } },
      'request.multiHeaders.Authorization.values must be an array, not string',
    ],
    [
      { Authorization: { value: 'x' } },
      "request.multiHeaders.Authorization.value is unknown: did you mean 'values'?",
    ],
    [{ Authorization: 5 }, 'request.multiHeaders.Authorization must be a plain object, not number'],
    [{ 'a b': { values: [] } }, `request.multiHeaders["a b"] ${token}`],
    [{ 'a\r\nb': { values: [] } }, `request.multiHeaders["a\\r\\nb"] ${token}`],
    [{ é: { values: [] } }, `request.multiHeaders["\\u00e9"] ${token}`],
    [{ '': { values: [] } }, `request.multiHeaders[""] ${token}`],
    [
      { [`${'a'.repeat(99)} `]: { values: [] } },
      `request.multiHeaders["${'a'.repeat(64)}…"] ${token}`,
    ],
    [new Headers({ a: 'b' }), 'request.multiHeaders must be a plain object, not Headers'],
    [[], 'request.multiHeaders must be a plain object, not an array'],
    [
      JSON.parse('{"__proto__":{"values":["x"]}}'),
      'request.multiHeaders.__proto__ must not be used as a name',
    ],
  ])('refuses %p', (multiHeaders, complaint) => {
    expect(() => normalize({ multiHeaders })).toThrow(new ValidationError(complaint))
  })

  test.each([
    'Host',
    'content-length',
    'Transfer-Encoding',
    'CONNECTION',
    'Keep-Alive',
    'Upgrade',
    'TE',
    'Trailer',
    'Expect',
    'Proxy-Connection',
  ])('leaves %s to the enclave', name => {
    expect(() => normalize({ multiHeaders: { [name]: { values: ['x'] } } })).toThrow(
      new ValidationError(
        `request.multiHeaders.${name} must not be given: the enclave sets this header itself`,
      ),
    )
  })

  test('names that an object has anyway are names like others', () => {
    const multiHeaders = { constructor: { values: ['a'] }, toString: { values: ['b'] } }
    expect(Object.entries(normalize({ multiHeaders }).multiHeaders)).toMatchObject([
      ['constructor', { values: ['a'] }],
      ['toString', { values: ['b'] }],
    ])
  })

  test('a public value named __proto__ is refused, and nothing is polluted', () => {
    const templatePublicValues = JSON.parse('{"__proto__":"x"}')
    expect(() => normalize({ templatePublicValues })).toThrow(
      new ValidationError('request.templatePublicValues.__proto__ must not be used as a name'),
    )
    expect(() => normalizeRequest(JSON.parse('{"__proto__":{"request":1}}'))).toThrow(
      ValidationError,
    )
    expect(({} as { request?: unknown }).request).toBeUndefined()
  })

  test('are bounded in number', () => {
    const names = (count: number, value: unknown): object =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`h${at}`, value]))
    const values = (length: number): object => ({ values: Array.from({ length }, () => '') })
    expect(() => normalize({ multiHeaders: names(256, values(4)) })).not.toThrow()
    expect(() => normalize({ multiHeaders: names(257, values(0)) })).toThrow(
      'request.multiHeaders must have at most 256 names, not 257',
    )
    expect(() => normalize({ multiHeaders: names(205, values(5)) })).toThrow(
      'request.multiHeaders must have at most 1024 values in all',
    )
    expect(() => normalize({ multiHeaders: { a: values(1025) } })).toThrow(
      'request.multiHeaders.a.values must have at most 1024 elements, not 1025',
    )
    expect(() => normalize({ templatePublicValues: names(256, '') })).not.toThrow()
    expect(() => normalize({ templatePublicValues: names(257, '') })).toThrow(
      'request.templatePublicValues must have at most 256 names, not 257',
    )
  })
})
