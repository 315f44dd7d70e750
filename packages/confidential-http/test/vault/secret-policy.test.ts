import { describe, expect, test } from '@jest/globals'
import { anyCharacter } from '@sluice/test-support/characters.js'
import { inForm } from '@sluice/test-support/tier.js'
import fc from 'fast-check'
import { checkUse, withUse } from 'sluice/internal'
import {
  findViolation,
  readUse,
  type SecretPolicy,
  VaultError,
} from 'sluice/plugins/confidential-http'
import { isPublicSuffix } from '../../vault/secrets.js'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const policy = (given: Partial<SecretPolicy> = {}): SecretPolicy =>
  checkUse('policy', { hosts: ['api.example.com'], ...given }, isPublicSuffix) as SecretPolicy
const target = {
  method: 'GET',
  url: 'https://api.example.com/v1',
  place: 'body',
  hasCustomRoots: false,
}

describe('a policy', () => {
  test.each([
    ['api.example.com', 'https://api.example.com/', true],
    ['api.example.com', 'https://API.Example.COM:8443/x', true],
    ['API.example.com', 'https://api.example.com/', true],
    ['api.example.com', 'https://evil.example/?api.example.com', false],
    ['api.example.com', 'https://api.example.com.evil.example/', false],
    ['api.example.com', 'https://xapi.example.com/', false],
    ['api.example.com', 'https://a.api.example.com/', false],
    ['api.example.com', 'https://api.example.com./', false],
    ['api.example.com', 'https://api.example.com@evil.example/', false],
    ['api.example.com', 'https://evil.example/https://api.example.com/', false],
    ['api.example.com', 'https://аpi.example.com/', false],
    ['api.example.com', 'http://api.example.com/', false],
    ['.example.com', 'https://api.example.com/', true],
    ['.example.com', 'https://a.b.example.com/', true],
    ['.example.com', 'https://example.com/', false],
    ['.example.com', 'https://evilexample.com/', false],
    ['.example.com', 'https://example.com.evil.example/', false],
    ['api.example.com:8443', 'https://api.example.com:8443/', true],
    ['api.example.com:8443', 'https://api.example.com/', false],
    ['api.example.com:443', 'https://api.example.com/', true],
    ['127.0.0.1', 'https://127.0.0.1:9/', true],
    ['127.0.0.1', 'https://2130706433/', true],
    ['[::1]', 'https://[::1]:9/', true],
    ['[::1]', 'https://[::2]/', false],
    ['xn--bcher-kva.example', 'https://bücher.example/', true],
  ])('of the host %s: %s is %p', (host, url, isAllowed) => {
    const violation = findViolation(policy({ hosts: ['other.example', host] }), { ...target, url })
    expect(violation === undefined).toBe(isAllowed)
  })

  test.each<[Partial<SecretPolicy>, object, boolean]>([
    [{ methods: ['post'] }, { method: 'POST' }, true],
    [{ methods: ['POST', 'PUT'] }, { method: 'GET' }, false],
    [{ in: ['body'] }, { place: 'body' }, true],
    [{ in: ['body'] }, { place: 'header:x' }, false],
    [{ in: ['header'] }, { place: 'header:x' }, true],
    [{ in: ['header'] }, { place: 'body' }, false],
    [{ in: ['header:Authorization'] }, { place: 'header:authorization' }, true],
    [{ in: ['header:authorization'] }, { place: 'header:x-echo' }, false],
    [{}, { place: 'header:x' }, true],
    [{}, { hasCustomRoots: true }, false],
    [{ customRoots: true }, { hasCustomRoots: true }, true],
  ])('%j: %j is %p', (given, change, isAllowed) => {
    expect(findViolation(policy(given), { ...target, ...change }) === undefined).toBe(isAllowed)
    expect(findViolation('anywhere', { ...target, ...change })).toBeUndefined()
  })

  test.each<[unknown, RegExp]>([
    [{}, /^policy\.hosts must be a list that names at least one$/],
    [{ hosts: [] }, /^policy\.hosts must be a list/],
    [{ hosts: 'api.example.com' }, /^policy\.hosts must be a list/],
    [{ hosts: ['https://api.example.com'] }, /^policy\.hosts\[0\] must be a host/],
    [{ hosts: ['*.example.com'] }, /^policy\.hosts\[0\] must be a host/],
    [{ hosts: ['a', ''] }, /^policy\.hosts\[1\] must be a host/],
    ...[
      ...['.com', '.co.uk', '.CO.UK', '.github.io', '.s3.amazonaws.com', '.vercel.app', '.kobe.jp'],
      ...['.foo.ck', '.xn--55qx5d.cn', '.co.uk:443', '.127.0.0.1', '.[::1]', '.localhost'],
    ].map((host): [unknown, RegExp] => [
      { hosts: ['api.example.com', host] },
      /^policy\.hosts\[1\] must not be a public suffix, as \.com, \.co\.uk or \.github\.io, below/,
    ]),
    [{ hosts: ['*.co.uk'] }, /^policy\.hosts\[0\] must be a host/],
    [{ hosts: ['*.com'] }, /^policy\.hosts\[0\] must be a host/],
    [{ hosts: ['a:0'] }, /^policy\.hosts\[0\] must be a host/],
    [{ hosts: ['a:65536'] }, /^policy\.hosts\[0\] must be a host/],
    [{ hosts: ['a'], methods: [] }, /^policy\.methods must be a list/],
    [{ hosts: ['a'], methods: ['G T'] }, /^policy\.methods\[0\] must be a registered HTTP method/],
    [
      { hosts: ['a'], methods: ['POST', 'PSOT'] },
      /^policy\.methods\[1\] must be a registered HTTP method: did you mean 'POST'\?$/,
    ],
    [{ hosts: ['a'], methods: ['propfnd'] }, /did you mean 'PROPFIND'\?$/],
    [{ hosts: ['a'], methods: ['CONNECT'] }, /^policy\.methods\[0\] must be a registered/],
    [{ hosts: ['a'], paths: [] }, /^policy\.paths must be a list/],
    ...[
      ...['', 'v1', '*', 'https://a/v1', '/v1*', '/*/v1', '/v1/*/x', '/v1/**', '/v1//x', '/v1/..'],
      ...['/v1/../x', '/v1/./x', '/v1/x.', '/v1;x', '/v1\\x', '/v1?x', '/v1#x', '/v1/%2e%2e/x'],
      ...[
        '/v1/%2fx',
        '/v1/%5cx',
        '/v1/%25',
        '/v1/%',
        '/v1/%c0%af',
        '/v1/\u00e9',
        '/v1/ x',
        '/v1/%20',
      ],
    ].map((path): [unknown, RegExp] => [
      { hosts: ['a'], paths: ['/', path] },
      /^policy\.paths\[1\] must be a path, as \/v1\/accounts, or all below one, as \/v1\/accounts\/\*/,
    ]),
    [{ hosts: ['a'], in: ['url'] }, /^policy\.in\[0\] must be body, header, or header:/],
    [{ hosts: ['a'], in: ['header:'] }, /^policy\.in\[0\] must be body/],
    [{ hosts: ['a'], customRoots: 1 }, /^policy\.customRoots must be/],
    [{ hosts: ['a'], headers: [] }, /^policy\.headers must be a list that names at least one$/],
    [{ hosts: ['a'], headers: 'x' }, /^policy\.headers must be a list/],
    [{ hosts: ['a'], headers: ['x', 'x y'] }, /^policy\.headers\[1\] must be the name of a header/],
    [{ hosts: ['a'], headers: ['x:'] }, /^policy\.headers\[0\] must be the name of a header/],
    [{ hosts: ['a'], headers: ['*/*'] }, /^policy\.headers\[0\] must be the name of a header/],
    [{ host: ['a'] }, /unknown option 'host' of policy/],
    ['everywhere', /^policy must be/],
  ])('%j is refused', (given, message) => {
    expect(() => checkUse('policy', given as never, isPublicSuffix)).toThrow(message)
  })
})

