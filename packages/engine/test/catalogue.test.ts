import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type CatalogueEntry, type DataEngine, startDataEngine } from '../index.js'
import { send, signedHeaders } from './support/signed.js'

const eth = '0x000362205e10b3a147d02792eccee483dca6c7b44ecce7012cb8c6e0b68b3ae9'
const euro = `0x0004${'e1'.repeat(30)}`
const acme = `0x000b${'ac'.repeat(30)}`
const hidden = `0x0003${'d1'.repeat(30)}`
const hiddenFromAll = `0x0003${'d2'.repeat(30)}`
const own = `0x0003${'d3'.repeat(30)}`
const forbidden = `0x0003${'d4'.repeat(30)}`

const now = Date.UTC(2026, 9, 1, 12)

let engine: DataEngine
beforeAll(async () => {
  engine = await startDataEngine({
    intervalMs: 0,
    history: 0,
    now: () => now,
    feeds: [
      { feedID: eth, catalogue: { createdAt: '2026-05-04T08:15:00.120Z' } },
      { feedID: euro, catalogue: { baseAsset: 'EUR', expectedDecommissionAt: 30 } },
      { feedID: acme, catalogue: { baseAsset: 'ACME', status: 'testing' } },
      { feedID: hidden, catalogue: { baseAsset: 'HIDE', hidden: true } },
      { feedID: hiddenFromAll, entitled: false, catalogue: { hidden: true } },
      { feedID: own, catalogue: { baseAsset: 'OWN', public: false } },
      { feedID: forbidden, entitled: false, catalogue: { baseAsset: 'PUB' } },
    ],
  })
})
afterAll(() => engine.close())

const unsigned = {
  headers: {
    Authorization: undefined,
    'X-Authorization-Timestamp': undefined,
    'X-Authorization-Signature-SHA256': undefined,
  },
}
const path = '/api/v1/discovery'
const listed = (json: { feeds: CatalogueEntry[] }): string[] => json.feeds.map(each => each.feedId)
async function ask(query: string, isSigned = true): Promise<string[]> {
  const { status, json } = await send(engine, path + query, isSigned ? { at: now } : unsigned)
  expect(status).toBe(200)
  return listed(json)
}

test('an answer has the fields of the service, and may be kept for five minutes', async () => {
  const { json, headers } = await send(engine, path, unsigned)
  expect(headers['cache-control']).toBe('public, max-age=300')
  expect(json.feeds[0]).toEqual({
    feedId: eth,
    name: 'ETH/USD',
    assetName: 'ETH',
    baseAsset: 'ETH',
    quoteAsset: 'USD',
    assetClass: 'Crypto',
    feedType: 'Crypto',
    attributeType: 'CexPrice',
    marketHours: 'Crypto',
    schemaVersion: 'V3',
    serviceLevel: 'Streams',
    networkType: 'mainnet',
    status: 'live',
    createdAt: '2026-05-04T08:15:00.120000Z',
    expectedDecommissionAt: null,
    decommissionedAt: null,
  })
  expect(json.feeds[1]).toMatchObject({ expectedDecommissionAt: '2026-10-31T12:00:00Z' })
  expect(json.feeds[2]).toMatchObject({
    schemaVersion: 'V11',
    marketHours: 'US Equities Regular',
  })
})

test('credentials add their own feeds, and with hidden the hidden ones', async () => {
  expect(await ask('', false)).toEqual([eth, euro, acme, forbidden])
  expect(await ask('?hidden=true', false)).toEqual([eth, euro, acme, forbidden])
  expect(await ask('')).toEqual([eth, euro, acme, own, forbidden])
  expect(await ask('?hidden=true')).toEqual([eth, euro, acme, hidden, own, forbidden])
  expect(await ask('?hidden=FALSE')).toEqual([eth, euro, acme, own, forbidden])
})

