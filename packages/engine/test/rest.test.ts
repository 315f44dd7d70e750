import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { readVectors } from '@sluice/test-support/files.js'
import { authorize } from '../access.js'
import { type DataEngine, type PublishedReport, startDataEngine } from '../index.js'
import { openStream, send, signedHeaders } from './support/signed.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const inMs = `0x1003${'5a'.repeat(30)}`
const forbidden = `0x0003${'5b'.repeat(30)}`
const unknown = `0x0003${'5c'.repeat(30)}`

let engine: DataEngine
beforeAll(async () => {
  engine = await startDataEngine({
    feeds: [ethUsd, inMs, { feedID: forbidden, entitled: false }],
    intervalMs: 0,
    history: 30,
    origins: 2,
  })
})
afterAll(() => engine.close())

const reportsOf = (feedID: string) => engine.ledger().filter(entry => entry.feedID === feedID)
const envelope = ({
  feedID,
  validFromTimestamp,
  observationsTimestamp,
  fullReport,
}: PublishedReport) => ({
  feedID,
  validFromTimestamp,
  observationsTimestamp,
  fullReport,
})

interface SignedRequest {
  readonly method: string
  readonly path: string
  readonly body: string
  readonly apiKey: string
  readonly userSecret: string
  readonly timestamp: number
  readonly signature: string
}

test('the published request signatures are accepted, and not for another request', () => {
  const { vectors } = readVectors<{ vectors: readonly SignedRequest[] }>('hmac.json')
  expect(vectors).toHaveLength(3)
  for (const { method, path, body, apiKey, userSecret, timestamp, signature } of vectors) {
    const headers = {
      authorization: apiKey,
      'x-authorization-timestamp': String(timestamp),
      'x-authorization-signature-sha256': signature,
    }
    const check = (changes: object) => () =>
      authorize(
        { method, path, headers, body: Buffer.from(body), ...changes },
        { apiKey, userSecret },
        [timestamp],
      )
    expect(check({})).not.toThrow()
    expect(check({ path: `${path}?` })).toThrow('unauthorized')
    expect(check({ method: 'PUT' })).toThrow('unauthorized')
    expect(check({ body: Buffer.from(`${body} `) })).toThrow('unauthorized')
  }
})

test('feeds lists the feeds that may be read', async () => {
  const { status, json, headers } = await send(engine, '/api/v1/feeds')
  expect(status).toBe(200)
  expect(json).toEqual({ feeds: [{ feedID: ethUsd }, { feedID: inMs }] })
  expect(headers['content-type']).toBe('application/json')
})

test('latest answers the newest report', async () => {
  const { status, json } = await send(engine, `/api/v1/reports/latest?feedID=${ethUsd}`)
  expect(status).toBe(200)
  expect(json).toEqual({ report: envelope(reportsOf(ethUsd).at(-1) as PublishedReport) })
})

test('latest answers the report with the latest observations, also when a late one is published after it', async () => {
  const { observationsTimestamp } = reportsOf(ethUsd).at(-1) as PublishedReport
  engine.publish(ethUsd, { observationsTimestamp: observationsTimestamp - 1_000_000 })
  const { json } = await send(engine, `/api/v1/reports/latest?feedID=${ethUsd}`)
  expect(json.report.observationsTimestamp).toBe(observationsTimestamp)
})

test('a report is found by each time it is valid at, in its own unit', async () => {
  const report = engine.publish(inMs)
  expect(report.observationsTimestamp).toBeGreaterThan(report.validFromTimestamp)
  for (const time of [report.validFromTimestamp, report.observationsTimestamp]) {
    const { status, json } = await send(engine, `/api/v1/reports?feedID=${inMs}&timestamp=${time}`)
    expect(status).toBe(200)
    expect(json).toEqual({ report: envelope(report) })
  }
  const before = await send(
    engine,
    `/api/v1/reports?feedID=${inMs}&timestamp=${report.validFromTimestamp - 1}`,
  )
  expect(before.json.report.observationsTimestamp).toBe(report.validFromTimestamp - 1)
  const after = await send(
    engine,
    `/api/v1/reports?feedID=${inMs}&timestamp=${report.observationsTimestamp + 1}`,
  )
  expect(after.status).toBe(404)
})

