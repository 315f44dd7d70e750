import { createPrivateKey, X509Certificate } from 'node:crypto'
import { get } from 'node:https'
import { connect } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { createCertificateAuthority, startHTTPSServer } from '../index.js'

interface Trust {
  readonly ca?: string
  readonly servername?: string
}

function fetchText(url: string, trust: Trust = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    get(url, { ...trust, agent: false }, response => {
      let text = `${response.statusCode} `
      response.on('data', chunk => {
        text += chunk
      })
      response.on('end', () => resolve(text))
    }).on('error', reject)
  })
}

describe('a certificate authority', () => {
  test('issues certificates that verify', async () => {
    const { ca, issue } = await createCertificateAuthority()
    const { cert, key } = issue({ hosts: ['localhost', '*.api.example', '10.1.2.3', 'fe80::1:2'] })
    const [root, leaf] = [new X509Certificate(ca), new X509Certificate(cert)]
    expect(leaf.checkIssued(root)).toBe(true)
    expect(leaf.verify(root.publicKey)).toBe(true)
    expect(root.verify(root.publicKey)).toBe(true)
    expect([root.ca, leaf.ca]).toEqual([true, false])
    expect(leaf.checkPrivateKey(createPrivateKey(key))).toBe(true)
    expect(leaf.subjectAltName).toBe(
      'DNS:localhost, DNS:*.api.example, IP Address:10.1.2.3, IP Address:FE80:0:0:0:0:0:1:2',
    )
    expect(leaf.checkHost('localhost')).toBe('localhost')
    expect(leaf.checkHost('one.api.example')).toBe('*.api.example')
    expect(leaf.checkHost('example')).toBeUndefined()
    expect(leaf.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' })
  })

  test('makes certificates valid for a day from an hour ago, with serials of their own', async () => {
    const { ca, issue } = await createCertificateAuthority()
    const certificates = [ca, issue({ hosts: ['a'] }).cert, issue({ hosts: ['a'] }).cert].map(
      pem => new X509Certificate(pem),
    )
    for (const { validFrom, validTo, serialNumber } of certificates) {
      expect(Date.parse(validTo) - Date.parse(validFrom)).toBe(86_400_000)
      expect(Math.abs(Date.now() - 3_600_000 - Date.parse(validFrom))).toBeLessThan(600_000)
      expect(serialNumber).toMatch(/^01[0-9A-F]{30}$/)
    }
    expect(new Set(certificates.map(each => each.serialNumber)).size).toBe(3)
    expect(new Set(certificates.map(each => each.fingerprint256)).size).toBe(3)
  })

  test('issues one that has expired, and one for longer than its own', async () => {
    const { issue } = await createCertificateAuthority()
    const until = (expiresAt: number): X509Certificate =>
      new X509Certificate(issue({ hosts: ['a'], expiresAt }).cert)
    const expired = until(Date.UTC(2026, 0, 31))
    expect([expired.validFrom, expired.validTo]).toEqual([
      'Jan 30 00:00:00 2026 GMT',
      'Jan 31 00:00:00 2026 GMT',
    ])
    const long = until(Date.UTC(2049, 0, 1))
    expect(Date.parse(long.validFrom)).toBeLessThan(Date.now())
    expect(long.validTo).toBe('Jan  1 00:00:00 2049 GMT')
    expect(() => until(Date.UTC(2051, 0, 1))).toThrow(/^expiresAt must be at most/)
  })

  test('writes every form of an IPv6 address', async () => {
    const { issue } = await createCertificateAuthority()
    const hosts = ['::1', '::', '1::', '1:2:3:4:5:6:7:8', '::ffff:10.0.0.1', '2001:DB8::0a']
    const { subjectAltName } = new X509Certificate(issue({ hosts }).cert)
    expect(subjectAltName?.replaceAll('IP Address:', '').split(', ')).toEqual([
      '0:0:0:0:0:0:0:1',
      '0:0:0:0:0:0:0:0',
      '1:0:0:0:0:0:0:0',
      '1:2:3:4:5:6:7:8',
      '0:0:0:0:0:FFFF:A00:1',
      '2001:DB8:0:0:0:0:0:A',
    ])
  })

  test.each([
    ['no hosts', [], /^hosts must be a list of at least one/],
    ['an empty host', ['localhost', ''], /^hosts\[1\] must be a host name or an IP address$/],
    ['a URL', ['https://localhost'], /^hosts\[0\]/],
    ['a host with a port', ['localhost:443'], /^hosts\[0\]/],
    ['an address with a zone', ['fe80::1%eth0'], /^hosts\[0\]/],
    ['a second name in disguise', ['a\0b'], /^hosts\[0\]/],
    ['letters beyond ASCII', ['bücher.example'], /^hosts\[0\]/],
  ])('refuses %s', async (_name, hosts, message) => {
    const { issue } = await createCertificateAuthority()
    expect(() => issue({ hosts })).toThrow(message)
    expect(() => issue({ hosts })).toThrow(expect.objectContaining({ code: 'VALIDATION' }))
  })
})

describe('an HTTPS server', () => {
  test('is reached under every one of its names by who trusts its authority', async () => {
    const server = await startHTTPSServer({
      handler: (request, response) => void response.end(`you asked for ${request.url}`),
    })
    try {
      const { ca, port, url } = server
      expect(url).toBe(`https://localhost:${port}`)
      expect(await fetchText(`${url}/a?b`, { ca })).toBe('200 you asked for /a?b')
      expect(await fetchText(`https://127.0.0.1:${port}/`, { ca })).toBe('200 you asked for /')
      const overIPv6 = await fetchText(`https://[::1]:${port}/`, { ca }).catch(error => error.code)
      expect(['200 you asked for /', 'EADDRNOTAVAIL']).toContain(overIPv6)
    } finally {
      await server.close()
    }
    expect(await failureOf(fetchText(server.url, { ca: server.ca }))).toMatchObject({
      code: 'ECONNREFUSED',
    })
  })

  test('is refused by who does not trust its authority', async () => {
    const server = await startHTTPSServer()
    const { ca: another } = await createCertificateAuthority()
    try {
      expect(await fetchText(server.url, { ca: server.ca })).toBe('200 ok')
      for (const trust of [{}, { ca: another }])
        expect(await failureOf(fetchText(server.url, trust))).toMatchObject({
          code: expect.stringMatching(/^UNABLE_TO_/),
        })
    } finally {
      await server.close()
    }
  })

  test('is refused under a name its certificate is not for', async () => {
    const server = await startHTTPSServer({ hosts: ['api.example'] })
    try {
      const { ca, port, url } = server
      for (const wrong of [url, `https://127.0.0.1:${port}`])
        expect(await failureOf(fetchText(wrong, { ca }))).toMatchObject({
          code: 'ERR_TLS_CERT_ALTNAME_INVALID',
        })
      expect(await fetchText(url, { ca, servername: 'api.example' })).toBe('200 ok')
    } finally {
      await server.close()
    }
  })

  test('answers 500 when its handler throws, and goes on', async () => {
    let isBroken = true
    const server = await startHTTPSServer({
      async handler(_request, response) {
        if (isBroken) throw new Error('broken')
        response.end('mended')
      },
    })
    try {
      expect(await fetchText(server.url, { ca: server.ca })).toBe('500 Error: broken')
      isBroken = false
      expect(await fetchText(server.url, { ca: server.ca })).toBe('200 mended')
    } finally {
      await server.close()
    }
  })

  test('closes while connections are open, even those that have not said anything', async () => {
    const server = await startHTTPSServer({ handler: () => undefined })
    const idle = connect(server.port, '127.0.0.1')
    await new Promise(resolve => idle.once('connect', resolve))
    const unanswered = failureOf(fetchText(server.url, { ca: server.ca }))
    await new Promise(resolve => setTimeout(resolve, 100))
    await server.close()
    expect(await unanswered).toMatchObject({ code: 'ECONNRESET' })
    idle.destroy()
  })
})