describe('the paths of a policy', () => {
  const at = (path: string, paths: readonly string[]) =>
    findViolation(policy({ paths, methods: ['GET'] }), {
      ...target,
      url: `https://api.example.com${path}`,
    })

  test.each([
    ['/v1/accounts', '/v1/accounts'],
    ['/v1/accounts', '/v1/accounts?to=/v2/../admin'],
    ['/v1/accounts', '/v1/accounts#/v2'],
    ['/v1/accounts', '/v1/%61ccounts'],
    ['/v1/accounts', '/v2/../v1/accounts'],
    ['/v1/accounts/*', '/v1/accounts/'],
    ['/v1/accounts/*', '/v1/accounts/7/balance'],
    ['/v1/accounts/*', '/v1/accounts/./7'],
    ['/v1/accounts/*', '/v1/accounts//../7'],
    ['/v1/accounts/*', '/v1/accounts/a%40b.example/caf%C3%A9/a%20b/v1.2'],
    ['/v1/accounts/*', '/v1/accounts/a:b,c=d+e/'],
    ['/caf%c3%a9/*', '/caf%C3%A9/x'],
    ['/*', '/'],
    ['/', ''],
  ])('%s allows %s', (named, path) => {
    expect(at(path, ['/other', named])).toBeUndefined()
  })

  const other = /^its policy does not name this path$/
  const twoWays = /^its policy names paths, and this one can be read in two ways$/
  test.each<[string, RegExp]>([
    ['/', other],
    ['/v1', other],
    ['/v1/accounts', other],
    ['/v1/accountsx', other],
    ['/v1/accounts%20/', twoWays],
    ['/V1/accounts/7', other],
    ['/v1/Accounts/7', other],
    ['/v2/v1/accounts/7', other],
    ['/?/v1/accounts/7', other],
    ['/#/v1/accounts/7', other],
    ['/v1/accounts/..', other],
    ['/v1/accounts/../admin', other],
    ['/v1/accounts/x/../../admin', other],
    ['/v1/accounts/%2e%2e/admin', other],
    ['/v1/accounts/%2E%2e/admin', other],
    ['/v1/accounts/.%2e/admin', other],
    ['/v1/accounts\\..\\admin', other],
    ['/v1/accounts/\t../admin', other],
    ['/v1/accounts/.\n./admin', other],
    ['/v1/accounts/..%2fadmin', twoWays],
    ['/v1/accounts/..%2Fadmin', twoWays],
    ['/v1/accounts/..%5cadmin', twoWays],
    ['/v1/accounts/%2e%2e%2fadmin', twoWays],
    ['/v1/accounts/%252e%252e/admin', twoWays],
    ['/v1/accounts/%25252e%25252e/admin', twoWays],
    ['/v1/accounts/..%252fadmin', twoWays],
    ['/v1/accounts/%u002e%u002e/admin', twoWays],
    ['/v1/accounts/..;/admin', twoWays],
    ['/v1/accounts/..;x=y/admin', twoWays],
    ['/v1/accounts/;/../../admin', other],
    ['/v1/accounts/%3b/admin', twoWays],
    ['/v1/accounts/..%3b/admin', twoWays],
    ['/v1/accounts/.../admin', twoWays],
    ['/v1/accounts/..%20/admin', twoWays],
    ['/v1/accounts/.. /admin', twoWays],
    ['/v1/accounts/x./admin', twoWays],
    ['/v1/accounts//../../../admin', other],
    ['/v1/accounts//..%2fadmin', twoWays],
    ['/v1/accounts//admin', twoWays],
    ['//v1/accounts/7', twoWays],
    ['/v1//accounts/7', twoWays],
    ['/v1/accounts/..%00/admin', twoWays],
    ['/v1/accounts/7%00.json', twoWays],
    ['/v1/accounts/..%0d%0a/admin', twoWays],
    ['/v1/accounts/..%09/admin', twoWays],
    ['/v1/accounts/%c0%ae%c0%ae/admin', twoWays],
    ['/v1/accounts/%c0%afadmin', twoWays],
    ['/v1/accounts/%e0%80%ae%e0%80%ae/admin', twoWays],
    ['/v1/accounts/\uff0e\uff0e/admin', twoWays],
    ['/v1/accounts/..\uff0fadmin', twoWays],
    ['/v1/accounts/..\u2215admin', twoWays],
    ['/v1/accounts/\u2025/admin', twoWays],
    ['/v1/accounts/..%c1%9cadmin', twoWays],
    ['/v1/accounts/%', twoWays],
    ['/v1/accounts/%zz', twoWays],
    ['/v1/accounts/%ed%a0%80', twoWays],
    ['/v1/accounts/..%3f/admin', twoWays],
    ['/v1/accounts/..%23/admin', twoWays],
    ['/v1/accounts/a|b', twoWays],
    ['/v1/accounts/[7]', twoWays],
  ])('/v1/accounts/* refuses %j', (path, why) => {
    expect(at(path, ['/v1/accounts/*'])).toMatch(why)
  })

  test('allow nothing that a server which decodes it again and again finds elsewhere', () => {
    const part = fc.constantFrom(
      '.',
      '..',
      '%2e',
      '%2f',
      '/',
      '%25',
      '2e',
      ';',
      '\\',
      'a',
      '%5c',
      '%20',
    )
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), parts => {
        const path = `/v1/accounts/${parts.join('')}`
        if (at(path, ['/v1/accounts/*']) !== undefined) return
        let text = new URL(`https://api.example.com${path}`).pathname
        for (let times = 0; times < 4; times++) {
          expect(text).toMatch(/^\/v1\/accounts\//)
          expect(text).not.toMatch(/[\\;]|\/\.\.?(\/|$)|\/\//)
          text = new URL(`https://api.example.com${decodeURIComponent(text)}`).pathname
        }
      }),
      { numRuns: inForm(200, 2000) },
    )
  })
})

