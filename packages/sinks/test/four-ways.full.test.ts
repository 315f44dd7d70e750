import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { type RecordedReport, startDataEngine, startFaultProxy, startReplay } from '@sluice/engine'
import { createRandom } from '@sluice/test-support/random.js'
import { until } from '@sluice/test-support/waiting.js'
import { createClient, decodeReport, defaultPreset } from 'sluice'
import {
  type Candle,
  type CandleInterval,
  candles,
  candlesOf,
  type PricedReport,
} from 'sluice/plugins/candles'
import { sink } from 'sluice/plugins/sink'
import { duckdb } from '../duckdb/index.js'
import { makeFolder, query } from './support/databases.js'

const FEEDS = 20
const HOUR = 3600
const SPEED = 60
/** An hour of a day that is long past, from its beginning. */
const begin = 1_700_049_600
const intervals: readonly CandleInterval[] = ['1s', '1m', '5m', '1h']
const idOf = (index: number): string => `0x0003${'4a'.repeat(28)}${String(index).padStart(4, '0')}`

interface Hour {
  readonly recording: readonly RecordedReport[]
  /** Times that no report holds, by feed. */
  readonly holes: ReadonlyMap<string, readonly number[]>
}

/**
 * An hour of twenty feeds. A report now and then absorbs a gap, some were missed by the stream of
 * that day, and some nobody has.
 */
async function recordHour(): Promise<Hour> {
  const random = createRandom(34)
  const engine = await startDataEngine({
    feeds: Array.from({ length: FEEDS }, (_, index) => idOf(index)),
    intervalMs: 0,
    history: 0,
    clock: 'manual',
    now: () => begin * 1000,
  })
  const holes = new Map<string, number[]>()
  const recording: RecordedReport[] = []
  for (let index = 0; index < FEEDS; index++) {
    const feedID = idOf(index)
    holes.set(feedID, [])
    let price = (1n << BigInt(random.pick(71, 79))) * (index % 5 === 0 ? -1n : 1n)
    for (let from = begin - 10; from < begin + HOUR + 10; ) {
      const to = from + (random.chance(0.02) ? random.pick(1, 5) : 0)
      price += (price / 10_000n) * BigInt(random.pick(-5, 5))
      const { fullReport } = engine.publish(feedID, {
        ...{ validFromTimestamp: from, observationsTimestamp: to, price },
      })
      const isLost = from > begin + 60 && random.chance(0.001)
      if (isLost) for (let time = from; time <= to; time++) holes.get(feedID)?.push(time)
      else
        recording.push({
          ...{ feedID, fullReport },
          source: random.chance(0.003) && from > begin + 60 ? 'backfill' : 'live',
          receivedAt: to * 1000 + random.pick(200, 900),
        })
      from = to + 1
    }
  }
  await engine.close()
  return { recording, holes }
}

/** The last candle of each interval of the hour, as text. */
function finalOf(all: Iterable<Candle>): ReadonlyMap<string, string> {
  const final = new Map<string, Candle>()
  for (const candle of all) {
    if (candle.start < begin || candle.end >= begin + HOUR) continue
    const key = `${candle.feedID} ${candle.interval} ${candle.start}`
    if ((final.get(key)?.revision ?? -1) <= candle.revision) final.set(key, candle)
  }
  return new Map(
    [...final].map(([key, candle]) => [
      key,
      JSON.stringify(candle, (_, value) => (typeof value === 'bigint' ? String(value) : value)),
    ]),
  )
}

async function collect(reports: AsyncIterable<PricedReport> | Iterable<PricedReport>) {
  const all: Candle[] = []
  for await (const candle of candlesOf(reports, { intervals })) all.push(candle)
  return all
}

