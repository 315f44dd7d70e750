import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import {
  APIError,
  AuthenticationError,
  EntitlementError,
  createClient,
  defaultPreset,
  isStreamsError,
  type Plugin,
  ValidationError,
} from '../../index.js'
import { failureOf } from '../support/waiting.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const secondFeed = `0x0003${'ab'.repeat(30)}`
const emptyFeed = `0x0004${'cd'.repeat(30)}`
const foreignFeed = `0x0003${'ef'.repeat(30)}`

let engine: DataEngine

beforeAll(async () => {
  engine = await startDataEngine({
    feeds: [ethUsd, secondFeed, emptyFeed],
    intervalMs: 0,
    history: 0,
  })
  for (let at = 0; at < 25; at++) {
    for (const feedID of [ethUsd, secondFeed])
      engine.publish(feedID, { observationsTimestamp: 1_700_000_000 + at })
  }
})
afterAll(() => engine.close())

const clientOf = (config: object = {}) => {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  return createClient({ apiKey, userSecret, endpoint, wsEndpoint, retryDelay: 5, ...config })
}

describe('the six operations', () => {
  test('listFeeds lists the feeds the credentials may read', async () => {
    expect(await clientOf().listFeeds()).toEqual(
      [ethUsd, secondFeed, emptyFeed].map(feedID => ({ feedID })),
    )
  })

  test('getLatestReport gets the newest report, decoded on reading', async () => {
    const report = await clientOf().getLatestReport(ethUsd.toUpperCase().replace('0X', '0x'))
    const published = engine
      .ledger()
      .filter(entry => entry.feedID === ethUsd)
      .at(-1)
    expect({ ...report }).toMatchObject({
      feedID: ethUsd,
      fullReport: published?.fullReport,
      validFromTimestamp: 1_700_000_024,
      observationsTimestamp: 1_700_000_024,
      origin: engine.endpoint,
      source: 'request',
    })
    expect(report.decoded.version).toBe('V3')
    expect(report.decoded.observationsTimestamp).toBe(1_700_000_024)
  })

  test('getReportByTimestamp gets the report that holds then', async () => {
    const report = await clientOf().getReportByTimestamp(ethUsd, 1_700_000_003)
    expect(report.observationsTimestamp).toBe(1_700_000_003)
  })

  test('getReportsPage pages through history by nextStartTime', async () => {
    const client = clientOf()
    const seen: number[] = []
    let start: number | undefined = 1_700_000_000
    for (let page = 0; start !== undefined && page < 10; page++) {
      const reports: Awaited<ReturnType<typeof client.getReportsPage>> =
        await client.getReportsPage(ethUsd, start, 7)
      seen.push(...reports.map(report => report.observationsTimestamp))
      start = reports.nextStartTime
    }
    expect(seen).toEqual(Array.from({ length: 25 }, (_, at) => 1_700_000_000 + at))
  })

  test('getReportsBulk answers in the order asked for and names what is missing', async () => {
    const reports = await clientOf().getReportsBulk([emptyFeed, secondFeed, ethUsd], 1_700_000_010)
    expect(reports.map(report => report.feedID)).toEqual([secondFeed, ethUsd])
    expect(reports.missing).toEqual([emptyFeed])
  })

  test('getReportsBulk names a feed whose report a plugin drops as missing', async () => {
    const picky: Plugin = {
      name: 'picky',
      report: next => report => report.feedID === ethUsd && next(report),
    }
    const { endpoint, wsEndpoint, apiKey, userSecret } = engine
    const plugins = [picky, ...defaultPreset({ apiKey, userSecret })]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    const reports = await client.getReportsBulk([secondFeed, ethUsd, emptyFeed], 1_700_000_010)
    expect(reports.map(report => report.feedID)).toEqual([ethUsd])
    expect(reports.missing).toEqual([secondFeed, emptyFeed])
    await client.close()
  })
})

describe('arguments', () => {
  const client = () => clientOf()
  test.each([
    ['a feed id that is none', () => client().getLatestReport('0x12'), /feedID must be 0x and 64/],
    [
      'a feed id that is no string',
      () => client().getLatestReport(3 as never),
      /feedID must be a string/,
    ],
    [
      'one bad feed id of several',
      () => client().getReportsBulk([ethUsd, 'no'], 1),
      /feedIDs\[1\]/,
    ],
    ['no feed ids', () => client().getReportsBulk([], 1), /feedIDs must name at least one/],
    [
      'milliseconds for a feed in seconds',
      () => client().getReportByTimestamp(ethUsd, 1_700_000_000_000),
      /looks like milliseconds/,
    ],
    [
      'a negative timestamp',
      () => client().getReportByTimestamp(ethUsd, -1),
      /timestamp must be at least 0/,
    ],
    [
      'a timestamp that is NaN',
      () => client().getReportByTimestamp(ethUsd, Number.NaN),
      /timestamp must be a number, not NaN/,
    ],
    [
      'a fractional timestamp',
      () => client().getReportsPage(ethUsd, 1.5),
      /startTime must be a whole number/,
    ],
    ['a limit of 0', () => client().getReportsPage(ethUsd, 1, 0), /limit must be at least 1/],
  ])('%s is refused before anything is sent', async (_name, run, message) => {
    const before = engine.requests().length
    const error = await failureOf(run())
    expect(error).toBeInstanceOf(ValidationError)
    expect(error.message).toMatch(message)
    expect(engine.requests()).toHaveLength(before)
  })
})