test.each([
  ['?base_asset=eth', [eth]],
  ['?base_asset=ETH,acme', [eth, acme]],
  ['?base_asset=ETH,ACME&status=testing', [acme]],
  ['?quote_asset=usd&asset_class=forex', [euro]],
  ['?attribute_type=RegularHoursEquityPrice', [acme]],
  ['?feed_type=Crypto&base_asset=ETH', [eth]],
  ['?network_type=mainnet', [eth]],
  ['?base_asset=NOSUCH', []],
  ['?baseAsset=NOSUCH&base_asset=eth', [eth]],
  ['?created_after=2026-05-03', [eth]],
  ['?created_after=2026-05-04', []],
  ['?created_after=2026-05-03&created_before=2026-05-05', [eth]],
  ['?created_after=2026-05-03&created_before=2026-05-04', []],
  ['?expected_decommission_after=2026-10-01', [euro]],
  ['?expected_decommission_before=2026-10-31', []],
  ['?decommissioned_before=2030-01-01', []],
])('filters by %s', async (query, ids) => {
  expect(await ask(query)).toEqual(ids)
})

test.each([
  ['created_after=2026-5-4', 'parameter created_after is malformed: not a date as YYYY-MM-DD'],
  ['created_after=2026-02-30', 'parameter created_after is malformed: not a date as YYYY-MM-DD'],
  [
    'decommissioned_before=',
    'parameter decommissioned_before is malformed: not a date as YYYY-MM-DD',
  ],
  ['hidden=yes', 'parameter hidden is malformed: neither true nor false'],
])('refuses %s with the reason', async (query, error) => {
  const { status, json } = await send(engine, `${path}?${query}`, unsigned)
  expect({ status, json }).toEqual({ status: 400, json: { error } })
})

test('wrong headers are refused, whatever is wrong with them', async () => {
  const wrong = [
    { at: now - 60_000 },
    { at: now, headers: { Authorization: 'other' } },
    { at: now, headers: { Authorization: undefined } },
    { at: now, headers: { 'X-Authorization-Signature-SHA256': 'short' } },
  ]
  for (const changes of wrong) {
    const { status, json } = await send(engine, path, changes)
    expect({ status, json }).toEqual({ status: 401, json: { error: 'unauthorized' } })
  }
  const { status } = await send(engine, path, { method: 'POST', ...unsigned })
  expect(status).toBe(405)
})

test('a feed gets a date and a name while the engine runs', async () => {
  const entry = engine.catalogue.set(eth, { expectedDecommissionAt: 5, name: 'OLD/USD' })
  expect(entry).toMatchObject({ expectedDecommissionAt: '2026-10-06T12:00:00Z', name: 'OLD/USD' })
  expect(engine.catalogue.get(eth.toUpperCase().replace('X', 'x'))).toEqual(entry)
  expect(await ask('?expected_decommission_after=2026-10-01')).toEqual([eth, euro])
  engine.catalogue.set(eth, { expectedDecommissionAt: null, name: 'ETH/USD' })
  expect(await ask('?expected_decommission_after=2026-10-01')).toEqual([euro])
  expect(() => engine.catalogue.set(`0x0003${'00'.repeat(30)}`, {})).toThrow('there is no feed')
  expect(() => engine.catalogue.set(eth, { createdAt: 'soon' })).toThrow(
    'createdAt must be a date, or a number of days from now',
  )
})

test('failures by path make the catalogue fail, or never answer', async () => {
  const end = engine.fail({ status: 500, path, times: 1, body: '{"error":"no catalogue"}' })
  const { status, json } = await send(engine, path, { at: now })
  expect({ status, json }).toEqual({ status: 500, json: { error: 'no catalogue' } })
  end()
  const stop = engine.fail({ status: 500, path, delayMs: 86_400_000 })
  const { endpoint } = engine
  await expect(fetch(endpoint + path, { signal: AbortSignal.timeout(100) })).rejects.toThrow()
  stop()
  const headers = signedHeaders(engine, '/api/v1/feeds', { at: now })
  expect((await fetch(`${endpoint}/api/v1/feeds`, { headers })).status).toBe(200)
})

test('the default feeds have one that is hidden and one that retires', async () => {
  await using usual = await startDataEngine({ intervalMs: 0, history: 0 })
  const all = await send(usual, `${path}?hidden=true`)
  const open = await send(usual, path)
  expect([all.json.feeds.length, open.json.feeds.length]).toEqual([20, 19])
  const retiring = (all.json.feeds as CatalogueEntry[]).filter(each => each.expectedDecommissionAt)
  expect(retiring.map(each => each.name)).toEqual(['EUR/USD'])
})
