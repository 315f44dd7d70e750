import { describe, expect, test } from '@jest/globals'
import { ValidationError } from 'sluice/core'
import { TYPE_NAMES } from '../../request/message.js'
import {
  getHeader,
  getHeaders,
  json,
  normalizeResponse,
  ok,
  text,
} from '../../response/response.js'
import type { HTTPResponseJson, HTTPResponseLike } from '../../types.js'

const bytes = (value: string | readonly number[]): Uint8Array => new Uint8Array(Buffer.from(value))

function response(facts: Partial<HTTPResponseLike>): HTTPResponseLike {
  return { statusCode: 200, body: new Uint8Array(), multiHeaders: {}, ...facts }
}

/** Both forms of a response with this body. */
function both(body: Uint8Array): [HTTPResponseLike, HTTPResponseJson] {
  return [response({ body }), { statusCode: 200, body: Buffer.from(body).toString('base64') }]
}

describe('ok', () => {
  test.each([
    [199, false],
    [200, true],
    [204, true],
    [299, true],
    [300, false],
    [304, false],
    [404, false],
    [500, false],
    [0, false],
  ])('of %d is %p', (statusCode, expected) => {
    expect(ok(response({ statusCode }))).toBe(expected)
    expect(ok({ statusCode })).toBe(expected)
  })

  test('of a JSON response without a status is false', () => {
    expect(ok({})).toBe(false)
  })
})

describe('text and json', () => {
  test.each([
    ['UTF-8', bytes('grüße'), 'grüße'],
    ['white space at both ends', bytes(' \n a b\t\r\n'), 'a b'],
    ['a byte order mark', bytes([0xef, 0xbb, 0xbf, 0x61]), 'a'],
    ['bytes that are no UTF-8', bytes([0x61, 0xff, 0x62]), 'a\ufffdb'],
    ['nothing', bytes(''), ''],
  ])('text of %s', (_, body, expected) => {
    for (const each of both(body)) expect(text(each)).toBe(expected)
  })

  test.each([
    ['an object', bytes('{"a":[1,null]}'), { a: [1, null] }],
    ['a byte order mark', bytes([0xef, 0xbb, 0xbf, 0x37]), 7],
    ['white space around', bytes('\n true '), true],
  ])('json of %s', (_, body, expected) => {
    for (const each of both(body)) expect(json(each)).toEqual(expected)
  })

  test.each(['', '{', 'hello'])('json of %p is a SyntaxError', body => {
    for (const each of both(bytes(body))) {
      expect(() => json(each)).toThrow(expect.objectContaining({ name: 'SyntaxError' }))
    }
  })

  test('json has the type that is asked for, else none', () => {
    const body = bytes('{"id":7}')
    const { id } = json<{ readonly id: number }>(response({ body }))
    expect(id).toBe(7)
    const untyped: unknown = json(response({ body }))
    expect(untyped).toEqual({ id: 7 })
  })
})

describe('getHeaders and getHeader', () => {
  const multiHeaders = {
    'Content-Type': { values: ['text/plain'] },
    'Set-Cookie': { values: ['a=1', 'b=2'] },
    'set-cookie': { values: ['c=3'] },
    'X-Empty': { values: [] },
  }
  const given = response({ multiHeaders })

  test.each([
    ['content-type', ['text/plain'], 'text/plain'],
    ['CONTENT-TYPE', ['text/plain'], 'text/plain'],
    ['set-COOKIE', ['a=1', 'b=2'], 'a=1, b=2'],
    ['x-empty', [], undefined],
    ['x-none', [], undefined],
    ['constructor', [], undefined],
  ])('of %s', (name, values, joined) => {
    expect(getHeaders(given, name)).toEqual(values)
    expect(getHeader(given, name)).toBe(joined)
    expect(getHeaders({ multiHeaders }, name)).toEqual(values)
    expect(getHeader({ multiHeaders }, name)).toBe(joined)
  })

  test('the list is a copy', () => {
    getHeaders(given, 'set-cookie').push('d=4')
    expect(getHeaders(given, 'set-cookie')).toEqual(['a=1', 'b=2'])
  })

  test('a header of whatever name can come from a server', () => {
    const odd = { multiHeaders: JSON.parse('{"__proto__":{"values":["x"]},"a":{"values":["y"]}}') }
    expect(getHeader(odd, '__proto__')).toBe('x')
    expect(getHeader(odd, 'a')).toBe('y')
    expect(normalizeResponse(odd).multiHeaders).toHaveProperty('a.values', ['y'])
  })

  test('none of them are undefined, and a name is a string', () => {
    expect(getHeader({ statusCode: 200 }, 'a')).toBeUndefined()
    expect(() => getHeader(given, 7 as never)).toThrow('name must be a string, not number')
  })
})