test('a time within a gap has no report', async () => {
  await using other = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 2 })
  const last = other.ledger().at(-1) as PublishedReport
  const from = last.observationsTimestamp + 10
  other.publish(ethUsd, { validFromTimestamp: from, observationsTimestamp: from + 2 })
  const status = async (time: number) =>
    (await send(other, `/api/v1/reports?feedID=${ethUsd}&timestamp=${time}`)).status
  expect(await status(last.observationsTimestamp)).toBe(200)
  expect(await status(last.observationsTimestamp + 1)).toBe(404)
  expect(await status(from - 1)).toBe(404)
  expect(await status(from + 1)).toBe(200)
})

test('bulk answers a report per feed, with literal and with encoded commas, each id once, in any case', async () => {
  await using other = await startDataEngine({
    feeds: [ethUsd, forbidden],
    intervalMs: 0,
    history: 5,
  })
  const at = other.ledger()[3] as PublishedReport
  for (const list of [
    `${ethUsd},${forbidden}`,
    `${ethUsd}%2C${forbidden}%2c0x${ethUsd.slice(2).toUpperCase()}`,
  ]) {
    const path = `/api/v1/reports/bulk?feedIDs=${list}&timestamp=${at.observationsTimestamp}`
    const { status, json } = await send(other, path)
    expect(status).toBe(200)
    const expected = other
      .ledger()
      .filter(entry => entry.observationsTimestamp === at.observationsTimestamp)
    expect(expected).toHaveLength(2)
    expect(json).toEqual({ reports: expected.map(envelope) })
  }
})

test('bulk answers 206 and fewer reports when a feed has none at that time', async () => {
  const { observationsTimestamp } = reportsOf(ethUsd).at(-2) as PublishedReport
  const path = `/api/v1/reports/bulk?feedIDs=${inMs},${ethUsd}&timestamp=${observationsTimestamp}`
  const { status, json } = await send(engine, path)
  expect(status).toBe(206)
  expect(json.reports.map((report: PublishedReport) => report.feedID)).toEqual([ethUsd])
})

test('a page begins at its start, ascends, and has ten reports unless told otherwise', async () => {
  const all = reportsOf(inMs).sort((a, b) => a.observationsTimestamp - b.observationsTimestamp)
  const start = all[4]?.observationsTimestamp as number
  const page = async (query: string) => {
    const { status, json } = await send(engine, `/api/v1/reports/page?feedID=${inMs}&${query}`)
    expect(status).toBe(200)
    return json.reports
  }
  expect(await page(`startTimestamp=${start}`)).toEqual(all.slice(4, 14).map(envelope))
  expect(await page(`startTimestamp=${start + 1}&limit=3`)).toEqual(all.slice(5, 8).map(envelope))
  expect(await page('startTimestamp=0&limit=100000')).toEqual(all.map(envelope))
  expect(await page(`startTimestamp=${(all.at(-1)?.observationsTimestamp as number) + 1}`)).toEqual(
    [],
  )
})

test('no page is longer than ten thousand reports', async () => {
  const feedID = ethUsd
  const fullReport = '0x'
  const replay = Array.from({ length: 10_001 }, (_, i) => ({
    feedID,
    fullReport,
    validFromTimestamp: i,
    observationsTimestamp: i,
  }))
  await using other = await startDataEngine({ replay, intervalMs: 0 })
  while (other.replayNext());
  const { json } = await send(
    other,
    `/api/v1/reports/page?feedID=${feedID}&startTimestamp=0&limit=10001`,
  )
  expect(json.reports).toHaveLength(10_000)
})

