import { describe, expect, test } from '@jest/globals'
import { TYPE_NAMES } from '../../confidential-http/request/message.js'
import { normalizeRequest } from '../../confidential-http/request/normalize-request.js'
import type {
  ConfidentialHTTPRequest,
  ConfidentialHTTPRequestJson,
} from '../../confidential-http/types.js'
import { ValidationError } from '../../core/errors.js'
import { PEM } from '../support/confidential-http/certificate.js'

const required = { url: 'https://api.example/v1', method: 'GET' }
const normalize = (request: object): ReturnType<typeof normalizeRequest>['request'] =>
  normalizeRequest({ request: { ...required, ...request } }).request
const utf8 = (text: string): Uint8Array => new Uint8Array(new TextEncoder().encode(text))
const base64 = (value: string | Uint8Array): string => Buffer.from(value).toString('base64')

const message = {
  $typeName: TYPE_NAMES.ConfidentialHTTPRequest,
  vaultDonSecrets: [
    { $typeName: TYPE_NAMES.SecretIdentifier, key: 'token', namespace: 'main', owner: '0xAb01' },
    { $typeName: TYPE_NAMES.SecretIdentifier, key: 'other', namespace: 'team' },
  ],
  request: {
    $typeName: TYPE_NAMES.HTTPRequest,
    url: 'https://api.example/v1',
    method: 'POST',
    body: { case: 'bodyBytes', value: new Uint8Array([0, 255, 62]) },
    multiHeaders: {
      Authorization: { $typeName: TYPE_NAMES.HeaderValues, values: ['Bearer {{.token}}'] },
      'X-None': { $typeName: TYPE_NAMES.HeaderValues, values: [] },
    },
    templatePublicValues: { city: 'Rome', empty: '' },
    customRootCaCertPem: utf8(PEM),
    timeout: { $typeName: TYPE_NAMES.Duration, seconds: 1n, nanos: 500_000_000 },
    encryptOutput: true,
  },
} satisfies ConfidentialHTTPRequest

const plain = {
  vaultDonSecrets: [
    { key: 'token', owner: '0xAb01' },
    { key: 'other', namespace: 'team' },
  ],
  request: {
    url: 'https://api.example/v1',
    method: 'post',
    bodyBytes: new Uint8Array([0, 255, 62]),
    multiHeaders: { Authorization: { values: ['Bearer {{.token}}'] }, 'X-None': { values: [] } },
    templatePublicValues: { city: 'Rome', empty: '' },
    customRootCaCertPem: PEM,
    timeout: { seconds: 1n, nanos: 500_000_000 },
    encryptOutput: true,
  },
} satisfies ConfidentialHTTPRequest

const json = {
  vaultDonSecrets: [
    { key: 'token', namespace: '', owner: '0xAb01' },
    { key: 'other', namespace: 'team' },
  ],
  request: {
    url: 'https://api.example/v1',
    method: 'POST',
    bodyBytes: 'AP8+',
    multiHeaders: { Authorization: { values: ['Bearer {{.token}}'] }, 'X-None': {} },
    templatePublicValues: { city: 'Rome', empty: '' },
    customRootCaCertPem: base64(PEM),
    timeout: '1.500s',
    encryptOutput: true,
  },
} satisfies ConfidentialHTTPRequestJson

const snake = {
  vault_don_secrets: json.vaultDonSecrets,
  request: {
    url: json.request.url,
    method: json.request.method,
    body_bytes: json.request.bodyBytes,
    multi_headers: json.request.multiHeaders,
    template_public_values: json.request.templatePublicValues,
    custom_root_ca_cert_pem: json.request.customRootCaCertPem,
    timeout: json.request.timeout,
    encrypt_output: true,
  },
}

describe('the forms of a request', () => {
  test.each([
    ['message form', message],
    ['plain form', plain],
    ['JSON form', json],
    ['JSON form after JSON', JSON.parse(JSON.stringify(json))],
    ['snake case', snake],
    ['plain outside, message inside', { ...plain, request: message.request }],
    ['message outside, JSON inside', { ...message, request: json.request }],
    ['message secrets, plain request', { ...plain, vaultDonSecrets: message.vaultDonSecrets }],
    ['objects without a prototype', Object.assign(Object.create(null), json)],
    ['empty lists of unknown fields', { ...message, $unknown: [] }],
  ])('%s becomes the one message', (_, input) => {
    expect(normalizeRequest(input)).toStrictEqual(message)
  })

  test('what comes out goes in again, and crosses threads', () => {
    const once = normalizeRequest(json)
    expect(normalizeRequest(once)).toStrictEqual(once)
    expect(normalizeRequest(structuredClone(once))).toStrictEqual(once)
  })

  test('its bytes are its own', () => {
    const pool = new Uint8Array([1, 2, 3, 4])
    const { body } = normalize({ bodyBytes: pool.subarray(1, 3) })
    pool.fill(9)
    expect(body).toEqual({ case: 'bodyBytes', value: new Uint8Array([2, 3]) })
    expect((body.value as Uint8Array).buffer.byteLength).toBe(2)
  })
})

