import { once } from 'node:events'
import { inspect } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { DataEngine } from '@sluice/engine'
import { createEgress } from '../../../client/egress/egress.js'
import { checkEgress } from '../../../client/egress/options.js'
import { type Config, createClient } from '../../../index.js'
import { failureOf, until } from '../../support/waiting.js'
import {
  pems,
  type RealProxy,
  startProxy,
  startQuickEngine,
  startServer,
  startTLSFront,
  type TestServer,
} from '../../support/wire/egress.js'

const feedID = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const password = 'p@ss word%/é'
const credentials = `someone:${encodeURIComponent(password)}`

let engine: DataEngine
let front: TestServer
const closing: (() => Promise<void>)[] = []

beforeAll(async () => {
  engine = await startQuickEngine(feedID)
  front = await startTLSFront(Number(new URL(engine.endpoint).port))
})
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})
afterAll(async () => {
  await front.close()
  await engine.close()
})

/** A client of the engine behind TLS. */
function clientOf(config: Partial<Config>) {
  const client = createClient({
    apiKey: engine.apiKey,
    userSecret: engine.userSecret,
    endpoint: `https://localhost:${front.port}`,
    wsEndpoint: `wss://localhost:${front.port}`,
    tls: { ca: pems.ca },
    retryAttempts: 0,
    ...config,
  })
  closing.push(() => client.close())
  return client
}

async function proxyOf(options?: Parameters<typeof startProxy>[0]): Promise<RealProxy> {
  const proxy = await startProxy(options)
  closing.push(proxy.close)
  return proxy
}

/** Opens a stream, and waits for a report of it. */
async function streamOf(client: ReturnType<typeof clientOf>, options = {}) {
  const stream = client.createStream(feedID, options)
  stream.on('error', () => undefined)
  let reports = 0
  stream.on('report', () => reports++)
  await stream.connect()
  await until(() => reports > 0)
  return { stream, count: () => reports }
}

describe('through a proxy', () => {
  test.each([
    ['without authentication', {}, ''],
    ['with authentication', { username: 'someone', password }, `${credentials}@`],
    [
      'over TLS, with authentication',
      { username: 'someone', password, isSecure: true },
      `${credentials}@`,
    ],
  ])('%s go requests and streams', async (_name, options, user) => {
    const proxy = await proxyOf(options)
    const client = clientOf({ proxy: proxy.url.replace('//', `//${user}`) })
    expect((await client.getLatestReport(feedID)).feedID).toBe(feedID)
    await streamOf(client)
    expect(new Set(proxy.asked)).toEqual(new Set([`localhost:${front.port}`]))
    expect(proxy.asked.length).toBeGreaterThanOrEqual(2)
  })

  test('without TLS to the service, too', async () => {
    const proxy = await proxyOf()
    const { endpoint, wsEndpoint } = engine
    const client = createClient({
      apiKey: engine.apiKey,
      userSecret: engine.userSecret,
      endpoint,
      wsEndpoint,
      proxy: proxy.url,
    })
    closing.push(() => client.close())
    await client.listFeeds()
    await streamOf(client)
    expect(new Set(proxy.asked)).toEqual(new Set([new URL(endpoint).host]))
  })

  test('requests keep their tunnel', async () => {
    const proxy = await proxyOf()
    const client = clientOf({ proxy: proxy.url })
    for (let at = 0; at < 8; at++) await client.getLatestReport(feedID)
    // undici may open a second one before the first answer has ended.
    expect(proxy.asked.length).toBeLessThanOrEqual(2)
  })

  test('a stream reconnects when the proxy closes it, and loses nothing', async () => {
    const proxy = await proxyOf()
    const client = clientOf({ proxy: proxy.url, retryAttempts: 5, retryDelay: 5 })
    const stream = client.createStream(feedID, { reconnectInterval: 5 })
    const times: number[] = []
    const losses: Error[] = []
    stream.on('report', ({ observationsTimestamp }) => times.push(observationsTimestamp))
    stream.on('error', () => undefined)
    stream.on('gap', gap => losses.push(new Error(JSON.stringify(gap))))
    await stream.connect()
    await until(() => times.length > 5)
    proxy.cut()
    const before = times.length
    await until(() => times.length > before + 20)
    expect(stream.getMetrics().fullReconnects).toBe(1)
    expect(losses).toEqual([])
    const newest = Math.max(...times)
    const published = engine
      .ledger()
      .map(entry => entry.observationsTimestamp)
      .filter(time => time >= (times[0] as number) && time <= newest)
    // The reports that the stream fetches may come after those that follow them.
    await until(() => published.every(time => times.includes(time)))
    expect(times.filter(time => time <= newest).sort()).toEqual(published)
  })

  test('a request that was under way fails on the network', async () => {
    let isThere = false
    const mute = await startServer(() => {
      isThere = true
    })
    closing.push(mute.close)
    const proxy = await proxyOf()
    const client = clientOf({ proxy: proxy.url, endpoint: `http://localhost:${mute.port}` })
    const failure = failureOf(client.listFeeds())
    await until(() => isThere)
    proxy.cut()
    expect(await failure).toMatchObject({ code: 'API_NETWORK', isRetryable: true })
  })
})