test('all pages together are the whole history once', async () => {
  const seen: number[] = []
  for (let start = 0; ; ) {
    const { json } = await send(
      engine,
      `/api/v1/reports/page?feedID=${inMs}&startTimestamp=${start}&limit=7`,
    )
    if (json.reports.length === 0) break
    seen.push(...json.reports.map((report: PublishedReport) => report.observationsTimestamp))
    start = (seen.at(-1) as number) + 1
  }
  expect(seen).toEqual(reportsOf(inMs).map(entry => entry.observationsTimestamp))
})

test('HEAD on the root names the origins, as every other answer does, and every answer has the date', async () => {
  const head = await send(engine, '/', { method: 'HEAD' })
  expect(head.status).toBe(200)
  const others = [
    await send(engine, '/api/v1/feeds'),
    await send(engine, '/nowhere'),
    await send(engine, '/api/v1/feeds', { headers: { Authorization: undefined } }),
  ]
  for (const { headers } of [head, ...others]) {
    expect(headers['x-cll-available-origins']).toBe('{001,002}')
    expect(Math.abs(Date.parse(headers.date ?? '') - Date.now())).toBeLessThan(600_000)
  }
})

test('the date and the check of signatures follow the clock of the engine', async () => {
  const past = Date.UTC(2020, 0, 1)
  await using other = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, now: () => past })
  const refused = await send(other, '/api/v1/feeds')
  expect(refused.status).toBe(401)
  expect(Date.parse(refused.headers.date ?? '')).toBe(past)
  expect((await send(other, '/api/v1/feeds', { at: past })).status).toBe(200)
})

test('a clock is off from five seconds on, either way', async () => {
  await using other = await startDataEngine({
    feeds: [ethUsd],
    intervalMs: 0,
    now: () => 1_700_000_000_000,
  })
  const status = async (skew: number) =>
    (await send(other, '/api/v1/feeds', { at: 1_700_000_000_000 + skew })).status
  expect(await status(5_000)).toBe(200)
  expect(await status(-5_000)).toBe(200)
  expect(await status(5_001)).toBe(401)
  expect(await status(-5_001)).toBe(401)
})

test('401 is alike for a wrong signature, key and clock, an unknown feed and one that may not be read', async () => {
  const latest = (feedID: string) => `/api/v1/reports/latest?feedID=${feedID}`
  const signature = 'X-Authorization-Signature-SHA256'
  const replies = [
    await send(engine, '/api/v1/feeds', { headers: { [signature]: '0'.repeat(64) } }),
    await send(engine, '/api/v1/feeds', {
      headers: { Authorization: '00000000-0000-4000-8000-000000000000' },
    }),
    await send(engine, '/api/v1/feeds', { at: Date.now() - 20_000 }),
    await send(engine, latest(unknown)),
    await send(engine, latest(forbidden)),
    await send(engine, `/api/v1/reports/bulk?feedIDs=${ethUsd},${forbidden}&timestamp=1`),
  ]
  for (const { status, json } of replies) {
    expect(status).toBe(401)
    expect(json).toEqual({ message: 'unauthorized' })
  }
  expect(
    engine
      .requests()
      .slice(-6)
      .map(({ reason }) => reason),
  ).toEqual([
    'wrong signature',
    'unknown API key',
    'timestamp outside the clock window',
    `unknown feed ${unknown}`,
    `not entitled to feed ${forbidden}`,
    `not entitled to feed ${forbidden}`,
  ])
})

test('a signature is for exactly the path and query that was sent', async () => {
  const { hostname, port } = new URL(engine.endpoint)
  const path = `/api/v1/reports/latest?feedID=${ethUsd}`
  const headers = signedHeaders(engine, path)
  const url = (sent: string) => `http://${hostname}:${port}${sent}`
  expect((await fetch(url(path), { headers })).status).toBe(200)
  expect((await fetch(url(`${path}&`), { headers })).status).toBe(401)
  expect((await fetch(url(path.replace('feedID', 'feed%49D')), { headers })).status).toBe(401)
})

