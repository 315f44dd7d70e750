import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { describe, expect, jest, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import fc from 'fast-check'
import { createClient } from '../../client/client.js'
import type { Call, Reply } from '../../client/contract/call.js'
import type { WebCrypto } from '../../crypto/crypto.js'
import {
  type Config,
  createClient as createPresetClient,
  endpoints,
  generateAuthHeaders,
  generateAuthHeadersAsync,
  hmacAuth,
  LogLevel,
  type Plugin,
  retry,
  type Status,
  ValidationError,
} from '../../index.js'
import { anyCharacter } from '../support/characters.js'
import { closeAfterEach } from '../support/closing.js'
import { randomRuns } from '../support/random.js'
import { failureOf, until } from '../support/waiting.js'

const ethUsd = `0x0003${'ab'.repeat(30)}`
const closers = closeAfterEach()

interface Vector {
  readonly method: string
  readonly path: string
  readonly body: string
  readonly apiKey: string
  readonly userSecret: string
  readonly timestamp: number
  readonly signature: string
}
const { vectors } = JSON.parse(readFileSync(join(__dirname, '../vectors/hmac.json'), 'utf8')) as {
  vectors: Vector[]
}

describe('generateAuthHeaders', () => {
  test.each(vectors)('signs $method $path as published', async vector => {
    const { method, path, body, apiKey, userSecret, timestamp, signature } = vector
    const url = `https://api.example${path}`
    const expected = {
      Authorization: apiKey,
      'X-Authorization-Timestamp': String(timestamp),
      'X-Authorization-Signature-SHA256': signature,
    }
    expect(generateAuthHeaders(apiKey, userSecret, method, url, body, timestamp)).toEqual(expected)
    // The platform's WebCrypto replaces the default one.
    expect(
      await generateAuthHeadersAsync(
        apiKey,
        userSecret,
        method.toLowerCase(),
        url,
        body,
        timestamp,
        globalThis.crypto,
      ),
    ).toEqual(expected)
  })

  test.each([
    ['GET', undefined, 'url is required'],
    ['GET', '/api/v1/feeds', 'url must be an absolute URL'],
    [undefined, 'https://api.example', 'method is required'],
  ])('refuses %p %p', async (method, url, message) => {
    const error = { name: 'ValidationError', message }
    const request = ['key', 'secret', method as never, url as never] as const
    expect(() => generateAuthHeaders(...request)).toThrow(expect.objectContaining(error))
    await expect(generateAuthHeadersAsync(...request)).rejects.toMatchObject(error)
  })

  test('signs requests in the three shapes in which programs use it', async () => {
    await using engine = await startDataEngine({ intervalMs: 0 })
    const { apiKey, userSecret, endpoint, feeds } = engine
    const url = `${endpoint}/api/v1/reports/latest?feedID=${feeds[0]}`
    const headers = () => generateAuthHeaders(apiKey, userSecret, 'GET', url)
    const shapes: readonly RequestInit[] = [
      { headers: { ...headers(), 'Content-Type': 'application/json' } },
      { headers: headers() },
      { headers: new Headers(Object.entries(headers())) },
      { headers: await headers() },
    ]
    for (const shape of shapes) expect((await fetch(url, shape)).status).toBe(200)
  })

  test('throws where there is only WebCrypto, and names its sister', async () => {
    jest.doMock('../../platform/sha256.js', () => ({ sha256: undefined }))
    await jest.isolateModulesAsync(async () => {
      const web = await import('../../plugins/hmac-auth/auth-headers.js')
      const request = ['key', 'secret', 'GET', 'https://x.example/a', '', 7] as const
      expect(() => web.generateAuthHeaders(...request)).toThrow('await generateAuthHeadersAsync')
      expect(await web.generateAuthHeadersAsync(...request)).toEqual(
        generateAuthHeaders(...request),
      )
    })
    jest.dontMock('../../platform/sha256.js')
  })

  test('signs what the official client signs', async () => {
    const official = load('@chainlink/data-streams-sdk') as {
      generateAuthHeaders: typeof generateAuthHeaders
    }
    const request = [
      'key',
      'secret',
      'GET',
      'https://x.example/api/v1/ws?feedIDs=0xab,0xcd',
      undefined,
      1_753_900_000_123,
    ] as const
    expect(generateAuthHeaders(...request)).toEqual(official.generateAuthHeaders(...request))
  })

  test('signs alike by Node and by WebCrypto, whatever the secret and the body', async () => {
    const text = fc.string({ unit: anyCharacter, minLength: 1, maxLength: 150 })
    await fc.assert(
      fc.asyncProperty(text, fc.oneof(text, fc.uint8Array()), async (secret, body) => {
        const request = ['key', secret, 'POST', 'https://x.example/a?b=c', body, 7] as const
        expect(generateAuthHeaders(...request)).toEqual(
          await generateAuthHeadersAsync(...request, globalThis.crypto),
        )
      }),
      randomRuns(10, 100),
    )
  })
})

describe('hmacAuth', () => {
  test.each([
    ['apiKey', undefined],
    ['apiKey', ''],
    ['apiKey', 7],
    ['apiKey', 'two words'],
    ['apiKey', 'line\r\nX-Injected: 1'],
    ['userSecret', undefined],
    ['userSecret', '  '],
    ['renewCredentials', 'words'],
  ])('rejects %s %p by name, without quoting it', (field, value) => {
    const options = { apiKey: 'key', userSecret: 'secret', [field]: value }
    expect(() => hmacAuth(options as never)).toThrow(ValidationError)
    expect(() => hmacAuth(options as never)).toThrow(new RegExp(field))
    expect(() => hmacAuth(options as never)).not.toThrow(/Injected|words/)
  })

  test('shows neither key nor secret when it is inspected', async () => {
    const shown = inspect(hmacAuth({ apiKey: 'the-key', userSecret: 'the-secret' }), {
      depth: 9,
      showHidden: true,
    })
    expect(shown).not.toMatch(/the-key|the-secret/)
  })
})

test('a signature has the time at which the code for signatures was loaded', async () => {
  let time = 1_700_000_000_000
  const { attempt } = hmacAuth({ apiKey: 'key', userSecret: 'secret', now: () => time })
  const { signal } = new AbortController()
  const headers = new Headers()
  const call = { kind: 'request', method: 'GET', url: 'https://x.test/', headers, signal }
  const sent = attempt?.(async () => ({}) as Reply)({ ...call, scope: { log: {}, signal } } as Call)
  time += 10_000
  await sent
  expect(headers.get('X-Authorization-Timestamp')).toBe(String(time))
})

test('a key that could not be made is made for the next attempt, and then once', async () => {
  const { subtle } = globalThis.crypto
  let made = 0
  const crypto = {
    ...{ getRandomValues: (bytes: never) => bytes },
    subtle: {
      importKey(...rest: Parameters<typeof subtle.importKey>) {
        if (++made === 1) return Promise.reject(new Error('the module is busy'))
        return subtle.importKey(...rest)
      },
      digest: subtle.digest.bind(subtle),
      sign: subtle.sign.bind(subtle),
    },
  } as unknown as WebCrypto
  const client = createClient({
    ...endpoints.mainnet,
    plugins: [hmacAuth({ apiKey: 'key', userSecret: 'secret', crypto })],
    fetch: async () => Response.json({ feeds: [] }),
  })
  await expect(client.listFeeds()).rejects.toThrow(/the module is busy/)
  for (let count = 0; count < 3; count++) expect(await client.listFeeds()).toEqual([])
  expect(made).toBe(2)
  await client.close()
})

/** An engine, and a client of it whose clock can be set wrong. */
async function setUp(config: Partial<Config> = {}, ahead = 0) {
  const engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 3, origins: 2 })
  closers.push(() => engine.close())
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const clock = { ahead }
  const lines: [level: string, line: string][] = []
  const write = (level: string) => (line: string) => void lines.push([level, line])
  const client = createPresetClient({
    ...{ apiKey, userSecret, endpoint, wsEndpoint, retryDelay: 5 },
    now: () => Date.now() + clock.ahead,
    logging: {
      logger: { warn: write('warn'), error: write('error') },
      logLevel: LogLevel.WARN,
    },
    ...config,
  })
  closers.push(() => client.close())
  // Without the requests for the time of the service, which come when the machine's clock has stepped.
  const statuses = () =>
    engine
      .requests()
      .filter(({ method, path }) => !(method === 'HEAD' && path === '/' && config?.haMode !== true))
      .map(({ status }) => status)
  return { engine, client, clock, lines, statuses }
}

