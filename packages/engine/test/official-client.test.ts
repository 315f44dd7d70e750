import { createClient, type DataStreamsClient, decodeReport } from '@chainlink/data-streams-sdk'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { reportSchema } from '../encode.js'
import { type DataEngine, type PublishedReport, startDataEngine } from '../index.js'

let engine: DataEngine
let client: DataStreamsClient
beforeAll(async () => {
  engine = await startDataEngine({ intervalMs: 0, history: 5, origins: 2 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, retryAttempts: 0 })
})
afterAll(() => engine.close())

// What the official client knows: V2 to V13, in seconds.
const known = () => engine.feeds.filter(id => /^0x000[2-9a-d]/.test(id))
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
const reportsOf = (feedID: string) =>
  engine
    .ledger()
    .filter(entry => entry.feedID === feedID)
    .map(envelope)

test('the official client lists the feeds', async () => {
  expect(await client.listFeeds()).toEqual(engine.feeds.map(feedID => ({ feedID })))
})

test('the official client reads the latest report, one by timestamp, a page, and many at once', async () => {
  const [ethUsd, btcUsd] = known() as [string, string]
  const reports = reportsOf(ethUsd)
  const third = reports[2] as PublishedReport
  expect(await client.getLatestReport(ethUsd)).toEqual(reports.at(-1))
  expect(await client.getReportByTimestamp(ethUsd, third.observationsTimestamp)).toEqual(third)
  expect(await client.getReportsPage(ethUsd, third.observationsTimestamp, 2)).toEqual(
    reports.slice(2, 4),
  )
  expect(await client.getReportsBulk([ethUsd, btcUsd], third.observationsTimestamp)).toEqual([
    third,
    reportsOf(btcUsd)[2],
  ])
})

test('the official client decodes a report of every version it knows', async () => {
  const versions = new Set<string>()
  for (const feedID of known()) {
    const { fullReport } = await client.getLatestReport(feedID)
    const decoded = decodeReport(fullReport, feedID)
    versions.add(decoded.version)
    const schema = reportSchema(Number(decoded.version.slice(1)), 's')
    const names = schema?.slice(3).map(field => field.name) ?? []
    expect(Object.keys(decoded)).toEqual(expect.arrayContaining(names))
  }
  expect(versions.size).toBe(12)
})

test('the official client decodes the values that were published', () => {
  const [ethUsd] = known() as [string]
  const { fullReport } = engine.publish(ethUsd, {
    price: -5n,
    bid: -7n,
    ask: 2n ** 100n,
    nativeFee: 1,
    linkFee: 2,
    expiresAt: 3,
  })
  expect(decodeReport(fullReport, ethUsd)).toMatchObject({
    version: 'V3',
    price: -5n,
    bid: -7n,
    ask: 2n ** 100n,
    nativeFee: 1n,
    linkFee: 2n,
    expiresAt: 3,
  })
})

test('the official client is refused with 401 for a wrong secret', async () => {
  const { apiKey, endpoint, wsEndpoint } = engine
  const stranger = createClient({
    apiKey,
    userSecret: 'guessed',
    endpoint,
    wsEndpoint,
    retryAttempts: 0,
  })
  await expect(stranger.listFeeds()).rejects.toMatchObject({
    statusCode: 401,
    message: 'unauthorized',
  })
})

test.each([
  [false, ['undefined']],
  [true, ['001', '002']],
])('the official client streams reports once each (HA: %s)', async (haMode, origins) => {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const feeds = known()
  const stream = createClient({ apiKey, userSecret, endpoint, wsEndpoint, haMode }).createStream(
    feeds,
  )
  const seen: unknown[] = []
  const errors: unknown[] = []
  stream.on('error', error => errors.push(error))
  const all = new Promise<void>(resolve => {
    stream.on('report', report => {
      seen.push(report)
      if (seen.length === 2 * feeds.length) resolve()
    })
  })
  await stream.connect()
  expect(engine.connections).toBe(origins.length)
  const upgrades = engine
    .requests()
    .filter(({ status }) => status === 101)
    .slice(-origins.length)
  expect(upgrades.map(({ origin }) => String(origin)).sort()).toEqual(origins)
  const published = [...feeds, ...feeds].map(feedID => envelope(engine.publish(feedID)))
  await all
  await stream.close()
  for (const report of published) expect(seen).toContainEqual(expect.objectContaining(report))
  expect(seen).toHaveLength(published.length)
  expect(errors).toEqual([])
})
