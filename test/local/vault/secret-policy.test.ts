import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { VaultError } from '../../../local/vault/errors.js'
import {
  checkUse,
  findViolation,
  readUse,
  type SecretPolicy,
  withUse,
} from '../../../local/vault/secret-policy.js'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const policy = (given: Partial<SecretPolicy> = {}): SecretPolicy =>
  checkUse('policy', { hosts: ['api.example.com'], ...given }) as SecretPolicy
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
    [{ hosts: ['.com'] }, /^policy\.hosts\[0\] must not be the suffix of a whole/],
    [{ hosts: ['a:0'] }, /^policy\.hosts\[0\] must be a host/],
    [{ hosts: ['a:65536'] }, /^policy\.hosts\[0\] must be a host/],
    [{ hosts: ['a'], methods: [] }, /^policy\.methods must be a list/],
    [{ hosts: ['a'], methods: ['G T'] }, /^policy\.methods\[0\] must be an HTTP method/],
    [{ hosts: ['a'], in: ['url'] }, /^policy\.in\[0\] must be body, header, or header:/],
    [{ hosts: ['a'], in: ['header:'] }, /^policy\.in\[0\] must be body/],
    [{ hosts: ['a'], customRoots: 1 }, /^policy\.customRoots must be/],
    [{ host: ['a'] }, /unknown option 'host' of policy/],
    ['everywhere', /^policy must be/],
  ])('%j is refused', (given, message) => {
    expect(() => checkUse('policy', given as never)).toThrow(message)
  })
})

describe('what is encrypted', () => {
  test('has policy and value, and gives both again', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), value => {
        for (const use of ['anywhere', policy({ methods: ['POST'], in: ['body'] })] as const) {
          const read = readUse(withUse(use, bytes(value)))
          expect(read.use).toEqual(use)
          expect(Buffer.from(read.value)).toEqual(Buffer.from(bytes(value)))
        }
        expect(readUse(bytes(value))).toEqual({ value: bytes(value) })
      }),
    )
  })

  test('is rejected where the policy can not be read, and no value comes out', () => {
    const whole = withUse(policy(), bytes('sk-live-4242'))
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