test('a body is covered by the signature', async () => {
  expect((await send(engine, '/api/v1/feeds', { body: 'x' })).status).toBe(200)
  const hmac = 'X-Authorization-Signature-SHA256'
  const emptyBody = signedHeaders(engine, '/api/v1/feeds')[hmac]
  expect(
    (await send(engine, '/api/v1/feeds', { body: 'x', headers: { [hmac]: emptyBody } })).status,
  ).toBe(401)
})

test('a body that is too large is refused', async () => {
  expect((await send(engine, '/api/v1/feeds', { body: 'x'.repeat(70_000) })).status).toBe(413)
})

test.each([
  ['header Authorization is missing', '/api/v1/feeds', { Authorization: undefined }],
  [
    'header X-Authorization-Timestamp is missing',
    '/api/v1/feeds',
    { 'X-Authorization-Timestamp': undefined },
  ],
  [
    'header X-Authorization-Timestamp is malformed',
    '/api/v1/feeds',
    { 'X-Authorization-Timestamp': 'now' },
  ],
  [
    'header X-Authorization-Signature-SHA256 is missing',
    '/api/v1/feeds',
    { 'X-Authorization-Signature-SHA256': undefined },
  ],
  [
    'header X-Authorization-Signature-SHA256 is malformed',
    '/api/v1/feeds',
    { 'X-Authorization-Signature-SHA256': 'AB'.repeat(32) },
  ],
  ['parameter feedID is missing', '/api/v1/reports/latest', {}],
  ['parameter feedID is missing', '/api/v1/reports/latest?feedID=', {}],
  ['parameter feedID is malformed', '/api/v1/reports/latest?feedID=0x0003', {}],
  [
    'parameter feedID is given more than once',
    `/api/v1/reports/latest?feedID=${ethUsd}&feedID=${inMs}`,
    {},
  ],
  ['parameter timestamp is missing', `/api/v1/reports?feedID=${ethUsd}`, {}],
  ['parameter timestamp is malformed', `/api/v1/reports?feedID=${ethUsd}&timestamp=-1`, {}],
  ['parameter timestamp is malformed', `/api/v1/reports?feedID=${ethUsd}&timestamp=1.5`, {}],
  [
    'parameter timestamp is malformed',
    `/api/v1/reports?feedID=${ethUsd}&timestamp=99999999999999999999`,
    {},
  ],
  ['parameter feedIDs is missing', '/api/v1/reports/bulk?timestamp=1', {}],
  ['parameter feedIDs is malformed', `/api/v1/reports/bulk?feedIDs=${ethUsd},&timestamp=1`, {}],
  ['parameter startTimestamp is missing', `/api/v1/reports/page?feedID=${ethUsd}`, {}],
  [
    'parameter limit is malformed',
    `/api/v1/reports/page?feedID=${ethUsd}&startTimestamp=1&limit=0`,
    {},
  ],
  [
    'parameter limit is malformed',
    `/api/v1/reports/page?feedID=${ethUsd}&startTimestamp=1&limit=ten`,
    {},
  ],
  ['a stream is opened by a WebSocket upgrade', `/api/v1/ws?feedIDs=${ethUsd}`, {}],
])('400 says what is wrong: %s (%s)', async (message, path, headers) => {
  const reply = await send(engine, path, { headers })
  expect(reply.status).toBe(400)
  expect(reply.json.message).toContain(message)
})

test('an unknown path is 404, and another method is 405 naming the right one', async () => {
  expect((await send(engine, '/api/v1/report')).status).toBe(404)
  expect((await send(engine, '/api/v2/feeds')).status).toBe(404)
  const post = await send(engine, '/api/v1/feeds', { method: 'POST', body: '{}' })
  expect(post.status).toBe(405)
  expect(post.headers.allow).toBe('GET')
  const get = await send(engine, '/')
  expect(get.status).toBe(405)
  expect(get.headers.allow).toBe('HEAD')
})

