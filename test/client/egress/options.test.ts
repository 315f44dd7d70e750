import { describe, expect, test } from '@jest/globals'
import { checkEgress } from '../../../client/egress/options.js'
import { createClient } from '../../../index.js'
import { pems } from '../../support/wire/egress.js'

const config = {
  apiKey: 'key',
  userSecret: 'secret',
  endpoint: 'https://api.example',
  wsEndpoint: 'wss://ws.example',
}
const { ca, clientCert: cert, clientKey: key } = pems
const messageOf = (options: object): string => {
  try {
    createClient({ ...config, ...options })
  } catch (error) {
    expect(error).toMatchObject({ name: 'ValidationError' })
    return (error as Error).message
  }
  return ''
}

describe('proxy', () => {
  test.each([
    [1, 'proxy must be a string, not number'],
    ['', 'proxy must not be empty'],
    ['proxy.example', 'proxy must be a URL such as http://proxy.example:3128'],
    ['user:s3cret@proxy.example:3128', 'proxy must begin with http:// or https://'],
    ['socks5://user:s3cret@proxy.example', 'proxy must begin with http:// or https://'],
    ['http://user:s3cret@proxy.example/path', 'proxy must have no path, query or fragment'],
    [
      'http://user:s3cret%@proxy.example',
      'proxy must have percent signs in its password written as %25',
    ],
  ])('%j: %s', (proxy, message) => {
    expect(messageOf({ proxy })).toBe(message)
  })
})

describe('tls', () => {
  const inPEM = (kind: string): string =>
    `must be in PEM, with a line "-----BEGIN ${kind}-----": what a file holds, and not its path`
  const whole = 'must be whole: each line "-----BEGIN …-----" must have its line "-----END …-----"'
  test.each([
    [[], 'tls takes an object of options, not an array'],
    [{ caa: ca }, "unknown option 'caa' of tls; did you mean 'ca'?"],
    [{ ca: 1 }, 'tls.ca must be text in PEM, or its bytes'],
    [{ ca: './ca.pem' }, `tls.ca ${inPEM('CERTIFICATE')}`],
    [{ ca: ca.slice(0, -40) }, `tls.ca ${whole}`],
    [{ ca: [ca, ca + ca.slice(0, 400)] }, `tls.ca[1] ${whole}`],
    [{ ca: ca.slice(5) + ca }, `tls.ca ${whole}`],
    [{ ca: ca + ca.replace(/^-/gm, ' -') }, `tls.ca ${whole}`],
    [{ cert: cert.slice(0, 400), key }, `tls.cert ${whole}`],
    [{ ca: [ca, key] }, `tls.ca[1] ${inPEM('CERTIFICATE')}`],
    [{ ca: [] }, 'tls.ca must not be empty'],
    [{ cert }, 'tls.cert and tls.key must be given together'],
    [{ key }, 'tls.cert and tls.key must be given together'],
    [{ cert: key, key }, `tls.cert ${inPEM('CERTIFICATE')}`],
    [{ cert, key: cert }, `tls.key ${inPEM('PRIVATE KEY')}`],
    [{ passphrase: 'x' }, 'tls.passphrase must be given with tls.key'],
    [{ cert, key, passphrase: 1 }, 'tls.passphrase must be a string, not number'],
    [{ servername: '127.0.0.1' }, 'tls.servername must be a host name'],
    [{ servername: 'https://a' }, 'tls.servername must be a host name'],
  ])('%#: %s', (tls, message) => {
    expect(messageOf({ tls })).toBe(message)
  })

  test('may begin with the mark of its encoding, as text and as bytes', () => {
    const marked = `\ufeff${ca}`
    for (const each of [marked, Buffer.from(marked)])
      expect(checkEgress({ tls: { ca: each } })?.tls.ca).toEqual([ca])
    expect(checkEgress({ tls: { ca: marked + marked } })?.tls.ca).toEqual([ca + ca])
  })

  test('takes what OpenSSL writes', () => {
    const rsa = key.replaceAll('PRIVATE KEY', 'RSA PRIVATE KEY')
    for (const each of [key, rsa, pems.clientEncryptedKey, Buffer.from(key)])
      expect(messageOf({ tls: { ca, cert, key: each, servername: 'api.example' } })).toBe('')
  })
})

test.each(['fetch', 'connect'])('%s excludes both', field => {
  const message = `${field} reaches the network its own way: give it, or proxy and tls`
  expect(messageOf({ [field]: () => undefined, proxy: 'http://proxy.example' })).toBe(message)
  expect(messageOf({ [field]: () => undefined, tls: { ca } })).toBe(message)
})
