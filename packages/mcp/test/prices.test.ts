import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { closeAfterEach } from '@sluice/test-support/closing.js'
import { decodeReport } from 'sluice'
import { checkProof } from 'sluice/proof'
import { envOf, type Session, startBoth, startSession } from './support/mcp.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const eurUsd = '0x0004b9905d8337c34e00f8dbe31619428bac5c3937e73e6af75c71780f1770ce'
const fund = '0x0009d7e16a4b302f5c8d9eafb0c1d2e3f405162738495a6b7c8d9eafb0c1d2e3'
const order = '0x000d3c58b1a9e7f2406d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a4b'
const oil = '0x000e7f20d4c5b6a3981e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e'
const inMs = '0x10035a7b9c1d3e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7'
const e18 = 10n ** 18n
const closers = closeAfterEach()

/** The price of a fact as the integer that is signed. */
const integerOf = (data: Readonly<Record<string, unknown>>, field = 'price'): string | undefined =>
  (data.values as { field: string; integer: string }[]).find(each => each.field === field)?.integer

describe('prices that are signed', () => {
  let engine: DataEngine
  let session: Session
  let close: () => Promise<void>
  beforeAll(async () => {
    ;({ engine, session, close } = await startBoth({ intervalMs: 0, history: 40 }))
  })
  afterAll(() => close())

  test.each(['ETH/USD', 'eth-usd', 'ethusd', ethUsd, ethUsd.toUpperCase().replace('X', 'x')])(
    'the newest price of %s is exact text',
    async feed => {
      const price = 3_851_421_200_000_000_000_001n
      const published = engine.publish(ethUsd, { price, bid: price - 1n, ask: price + 1n })
      const { data, text } = await session.call('get_price', { feed })
      expect(data).toMatchObject({
        feedID: ethUsd,
        name: 'ETH/USD',
        schema: 'V3',
        price: '3851.421200000000000001',
        bid: '3851.4212',
        ask: '3851.421200000000000002',
        decimals: 18,
        observedAt: new Date(published.observationsTimestamp * 1000)
          .toISOString()
          .replace('.000', ''),
        marketStatus: null,
        signersCount: engine.network.f + 1,
        signersNeeded: engine.network.f + 1,
      })
      expect(text).toContain('price 3851.421200000000000001, bid 3851.4212')
    },
  )

  test.each(['ETH/USD₮', 'ЕTH/USD', 'ETH/USD+', 'ETH/€USD'])('%s is another feed', async feed => {
    expect(await session.call('get_price', { feed })).toMatchObject({ failure: 'unknown-feed' })
  })

  test('a price below zero', async () => {
    engine.publish(oil, { midPrice: -37_630_000_000_000_000_000n })
    const { data } = await session.call('get_price', { feed: oil })
    expect(integerOf(data, 'midPrice')).toBe('-37630000000000000000')
  })

  test('without known decimals there are integers alone', async () => {
    engine.publish(eurUsd, { price: 1_137_900_000_000_000_000n, marketStatus: 1 })
    const { data } = await session.call('get_price', { feed: 'EUR/USD' })
    expect(data).toMatchObject({ price: null, decimals: null, marketStatus: 'CLOSED' })
    expect(integerOf(data)).toBe('1137900000000000000')
    expect(data.warnings).toEqual([
      expect.stringContaining('CLOSED'),
      expect.stringContaining('decimals of this feed are not known'),
    ])
  })

  test('the operator gives the decimals', async () => {
    const other = await startSession(envOf(engine, { SLUICE_DECIMALS: '18' }))
    closers.push(() => other.close())
    engine.publish(eurUsd, { price: 1_137_900_000_000_000_000n })
    const { data } = await other.call('get_price', { feed: eurUsd })
    expect(data.price).toBe('1.1379')
    // The setting is of no one feed, so the price may be wrong.
    expect(data.warnings).toContainEqual(expect.stringContaining('18 is an assumption'))
    const known = await other.call('get_price', { feed: ethUsd })
    expect(known.data.warnings).toEqual([])
  })

  test('a ripcord that is pulled', async () => {
    engine.publish(fund, { navPerShare: 777_123_777n, ripcord: 1 })
    const { failure, text } = await session.call('get_price', { feed: fund })
    expect(failure).toBe('not-usable')
    expect(text).not.toContain('777123777')
  })

  test('a feed of bid and ask has no single price', async () => {
    engine.publish(order, { bestBid: 5n * e18, bestAsk: 6n * e18 })
    const { data } = await session.call('get_price', { feed: order })
    expect(data.price).toBe(null)
    expect(integerOf(data, 'bestBid')).toBe(String(5n * e18))
  })

  test('the report that holds a moment, and its proof', async () => {
    const [, , , wanted] = engine.ledger().filter(({ feedID }) => feedID === ethUsd)
    const at = wanted?.observationsTimestamp as number
    const { data } = await session.call('get_price_at', { feed: 'ETH/USD', at, proof: true })
    expect(data.found).toBe(true)
    const price = data.price as Readonly<Record<string, unknown>>
    expect(price.observedAt).toBe(new Date(at * 1000).toISOString().replace('.000', ''))
    const checked = await checkProof(data.proof as string, {
      signers: engine.network,
      feedID: ethUsd,
      complete: true,
    })
    expect(String(checked.value)).toBe(integerOf(price))
    expect(checked.claim).toMatchObject({ at, value: integerOf(price) })
    const texts = [at * 1000, String(at), new Date(at * 1000).toISOString()]
    for (const each of texts) {
      const again = await session.call('get_price_at', { feed: 'ETH/USD', at: each })
      expect(again.data.price).toMatchObject({ observedAt: price.observedAt, price: price.price })
    }
  })

  test('a moment of a feed in milliseconds', async () => {
    const { observationsTimestamp: at, ...rest } = engine.publish(inMs, { price: 4n * e18 })
    const { data } = await session.call('get_price_at', { feed: inMs, at })
    expect(data).toMatchObject({ found: true, at: new Date(at).toISOString().replace('.000', '') })
    expect(rest.validFromTimestamp).toBeLessThanOrEqual(at)
  })

  test('a moment that no report holds is not answered by a neighbour', async () => {
    const {
      engine: own,
      session: other,
      close: end,
    } = await startBoth({
      feeds: [ethUsd],
      intervalMs: 0,
      history: 60,
      now: () => Date.now() - 120_000,
    })
    closers.push(end)
    const all = own.ledger()
    const first = all[0]?.validFromTimestamp as number
    const { data, text } = await other.call('get_price_at', { feed: ethUsd, at: first - 500 })
    expect(data).toMatchObject({ found: false, reason: 'missing' })
    expect(data).not.toHaveProperty('price')
    expect(text).toContain('There is no price')
    // No digits of a price of a neighbour either.
    const prices = all.map(({ fullReport }) => {
      const { price } = decodeReport(fullReport, ethUsd) as { readonly price: bigint }
      return String(price)
    })
    for (const price of prices) expect(other.traffic()).not.toContain(price.slice(0, 8))
  })

  test('an old report is called stale', async () => {
    const { session: other, close: end } = await startBoth({
      feeds: [ethUsd],
      intervalMs: 0,
      history: 5,
      now: () => Date.now() - 3_600_000,
    })
    closers.push(end)
    const { data, text } = await other.call('get_price', { feed: ethUsd })
    expect(data.ageSeconds).toBeGreaterThan(3500)
    expect(data.warnings).toContainEqual(expect.stringMatching(/^stale: the report is 36/))
    expect(text).toContain('Warning: stale')
  })

  test('a report that is given', async () => {
    const { fullReport } = engine.publish(ethUsd, { price: 4321n * e18 })
    const { data } = await session.call('check_report', { report: fullReport })
    expect(data).toMatchObject({ feedID: ethUsd, price: '4321' })
  })
})

