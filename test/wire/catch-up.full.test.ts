// Many feeds after an outage, against a service that is written from the protocol alone: what they are missing is asked for together.
import { afterEach, expect, test } from '@jest/globals'
import { createClient, defaultPreset } from '../../index.js'
import { feedID, startService } from '../support/service/service.js'
import { pause, until } from '../support/waiting.js'

const FEEDS = 300
const OUTAGE = 6

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

test('300 feeds are complete soon after an outage of six seconds', async () => {
  const feeds = Array.from({ length: FEEDS }, (_, at) => feedID(3, at + 1))
  const start = Math.floor(Date.now() / 1000) - 60
  const service = await startService({ feeds, signatures: 'dummy' })
  closers.push(() => service.close())
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const plugins = defaultPreset({ apiKey, userSecret, retryDelay: 5 })
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const stream = client.createStream(feeds, { reconnectInterval: 200 })
  const times = new Map<string, Set<number>>(feeds.map(feed => [feed, new Set<number>()]))
  let doubled = 0
  stream.on('error', () => undefined)
  stream.on('report', ({ feedID: feed, observationsTimestamp: time }) => {
    if (times.get(feed)?.has(time)) doubled++
    times.get(feed)?.add(time)
  })
  await stream.connect()
  let second = start
  const tick = (how: 'publish' | 'store'): void => {
    for (const feed of feeds) service[how](feed, { observed: second })
    second++
  }
  for (let count = 0; count < 5; count++) {
    tick('publish')
    await pause(100)
  }
  await until(() => feeds.every(feed => times.get(feed)?.size === 5))
  await service.stop()
  for (let count = 0; count < OUTAGE; count++) tick('store')
  await service.start()
  await until(() => stream.getMetrics().fullReconnects + stream.getMetrics().partialReconnects > 2)
  const asked = service.requests.length
  const ticks = setInterval(() => tick('publish'), 1000)
  tick('publish')
  const outage = Array.from({ length: OUTAGE }, (_, at) => start + 5 + at)
  await until(() => feeds.every(feed => outage.every(time => times.get(feed)?.has(time)))).finally(
    () => clearInterval(ticks),
  )
  const requests = service.requests.slice(asked)
  const pages = requests.filter(({ path }) => path.includes('/page')).length
  const bulks = requests.filter(({ path }) => path.includes('/bulk')).length
  // One page for each feed would be 300, half a minute at ten requests a second.
  expect(pages).toBeLessThan(FEEDS / 2)
  expect(bulks).toBeGreaterThan(0)
  expect(doubled).toBe(0)
  expect(stream.getMetrics().gaps).toBe(0)
})
