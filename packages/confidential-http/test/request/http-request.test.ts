import { describe, expect, test } from '@jest/globals'
import { ValidationError } from 'sluice/core'
import { type HTTPRequestOptions, httpRequest } from '../../request/http-request.js'
import { normalizeRequest } from '../../request/normalize-request.js'
import { PEM } from '../support/certificate.js'

const url = 'https://api.example/v1'
const make = (options: Partial<HTTPRequestOptions>): object => httpRequest({ url, ...options })
const get = { url, method: 'GET' }

describe('httpRequest', () => {
  test('needs a url only', () => {
    expect(httpRequest({ url })).toStrictEqual(get)
  })

  test.each([undefined, null])('leaves out what is %p', nothing => {
    const names = ['method', 'body', 'bodyString', 'bodyBytes', 'headers', 'multiHeaders']
    const more = ['templateValues', 'customRootCaCertPem', 'timeout', 'encryptOutput']
    const options = Object.fromEntries([...names, ...more].map(name => [name, nothing]))
    expect(make(options)).toStrictEqual(get)
  })

  test.each<[string, Partial<HTTPRequestOptions>, object]>([
    ['a method', { method: 'put' }, { method: 'put' }],
    ['a string', { body: '{{.a}}' }, { bodyString: '{{.a}}' }],
    ['an empty string', { body: '' }, { bodyString: '' }],
    ['bytes', { body: new Uint8Array([251, 255]) }, { bodyBytes: '+/8=' }],
    ['an object', { body: { a: [1, '{{.b}}'] } }, { bodyString: '{"a":[1,"{{.b}}"]}' }],
    ['a list', { body: [1] }, { bodyString: '[1]' }],
    ['a number', { body: 7 }, { bodyString: '7' }],
    ['false', { body: false }, { bodyString: 'false' }],
    ['a bigint', { body: 7n }, { bodyString: '"7"' }],
    [
      'a bigint within',
      { body: { wei: 10n ** 20n } },
      { bodyString: '{"wei":"100000000000000000000"}' },
    ],
    ['what says its JSON', { body: new Date(0) }, { bodyString: '"1970-01-01T00:00:00.000Z"' }],
    ['bodyString', { bodyString: '' }, { bodyString: '' }],
    ['bodyBytes', { bodyBytes: new Uint8Array([1]) }, { bodyBytes: 'AQ==' }],
    ['bodyBytes in base64url', { bodyBytes: '-_8' }, { bodyBytes: '+/8=' }],
    [
      'headers',
      { headers: { A: 'b', C: ['d', 'e'] } },
      { multiHeaders: { A: { values: ['b'] }, C: { values: ['d', 'e'] } } },
    ],
    [
      'multiHeaders',
      { multiHeaders: { A: ['b'], C: { values: ['d'] } } },
      { multiHeaders: { A: { values: ['b'] }, C: { values: ['d'] } } },
    ],
    [
      'headers over multiHeaders of exactly that name',
      { headers: { A: 'new' }, multiHeaders: { A: ['old'], a: ['kept'] } },
      { multiHeaders: { A: { values: ['new'] }, a: { values: ['kept'] } } },
    ],
    ['template values', { templateValues: { a: 'b' } }, { templatePublicValues: { a: 'b' } }],
    [
      'a certificate',
      { customRootCaCertPem: PEM },
      { customRootCaCertPem: Buffer.from(PEM).toString('base64') },
    ],
    ['milliseconds', { timeout: 1500 }, { timeout: '1.500s' }],
    ['a part of a millisecond', { timeout: 0.25 }, { timeout: '0.000250s' }],
    ['a duration', { timeout: '1m' }, { timeout: '60s' }],
    ['a duration in parts', { timeout: { seconds: 5n } }, { timeout: '5s' }],
    ['encryption', { encryptOutput: true }, { encryptOutput: true }],
    ['no encryption', { encryptOutput: false }, { encryptOutput: false }],
  ])('passes on %s', (_, options, expected) => {
    const request = make(options)
    expect(request).toStrictEqual({ ...get, ...expected })
    expect(JSON.parse(JSON.stringify(request))).toStrictEqual(request)
    expect(() => normalizeRequest({ request })).not.toThrow()
  })

  test.each([
    { body: 'a', bodyString: 'b' },
    { body: 'a', bodyBytes: 'AA==' },
    { bodyString: '', bodyBytes: new Uint8Array() },
  ])('refuses two bodies: %j', options => {
    expect(() => make(options)).toThrow(
      new ValidationError(
        'httpRequest: specify the request body using only one of: body, bodyString or bodyBytes',
      ),
    )
  })

  const circle: { self?: unknown } = {}
  circle.self = circle
  test.each([
    [
      { body: new Map() },
      'options.body must be a string, a Uint8Array or a value that JSON can hold, not Map',
    ],
    [
      { body: new ArrayBuffer(1) },
      'options.body must be a string, a Uint8Array or a value that JSON can hold, not ArrayBuffer',
    ],
    [
      { body: new URLSearchParams('a=b') },
      'options.body must be a string, a Uint8Array or a value that JSON can hold, not URLSearchParams',
    ],
    [
      { body: Promise.resolve() },
      'options.body must be a string, a Uint8Array or a value that JSON can hold, not Promise',
    ],
    [{ body: () => 1 }, 'options.body must be a value that JSON can hold, not function'],
    [{ body: circle }, 'options.body must be a value that JSON can hold'],
    [{ bodyBytes: '!' }, 'options.bodyBytes must be valid base64'],
    [
      { customRootCaCertPem: 'x' },
      'options.customRootCaCertPem must hold a certificate in PEM: no -----BEGIN CERTIFICATE----- is in it',
    ],
    [{ timeout: 0 }, 'options.timeout must be more than 0'],
    [{ timeout: -5 }, 'options.timeout must be more than 0'],
    [
      { timeout: Number.NaN },
      'options.timeout must be a number of milliseconds, or a duration such as 5s',
    ],
    [
      { timeout: 'soon' },
      'options.timeout must be a number of at most 9 decimals and its unit, such as 5s, 1.5s, 200ms or 1m',
    ],
    [{ templatePublicValues: {} }, 'options.templatePublicValues is unknown: give templateValues'],
    [{ headers: new Headers() }, 'options.headers must be a plain object, not Headers'],
  ])('refuses %p', (options, complaint) => {
    expect(() => make(options as never)).toThrow(
      expect.objectContaining({ name: 'ValidationError', message: complaint }),
    )
  })

  test('loses no option that is written in snake case', () => {
    expect(make({ encrypt_output: true, template_values: { a: 'b' } } as never)).toStrictEqual(
      make({ encryptOutput: true, templateValues: { a: 'b' } }),
    )
  })

  test('refuses to be called without options', () => {
    expect(() => httpRequest(undefined as never)).toThrow('options is required')
  })
})