describe('a proxy that refuses', () => {
  const statuses = [
    [403, false],
    [502, true],
    [503, true],
  ] as const
  test.each(statuses)('with %d is a ProxyError, retryable: %s', async (status, isRetryable) => {
    const proxy = await proxyOf()
    proxy.refuseWith(status)
    const client = clientOf({ proxy: proxy.url })
    const expected = {
      name: 'ProxyError',
      code: 'PROXY',
      statusCode: status,
      isRetryable,
      message: `the proxy ${proxy.url} does not connect to localhost:${front.port}: it answered ${status}`,
    }
    expect(await failureOf(client.getLatestReport(feedID))).toMatchObject(expected)
    const stream = client.createStream(feedID, { maxReconnectAttempts: 0 })
    stream.on('error', () => undefined)
    const failure = await failureOf(stream.connect())
    expect(isRetryable ? failure.cause : failure).toMatchObject(expected)
  })

  test('the user is told of a missing and of a wrong password, and never shown it', async () => {
    const proxy = await proxyOf({ username: 'someone', password })
    const missing = await failureOf(clientOf({ proxy: proxy.url }).listFeeds())
    expect(missing.message).toMatch(/it answered 407: its URL lacks user name and password$/)
    const secret = 'wr0ng-passw0rd'
    const lines: unknown[] = []
    const log = (...given: unknown[]): void => void lines.push(given)
    const client = clientOf({
      proxy: proxy.url.replace('//', `//someone:${secret}@`),
      logging: {
        logger: { debug: log, info: log, warn: log, error: log },
        logLevel: 0,
        enableConnectionDebug: true,
      },
    })
    const wrong = await failureOf(client.listFeeds())
    expect(wrong).toMatchObject({ code: 'PROXY', statusCode: 407, isRetryable: false })
    expect(wrong.message).toMatch(/its URL has the wrong user name and password$/)
    const stream = client.createStream(feedID)
    stream.on('error', error => lines.push(error))
    const refused = await failureOf(stream.connect())
    const shown = inspect([wrong, refused, client, stream, lines], { depth: 20, showHidden: true })
    expect(shown).toContain('PROXY')
    expect(shown).not.toContain(secret)
    expect(shown).not.toContain(Buffer.from(`someone:${secret}`).toString('base64'))
  })

  test('a stream that was open tries again slowly, and goes on when the proxy lets it', async () => {
    const proxy = await proxyOf()
    const client = clientOf({ proxy: proxy.url })
    const { stream, count } = await streamOf(client, { reconnectInterval: 5 })
    const statuses: string[] = []
    stream.on('status', ({ type }) => statuses.push(type))
    proxy.refuseWith(403)
    proxy.cut()
    await until(() => proxy.asked.length >= 2)
    proxy.refuseWith(0)
    const before = count()
    await until(() => count() > before + 3)
    expect(statuses).toContain('reconnecting')
  })
})