describe('the headers beside a secret', () => {
  const refused = [
    // Another method.
    ...['X-HTTP-Method', 'X-HTTP-Method-Override', 'X-Method-Override', 'X_HTTP_Method_Override'],
    ...[
      'x_http_method',
      'X-HTTP_Method-Override',
      'X_Method_Override',
      'X-Method',
      'X-Original-Method',
    ],
    ...[
      'X-Forwarded-Method',
      'X-Envoy-Original-Method',
      'Access-Control-Request-Method',
      'HTTP-Method',
    ],
    // Another path.
    ...['X-Original-URL', 'X_Original_URL', 'X-Rewrite-URL', 'X_Rewrite_URL', 'X-Override-URL'],
    ...[
      'X-Original-URI',
      'X-Forwarded-Uri',
      'X-Forwarded-Path',
      'X-Forwarded-Prefix',
      'X-Request-URI',
    ],
    ...[
      'X-Envoy-Original-Path',
      'X-Http-Path-Override',
      'X-HTTP-DestinationURL',
      'X-Original-Path',
    ],
    ...[
      'X-Script-Name',
      'X-Accel-Redirect',
      'X-Sendfile',
      'X-Proxy-URL',
      'Destination',
      'Link',
      'Slug',
    ],
    // Another host.
    ...[
      'X-Forwarded-Host',
      'X-Host',
      'X-Original-Host',
      'X-HTTP-Host-Override',
      'Forwarded',
      'Proxy',
    ],
    // Neighbours of common headers, and one that nobody knows.
    ...[
      'X.HTTP.Method.Override',
      "X'HTTP'Method",
      'X-Api-Key-2',
      'XAuthorization',
      'Authorization-',
      '-Accept',
    ],
    ...['Accept.', 'X--Api-Key', 'If', 'Cookie', 'X-Wap-Profile', 'X-Any'],
  ]
  const policies: readonly Partial<SecretPolicy>[] = [
    { methods: ['GET'] },
    { paths: ['/v1'] },
    { methods: ['GET'], paths: ['/v1'] },
    { headers: ['x-other'] },
  ]
  const rule = (given: Partial<SecretPolicy>, ...headers: readonly string[]) =>
    findViolation(policy(given), { ...target, headers })

  test.each(refused)('%s is refused where the policy names methods, paths or headers', header => {
    for (const given of policies)
      expect(rule(given, 'Accept', header)).toBe(`its policy does not name the header ${header}`)
    for (const given of [{}, { in: ['body'] }, { customRoots: true }])
      expect(rule(given, 'Accept', header)).toBeUndefined()
    expect(findViolation('anywhere', { ...target, headers: [header] })).toBeUndefined()
  })

  test.each(refused)('%s is allowed where the policy names it, however it is spelt', header => {
    for (const named of [
      header,
      header.toUpperCase(),
      header.replaceAll('_', '-'),
      header.replaceAll('-', '_'),
    ])
      for (const given of policies) {
        expect(rule({ ...given, headers: [named] }, header)).toBeUndefined()
        expect(rule({ ...given, in: ['body', `header:${named}`] }, header)).toBeUndefined()
        expect(rule({ ...given, headers: [named, 'x-other'] }, header, 'X-Another')).toMatch(
          /X-Another$/,
        )
      }
  })

  test.each([
    ...[
      'Accept',
      'ACCEPT-ENCODING',
      'accept-language',
      'Authorization',
      'Content-Type',
      'Content-Encoding',
    ],
    ...[
      'User-Agent',
      'Idempotency-Key',
      'X-API-Key',
      'X_Api_Key',
      'x-request-id',
      'traceparent',
      'TraceState',
    ],
    ...[
      'Cache-Control',
      'If-Match',
      'If-None-Match',
      'If-Modified-Since',
      'If_Unmodified_Since',
      'Date',
      'Range',
    ],
  ])('%s is allowed by every policy', header => {
    for (const given of policies) expect(rule(given, header)).toBeUndefined()
  })

  test('are not all allowed where the secret may be in any of them', () => {
    expect(rule({ paths: ['/v1'], in: ['header'] }, 'X-Token')).toMatch(/X-Token$/)
    expect(rule({ paths: ['/v1'], in: ['body', 'header:x-token'] }, 'X-Token')).toBeUndefined()
  })
})

