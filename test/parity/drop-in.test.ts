import * as official from '@chainlink/data-streams-sdk'
import { describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import * as sluice from '../../index.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const v8Feed = `0x0008${'ab'.repeat(30)}`

/** Two of these are equal, signatures included. */
async function startEqualEngine(): Promise<DataEngine> {
  const engine = await startDataEngine({ feeds: [ethUsd, v8Feed], intervalMs: 0, history: 0 })
  for (let at = 0; at < 12; at++)
    engine.publish(ethUsd, { observationsTimestamp: 1_700_000_000 + at })
  engine.publish(v8Feed, {
    observationsTimestamp: 1_700_000_011,
    lastUpdateTimestamp: 1_700_000_011_123_456_789n,
  })
  return engine
}

type SDK = Pick<
  typeof official,
  | 'createClient'
  | 'decodeReport'
  | 'getReportVersion'
  | 'formatReport'
  | 'LogLevel'
  | 'ValidationError'
  | 'APIError'
  | 'DataStreamsError'
>

/** A program as the official documentation writes them; `sdk` stands for its import. */
async function program(sdk: SDK, engine: DataEngine) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const config: official.Config = {
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    timeout: 30_000,
    retryAttempts: 1,
    retryDelay: 10,
    haMode: false,
    haConnectionTimeout: 5000,
    connectionStatusCallback: (isConnected, _host, _origin) => void statuses.push(isConnected),
    logging: {
      logger: { info: () => undefined, error: () => undefined },
      logLevel: sdk.LogLevel.INFO,
      enableConnectionDebug: false,
    },
  }
  const statuses: boolean[] = []
  const client = sdk.createClient(config)

  const record = (report: official.Report) => {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
    return { feedID, fullReport, validFromTimestamp, observationsTimestamp }
  }
  const feeds = await client.listFeeds()
  const latest = await client.getLatestReport(ethUsd)
  const byTime = await client.getReportByTimestamp(ethUsd, 1_700_000_004)
  const page = await client.getReportsPage(ethUsd, 1_700_000_002, 5)
  const bulk = await client.getReportsBulk([ethUsd, v8Feed], 1_700_000_011)

  const decoded = sdk.decodeReport(latest.fullReport, latest.feedID)
  const combined = { ...decoded, ...latest }
  const text = sdk.formatReport(
    combined as official.DecodedReport,
    sdk.getReportVersion(latest.feedID),
  )

  const caught: string[] = []
  for (const attempt of [
    () => client.getLatestReport('0x12'),
    () => client.getReportByTimestamp(ethUsd, 5),
  ]) {
    try {
      await attempt()
    } catch (error) {
      if (error instanceof sdk.ValidationError) caught.push('ValidationError')
      else if (error instanceof sdk.APIError) caught.push(`APIError ${error.statusCode}`)
    }
  }

  const stream = client.createStream([ethUsd], { reconnectInterval: 200, maxReconnectAttempts: 3 })
  const streamed: unknown[] = []
  const done = new Promise<void>(resolve => {
    stream.on('report', report => {
      streamed.push(record(report))
      if (streamed.length === 3) resolve()
    })
  })
  stream.on('error', error => void streamed.push(error.message))
  stream.on('disconnected', () => undefined)
  stream.on('reconnecting', info => void info.attempt)
  await stream.connect()
  const time = 1_700_000_100
  for (let at = 0; at < 3; at++)
    engine.publish(ethUsd, {
      validFromTimestamp: time + at,
      observationsTimestamp: time + at,
      price: 7n,
      bid: 6n,
      ask: 8n,
    })
  await done
  const { accepted, deduplicated, totalReceived, activeConnections, configuredConnections } =
    stream.getMetrics()
  await stream.close()

  return {
    feeds: feeds.map(feed => feed.feedID),
    latest: record(latest),
    byTime: record(byTime),
    page: page.map(record),
    bulk: bulk.map(record),
    decoded: ['version', 'nativeFee', 'linkFee', 'expiresAt', 'price', 'bid', 'ask'].map(name =>
      Reflect.get(decoded, name),
    ),
    spread: Object.keys(combined).includes('fullReport'),
    text: text.includes(ethUsd),
    caught,
    statuses: statuses.slice(0, 1),
    streamed: streamed.map(report => (report as official.Report).observationsTimestamp),
    metrics: { accepted, deduplicated, totalReceived, activeConnections, configuredConnections },
  }
}

describe('a program written for the official client', () => {
  test('does the same with another import', async () => {
    const engines = [await startEqualEngine(), await startEqualEngine()] as const
    const theirs = await program(official, engines[0])
    const ours = await program(sluice as unknown as SDK, engines[1])
    for (const engine of engines) await engine.close()
    expect(ours).toEqual(theirs)
    expect(ours).toMatchObject({
      caught: ['ValidationError', 'APIError 404'],
      spread: true,
      text: true,
      statuses: [true],
    })
    expect(ours.streamed).toHaveLength(3)
  })

  test('compiles with another import', () => {
    const config: official.Config = {
      apiKey: 'k',
      userSecret: 's',
      endpoint: 'https://a.example',
      wsEndpoint: 'wss://a.example',
    }
    const client = sluice.createClient(config)
    const report: Promise<official.Report> = client
      .getLatestReport(ethUsd)
      .catch(() => ({}) as official.Report)
    const options: official.StreamOptions = { maxReconnectAttempts: 3 }
    const stream = client.createStream(ethUsd, options)
    stream
      .on('report', (each: official.Report) => void each)
      .on('error', (error: Error) => void error)
    const metrics: official.MetricsSnapshot = stream.getMetrics() as official.MetricsSnapshot
    expect(metrics.configuredConnections).toBe(1)
    return Promise.all([report, client.close()])
  })
})
