import { expect, test } from '@jest/globals'
import { createClient } from '../../index.js'
import { startDataEngine } from '../../local/index.js'
import { pause, until } from '../waiting.js'

/** How long the service is away: `OUTAGE_SECONDS=30 npm test -- test/faults/outage` for the long form. */
const SECONDS = Number(process.env.OUTAGE_SECONDS ?? 5)
const FEEDS = 200

test(
  `a service that is away for ${SECONDS} s costs none of the reports of ${FEEDS} feeds`,
  async () => {
    const feeds = Array.from(
      { length: FEEDS },
      (_, index) => `0x1003${index.toString(16).padStart(60, '0')}`,
    )
    const engine = await startDataEngine({
      feeds,
      intervalMs: 1000,
      history: 0,
      retain: 100_000,
      rateLimit: 10,
    })
    engine.pause()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
    const stream = client.createStream(feeds, { maxReconnectAttempts: Number.POSITIVE_INFINITY })
    const delivered = new Map<string, number>()
    const gaps: unknown[] = []
    stream.on('report', ({ feedID, observationsTimestamp }) => {
      const key = `${feedID}:${observationsTimestamp}`
      delivered.set(key, (delivered.get(key) ?? 0) + 1)
    })
    stream.on('gap', gap => void gaps.push(gap))
    stream.on('error', () => undefined)
    await stream.connect()
    const lost = () =>
      engine
        .ledger()
        .filter(report => !delivered.has(`${report.feedID}:${report.observationsTimestamp}`))

    engine.resume()
    await pause(3000)
    await engine.stop()
    await pause(SECONDS * 1000)
    await engine.start()
    await until(() => stream.getMetrics().activeConnections > 0, 30_000)
    await pause(3000)
    engine.pause()
    const published = engine.ledger().length
    await until(() => lost().length === 0, 60_000)
    await pause(500)

    const { backfilled, deduplicated } = stream.getMetrics()
    const asked = engine
      .requests()
      .filter(({ path }) => path.startsWith('/api/v1/reports/page'))
      .map(({ at }) => at)
    const densest = Math.max(
      ...asked.map(start => asked.filter(at => at >= start && at < start + 1000).length),
    )
    const doubled = [...delivered.values()].filter(times => times > 1)
    console.log(
      `outage of ${SECONDS} s, ${FEEDS} feeds: published ${published}, delivered ${delivered.size}, fetched ${backfilled}, ` +
        `copies ${deduplicated}, lost ${lost().length}, doubled ${doubled.length}, gaps ${gaps.length}, ` +
        `page requests ${asked.length}, at most ${densest} in a second`,
    )
    expect(doubled).toEqual([])
    expect(gaps).toEqual([])
    expect(backfilled).toBeGreaterThan(FEEDS * SECONDS * 0.5)
    expect(densest).toBeLessThanOrEqual(10)
    await client.close()
    await engine.close()
  },
  (SECONDS + 120) * 1000,
)