describe('what is encrypted', () => {
  test('has policy and value, and gives both again', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), value => {
        for (const use of [
          'anywhere' as const,
          policy({ methods: ['POST'], in: ['body'] }),
          policy({ paths: ['/'], headers: ['X-Trace_Id'] }),
        ]) {
          const read = readUse(withUse(use, bytes(value)))
          expect(read.use).toEqual(use)
          expect(Buffer.from(read.value)).toEqual(Buffer.from(bytes(value)))
        }
        expect(readUse(bytes(value))).toEqual({ value: bytes(value) })
      }),
    )
  })

  test('is rejected where the policy can not be read, and no value comes out', () => {
    const whole = withUse(policy(), bytes('sk-live-x9q7'))
    const broken = [
      whole.subarray(0, 5),
      whole.subarray(0, 20),
      Uint8Array.from(whole, (byte, at) => (at === 3 ? 2 : byte)),
      Uint8Array.from(whole, (byte, at) => (at === 6 ? 0x5b : byte)),
      Uint8Array.from([0xff]),
      Uint8Array.from([0xff, 0x53, 0x50, 1, 0, 2, 0x7b, 0x7d, 0x61]),
    ]
    for (const each of broken) {
      expect(() => readUse(each)).toThrow(VaultError)
      expect(() => readUse(each)).toThrow('it has a policy that this version can not read')
    }
  })
})