describe('the fields of a request', () => {
  test('all but url and method may be absent', () => {
    expect(normalizeRequest({ request: required })).toStrictEqual({
      $typeName: TYPE_NAMES.ConfidentialHTTPRequest,
      vaultDonSecrets: [],
      request: {
        $typeName: TYPE_NAMES.HTTPRequest,
        url: 'https://api.example/v1',
        method: 'GET',
        body: { case: undefined },
        multiHeaders: {},
        templatePublicValues: {},
        customRootCaCertPem: new Uint8Array(),
        encryptOutput: false,
      },
    })
  })

  test.each([undefined, null])('%p is absent everywhere', nothing => {
    const names = ['bodyString', 'bodyBytes', 'body', 'multiHeaders', 'templatePublicValues']
    const more = ['customRootCaCertPem', 'timeout', 'encryptOutput', 'notAField']
    const request = Object.fromEntries([...names, ...more].map(name => [name, nothing]))
    expect(
      normalizeRequest({ request: { ...required, ...request }, vaultDonSecrets: nothing }),
    ).toStrictEqual(normalizeRequest({ request: required }))
    expect(
      normalizeRequest({
        request: {
          ...required,
          multiHeaders: { A: nothing, B: { values: nothing } },
          templatePublicValues: { a: nothing },
        },
        vaultDonSecrets: [{ key: 'k', namespace: nothing, owner: nothing }],
      }),
    ).toStrictEqual({
      ...normalizeRequest({ request: required, vaultDonSecrets: [{ key: 'k' }] }),
      request: normalize({ multiHeaders: { B: {} } }),
    })
  })

  test.each([
    ['get', 'GET'],
    ['Post', 'POST'],
    ['m-search', 'M-SEARCH'],
  ])('method %s is %s', (given, method) => {
    expect(normalize({ method: given }).method).toBe(method)
  })

  test.each(['http://localhost:80/', 'HTTPS://api.example', 'https://api.example/?q={.x}}#y'])(
    'url %s is kept as it is',
    url => {
      expect(normalize({ url }).url).toBe(url)
    },
  )

  test.each([
    ['PEM', PEM],
    ['bytes of PEM', utf8(PEM)],
    ['a Buffer', Buffer.from(PEM)],
    ['base64', base64(PEM)],
    ['base64url without padding', Buffer.from(PEM).toString('base64url')],
    ['base64 in lines', base64(PEM).replace(/.{20}/g, '$&\r\n')],
  ])('a root certificate as %s becomes the bytes of its PEM', (_, customRootCaCertPem) => {
    expect(normalize({ customRootCaCertPem }).customRootCaCertPem).toStrictEqual(utf8(PEM))
  })

  test.each(['', new Uint8Array()])('an empty root certificate %p is absent', empty => {
    expect(normalize({ customRootCaCertPem: empty })).toStrictEqual(normalize({}))
  })
})

