// What a user would lose if undici's own agents found the proxies and opened the tunnels. Each row is a promise of the pages on
// the network. A row fails once undici keeps its promise: then that part of client/egress can go.
import { afterEach, describe, expect, test } from '@jest/globals'
import { EnvHttpProxyAgent, fetch, ProxyAgent } from 'undici'
import { proxiesOf, targetOf } from '../../../client/egress/proxies.js'
import { createClient } from '../../../index.js'
import { read } from '../../support/sources.js'
import { tableUnder } from '../../support/tables.js'
import { failureOf } from '../../support/waiting.js'
import { startProxy, startServer } from '../../support/wire/egress.js'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

/** Nothing listens there. */
const proxy = 'http://127.0.0.1:1'

/** Whether undici connects to a host without a proxy. */
async function isDirectByUndici(
  url: string,
  options: { readonly httpProxy?: string; readonly httpsProxy?: string; readonly noProxy?: string },
): Promise<boolean> {
  let isDirect = false
  const dispatcher = new EnvHttpProxyAgent({
    ...{ httpProxy: '', httpsProxy: '', noProxy: '', ...options },
    connect(_target, callback) {
      isDirect = true
      callback(new Error('this connection has no proxy'), null)
    },
  })
  closing.push(() => dispatcher.destroy())
  await failureOf(fetch(url, { dispatcher }))
  return isDirect
}

/** Whether sluice connects to a host without a proxy. */
const isDirect = (url: string, env: Record<string, string>): boolean =>
  proxiesOf(env)?.(targetOf(new URL(url))) === undefined

describe('NO_PROXY', () => {
  /** An entry, a URL that it names, and whether undici knows that. */
  const rows: readonly (readonly [string, string, boolean])[] = [
    ['*', 'https://a.example', true],
    ['*:8443', 'https://a.example:8443', false],
    ['example.com', 'https://api.example.com', true],
    ['.example.com', 'https://example.com', true],
    ['*.example.com', 'https://api.example.com', true],
    ['example.com:8443', 'https://api.example.com:8443', true],
    ['10.1.2.3', 'https://10.1.2.3', true],
    ['::1', 'https://[::1]', false],
    ['[::1]:8443', 'https://[::1]:8443', true],
    ['10.0.0.0/8', 'https://10.1.2.3', false],
  ]

  test.each(rows)('%s names %s; by undici: %s', async (noProxy, url, expected) => {
    expect(isDirect(url, { ALL_PROXY: proxy, NO_PROXY: noProxy })).toBe(true)
    expect(await isDirectByUndici(url, { httpProxy: proxy, httpsProxy: proxy, noProxy })).toBe(
      expected,
    )
  })

  test('has every entry of the page', () => {
    const table = tableUnder('Entries of `NO_PROXY`', read('docs/reference/network.md'))
    const entries = table.flatMap(({ entry = '' }) =>
      Array.from(entry.matchAll(/`([^`]+)`/g), ([, code]) => code),
    )
    expect(rows.map(([entry]) => entry)).toEqual(entries)
  })
})

test('HTTP_PROXY is for http alone; by undici, for https, too', async () => {
  const url = 'https://a.example'
  expect(isDirect(url, { HTTP_PROXY: proxy })).toBe(true)
  expect(await isDirectByUndici(url, { httpProxy: proxy })).toBe(false)
})

/** An error, its cause, and so on. */
const withCauses = (error: Error): readonly Error[] =>
  error.cause instanceof Error ? [error, ...withCauses(error.cause)] : [error]

describe('a proxy', () => {
  const endpoint = 'https://a.example'

  /** What a request through a proxy fails with, of sluice and of undici. */
  async function failuresOf(url: string): Promise<readonly [Error, Error]> {
    const config = { apiKey: 'key', userSecret: 'secret', endpoint, wsEndpoint: 'wss://a.example' }
    const client = createClient({ ...config, proxy: url, retryAttempts: 0 })
    const dispatcher = new ProxyAgent(url)
    closing.push(
      () => client.close(),
      () => dispatcher.destroy(),
    )
    const thrown = await failureOf(fetch(endpoint, { dispatcher }))
    return [await failureOf(client.listFeeds()), thrown.cause as Error]
  }

  test.each([
    [407, false],
    [403, false],
    [503, true],
  ])(
    'that answers %d: sluice tries again: %s; the error of undici has no status',
    async (status, isRetryable) => {
      const { url, refuseWith, close } = await startProxy()
      closing.push(close)
      refuseWith(status)
      const [ours, theirs] = await failuresOf(url)
      expect(ours).toMatchObject({ code: 'PROXY', statusCode: status, isRetryable })
      for (const each of withCauses(theirs)) expect(each).not.toHaveProperty('statusCode')
      expect(theirs.message).toBe('Request was cancelled.')
    },
  )

  test('gets a name without a password; from undici it gets none', async () => {
    const seen: (string | undefined)[] = []
    const { port, close } = await startServer(socket => {
      socket.once('data', data => {
        seen.push(/^proxy-authorization: (.*)\r$/im.exec(String(data))?.[1])
        socket.end('HTTP/1.1 407 No\r\n\r\n')
      })
    })
    closing.push(close)
    await failuresOf(`http://token@127.0.0.1:${port}`)
    expect(seen).toEqual([undefined, `Basic ${Buffer.from('token:').toString('base64')}`])
  })
})