describe('failures', () => {
  test('429 and 5xx are tried again, each time signed afresh', async () => {
    const signatures: (string | null)[] = []
    const spy: Plugin = {
      name: 'spy',
      attempt: next => call => {
        signatures.push(call.headers.get('x-authorization-signature-sha256'))
        return next(call)
      },
    }
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const { defaultPreset } = await import('../../presets/default.js')
    let clock = Date.now()
    const { hmacAuth } = await import('../../plugins/hmac-auth/index.js')
    const stack = defaultPreset({ apiKey, userSecret, retryDelay: 1 }).filter(
      plugin => plugin.name !== 'hmac-auth',
    )
    const client = createClient({
      endpoint,
      wsEndpoint,
      plugins: [...stack, hmacAuth({ apiKey, userSecret, now: () => clock++ }), spy],
    })
    engine.fail({ status: 503, times: 2 })
    engine.fail({ status: 429, times: 1 })
    expect((await client.getLatestReport(ethUsd)).feedID).toBe(ethUsd)
    expect(new Set(signatures).size).toBe(4)
  })

  test('retryAttempts more tries are made, then the last error is thrown', async () => {
    const before = engine.requests().length
    const stop = engine.fail({ status: 500, times: 100 })
    const error = await failureOf(clientOf({ retryAttempts: 3 }).listFeeds())
    stop()
    expect(error).toBeInstanceOf(APIError)
    expect(error).toMatchObject({ code: 'API_STATUS', statusCode: 500 })
    expect(error.message).toMatch(/^GET \/api\/v1\/feeds answered 500/)
    expect(engine.requests().length - before).toBe(4)
  })

  test.each([400, 404, 409, 302])('%d is not tried again', async status => {
    const before = engine.requests().length
    engine.fail({ status })
    const error = await failureOf(clientOf().listFeeds())
    expect(error).toMatchObject({ name: 'APIError', statusCode: status })
    expect(engine.requests().length - before).toBe(1)
  })

  test('Retry-After is waited for', async () => {
    engine.fail({ status: 429, retryAfter: 1 })
    const started = performance.now()
    await clientOf().listFeeds()
    expect(performance.now() - started).toBeGreaterThanOrEqual(990)
  })

  test('a Retry-After beyond the bound is not waited for, and nothing is sent inside it', async () => {
    const before = engine.requests().length
    engine.fail({ status: 429, retryAfter: 86_400 })
    const error = await failureOf(clientOf().listFeeds())
    expect(error).toMatchObject({ statusCode: 429, retryAfter: 86_400_000 })
    expect(engine.requests().length - before).toBe(1)
  })

  test.each([-3_600_000, 0, 3_600_000])(
    'a Retry-After date is compared with the date of the answer, this clock being %d ms off',
    async offset => {
      const date = (ms: number) => new Date(1_700_000_000_000 + ms).toUTCString()
      engine.fail({ status: 400, retryAfter: date(90_000), headers: { date: date(0) } })
      const error = await failureOf(clientOf({ now: () => Date.now() + offset }).listFeeds())
      expect(error).toMatchObject({ statusCode: 400, retryAfter: 90_000 })
      expect(error.message).toContain('Retry-After: 90 s')
    },
  )

  test('a date that does not say GMT is none: it would be read as local time', async () => {
    const date = new Date(Date.now() + 90_000_000).toUTCString().replace(' GMT', '')
    engine.fail({ status: 400, retryAfter: date })
    expect((await failureOf(clientOf().listFeeds())).retryAfter).toBeUndefined()
    engine.fail({ status: 403, headers: { date } })
    const error = await failureOf(clientOf().listFeeds())
    expect(error).toMatchObject({ statusCode: 403, serverTime: undefined })
  })

  test.each([401, 403])('%d says how long the service asks us to wait', async status => {
    engine.fail({ status, retryAfter: 3 })
    const error = await failureOf(clientOf().listFeeds())
    expect(error).toMatchObject({ statusCode: status, retryAfter: 3000 })
    expect(error.message).toContain('Retry-After: 3 s')
  })

  test.each([
    [401, 'AUTHENTICATION', AuthenticationError, EntitlementError],
    [403, 'ENTITLEMENT', EntitlementError, AuthenticationError],
  ])('%d has the code %s', async (status, code, its, other) => {
    engine.fail({ status })
    const error = await failureOf(clientOf().listFeeds())
    expect(error).toBeInstanceOf(its)
    expect(error instanceof APIError).toBe(status === 403)
    expect(error).not.toBeInstanceOf(other)
    expect(error).toMatchObject({ name: its.name, statusCode: status, code })
    expect(error.message).not.toMatch(/clock is/)
  })

  test('a wrong secret is an AuthenticationError that quotes neither secret, key nor signature', async () => {
    const error = await failureOf(clientOf({ userSecret: 'a-wrong-secret' }).listFeeds())
    expect(error).toBeInstanceOf(AuthenticationError)
    const { inspect } = await import('node:util')
    const shown = inspect(error, { depth: 9 })
    expect(shown).not.toContain('a-wrong-secret')
    expect(shown).not.toContain(engine.apiKey)
    expect(shown).not.toMatch(/[0-9a-f]{64}/)
  })

  test.each([
    [-100_000, /clock is (99999|100000|100001) s behind/],
    [100_000, /clock is (99999|100000|100001) s ahead of/],
  ])('a clock %d s off, which is not corrected, is said to be wrong', async (seconds, message) => {
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const { hmacAuth } = await import('../../index.js')
    const now = () => Date.now() + seconds * 1000
    const client = createClient({
      endpoint,
      wsEndpoint,
      now,
      plugins: [hmacAuth({ apiKey, userSecret, now })],
    })
    const error = await failureOf(client.getLatestReport(ethUsd))
    expect(error).toBeInstanceOf(AuthenticationError)
    expect(error.message).toMatch(message)
  })

  test('a feed that does not exist is an AuthenticationError, as the service has it', async () => {
    expect(await failureOf(clientOf().getLatestReport(foreignFeed))).toBeInstanceOf(
      AuthenticationError,
    )
  })

  test.each([
    ['HTML', '<html>down</html>'],
    ['nothing', ''],
    ['null', 'null'],
    ['an array', '[]'],
    ['an object without the report', '{}'],
    ['a report that is null', '{"report":null}'],
    ['a report without bytes', `{"report":{"feedID":"${ethUsd}"}}`],
    ['half a document', '{"report":{"feedID":'],
  ])('a 200 with %s is an APIError', async (_name, body) => {
    engine.fail({ status: 200, body })
    const error = await failureOf(clientOf().getLatestReport(ethUsd))
    expect(error).toBeInstanceOf(APIError)
    expect(error).toMatchObject({ code: 'API_RESPONSE' })
    expect(error.message).not.toContain('html')
  })

  const read = Response.json({ feeds: [] })
  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['a number', 200],
    ['a mock with json()', { ok: true, status: 200, json: async () => ({ feeds: [] }) }],
    ['a body that is text', { status: 200, headers: new Headers(), body: '{"feeds":[]}' }],
    ['headers that are an object', { status: 200, headers: {}, body: null }],
    ['a Response that was read', read],
  ])('a fetch that returns %s is a ValidationError at once', async (_name, response) => {
    if (!read.bodyUsed) await read.text()
    let calls = 0
    async function fetch(): Promise<unknown> {
      calls++
      return response
    }
    const error = await failureOf(clientOf({ fetch }).listFeeds())
    expect(error).toMatchObject({
      code: 'VALIDATION',
      message: 'fetch must return a Response whose body has not been read',
    })
    expect(error).toBeInstanceOf(ValidationError)
    expect(calls).toBe(1)
  })

  test('a fetch that makes a Response of its own is taken', async () => {
    const { status, headers, body } = Response.json({ feeds: [{ feedID: ethUsd }] })
    const fetch = async () => ({ status, headers, body })
    expect(await clientOf({ fetch }).listFeeds()).toEqual([{ feedID: ethUsd }])
  })

  test('of the names and decimals of feeds, those that cannot be right are left out', async () => {
    const sent = { name: 'ETH/USD', decimals: 18, asset: 'ETH', quoteAsset: 'USD' }
    const wrong = [-1, 1.5, 256, 1e9, '18', null].map(decimals => ({ feedID: ethUsd, decimals }))
    const feeds = [{ feedID: ethUsd, ...sent }, ...wrong, { feedID: ethUsd, name: 5 }]
    engine.fail({ status: 200, body: JSON.stringify({ feeds }) })
    const [first, ...others] = await clientOf().listFeeds()
    expect(first).toEqual({ feedID: ethUsd, ...sent })
    expect(others).toEqual(Array(7).fill({ feedID: ethUsd }))
  })

  test('reports that are no array, and feeds without an id, are APIErrors', async () => {
    engine.fail({ status: 200, body: '{"reports":{}}' })
    expect(await failureOf(clientOf().getReportsPage(ethUsd, 1))).toMatchObject({
      code: 'API_RESPONSE',
    })
    engine.fail({ status: 200, body: '{"feeds":[{"name":"x"},null]}' })
    expect(await failureOf(clientOf().listFeeds())).toMatchObject({ code: 'API_RESPONSE' })
  })

  test('a page of more reports than were asked for has the first of them', async () => {
    const reports = engine.ledger().filter(({ feedID }) => feedID === ethUsd)
    const body = JSON.stringify({ reports: reports.slice(0, 6) })
    engine.fail({ status: 200, body })
    expect(await clientOf().getReportsPage(ethUsd, 1, 5)).toHaveLength(5)
    engine.fail({ status: 200, body })
    expect(await clientOf().getReportsPage(ethUsd, 1, 6)).toHaveLength(6)
    engine.fail({ status: 200, body })
    expect(await clientOf().getReportsPage(ethUsd, 1)).toHaveLength(6)
  })

  test('the report of another feed is refused', async () => {
    const other = engine.ledger().find(entry => entry.feedID === secondFeed)
    engine.fail({ status: 200, body: JSON.stringify({ report: other }) })
    const error = await failureOf(clientOf().getLatestReport(ethUsd))
    expect(error).toMatchObject({ name: 'APIError', code: 'API_RESPONSE' })
    expect(error.message).toContain(secondFeed)
  })

  test('a report whose envelope lies about its blob is a ReportDecodingError', async () => {
    const other = engine.ledger().find(entry => entry.feedID === secondFeed)
    engine.fail({ status: 200, body: JSON.stringify({ report: { ...other, feedID: ethUsd } }) })
    expect(await failureOf(clientOf().getLatestReport(ethUsd))).toMatchObject({
      name: 'ReportDecodingError',
      code: 'DECODING',
    })
    engine.fail({
      status: 200,
      body: JSON.stringify({ report: { ...other, observationsTimestamp: 4_102_444_800 } }),
    })
    expect(await failureOf(clientOf().getLatestReport(secondFeed))).toMatchObject({
      code: 'DECODING',
    })
  })

  test('an answer that does not come is an APIError after the timeout, and is tried again', async () => {
    const before = engine.requests().length
    const stop = engine.fail({ status: 200, delayMs: 5000, times: 9 })
    const error = await failureOf(clientOf({ timeout: 60, retryAttempts: 1 }).listFeeds())
    stop()
    expect(error).toMatchObject({ name: 'APIError', code: 'API_TIMEOUT', statusCode: undefined })
    expect(error.message).toBe('GET /api/v1/feeds was not answered within 60 ms')
    expect(engine.requests().length - before).toBe(2)
  })

  test('a server that is not there is an APIError with the reason', async () => {
    const error = await failureOf(
      clientOf({ endpoint: 'http://127.0.0.1:1', retryAttempts: 0 }).listFeeds(),
    )
    expect(error).toMatchObject({ name: 'APIError', code: 'API_NETWORK' })
    expect(error.message).toMatch(/failed on the network: (connect ECONNREFUSED|bad port)/)
  })

  test('the signal of the caller ends the request, retries included, with its own reason', async () => {
    const stop = engine.fail({ status: 503, times: 1000 })
    const controller = new AbortController()
    const reason = new Error('enough')
    setTimeout(() => controller.abort(reason), 40)
    const error = await failureOf(
      clientOf({ retryDelay: 300_000 }).listFeeds({ signal: controller.signal }),
    )
    stop()
    expect(error).toBe(reason)
    expect(await failureOf(clientOf().listFeeds({ signal: controller.signal }))).toBe(reason)
  })

  test('close ends what is under way, and nothing can be asked afterwards', async () => {
    const stop = engine.fail({ status: 200, delayMs: 5000 })
    const client = clientOf()
    const pending = failureOf(client.listFeeds())
    await client.close()
    stop()
    expect(isStreamsError(await pending, 'CLOSED')).toBe(true)
    expect(isStreamsError(await failureOf(client.listFeeds()), 'CLOSED')).toBe(true)
  })
})

test('a plugin that is never done with an answer ends with the time limit', async () => {
  const mute: Plugin = {
    name: 'mute',
    report: (_, scope) => report => {
      if (scope.kind === 'request') scope.waitUntil(new Promise(() => undefined), report)
    },
  }
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const plugins = [...defaultPreset({ apiKey, userSecret }), mute]
  const client = createClient({ endpoint, wsEndpoint, plugins, timeout: 300 })
  const error = await failureOf(client.getLatestReport(ethUsd))
  expect(error).toMatchObject({ code: 'API_TIMEOUT' })
  expect(error.message).toMatch(/not done with the answer within 300 ms/)
})