test('a feed without a report yet is 404', async () => {
  await using other = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 0 })
  expect((await send(other, `/api/v1/reports/latest?feedID=${ethUsd}`)).status).toBe(404)
  other.publish(ethUsd, {}, { stored: false })
  expect((await send(other, `/api/v1/reports/latest?feedID=${ethUsd}`)).status).toBe(404)
})

test('beyond the rate limit is 429 with Retry-After, per endpoint, and counts accepted requests only', async () => {
  let clock = Date.now()
  await using other = await startDataEngine({
    feeds: [ethUsd],
    intervalMs: 0,
    rateLimit: 3,
    now: () => clock,
  })
  const status = async (path: string, secret = other.userSecret) =>
    (await send({ ...other, userSecret: secret }, path, { at: clock })).status
  for (let i = 0; i < 4; i++) expect(await status('/api/v1/feeds', 'guessed')).toBe(401)
  for (let i = 0; i < 3; i++) expect(await status('/api/v1/feeds')).toBe(200)
  const limited = await send(other, '/api/v1/feeds', { at: clock })
  expect(limited.status).toBe(429)
  expect(limited.headers['retry-after']).toBe('1')
  expect(await status(`/api/v1/reports/latest?feedID=${ethUsd}`)).toBe(200)
  clock += 1_000
  expect(await status('/api/v1/feeds')).toBe(200)
})

test('after a rotation only the new keys are accepted, and open streams stay', async () => {
  await using other = await startDataEngine({ feeds: [ethUsd], intervalMs: 0 })
  const { apiKey, userSecret } = other
  const status = async (key: object) =>
    (await send({ ...other, ...key } as DataEngine, '/api/v1/feeds')).status
  const stream = await openStream(other, `/api/v1/ws?feedIDs=${ethUsd}`)
  other.rotateKeys({ userSecret: 'another' })
  expect(other).toMatchObject({ apiKey, userSecret: 'another' })
  expect(await status({ userSecret })).toBe(401)
  expect(await status({})).toBe(200)
  other.rotateKeys({ apiKey: 'key-2' })
  expect(await status({ apiKey })).toBe(401)
  expect(await status({})).toBe(200)
  expect(other.connections).toBe(1)
  stream.socket.close()
  expect(() => other.rotateKeys({ apiKey: 'two words' })).toThrow('apiKey must be printable ASCII')
  expect(() => other.rotateKeys({ userSecret: '' })).toThrow('userSecret must not be empty')
  expect(await status({})).toBe(200)
})

test('bytes that are no HTTP are answered with 400, a date and a message', async () => {
  const { hostname, port } = new URL(engine.endpoint)
  const text = await new Promise<string>((resolve, reject) => {
    let received = ''
    const socket = connect(Number(port), hostname, () => socket.write('HELLO\r\n\r\n'))
    socket.on('data', chunk => {
      received += chunk
    })
    socket.on('error', reject)
    socket.on('close', () => resolve(received))
  })
  expect(text).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
  expect(text).toMatch(/\r\ndate: /)
  expect(text).toContain('{"message":')
})

test('the log of requests has everything but what authorizes', async () => {
  await using other = await startDataEngine({ feeds: [ethUsd], intervalMs: 0 })
  const path = `/api/v1/reports/latest?feedID=${ethUsd}`
  const at = Date.now()
  await send(other, path, { at, headers: { 'X-Cll-Origin': '001' } })
  await send(other, '/nowhere', { method: 'PUT' })
  const log = other.requests()
  expect(log).toEqual([
    { method: 'GET', path, origin: '001', at: expect.any(Number), status: 200, reason: undefined },
    {
      method: 'PUT',
      path: '/nowhere',
      origin: undefined,
      at: expect.any(Number),
      status: 404,
      reason: expect.any(String),
    },
  ])
  const text = JSON.stringify(log)
  for (const value of Object.values(signedHeaders(other, path, { at }))) {
    if (value !== String(at)) expect(text).not.toContain(value)
  }
})