describe('a proxy that is out of order', () => {
  test('is a ProxyError where nothing listens', async () => {
    const { port, close } = await startServer(() => undefined)
    await close()
    const client = clientOf({ proxy: `http://127.0.0.1:${port}` })
    const failure = await failureOf(client.listFeeds())
    expect(failure).toMatchObject({ code: 'PROXY', statusCode: undefined, isRetryable: true })
    expect(failure.message).toMatch(
      /^the proxy \S+ can't be reached: connect ECONNREFUSED 127\.0\.0\.1:\d+$/,
    )
  })

  const answers = [
    ['closes at once', '', /socket hang up|ECONNRESET/],
    ['speaks something else', 'SSH-2.0-OpenSSH_9.6\r\n\r\n', /Parse Error/],
    ['sends headers without end', `HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(20_000)}`, /Parse Error/],
  ] as const
  test.each(answers)('%s: a ProxyError', async (_name, answer, reason) => {
    const server = await startServer(socket => {
      socket.once('data', () => socket.end(answer))
    })
    closing.push(server.close)
    const client = clientOf({ proxy: `http://127.0.0.1:${server.port}` })
    const failure = await failureOf(client.listFeeds())
    expect(failure).toMatchObject({ code: 'PROXY', isRetryable: true })
    expect(failure.message).toMatch(reason)
  })

  test.each([100, 102, 103])('answers %d first: a ProxyError, tried again', async status => {
    const server = await startServer(socket => {
      socket.once('data', () =>
        socket.write(`HTTP/1.1 ${status} First\r\n\r\nHTTP/1.1 200 OK\r\n\r\n`),
      )
    })
    closing.push(server.close)
    const client = clientOf({ proxy: `http://127.0.0.1:${server.port}` })
    const failure = await failureOf(client.listFeeds())
    expect(failure).toMatchObject({ code: 'PROXY', statusCode: status, isRetryable: true })
    expect(failure.message).toMatch(/it answered 10\d, which is an interim answer$/)
  })

  test('passes on what comes with its answer', async () => {
    const server = await startServer(socket => {
      socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\nfirst'))
    })
    closing.push(server.close)
    const settings = checkEgress({ proxy: `http://127.0.0.1:${server.port}` })
    if (settings === undefined) throw new Error('there are no settings')
    const { openSocket } = createEgress(settings, new AbortController().signal)
    const socket = await openSocket({ host: 'a.example', port: 80, isSecure: false })
    const [first] = await once(socket, 'data')
    expect(String(first)).toBe('first')
    socket.destroy()
  })

  test('keeps no connection of a request or stream that has been given up', async () => {
    let open = 0
    const mute = await startServer(socket => {
      open++
      socket.resume().on('close', () => open--)
    })
    closing.push(mute.close)
    const client = clientOf({ proxy: `http://127.0.0.1:${mute.port}`, timeout: 50 })
    expect(await failureOf(client.listFeeds())).toMatchObject({ code: 'API_TIMEOUT' })
    const stream = client.createStream(feedID, { connectTimeout: 50, maxReconnectAttempts: 0 })
    stream.on('error', () => undefined)
    await failureOf(stream.connect())
    await client.close()
    await until(() => open === 0)
  })

  test('an https proxy of another authority is a ProxyError that names tls.ca', async () => {
    const proxy = await proxyOf({ isSecure: true })
    const client = clientOf({ proxy: proxy.url, tls: { ca: pems.otherCa } })
    const failure = await failureOf(client.listFeeds())
    expect(failure).toMatchObject({ code: 'PROXY' })
    expect(failure.message).toMatch(/give the certificate of the authority .* as tls\.ca/)
  })
})