describe('the body', () => {
  test.each([
    ['bodyString', { bodyString: 'a {{.b}}' }, { case: 'bodyString', value: 'a {{.b}}' }],
    ['an empty bodyString', { bodyString: '' }, { case: 'bodyString', value: '' }],
    ['bytes', { bodyBytes: new Uint8Array([1]) }, { case: 'bodyBytes', value: [1] }],
    ['no bytes', { bodyBytes: new Uint8Array() }, { case: 'bodyBytes', value: [] }],
    ['a Buffer', { bodyBytes: Buffer.from('hi') }, { case: 'bodyBytes', value: [104, 105] }],
    ['base64', { bodyBytes: '+/8=' }, { case: 'bodyBytes', value: [251, 255] }],
    ['base64url', { bodyBytes: '-_8=' }, { case: 'bodyBytes', value: [251, 255] }],
    ['base64 without padding', { bodyBytes: '+/8' }, { case: 'bodyBytes', value: [251, 255] }],
    ['no base64', { bodyBytes: '' }, { case: 'bodyBytes', value: [] }],
    ['a case', { body: { case: 'bodyString', value: '' } }, { case: 'bodyString', value: '' }],
    ['a case without value', { body: { case: undefined } }, { case: undefined }],
    [
      'flat beside no case',
      { body: { case: undefined }, bodyString: 'x' },
      { case: 'bodyString', value: 'x' },
    ],
  ])('%s', (_, given, body) => {
    const found = normalize(given).body
    const value = found.case === 'bodyBytes' ? [...found.value] : found.value
    expect({ ...found, ...('value' in found && { value }) }).toStrictEqual(body)
  })

  test.each([
    [
      { bodyString: 'x', bodyBytes: 'AA==' },
      'request.bodyString and request.bodyBytes must not both be given: the body is one of bodyString and bodyBytes',
    ],
    [
      { bodyString: '', bodyBytes: new Uint8Array() },
      'request.bodyString and request.bodyBytes must not both be given: the body is one of bodyString and bodyBytes',
    ],
    [
      { bodyBytes: 'AA==', body: { case: 'bodyString', value: 'x' } },
      'request.bodyBytes and request.body.value must not both be given: the body is one of bodyString and bodyBytes',
    ],
    [{ body: 'hello' }, 'request.body is unknown: give bodyString or bodyBytes'],
    [{ body: {} }, 'request.body is unknown: give bodyString or bodyBytes'],
    [
      { body: { case: 'bodyText', value: 'x' } },
      'request.body.case must be bodyString or bodyBytes',
    ],
    [
      { body: { case: undefined, value: 'x' } },
      'request.body.case must be bodyString or bodyBytes',
    ],
    [{ body: { case: 'bodyString' } }, 'request.body.value is required'],
    [{ body: { case: 'bodyString', value: 5 } }, 'request.body.value must be a string, not number'],
    [{ bodyBytes: 'A' }, 'request.bodyBytes must be valid base64'],
    [{ bodyBytes: 'AA=' }, 'request.bodyBytes must be valid base64'],
    [{ bodyBytes: 'AB==' }, 'request.bodyBytes must be valid base64'],
    [{ bodyBytes: 'AA==\n' }, 'request.bodyBytes must be valid base64'],
    [{ bodyBytes: 'A=AA' }, 'request.bodyBytes must be valid base64'],
    [{ bodyBytes: [1, 2] }, 'request.bodyBytes must be a Uint8Array or base64, not an array'],
    [
      { bodyBytes: new ArrayBuffer(1) },
      'request.bodyBytes must be a Uint8Array or base64, not ArrayBuffer',
    ],
    [
      { bodyBytes: new Uint16Array(1) },
      'request.bodyBytes must be a Uint8Array or base64, not Uint16Array',
    ],
  ])('refuses %j', (given, complaint) => {
    expect(() => normalize(given)).toThrow(new ValidationError(complaint))
  })
})