test('candles are equal four ways: live, history, recording and SQL over stored rows', async () => {
  const { recording, holes } = await recordHour()
  const path = join(makeFolder(), 'prices.db')
  await using replay = await startReplay(recording, {
    ...{
      speed: SPEED,
      paused: true,
      from: (begin - 5) * 1000,
      rateLimit: Number.POSITIVE_INFINITY,
    },
  })
  const { apiKey, userSecret, endpoint, clock, feeds } = replay
  await using proxy = await startFaultProxy({ upstream: replay.endpoint })
  const stored = sink(duckdb(path), { maxDelay: 200 })
  const bars = candles({ intervals })
  const preset = defaultPreset({ apiKey, userSecret, rateLimit: { requests: 10_000 } })
  const client = createClient({
    ...{ endpoint, wsEndpoint: proxy.wsURL, clock },
    plugins: [stored, bars, ...preset],
  })
  const stream = client.createStream(feeds, {
    ...{ queue: 65_536, reconnectInterval: 200, maxReconnectAttempts: Number.POSITIVE_INFINITY },
  })
  const live: Candle[] = []
  stream.on('candle', candle => void live.push(candle))
  await stream.connect()
  replay.resume()
  // The connection is lost every few seconds: minutes of the recording.
  const faults = setInterval(() => proxy.reset(), 7000)
  await replay.ended
  clearInterval(faults)
  // The gaps are announced, and the last candles end by the clock.
  await until(() => replay.now() > (begin + HOUR + 60) * 1000)
  await stored.flush()

  const expected = finalOf(live)
  expect(expected.size).toBeGreaterThan(FEEDS * (HOUR + 60) * 0.99)

  const history: Candle[] = []
  for (const feedID of feeds)
    history.push(...(await collect(client.getReportsBetween(feedID, begin, begin + HOUR - 1))))
  await client.close()
  await stored.close()
  expect(difference(expected, finalOf(history))).toEqual([])

  const decoded = recording.map(({ feedID, fullReport }) => {
    const fields = decodeReport(fullReport, feedID)
    const { validFromTimestamp, observationsTimestamp } = fields
    return { feedID, validFromTimestamp, observationsTimestamp, decoded: fields }
  })
  expect(difference(expected, finalOf(await collect(decoded)))).toEqual([])

  const rows = await query(
    path,
    `SELECT feed_id, valid_from_timestamp AS f, observations_timestamp AS t,
       replace(price::VARCHAR, '.', '') AS p FROM reports_v3`,
  )
  const fromRows = rows.map(row => ({
    feedID: String(row.feed_id),
    validFromTimestamp: Number(row.f),
    observationsTimestamp: Number(row.t),
    decoded: { price: BigInt(String(row.p)) },
  }))
  expect(difference(expected, finalOf(await collect(fromRows)))).toEqual([])

  // Each planted hole is found, and no candle with a hole is complete.
  let planted = 0
  for (const [feedID, times] of holes)
    for (const time of times) {
      if (time < begin || time >= begin + HOUR) continue
      planted++
      const start = time - (time % 60)
      const minute = JSON.parse(expected.get(`${feedID} 1m ${start}`) as string)
      expect(minute.complete).toBe(false)
      expect(
        minute.missing.some(
          ({ from, to }: { from: number; to: number }) => from <= time && time <= to,
        ),
      ).toBe(true)
    }
  expect(planted).toBeGreaterThan(20)
  const incomplete = [...expected.values()].filter(text => text.includes('"complete":false'))
  const lacking = [...expected.values()].filter(text => {
    const { feedID, start, end } = JSON.parse(text)
    return holes.get(feedID)?.some(time => time >= start && time <= end)
  })
  expect(incomplete.sort()).toEqual(lacking.sort())
}, 600_000)

function difference(
  one: ReadonlyMap<string, string>,
  other: ReadonlyMap<string, string>,
): readonly string[] {
  const keys = new Set([...one.keys(), ...other.keys()])
  return [...keys]
    .filter(key => one.get(key) !== other.get(key))
    .slice(0, 5)
    .map(key => `${one.get(key)} | ${other.get(key)}`)
}
