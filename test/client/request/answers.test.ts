import { afterEach, expect, jest, test } from '@jest/globals'
import { createClient, decoders, v3 } from '../../../index.js'
import { sampleReport } from '../../../testing/index.js'

const feeds = ['a', 'b'].map(digit => `0x0003${digit.repeat(60)}`) as [string, string]
const time = 1_700_000_000
const reportOf = (feedID: string, price = 5n) =>
  sampleReport({ feedID, observationsTimestamp: time, values: [price, price, price] })

/** A client whose service answers every request so. */
const clientOf = (answer: object) =>
  createClient({
    endpoint: 'https://service.invalid',
    wsEndpoint: 'wss://service.invalid',
    fetch: async () => Response.json(answer),
    plugins: [decoders(v3)],
  })

afterEach(() => void jest.useRealTimers())

test('a bulk answer with two different reports of a feed has none of that feed', async () => {
  const [one, other] = feeds
  const reports = [reportOf(one), reportOf(one, 6n), reportOf(other), reportOf(other)]
  const bulk = await clientOf({ reports }).getReportsBulk(feeds, time)
  expect(bulk.map(({ feedID }) => feedID)).toEqual([other])
})

test('a request that was answered leaves no timer', async () => {
  const client = clientOf({ report: reportOf(feeds[0]) })
  // The code for requests is loaded with the first.
  await client.getLatestReport(feeds[0])
  jest.useFakeTimers()
  await client.getLatestReport(feeds[0])
  expect(jest.getTimerCount()).toBe(0)
})