test('a name of several feeds lists their ids', async () => {
  const feeds = [ethUsd, inMs].map(feedID => ({
    feedID,
    catalogue: { name: `FOO-${feedID.slice(2, 6)}`, baseAsset: 'FOO', quoteAsset: 'USD' },
  }))
  const { session, close } = await startBoth({ feeds, intervalMs: 0 })
  closers.push(close)
  const { failure, text } = await session.call('get_price', { feed: 'FOO/USD' })
  expect(failure).toBe('ambiguous-feed')
  for (const { feedID } of feeds) expect(text).toContain(feedID)
  const near = await session.call('get_price', { feed: 'FOO-0004' })
  expect(near.failure).toBe('unknown-feed')
  expect(near.text).toContain("did you mean 'FOO-0003'?")
})

test('the state of the market', async () => {
  const { engine, session, close } = await startBoth({
    feeds: [ethUsd, { feedID: eurUsd, fields: { marketStatus: 1 } }],
  })
  closers.push(close)
  const [open, closed] = await Promise.all([
    session.call('get_market_state', { feed: 'ETH/USD' }),
    session.call('get_market_state', { feed: eurUsd }),
  ])
  expect(open.data).toMatchObject({ tradable: true, reason: 'open' })
  expect(closed.data).toMatchObject({ tradable: false, reason: 'closed' })
  expect(open.text).toContain('may be traded')
  expect(engine.connections).toBe(0)
})