const rotate = (engine: DataEngine) => {
  const keys = { apiKey: 'the-new-key', userSecret: 'the-new-secret' }
  engine.rotateKeys(keys)
  return keys
}

describe('a clock that is wrong', () => {
  test.each([30_000, -30_000, 80_000_000, -80_000_000])(
    'by %d ms is corrected at the first rejection, for requests and streams alike',
    async ahead => {
      const { client, clock, lines, statuses, engine } = await setUp()
      clock.ahead = ahead
      expect(await client.listFeeds()).toHaveLength(1)
      expect(statuses()).toEqual([401, 200])
      await client.getLatestReport(ethUsd)
      await client.createStream(ethUsd).connect()
      expect(statuses()).toEqual([401, 200, 200, 101])
      expect(lines).toEqual([['warn', expect.stringMatching(/^this machine's clock is \d+ s /)]])
      // Set right, it is wrong for the correction, which is noticed in the same way.
      clock.ahead = 0
      await client.listFeeds()
      await client.listFeeds()
      expect(statuses().slice(4)).toEqual([401, 200, 200])
      expect(lines[1]).toEqual(['warn', expect.stringMatching(/agrees with the present again/)])
      expect(engine.connections).toBe(1)
    },
  )

  test('is corrected by the upgrade of a stream, and by the discovery of origins', async () => {
    const one = await setUp()
    one.clock.ahead = 30_000
    const stream = one.client.createStream(ethUsd)
    const statuses: Status[] = []
    const errors: Error[] = []
    stream.on('status', status => void statuses.push(status))
    stream.on('error', error => void errors.push(error))
    await stream.connect()
    expect(one.statuses()).toEqual([401, 101])
    expect(errors).toEqual([])
    expect(statuses.map(({ type }) => type)).not.toContain('reconnecting')

    const other = await setUp({ haMode: true }, -30_000)
    const both = other.client.createStream(ethUsd)
    both.on('error', error => void errors.push(error))
    await both.connect()
    await until(() => other.engine.connections === 2)
    expect(other.statuses()).toEqual([401, 200, 101, 101])
    expect(errors).toEqual([])
  })

  test('is corrected where a plugin gives each attempt a signal and a scope of its own', async () => {
    const { engine, clock, statuses } = await setUp()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    clock.ahead = 30_000
    const limited: Plugin<never> = {
      name: 'limited',
      attempt: next =>
        function limit(call) {
          const signal = AbortSignal.any([call.signal, AbortSignal.timeout(5000)])
          return call.kind === 'stream'
            ? next({ ...call, signal, scope: { ...call.scope } })
            : next({ ...call, signal, scope: { ...call.scope } })
        },
    }
    const now = () => Date.now() + clock.ahead
    const plugins = [retry(), limited, hmacAuth({ apiKey, userSecret, now })]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    closers.push(() => client.close())
    await client.listFeeds()
    clock.ahead = 0
    await client.createStream(ethUsd).connect()
    expect(statuses()).toEqual([401, 200, 401, 101])
  })

  test('costs each pending request one more, and one line in all', async () => {
    const { client, clock, lines, statuses } = await setUp({ rateLimit: { requests: 100 } })
    clock.ahead = 30_000
    await Promise.all(Array.from({ length: 6 }, () => client.request('GET', '/api/v1/feeds')))
    expect(statuses().filter(status => status === 401)).toHaveLength(6)
    expect(statuses().filter(status => status === 200)).toHaveLength(6)
    expect(lines).toHaveLength(1)
  })

  test('by an answer whose date is wrong does no harm where the clock is right', async () => {
    const statuses: number[] = []
    const dates = createServer((request, response) => {
      const isOff =
        Math.abs(Number(request.headers['x-authorization-timestamp']) - Date.now()) > 5000
      const status = isOff || request.url?.includes('latest') ? 401 : 200
      statuses.push(status)
      response.setHeader('date', new Date(Date.now() + 10_000).toUTCString())
      response.writeHead(status).end('{"feeds":[]}')
    }).listen(0, '127.0.0.1')
    await once(dates, 'listening')
    closers.push(async () => dates.close())
    const endpoint = `http://127.0.0.1:${(dates.address() as AddressInfo).port}`
    const client = createPresetClient({
      apiKey: 'key',
      userSecret: 'secret',
      endpoint,
      wsEndpoint: 'ws://127.0.0.1:1',
    })
    closers.push(() => client.close())
    await client.listFeeds()
    expect(await failureOf(client.getLatestReport(ethUsd))).toMatchObject({
      name: 'AuthenticationError',
    })
    await client.listFeeds()
    expect(statuses).toEqual([200, 401, 401, 200])
  })

  test('costs no more requests in a second than the limit', async () => {
    // Noted where they are sent: a busy machine receives them later, and closer together.
    const times: number[] = []
    const { client, clock, engine } = await setUp({
      fetch: (input, init) => {
        times.push(performance.now())
        return fetch(input, init)
      },
    })
    clock.ahead = 30_000
    await Promise.all(Array.from({ length: 12 }, () => client.listFeeds()))
    expect(times).toHaveLength(engine.requests().length)
    for (const [index, at] of times.entries())
      expect((times[index + 10] ?? Number.POSITIVE_INFINITY) - at).toBeGreaterThan(900)
  })

  test('by more than a day is named, and not corrected', async () => {
    const { client, clock, statuses } = await setUp()
    clock.ahead = 100_000_000
    const error = await failureOf(client.listFeeds())
    expect(error.message).toMatch(/clock is 1000\d\d s ahead of.*Set the clock/)
    expect(statuses()).toEqual([401])
  })

  test('is not named where it was corrected, and something else is wrong', async () => {
    const { client, clock, statuses } = await setUp({ userSecret: 'of somebody else' })
    clock.ahead = 30_000
    const error = await failureOf(client.listFeeds())
    expect(error).toMatchObject({ name: 'AuthenticationError' })
    expect(error.message).not.toMatch(/clock is/)
    expect(statuses()).toEqual([401, 401])
  })
})

describe('a rejection', () => {
  test('that gives no correction is sent once, and has the time of the service', async () => {
    const { client, statuses } = await setUp({ userSecret: 'of somebody else' })
    const error = await failureOf(client.listFeeds())
    expect(statuses()).toEqual([401])
    const { serverTime } = error as { serverTime?: number }
    expect(serverTime).toBeLessThanOrEqual(Date.now())
    expect(serverTime).toBeGreaterThan(Date.now() - 3000)
  })

  test.each([
    ['no Date', {}],
    ['a Date that is none', { date: 'yesterday' }],
    ['a number for a Date', { date: '12' }],
    ['two Dates', { date: 'Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1995 08:49:37 GMT' }],
  ])('with %s is sent once, and has no serverTime', async (_what, headers) => {
    let sent = 0
    const client = createClient({
      ...endpoints.mainnet,
      plugins: [hmacAuth({ apiKey: 'key', userSecret: 'secret' })],
      fetch: async () => {
        sent++
        return new Response('', { status: 401, headers })
      },
    })
    const error = await failureOf(client.listFeeds())
    expect(error).toMatchObject({ code: 'AUTHENTICATION', serverTime: undefined })
    expect(sent).toBe(1)
    await client.close()
  })
})

describe('keys that were changed', () => {
  test('are requested once, for all rejected requests', async () => {
    let asked = 0
    let keys = { apiKey: '', userSecret: '' }
    const { engine, client, statuses } = await setUp({
      rateLimit: { requests: 100 },
      renewCredentials: async () => {
        asked++
        return keys
      },
    })
    await client.listFeeds()
    keys = rotate(engine)
    await Promise.all(Array.from({ length: 5 }, () => client.request('GET', '/api/v1/feeds')))
    await client.listFeeds()
    expect(asked).toBe(1)
    expect(statuses().filter(status => status === 401)).toHaveLength(5)
    expect(statuses().filter(status => status === 200)).toHaveLength(7)
  })

  test('connect a stream again at its next attempt, even with a wrong clock', async () => {
    let keys = { apiKey: '', userSecret: '' }
    const { engine, client, clock, statuses } = await setUp({ renewCredentials: () => keys })
    const stream = client.createStream(ethUsd, { reconnectInterval: 200 })
    await stream.connect()
    keys = rotate(engine)
    clock.ahead = -30_000
    engine.disconnect()
    await until(() => engine.connections === 1)
    expect(statuses().filter(status => status !== 200)).toEqual([101, 401, 401, 101])
  })

  test('that are rejected, too, are not replaced again', async () => {
    const { client, statuses } = await setUp({
      userSecret: 'of somebody else',
      renewCredentials: () => ({ apiKey: 'other', userSecret: 'others' }),
    })
    expect(await failureOf(client.listFeeds())).toMatchObject({ code: 'AUTHENTICATION' })
    expect(statuses()).toEqual([401, 401])
  })

  test('do not come from a source that fails, whose error is quoted nowhere', async () => {
    const { client, lines, statuses } = await setUp({
      userSecret: 'of somebody else',
      renewCredentials: () => Promise.reject(new Error('the-new-secret')),
    })
    const error = await failureOf(client.listFeeds())
    expect(error).toMatchObject({ code: 'AUTHENTICATION' })
    expect(statuses()).toEqual([401])
    expect(lines).toContainEqual([
      'error',
      'renewCredentials has failed: the keys stay as they are',
    ])
    expect(inspect([error, lines], { depth: 9, showHidden: true })).not.toContain('the-new-secret')
  })

  test('are not shown where the client, the plugin or an error is inspected', async () => {
    let keys = { apiKey: '', userSecret: '' }
    const { engine, client, lines } = await setUp({ renewCredentials: () => keys })
    keys = rotate(engine)
    await client.listFeeds()
    engine.rotateKeys({ userSecret: 'unknown' })
    const error = await failureOf(client.listFeeds())
    const stream = client.createStream(ethUsd)
    const plugin = hmacAuth({ ...keys, renewCredentials: () => keys })
    const shown = inspect([client, stream, plugin, error, lines], { depth: 12, showHidden: true })
    expect(shown).not.toMatch(/the-new-key|the-new-secret/)
  })
})

function load(name: string): unknown {
  return require(name)
}

describe('a credential that was copied with something else', () => {
  const secret = 'a-secret+of/base64=='
  test.each([
    ['a line break at its end', `${secret}\n`, 'a line break (U+000A), as it does at index 20'],
    ['a CR at its end', `${secret}\r`, 'a line break (U+000D)'],
    ['a line break within', 'a-secret\nof', 'a line break (U+000A), as it does at index 8'],
    ['a space before it', ` ${secret}`, 'a space at its beginning or end (U+0020)'],
    ['a tab', `${secret}\t`, 'a tab (U+0009)'],
    ['a no-break space', `${secret}\u00a0`, 'a no-break space (U+00A0)'],
    ['a byte order mark', `\ufeff${secret}`, 'a byte order mark (U+FEFF), as it does at index 0'],
    ['a zero-width space', `${secret}\u200b`, 'a zero-width space (U+200B)'],
    ['a zero-width joiner within', 'a-sec\u200dret', 'an invisible character (U+200D)'],
    ['a NUL', `${secret}\0`, 'an invisible character (U+0000)'],
    ['a soft hyphen', 'a-sec\u00adret', 'an invisible character (U+00AD)'],
    ['a tag beyond the first plane', 'a-sec\u{e0041}ret', 'an invisible character (U+E0041)'],
    ['quotation marks', `"${secret}"`, 'must not stand in quotation marks'],
    ['apostrophes', `'${secret}'`, 'must not stand in quotation marks'],
  ])('is named before a request is sent: %s', (_what, value, rule) => {
    for (const field of ['apiKey', 'userSecret']) {
      const options = { apiKey: 'key', userSecret: 'secret', [field]: value }
      const { message } = failing(() => hmacAuth(options))
      expect(message).toContain(field)
      expect(message).toContain(rule)
      expect(message).not.toContain('secret+of')
    }
  })

  test.each(['with a space', 'ünïcode', '"', '"a', 'a"b\'c', '=&?%#'])('may be %p', value => {
    expect(hmacAuth({ apiKey: 'key', userSecret: value }).name).toBe('hmac-auth')
  })
})

function failing(call: () => unknown): Error {
  try {
    call()
  } catch (thrown) {
    return thrown as Error
  }
  throw new Error('it did not fail')
}
