import { describe, expect, test } from '@jest/globals'
import { ValidationError } from 'sluice/core'
import { TYPE_NAMES } from '../../request/message.js'
import { normalizeRequest } from '../../request/normalize-request.js'
import { base64, normalize, required } from '../support/requests.js'

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
  const login =
    "request.url must not hold a user name or a password: give the header Authorization, 'Basic {{basicAuth .user .password}}'"
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
    [{ url: 'https://user:pass@api.example/' }, login],
    [{ url: 'https://{{.user}}:{{.password}}@api.example/' }, login],
    [{ url: 'https://token@api.example/' }, login],
    [{ url: 'https://8.8.8.8@127.0.0.1/' }, login],
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