test('a feed that is silent may not be traded', async () => {
  const { session, close } = await startBoth(
    { feeds: [ethUsd], intervalMs: 0 },
    { firstReport: 200 },
  )
  closers.push(close)
  const ask = () => session.call('get_market_state', { feed: ethUsd })
  let answer = await ask()
  // The stream may open later than the service waits for it here.
  while (answer.failure === 'unavailable') answer = await ask()
  const { data } = answer
  expect(data).toMatchObject({ tradable: false, reason: 'no-report', observedAt: null })
})

test('a stream service that hangs leaves the state unknown', async () => {
  const { engine, close } = await startBoth({ feeds: [ethUsd] })
  closers.push(close)
  const silent = createServer(() => undefined)
  await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
  closers.push(() => silent.close())
  const { port } = silent.address() as { port: number }
  const other = await startSession(envOf(engine, { WS_URL: `ws://127.0.0.1:${port}` }), {
    firstReport: 200,
  })
  closers.push(() => other.close())
  const answer = await other.call('get_market_state', { feed: ethUsd })
  expect(answer).toMatchObject({ isError: true, failure: 'unavailable' })
})

test('feeds are found, page by page', async () => {
  const feeds = Array.from({ length: 120 }, (_, i) => ({
    feedID: `0x0003${String(i).padStart(60, 'a')}`,
    catalogue: { name: `N${i} ${'x'.repeat(400)}\u202e\n`, marketHours: 'h'.repeat(400) },
  }))
  const engine = await startDataEngine({ feeds, intervalMs: 0, history: 0 })
  const session = await startSession(envOf(engine))
  closers.push(
    () => engine.close(),
    () => session.close(),
  )
  const seen: string[] = []
  for (let offset: unknown = 0; offset !== null; ) {
    const { data } = await session.call('find_feeds', { limit: 50, offset })
    expect(data.total).toBe(120)
    const page = data.feeds as { feedID: string; name: string }[]
    for (const { feedID, name } of page) {
      seen.push(feedID)
      expect(name).toMatch(/^N\d+ x+…$/)
    }
    offset = data.nextOffset
  }
  expect(seen.sort()).toEqual(feeds.map(({ feedID }) => feedID).sort())
  expect((await session.call('find_feeds', { query: 'n119 xx' })).data.total).toBe(1)
  expect((await session.call('find_feeds', { query: 'nothing' })).data).toMatchObject({ total: 0 })
})