describe('a function that makes the response', () => {
  const made = response({ body: bytes(' 7 '), multiHeaders: { A: { values: ['1', '2'] } } })

  test.each([
    ['with the response', () => ({ result: made })],
    ['with its JSON', () => ({ result: { ...made, body: 'IDcg' } })],
    ['with a call', () => ({ result: () => made })],
  ])('%s is asked when result() is', (_, source) => {
    expect(ok(source).result()).toBe(true)
    expect(text(source).result()).toBe('7')
    expect(json(source).result()).toBe(7)
    expect(getHeader(source, 'a').result()).toBe('1, 2')
    expect(getHeaders(source, 'a').result()).toEqual(['1', '2'])
  })

  test('is not asked before', () => {
    const later = ok(() => {
      throw new Error('asked')
    })
    expect(() => later.result()).toThrow('asked')
  })
})

describe('what is no response', () => {
  test.each([
    [Promise.resolve(response({})), 'response is a promise: await it first'],
    [{ result: () => response({}) }, 'response is not there yet: call its result() first'],
    [undefined, 'response is required'],
    [null, 'response is required'],
    [200, 'response must be a plain object, not number'],
    [new Response(), 'response must be a plain object, not Response'],
  ])('%p', (given, complaint) => {
    for (const read of [ok, text, json, normalizeResponse] as ((given: never) => unknown)[])
      expect(() => read(given as never)).toThrow(new ValidationError(complaint))
    expect(() => getHeader(given as never, 'a')).toThrow(new ValidationError(complaint))
  })

  const uint32 = 'response.statusCode must be a whole number from 0 to 4294967295'
  test.each([
    [{ statusCode: -1 }, uint32],
    [{ statusCode: 200.5 }, uint32],
    [{ statusCode: Number.NaN }, uint32],
    [{ statusCode: 4_294_967_296 }, uint32],
    [{ statusCode: '200' }, 'response.statusCode must be a number, not string'],
    [{ body: 'a' }, 'response.body must be valid base64'],
    [{ body: [] }, 'response.body must be a Uint8Array or base64, not an array'],
    [
      { multiHeaders: { A: ['b'] } },
      'response.multiHeaders.A must be { values: […] }, not an array: give { values: array }',
    ],
    [
      { multiHeaders: { A: { values: [7] } } },
      'response.multiHeaders.A.values[0] must be a string, not number',
    ],
  ])('%j', (given, complaint) => {
    expect(() => normalizeResponse(given)).toThrow(new ValidationError(complaint))
  })

  test('each helper only reads what it needs', () => {
    expect(ok({ statusCode: 200, body: '!' })).toBe(true)
    expect(() => text({ statusCode: 200, body: '!' })).toThrow('response.body must be valid base64')
    expect(() => ok({ statusCode: -1 })).toThrow(uint32)
  })
})

describe('normalizeResponse', () => {
  const normal = {
    $typeName: TYPE_NAMES.HTTPResponse,
    statusCode: 201,
    body: bytes('hi'),
    multiHeaders: { A: { $typeName: TYPE_NAMES.HeaderValues, values: ['b'] } },
  }

  test.each([
    ['JSON', { statusCode: 201, body: 'aGk=', multiHeaders: { A: { values: ['b'] } } }],
    ['snake case', { status_code: 201, body: 'aGk', multi_headers: { A: { values: ['b'] } } }],
    ['a mixture', { ...normal, body: 'aGk=' }],
    ['a message without type names', { ...normal, $typeName: undefined }],
  ])('%s becomes the message', (_, given) => {
    expect(normalizeResponse(given)).toStrictEqual(normal)
  })

  test('what JSON leaves out is empty', () => {
    const empty = { statusCode: 0, body: bytes(''), multiHeaders: {} }
    expect(normalizeResponse({})).toStrictEqual({ $typeName: TYPE_NAMES.HTTPResponse, ...empty })
    expect(normalizeResponse({ statusCode: 204, body: bytes('') })).toMatchObject({
      statusCode: 204,
      multiHeaders: {},
    })
  })

  test.each([
    ['with type names', normal],
    ['of a later version', { ...normal, duration: 5, $unknown: [{ no: 9 }] }],
    ['with a Buffer', { ...normal, body: Buffer.from('hi') }],
  ])('a message %s is returned as it is', (_, given) => {
    expect(normalizeResponse(given)).toBe(given)
  })
})
