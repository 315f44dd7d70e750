import { execFile, spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import {
  parseExceptions,
  parseProxies,
  proxiesOf,
  targetOf,
} from '../../../client/egress/proxies.js'

const run = promisify(execFile)

/** Since 7.86 curl knows ranges of addresses. */
function hasCurl(): boolean {
  const { stdout } = spawnSync('curl', ['--version'], { encoding: 'utf8' })
  const [, major = 0, minor = 0] = /^curl (\d+)\.(\d+)/.exec(stdout ?? '') ?? []
  return Number(major) * 1000 + Number(minor) >= 7086
}

describe('NO_PROXY', () => {
  /** A list, a host, and whether the list names it. */
  const rows: readonly (readonly [string, string, boolean])[] = [
    ['', 'a.example', false],
    ['*', 'a.example', true],
    ['a.example', 'a.example', true],
    ['A.Example', 'a.eXample', true],
    ['a.example', 'b.a.example', true],
    ['a.example', 'ba.example', false],
    ['a.example', 'example', false],
    ['.a.example', 'b.a.example', true],
    ['.a.example', 'a.example', true],
    ['b.example,a.example', 'a.example', true],
    ['b.example, a.example', 'a.example', true],
    ['b.example a.example', 'a.example', true],
    [',,a.example,', 'a.example', true],
    ['a.example.', 'a.example', true],
    ['10.1.2.3', '10.1.2.3', true],
    ['10.1.2.3', '10.1.2.4', false],
    ['0.2.3', '10.0.2.3', false],
    ['10.0.0.0/8', '10.200.3.4', true],
    ['10.0.0.0/8', '11.0.0.1', false],
    ['192.168.5.0/26', '192.168.5.63', true],
    ['192.168.5.0/26', '192.168.5.64', false],
    ['10.1.2.3/32', '10.1.2.3', true],
    ['10.0.0.0/8', '10.example', false],
    ['::1', '[::1]', true],
    ['::2', '[::1]', false],
  ]
  /** What curl has not: ports, stars, brackets, and addresses in another form. */
  const ours: typeof rows = [
    ['*.a.example', 'b.a.example', true],
    ['*.a.example', 'c.example', false],
    ['a.example:1', 'a.example', false],
    ['[::1]', '[::1]', true],
    ['[::1]:1', '[::1]', false],
    ['0:0:0:0:0:0:0:1', '[::1]', true],
    ['10.0.0.0/0', '11.1.1.1', true],
    ['a.example', 'a.example.', true],
    ['example', 'a.example', true],
  ]

  test.each([...rows, ...ours])('%j and %s: %s', (list, host, expected) => {
    expect(parseExceptions(list)(targetOf(new URL(`https://${host}/`)))).toBe(expected)
  })

  test('a port is that of the connection', () => {
    const isExcepted = parseExceptions('a.example:8443, [::1]:443')
    expect(isExcepted(targetOf(new URL('wss://a.example:8443')))).toBe(true)
    expect(isExcepted(targetOf(new URL('wss://a.example')))).toBe(false)
    expect(isExcepted(targetOf(new URL('wss://[::1]')))).toBe(true)
    const isAtPort = parseExceptions('*:4711')
    expect(isAtPort(targetOf(new URL('http://a.example:4711')))).toBe(true)
    expect(isAtPort(targetOf(new URL('http://10.1.2.3:4711')))).toBe(true)
    expect(isAtPort(targetOf(new URL('http://a.example:4712')))).toBe(false)
  })

  const testWithCurl = hasCurl() ? test : test.skip
  testWithCurl('curl reads the lists alike', async () => {
    const direct = createServer((_request, response) => response.end('direct\n'))
    const proxy = createServer().on('connect', (_request, socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nproxy\n'))
    })
    for (const server of [direct, proxy])
      await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const [to, through] = [direct, proxy].map(server => (server.address() as AddressInfo).port)
    const args = rows.flatMap(([list, host], at) => [
      ...(at === 0 ? [] : ['--next']),
      ...['--silent', '--disable', '--proxy', `http://127.0.0.1:${through}`, '--noproxy', list],
      ...['--connect-to', `::127.0.0.1:${to}`, `http://${host}/`],
    ])
    try {
      const { stdout } = await run('curl', args)
      const expected = rows.map(([, , isDirect]) => (isDirect ? 'direct' : 'proxy'))
      expect(stdout.trim().split('\n')).toEqual(expected)
    } finally {
      direct.close()
      proxy.close()
    }
  })
})

describe('the variables', () => {
  const of = (env: Record<string, string>, url: string): string | undefined =>
    proxiesOf(env)?.(targetOf(new URL(url)))?.url

  test.each([
    ['HTTPS_PROXY', 'https://a.example', 'http://p:1'],
    ['https_proxy', 'wss://a.example', 'http://p:1'],
    ['HTTPS_PROXY', 'http://a.example', undefined],
    ['HTTP_PROXY', 'ws://a.example', 'http://p:1'],
    ['http_proxy', 'http://a.example', 'http://p:1'],
    ['HTTP_PROXY', 'https://a.example', undefined],
    ['ALL_PROXY', 'https://a.example', 'http://p:1'],
    ['all_proxy', 'ws://a.example', 'http://p:1'],
  ])('%s, for %s: %s', (name, url, expected) => {
    expect(of({ [name]: 'http://p:1' }, url)).toBe(expected)
  })

  test('the one in lower case wins, that of the scheme wins over that for all, and empty is none', () => {
    const env = {
      HTTPS_PROXY: 'http://upper:1',
      https_proxy: 'http://lower:1',
      ALL_PROXY: 'http://all:1',
    }
    expect(of(env, 'https://a.example')).toBe('http://lower:1')
    expect(of({ ...env, https_proxy: '' }, 'https://a.example')).toBe('http://upper:1')
    expect(of(env, 'http://a.example')).toBe('http://all:1')
    expect(proxiesOf({ HTTPS_PROXY: '', NO_PROXY: '*' })).toBeUndefined()
  })

  test('a proxy without a scheme is one of http', () => {
    expect(of({ https_proxy: 'someone:word@p.example:3128' }, 'https://a')).toBe(
      'http://p.example:3128',
    )
  })

  test.each(['no_proxy', 'NO_PROXY'])('%s excepts hosts', name => {
    const env = { ALL_PROXY: 'http://p:1', [name]: 'b.example' }
    expect(of(env, 'https://b.example')).toBeUndefined()
    expect(of(env, 'https://a.example')).toBe('http://p:1')
  })

  test('an error names the variable, and quotes nothing of it', () => {
    const env = { all_proxy: 'socks5://someone:word@p:1' }
    for (let times = 0; times < 2; times++)
      expect(() => of(env, 'https://a')).toThrow(
        /^all_proxy must begin with http:\/\/ or https:\/\/$/,
      )
  })

  test('one that is not used is no error', () => {
    const env = { all_proxy: 'socks5://p:1', https_proxy: 'http://q:1', no_proxy: 'b.example' }
    expect(of(env, 'https://a.example')).toBe('http://q:1')
    expect(of(env, 'http://b.example')).toBeUndefined()
    expect(() => of(env, 'http://a.example')).toThrow('all_proxy must begin with')
  })
})

describe('a proxy', () => {
  test('keeps what it knows of the user to itself', () => {
    const proxy = parseProxies('https://so%3Ame:w%C3%B6rd@p.example')?.(
      targetOf(new URL('https://a')),
    )
    expect(proxy).toMatchObject({
      url: 'https://p.example',
      host: 'p.example',
      port: 443,
      isSecure: true,
    })
    expect(proxy?.authorization()).toBe(`Basic ${Buffer.from('so:me:wörd').toString('base64')}`)
    expect(JSON.stringify(proxy)).not.toContain('w')
  })

  test('of an IPv6 address has no brackets where it is connected to', () => {
    const proxy = parseProxies('http://[::1]:3128')?.(targetOf(new URL('https://a')))
    expect(proxy).toMatchObject({ url: 'http://[::1]:3128', host: '::1', port: 3128 })
  })
})