describe('what a request must not be', () => {
  test.each([
    [undefined, 'input is required'],
    [null, 'input is required'],
    [42, 'input must be a plain object, not number'],
    [[], 'input must be a plain object, not an array'],
    [() => 1, 'input must be a plain object, not function'],
    [Promise.resolve(), 'input must be a plain object, not Promise'],
    [new Map(), 'input must be a plain object, not Map'],
    [new Uint8Array(1), 'input must be a plain object, not bytes'],
    [{}, 'request is required'],
    [{ request: {} }, 'request.url is required'],
    [{ request: 'https://x' }, 'request must be a plain object, not string'],
    [
      { request: required, encryptOutput: true },
      'encryptOutput is unknown: it belongs in request, as request.encryptOutput',
    ],
    [
      { request: required, encrypt_output: true },
      'encrypt_output is unknown: it belongs in request, as request.encryptOutput',
    ],
    [{ url: 'x' }, 'url is unknown: it belongs in request, as request.url'],
    [{ body: 'x' }, 'body is unknown: give request.bodyString or request.bodyBytes'],
    [{ headers: {} }, 'headers is unknown: give request.multiHeaders'],
    [{ secrets: [] }, 'secrets is unknown: give vaultDonSecrets'],
    [{ templateValues: {} }, 'templateValues is unknown: give request.templatePublicValues'],
    [{ constructor: 1 }, 'constructor is unknown: there is request, vaultDonSecrets'],
    [
      { request: required, vaultDonSecrets: [], vault_don_secrets: [] },
      'vaultDonSecrets is given twice, as vaultDonSecrets and as vault_don_secrets',
    ],
    [
      { $typeName: 'a.B', request: required },
      `$typeName must be ${TYPE_NAMES.ConfidentialHTTPRequest}`,
    ],
    [
      { $unknown: [{ no: 7 }], request: required },
      '$unknown must be empty: it holds fields that are not known here',
    ],
  ])('%p', (input, complaint) => {
    expect(() => normalizeRequest(input)).toThrow(new ValidationError(complaint))
  })

  const absolute = 'request.url must be an absolute URL that begins with https:// or http://'
  const token = 'request.method must be an HTTP method, such as GET or POST'
  test.each([
    [
      { headers: {} },
      'request.headers is unknown: give multiHeaders, with { values: […] } for each name',
    ],
    [{ templateValues: {} }, 'request.templateValues is unknown: give templatePublicValues'],
    [{ secrets: [] }, 'request.secrets is unknown: give vaultDonSecrets, beside request'],
    [
      { vault_don_secrets: [] },
      'request.vault_don_secrets is unknown: it belongs beside request, not in it',
    ],
    [
      { bodyString: '', body_string: '' },
      'request.bodyString is given twice, as bodyString and as body_string',
    ],
    [{ url: 5 }, 'request.url must be a string, not number'],
    [{ url: ' ' }, 'request.url must not be empty'],
    [
      { url: 'https://api.example/?k={{.key}}' },
      'request.url must not hold placeholders: they are filled in bodyString and header values only',
    ],
    [{ url: '/v1' }, absolute],
    [{ url: 'ftp://api.example' }, absolute],
    [{ url: 'https:api.example' }, absolute],
    [{ url: 'https://' }, absolute],
    [{ url: ' https://api.example' }, absolute],
    [{ url: 'https://api.example/\n' }, absolute],
    [{ method: null }, 'request.method is required'],
    [{ method: '' }, 'request.method must not be empty'],
    [{ method: 'GET /' }, token],
    [{ method: 'GET\r\n' }, token],
    [{ method: 'M'.repeat(33) }, token],
    [{ method: 'connect' }, 'request.method must not be CONNECT, which no enclave sends'],
    [{ method: 'TRACE' }, 'request.method must not be TRACE, which no enclave sends'],
    [{ encryptOutput: 'true' }, 'request.encryptOutput must be true or false, not string'],
    [{ bodyString: 7 }, 'request.bodyString must be a string, not number'],
    [
      { bodyString: 'a\ud800b' },
      'request.bodyString must be well-formed Unicode: it has half a surrogate pair',
    ],
    [
      { url: 'https://api.example/\udc00' },
      'request.url must be well-formed Unicode: it has half a surrogate pair',
    ],
    [
      { templatePublicValues: { city: 7 } },
      'request.templatePublicValues.city must be a string, not number',
    ],
    [
      { templatePublicValues: { city: '\ud800' } },
      'request.templatePublicValues.city must be well-formed Unicode: it has half a surrogate pair',
    ],
    [
      { templatePublicValues: { '\ud800': '' } },
      'a name in request.templatePublicValues must be well-formed Unicode: it has half a surrogate pair',
    ],
    [
      { templatePublicValues: new Map([['a', 'b']]) },
      'request.templatePublicValues must be a plain object, not Map',
    ],
    [
      { customRootCaCertPem: 5 },
      'request.customRootCaCertPem must be PEM, as a Uint8Array, a string or base64, not number',
    ],
    [
      { customRootCaCertPem: 'certificate' },
      'request.customRootCaCertPem must hold a certificate in PEM: no -----BEGIN CERTIFICATE----- is in it',
    ],
    [
      { customRootCaCertPem: base64('certificate') },
      'request.customRootCaCertPem must hold a certificate in PEM: no -----BEGIN CERTIFICATE----- is in it',
    ],
    [
      { customRootCaCertPem: new Uint8Array([48, 130]) },
      'request.customRootCaCertPem must hold a certificate in PEM: no -----BEGIN CERTIFICATE----- is in it',
    ],
    [{ timeout: '0s' }, 'request.timeout must be more than 0'],
    [{ timeout: 5 }, 'request.timeout must be a duration such as 5s or 200ms, not number'],
  ])('request with %j', (given, complaint) => {
    expect(() => normalize(given)).toThrow(new ValidationError(complaint))
  })

  test('whatever reading it throws is told as a ValidationError', () => {
    const input = {
      get request(): never {
        throw new RangeError('no')
      },
    }
    expect(() => normalizeRequest(input)).toThrow(ValidationError)
  })

  test('no message repeats a value', () => {
    const secret = 'hunter2'
    const inputs: object[] = [
      { url: secret },
      { method: `${secret} x` },
      { bodyString: `${secret}\ud800` },
      { bodyBytes: `${secret}!` },
      { body: secret },
      { multiHeaders: { A: secret } },
      { multiHeaders: { A: { values: [secret, 5] } } },
      { multiHeaders: secret },
      { templatePublicValues: { a: { [Symbol.toStringTag]: secret } } },
      { templatePublicValues: { a: { constructor: { name: secret } } } },
      { customRootCaCertPem: secret },
      { timeout: secret },
      { timeout: { seconds: secret } },
      { encryptOutput: secret },
      { $typeName: secret },
    ]
    for (const input of inputs) {
      expect(() => normalize(input)).toThrow(ValidationError)
      expect(() => normalize(input)).not.toThrow(secret)
    }
  })
})

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
      'request.multiHeaders.Authorization.value is unknown: there is values',
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
