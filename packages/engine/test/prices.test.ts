// What a feed costs: what it is worth, or what a test has set.
import { afterEach, expect, test } from '@jest/globals'
import { createClient, knownFeeds } from 'sluice'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '../index.js'

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

async function start(options: DataEngineOptions): Promise<DataEngine> {
  const engine = await startDataEngine({ intervalMs: 0, ...options })
  closers.push(engine.close)
  return engine
}

async function latest(engine: DataEngine, feedID: string): Promise<number> {
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  const client = createClient({ endpoint, wsEndpoint, apiKey, userSecret })
  closers.unshift(client.close)
  const { decoded } = await client.getLatestReport(feedID)
  if (decoded.version !== 'V3') throw new Error(decoded.version)
  expect(decoded.bid < decoded.price && decoded.price < decoded.ask).toBe(true)
  return Number(decoded.price) / 1e18
}

test.each([
  ['ETH/USD', 3850],
  ['BTC/USD', 104_000],
  ['DOGE/USD', 0.18],
  ['USDC/USD', 1],
] as const)('a bare id of %s has the price of it, on each network', async (name, price) => {
  const ids = [knownFeeds.mainnet[name], (knownFeeds.testnet as typeof knownFeeds.mainnet)[name]]
  const feeds = ids.flatMap(each => (each === undefined ? [] : [each.feedID]))
  const engine = await start({ feeds, history: 100 })
  for (const feedID of feeds) expect(await latest(engine, feedID)).toBe(price)
})

test('each known feed has a price of its own, which is no random one', async () => {
  const all = Object.values(knownFeeds.mainnet)
  const engine = await start({ feeds: all.map(({ feedID }) => feedID), history: 1 })
  for (const { feedID } of all) expect(await latest(engine, feedID)).toBeLessThanOrEqual(104_000)
})

test('a price that a test has set is the latest, whatever the history, and the stream goes on from it', async () => {
  const { feedID } = knownFeeds.testnet['ETH/USD']
  for (const history of [0, 1, 500]) {
    const engine = await start({
      feeds: [{ feedID, fields: { price: 42n * 10n ** 18n } }],
      history,
    })
    if (history === 0) engine.publish(feedID)
    expect(await latest(engine, feedID)).toBe(42)
    engine.publish(feedID)
    const next = await latest(engine, feedID)
    expect(next).not.toBe(42)
    expect(Math.abs(next - 42)).toBeLessThan(0.05)
  }
})

test('reports of the past are signed when somebody asks for them, by the signers of their time', async () => {
  const { feedID } = knownFeeds.testnet['ETH/USD']
  const engine = await start({ feeds: [feedID], history: 3000 })
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  const [first] = engine.networks
  engine.rotate()
  const verify = { signers: [first as NonNullable<typeof first>] }
  const client = createClient({ endpoint, wsEndpoint, apiKey, userSecret, verify })
  closers.unshift(client.close)
  const { observationsTimestamp: last } = await client.getLatestReport(feedID)
  const page = await client.getReportsPage(feedID, last - 50, 50)
  expect(page).toHaveLength(50)
  expect(page.every(({ verified }) => verified)).toBe(true)
  const again = await client.getReportsPage(feedID, last - 50, 50)
  expect(again.map(({ fullReport }) => fullReport)).toEqual(
    page.map(({ fullReport }) => fullReport),
  )
})