describe('the proxy of the environment', () => {
  const names = ['https_proxy', 'http_proxy', 'all_proxy', 'no_proxy']
  const all = [...names, ...names.map(name => name.toUpperCase())]
  let before: Record<string, string | undefined>
  beforeEach(() => {
    before = Object.fromEntries(all.map(name => [name, process.env[name]]))
    for (const name of all) delete process.env[name]
  })
  afterEach(() => {
    for (const name of all) {
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
    }
  })

  test('is used when it is asked for, and only then', async () => {
    const proxy = await proxyOf()
    process.env.HTTPS_PROXY = proxy.url
    await clientOf({}).listFeeds()
    expect(proxy.asked).toEqual([])
    const client = clientOf({ proxy: 'env' })
    await client.listFeeds()
    await streamOf(client)
    expect(proxy.asked).toHaveLength(2)
  })

  describe.each([
    ['http', {}],
    ['https', { isSecure: true }],
  ])('over %s', (_scheme, options) => {
    /** Entries of NO_PROXY, and whether they name the host. */
    const rows: readonly (readonly [string, string, boolean])[] = [
      ['localhost', 'localhost', true],
      ['.localhost', 'localhost', true],
      ['example.com, localhost:PORT', 'localhost', true],
      ['localhost:1', 'localhost', false],
      ['host', 'localhost', false],
      ['127.0.0.0/8', '127.0.0.1', true],
      ['127.0.0.1:PORT', '127.0.0.1', true],
      ['10.0.0.0/8, 127.0.1.0/24', '127.0.0.1', false],
      ['127.0.0.0/8', 'localhost', false],
    ]
    test.each(rows)('NO_PROXY %s: %s is reached without it: %s', async (entry, host, isDirect) => {
      const proxy = await proxyOf({ username: 'someone', password, ...options })
      process.env.HTTPS_PROXY = proxy.url.replace('//', `//${credentials}@`)
      process.env.NO_PROXY = entry.replace('PORT', String(front.port))
      const at = `${host}:${front.port}`
      const client = clientOf({
        proxy: 'env',
        endpoint: `https://${at}`,
        wsEndpoint: `wss://${at}`,
      })
      await client.listFeeds()
      await streamOf(client)
      expect(new Set(proxy.asked)).toEqual(new Set(isDirect ? [] : [at]))
    })
  })

  test('is shown without its password', async () => {
    const proxy = await proxyOf({ username: 'someone', password })
    process.env.HTTPS_PROXY = proxy.url.replace('//', '//someone:wr0ng-passw0rd@')
    const client = clientOf({ proxy: 'env' })
    const stream = client.createStream(feedID)
    stream.on('error', () => undefined)
    const failures = [await failureOf(client.listFeeds()), await failureOf(stream.connect())]
    for (const failure of failures) expect(failure.message).toContain(proxy.url)
    const settings = checkEgress({ proxy: 'env' })
    const found = settings?.findProxy({ host: 'localhost', port: front.port, isSecure: true })
    const shown = inspect([failures, client, stream, settings, found], {
      depth: 20,
      showHidden: true,
    })
    expect(shown).toContain(proxy.url)
    expect(shown).not.toMatch(/wr0ng-passw0rd|c29tZW9uZT/)
  })

  test('is not used for a name below a name of NO_PROXY', async () => {
    const proxy = await proxyOf()
    process.env.ALL_PROXY = proxy.url
    process.env.NO_PROXY = 'nowhere.invalid'
    const client = clientOf({ proxy: 'env', endpoint: 'https://api.nowhere.invalid' })
    expect(await failureOf(client.listFeeds())).toMatchObject({ code: 'API_NETWORK' })
    expect(proxy.asked).toEqual([])
  })

  test('is an error of a connection that would take one that can not be used', async () => {
    const proxy = await proxyOf()
    process.env.ALL_PROXY = 'socks5://someone:w0rd@127.0.0.1:1'
    process.env.HTTPS_PROXY = proxy.url
    await clientOf({ proxy: 'env' }).listFeeds()
    delete process.env.HTTPS_PROXY
    const client = clientOf({ proxy: 'env', retryAttempts: 5 })
    const expected = {
      code: 'VALIDATION',
      message: 'ALL_PROXY must begin with http:// or https://',
    }
    expect(await failureOf(client.listFeeds())).toMatchObject(expected)
    const stream = client.createStream(feedID)
    stream.on('error', () => undefined)
    expect(await failureOf(stream.connect())).toMatchObject(expected)
  })

  test('is none where no variable is set', async () => {
    const { endpoint, wsEndpoint, apiKey, userSecret } = engine
    const client = createClient({ endpoint, wsEndpoint, apiKey, userSecret, proxy: 'env' })
    closing.push(() => client.close())
    await client.listFeeds()
  })
})
