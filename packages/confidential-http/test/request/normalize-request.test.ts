import { describe, expect, test } from '@jest/globals'
import { ValidationError } from 'sluice/core'
import { TYPE_NAMES } from '../../request/message.js'
import { normalizeRequest } from '../../request/normalize-request.js'
import type { ConfidentialHTTPRequest, ConfidentialHTTPRequestJson } from '../../types.js'
import { PEM } from '../support/certificate.js'
import { base64, normalize, required, utf8 } from '../support/requests.js'

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
