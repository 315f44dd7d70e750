import { expect, test } from '@jest/globals'
import { type DataEngine, type PublishedReport, startDataEngine, type TWAPSpec } from '../index.js'
import { priceOf } from '../twap.js'
import { send, signedHeaders } from './support/signed.js'

const eth = '0x000362205e10b3a147d02792eccee483dca6c7b44ecce7012cb8c6e0b68b3ae9'
const average = `0x0002${'7a'.repeat(30)}`
const start = Date.UTC(2026, 9, 1, 12)
const second = start / 1000

const manual = { clock: 'manual', now: () => start, history: 0 } as const

function startAverage(twapOf: Omit<TWAPSpec, 'feedID'>, intervalMs = 0): Promise<DataEngine> {
  return startDataEngine({
    ...manual,
    intervalMs,
    feeds: [eth, { feedID: average, twapOf: { feedID: eth, ...twapOf } }],
  })
}

/** Publishes a price that holds from the last report to the end. */
function put(engine: DataEngine, price: bigint, from: number, end: number): void {
  engine.publish(eth, { price, validFromTimestamp: from, observationsTimestamp: end })
}
function averageAt(engine: DataEngine, end: number): bigint {
  const { fullReport } = engine.publish(average, { observationsTimestamp: end })
  return priceOf(fullReport, 2, 's')
}

test.each([
  // The seconds 1 to 4: 10, 20, 20 and 40.
  [{ window: 4 }, 4, (10n + 2n * 20n + 40n) / 4n],
  // The seconds 0 to 3.
  [{ window: 4, openEnd: 'end' }, 4, (2n * 10n + 2n * 20n) / 4n],
  // The seconds 3 to 4: the second report is cut, or counts for both of its seconds.
  [{ window: 2 }, 4, (20n + 40n) / 2n],
  [{ window: 2, straddling: 'whole' }, 4, (2n * 20n + 40n) / 3n],
  // Nothing covers 5, which would be the last second.
  [{ window: 3 }, 5, (20n + 40n) / 2n],
  // The report that holds the end was observed later.
  [{ window: 2 }, 2, (10n + 20n) / 2n],
] as const)('%j', async (twapOf, end, price) => {
  await using engine = await startAverage(twapOf)
  put(engine, 10n, second, second + 1)
  put(engine, 20n, second + 2, second + 3)
  put(engine, 40n, second + 4, second + 4)
  expect(averageAt(engine, second + end)).toBe(price)
})

test('a price below zero is rounded towards zero', async () => {
  await using engine = await startAverage({ window: 3 })
  put(engine, -10n, second, second)
  put(engine, -10n, second + 1, second + 1)
  put(engine, -11n, second + 2, second + 2)
  expect(averageAt(engine, second + 2)).toBe(-10n)
})

test('averages follow the reports of their feed, with the time of each', async () => {
  await using engine = await startAverage({ window: 30 }, 1000)
  await engine.advance(60_000)
  const of = (feedID: string) => engine.ledger().filter(each => each.feedID === feedID)
  const times = of(eth).map(each => each.observationsTimestamp)
  expect(times).toHaveLength(60)
  expect(of(average).map(each => each.observationsTimestamp)).toEqual(times)
  const last = of(eth).slice(-30)
  const sum = last.reduce((total, each) => total + priceOf(each.fullReport, 3, 's'), 0n)
  const newest = of(average).at(-1) as PublishedReport
  const { fullReport, validFromTimestamp, observationsTimestamp } = newest
  expect(priceOf(fullReport, 2, 's')).toBe(sum / 30n)
  // The window of the average is not the window of the report.
  expect(observationsTimestamp - validFromTimestamp).toBe(0)
  expect(engine.catalogue.get(average).name).toBe('ETH/USD-Streams-TWAP-30s')
})

test('an average has its own rate of publication, and a history', async () => {
  await using engine = await startDataEngine({
    ...manual,
    history: 5,
    feeds: [eth, { feedID: average, intervalMs: 5000, twapOf: { feedID: eth, window: 60 } }],
  })
  const count = () => engine.ledger().filter(each => each.feedID === average).length
  const before = count()
  expect(before).toBeGreaterThan(0)
  await engine.advance(20_000)
  expect(count() - before).toBe(4)
})

test('an average needs a report, a feed of the engine and the version 2', async () => {
  await using engine = await startAverage({ window: 30 })
  expect(() => engine.publish(average)).toThrow('the window that ends at')
  expect(priceOf(engine.publish(average, { price: 7n }).fullReport, 2, 's')).toBe(7n)
  const specs = [
    [{ feedID: average, twapOf: { feedID: eth, window: 30 } }],
    [eth, { feedID: eth.replace('0003', '0001'), twapOf: { feedID: eth, window: 30 } }],
    [eth, { feedID: average, twapOf: { feedID: eth, window: 0 } }],
    [{ feedID: average, twapOf: { feedID: average, window: 30 } }],
  ]
  for (const feeds of specs)
    await expect(startDataEngine({ feeds })).rejects.toThrow(/feeds:|twapOf/)
})

test('POST /api/v1/twap answers from the ledger', async () => {
  await using engine = await startAverage({ window: 4 })
  put(engine, 10n, second, second + 1)
  put(engine, 20n, second + 2, second + 3)
  const path = '/api/v1/twap'
  const post = (body: unknown) =>
    send(engine, path, { method: 'POST', at: start, body: JSON.stringify(body) })
  const { status, json } = await post({ feedId: eth, windowSeconds: 4, endTs: second + 4 })
  expect({ status, json }).toEqual({
    status: 200,
    json: {
      result: String((10n + 2n * 20n) / 3n),
      feedId: eth,
      samples: 2,
      decimals: 18,
      windowStartTs: second,
      windowEndTs: second + 4,
      effectiveWindowStartTs: second + 1,
      effectiveWindowEndTs: second + 3,
    },
  })
  expect((await post({ feedId: eth, windowSeconds: 4 })).json).toMatchObject({
    result: '10',
    windowEndTs: second,
  })
  expect((await post({ feedId: eth, windowSeconds: 4, endTs: 9 })).status).toBe(404)
  expect((await post({ feedId: eth, windowSeconds: '4' })).status).toBe(400)
  expect((await post({ windowSeconds: 4 })).status).toBe(400)
  expect((await post('no object')).status).toBe(400)
  const other = `0x0003${'00'.repeat(30)}`
  expect((await post({ feedId: other, windowSeconds: 4 })).status).toBe(401)
  expect((await send(engine, path, { at: start })).status).toBe(405)
})

test('the signature of POST /api/v1/twap covers the body', async () => {
  await using engine = await startAverage({ window: 4 })
  const body = JSON.stringify({ feedId: eth, windowSeconds: 4 })
  const headers = signedHeaders(engine, '/api/v1/twap', { method: 'POST', at: start })
  const reply = await send(engine, '/api/v1/twap', { method: 'POST', at: start, body, headers })
  expect(reply.status).toBe(401)
})
