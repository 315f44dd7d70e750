import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { type CatalogueSpec, type DataEngine, startDataEngine } from '@sluice/engine'
import {
  type CatalogueFilters,
  createClient,
  defaultPreset,
  isStreamsError,
  type Plugin,
} from '../../index.js'
import { type Entry, type FakeCatalogue, startFakeCatalogue } from '../support/service/catalogue.js'
import { failureOf } from '../support/waiting.js'

const credentials = { apiKey: 'key-of-a-reader', userSecret: 'secret-of-a-reader' }
const others = { apiKey: 'key-of-another', userSecret: 'secret-of-another' }
const id = (version: string, digits: string) => `0x${version}${digits.repeat(30)}`

interface Row extends CatalogueSpec {
  readonly feedID: string
  readonly seenBy: 'everybody' | 'key' | 'hidden'
}
const row = (feedID: string, name: string, more: Partial<Row> = {}): Row => {
  const [baseAsset = '', quoteAsset = ''] = name.split('/')
  return {
    feedID,
    name,
    baseAsset,
    quoteAsset,
    assetName: baseAsset,
    assetClass: 'Crypto',
    feedType: 'Crypto',
    attributeType: 'CexPrice',
    marketHours: 'Crypto',
    serviceLevel: 'Streams',
    schemaVersion: 'V3',
    networkType: 'mainnet',
    status: 'live',
    createdAt: '2025-01-15T09:30:00Z',
    expectedDecommissionAt: null,
    decommissionedAt: null,
    seenBy: 'everybody',
    ...more,
  }
}
const rows: readonly Row[] = [
  row(id('0003', 'e1'), 'ETH/USD'),
  row(id('0003', 'e2'), 'ETH/EUR', { status: 'testing', networkType: 'testnet' }),
  row(id('0003', 'b1'), 'BTC/USD', { createdAt: '2026-03-10T08:15:00.120Z' }),
  row(id('0004', 'f1'), 'EUR/USD', {
    assetClass: 'Forex',
    feedType: 'Forex',
    attributeType: 'ForexPrice',
    schemaVersion: 'V4',
    expectedDecommissionAt: '2026-12-01T12:00:00Z',
  }),
  row(id('0004', 'f2'), 'GBP/USD', {
    assetClass: 'Forex',
    feedType: 'Forex',
    attributeType: 'ForexPrice',
    decommissionedAt: '2026-02-01T12:00:00Z',
  }),
  row(id('0009', 'a1'), 'FUND/USD', { assetClass: 'NAV', feedType: 'Net Asset Value' }),
  row(id('0003', '0e'), "O'NEIL & SON/USD", { baseAsset: "O'NEIL & SON" }),
  row(id('0003', 'd1'), 'OWN/USD', { seenBy: 'key' }),
  row(id('0003', 'd2'), 'HIDDEN/USD', { seenBy: 'hidden' }),
]

/** A service with these feeds. */
interface Service {
  readonly endpoint: string
  readonly wsEndpoint: string
  /** How many requests for the catalogue have come. */
  asked(): number
  fail(status: number | undefined): void
  rename(name: string, to: string): void
  /** Takes these credentials in place of the ones before. */
  rotate(to: typeof credentials): void
  close(): Promise<void>
}

async function startEngine(): Promise<Service> {
  const engine: DataEngine = await startDataEngine({
    ...credentials,
    intervalMs: 0,
    history: 0,
    feeds: rows.map(({ feedID, seenBy, ...catalogue }) => ({
      feedID,
      catalogue: { ...catalogue, hidden: seenBy === 'hidden', public: seenBy === 'everybody' },
    })),
  })
  const path = '/api/v1/discovery'
  let end = () => {}
  return {
    endpoint: engine.endpoint,
    wsEndpoint: engine.wsEndpoint,
    asked: () => engine.requests().filter(each => each.path.startsWith(path)).length,
    fail(status) {
      end()
      if (status !== undefined) end = engine.fail({ status, path, times: Number.POSITIVE_INFINITY })
    },
    rename(name, to) {
      const feed = rows.find(each => each.name === name)
      engine.catalogue.set(feed?.feedID ?? '', { name: to })
    },
    rotate: to => engine.rotateKeys(to),
    close: () => engine.close(),
  }
}

async function startFake(): Promise<Service> {
  const fake: FakeCatalogue = await startFakeCatalogue(
    rows.map(({ feedID, seenBy, ...entry }) => ({
      entry: { feedId: feedID, ...entry } as unknown as Entry,
      seenBy,
    })),
    credentials,
  )
  return {
    endpoint: fake.endpoint,
    wsEndpoint: fake.wsEndpoint,
    asked: () => fake.requests.length,
    fail(status) {
      fake.fails = status
    },
    rename: (name, to) => fake.change(name, { name: to }),
    rotate({ apiKey, userSecret }) {
      fake.keys.clear()
      fake.keys.set(apiKey, userSecret)
    },
    close: () => fake.close(),
  }
}

describe.each([
  ['the engine', startEngine],
  ['a catalogue of another hand', startFake],
])('discover, against %s', (_name, start) => {
  let service: Service
  beforeEach(async () => {
    service = await start()
  })
  afterEach(() => service.close())

  function open(config: object = {}) {
    const { endpoint, wsEndpoint } = service
    const shared = { endpoint, wsEndpoint, retryAttempts: 2, retryDelay: 1 }
    return createClient({ ...credentials, ...shared, ...config })
  }
  /** A client that signs nothing. */
  function openUnsigned() {
    const { endpoint, wsEndpoint } = service
    const unsigned = defaultPreset(credentials).filter(({ name }) => name !== 'hmac-auth')
    return createClient({ endpoint, wsEndpoint, plugins: unsigned })
  }
  async function namesOf(filters?: CatalogueFilters): Promise<string[]> {
    const found = await open().discover(filters)
    return found.map(({ name = '' }) => name)
  }
  const everybodys = rows.filter(each => each.seenBy === 'everybody').map(each => each.name ?? '')

  test('lists feeds with fields that have types', async () => {
    const found = await open().discover()
    expect([...found].map(({ name }) => name)).toEqual([...everybodys, 'OWN/USD'])
    const [eth, , btc, euro] = found
    expect(eth).toEqual({
      feedID: id('0003', 'e1'),
      name: 'ETH/USD',
      assetName: 'ETH',
      baseAsset: 'ETH',
      quoteAsset: 'USD',
      assetClass: 'Crypto',
      feedType: 'Crypto',
      attributeType: 'CexPrice',
      marketHours: 'Crypto',
      serviceLevel: 'Streams',
      schemaVersion: 'V3',
      networkType: 'mainnet',
      status: 'live',
      createdAt: new Date('2025-01-15T09:30:00Z'),
    })
    expect(btc?.createdAt).toEqual(new Date('2026-03-10T08:15:00.120Z'))
    expect(euro?.expectedDecommissionAt).toEqual(new Date('2026-12-01T12:00:00Z'))
    expect(found.fetchedAt).toBeInstanceOf(Date)
    expect(found.isStale).toBe(false)
    expect(found.age).toBeLessThan(5000)
  })

  test.each<[CatalogueFilters, readonly string[]]>([
    [{ baseAsset: 'eth' }, ['ETH/USD', 'ETH/EUR']],
    [{ baseAsset: ['ETH', 'btc'], quoteAsset: 'USD' }, ['ETH/USD', 'BTC/USD']],
    [{ baseAsset: "O'NEIL & SON" }, ["O'NEIL & SON/USD"]],
    [{ assetClass: 'nav' }, ['FUND/USD']],
    [{ feedType: ['Net Asset Value', 'Forex'] }, ['EUR/USD', 'GBP/USD', 'FUND/USD']],
    [{ attributeType: 'ForexPrice' }, ['EUR/USD', 'GBP/USD']],
    [{ status: 'testing' }, ['ETH/EUR']],
    [{ networkType: 'testnet' }, ['ETH/EUR']],
    [{ baseAsset: 'NOSUCH' }, []],
    [{ createdAfter: '2026-03-09' }, ['BTC/USD']],
    [{ createdAfter: new Date('2026-03-09T23:59:59Z') }, ['BTC/USD']],
    [{ createdAfter: '2026-03-09', createdBefore: '2026-03-10' }, []],
    [{ createdAfter: '2026-03-09', createdBefore: '2026-03-11' }, ['BTC/USD']],
    [{ expectedDecommissionAfter: '2026-11-30' }, ['EUR/USD']],
    [{ expectedDecommissionBefore: '2026-11-30' }, []],
    [{ decommissionedAfter: '2026-01-31', decommissionedBefore: '2026-02-02' }, ['GBP/USD']],
  ])('filters by %j', async (filters, names) => {
    expect(await namesOf(filters)).toEqual(names)
  })

  test('credentials add their feeds, and hidden feeds only where these are asked for', async () => {
    const unsigned = openUnsigned()
    const namesWithout = async (filters: CatalogueFilters) =>
      (await unsigned.discover(filters)).map(({ name }) => name)
    expect(await namesWithout({})).toEqual(everybodys)
    expect(await namesWithout({ hidden: true })).toEqual(everybodys)
    expect(await namesOf({ hidden: false })).toEqual([...everybodys, 'OWN/USD'])
    expect(await namesOf({ hidden: true })).toEqual([...everybodys, 'OWN/USD', 'HIDDEN/USD'])
  })

  test.each<[object, RegExp]>([
    [{ baseAset: 'ETH' }, /unknown option 'baseAset' of discover; did you mean 'baseAsset'\?/],
    [{ base_asset: 'ETH' }, /unknown option 'base_asset' of discover; did you mean 'baseAsset'\?/],
    [{ createdAfter: '2026-2-1' }, /createdAfter must be a Date or a day as YYYY-MM-DD/],
    [{ createdAfter: '2026-02-30' }, /createdAfter must be a day of the calendar/],
    [{ createdAfter: new Date('no') }, /createdAfter must be a valid date/],
    [{ hidden: 'yes' }, /hidden must be true or false/],
    [{ baseAsset: [] }, /baseAsset must be a text or a list of at least one text/],
    [{ baseAsset: 'ETH,BTC' }, /baseAsset must be a list of texts/],
    [{ baseAsset: 'ETH\ud800' }, /baseAsset must have no half of a surrogate pair/],
    [{ createdAfter: '0000-01-01' }, /createdAfter must be a day of the calendar/],
  ])('refuses %j before it asks', async (filters, message) => {
    const failure = await failureOf(open().discover(filters))
    expect(isStreamsError(failure, 'VALIDATION')).toBe(true)
    expect(failure).toHaveProperty('message', expect.stringMatching(message))
    expect(service.asked()).toBe(0)
  })

  test('the service itself refuses a date or a boolean that it cannot read, with the reason', async () => {
    for (const query of ['created_after=2026-2-1', 'hidden=perhaps']) {
      const failure = await failureOf(open().request('GET', `/api/v1/discovery?${query}`))
      expect(failure).toMatchObject({ statusCode: 400, isRetryable: false })
      expect(String(failure)).toMatch(/malformed|cannot parse/)
    }
  })

  test.each<[string, string, object, RegExp]>([
    ['get', '/', {}, /^method must be 'GET', .* or 'OPTIONS', not 'get'/],
    ['GET', 'api', {}, /^path must begin with \//],
    ['GET', '/a\r\nb', {}, /^path must be percent-encoded/],
    ['GET', '/a b', {}, /^path must be percent-encoded/],
    ['GET', '/a/../b#c', {}, /^path must be percent-encoded/],
    ['GET', '/', { body: '{}' }, /^body must not be given with the method GET/],
  ])('refuses the request %s %j %j before it is sent', async (method, path, options, message) => {
    const failure = await failureOf(open().request(method, path, options))
    expect(failure).toMatchObject({ code: 'VALIDATION', message: expect.stringMatching(message) })
  })

  test('the error of an own request does not repeat its query', async () => {
    const path = '/api/v1/discovery?created_after=2026-2-1&token=very-secret'
    const { message } = await failureOf(open().request('GET', path))
    expect(message).toMatch(/^GET \/api\/v1\/discovery\?… answered 400/)
    expect(message).not.toContain('very-secret')
  })

  test('asks once in five minutes for the same filters, and at once with refresh', async () => {
    let now = Date.now()
    const plugins = defaultPreset(credentials)
    const { endpoint, wsEndpoint } = service
    const client = createClient({ endpoint, wsEndpoint, plugins, now: () => now })
    const names = async (filters?: CatalogueFilters) =>
      (await client.discover(filters)).map(({ name }) => name)
    await names({ baseAsset: 'ETH' })
    service.rename('ETH/USD', 'ETHER/USD')
    expect(await names({ baseAsset: 'ETH' })).toEqual(['ETH/USD', 'ETH/EUR'])
    expect(service.asked()).toBe(1)
    expect(await names({ baseAsset: ['ETH'], quoteAsset: 'USD' })).toEqual(['ETHER/USD'])
    expect(await names({ baseAsset: 'ETH', refresh: true })).toEqual(['ETHER/USD', 'ETH/EUR'])
    expect(service.asked()).toBe(3)
    now += 299_000
    const kept = await client.discover({ baseAsset: 'ETH' })
    expect([kept.isStale, Math.round(kept.age / 1000)]).toEqual([false, 299])
    expect(service.asked()).toBe(3)
    now += 2000
    await names({ baseAsset: 'ETH' })
    expect(service.asked()).toBeGreaterThan(3)
    // Another client asks for itself.
    await open().discover({ baseAsset: 'ETH' })
    expect(service.asked()).toBeGreaterThan(4)
  })

  test('the last answer stands in while the service is down, and says so', async () => {
    let now = Date.now()
    const client = open({ now: () => now })
    await client.discover()
    service.fail(503)
    now += 301_000
    const old = await client.discover()
    expect([old.isStale, Math.round(old.age / 1000), old.length]).toEqual([true, 301, 8])
    const refreshed = await client.discover({ refresh: true })
    expect(refreshed.isStale).toBe(true)
    // There is no answer to these filters.
    expect(await failureOf(client.discover({ status: 'live' }))).toMatchObject({ statusCode: 503 })
    service.fail(404)
    expect(await failureOf(client.discover())).toMatchObject({ statusCode: 404 })
    service.fail(undefined)
    now -= 301_000
    const again = await client.discover({ refresh: true })
    expect([again.isStale, again.age < 5000]).toEqual([false, true])
  })

  test('other credentials never get the answer that the credentials before them got', async () => {
    const client = open({ renewCredentials: () => others })
    const hidden = { hidden: true }
    expect((await client.discover(hidden)).at(-1)?.name).toBe('HIDDEN/USD')
    service.rotate(others)
    service.rename('HIDDEN/USD', 'OTHER/USD')
    // Another request finds out that the credentials have changed.
    await client.request('GET', '/api/v1/discovery')
    expect((await client.discover(hidden)).at(-1)?.name).toBe('OTHER/USD')
  })

  test('nor if the request that renewed the credentials was given up', async () => {
    let answer: (keys: typeof others) => void = () => {}
    let isAsked: () => void = () => {}
    const asked = new Promise<void>(resolve => {
      isAsked = resolve
    })
    const client = open({
      renewCredentials() {
        isAsked()
        return new Promise<typeof others>(resolve => {
          answer = resolve
        })
      },
    })
    await client.discover({ hidden: true })
    service.rotate(others)
    service.rename('HIDDEN/USD', 'OTHER/USD')
    const controller = new AbortController()
    const given = client.request('GET', '/api/v1/discovery', { signal: controller.signal })
    await asked
    controller.abort()
    await failureOf(given)
    answer(others)
    await new Promise(resolve => setImmediate(resolve))
    expect((await client.discover({ hidden: true })).at(-1)?.name).toBe('OTHER/USD')
  })

  test('wrong credentials are an error, not an old answer', async () => {
    const client = open()
    await client.discover()
    service.rotate(others)
    const failure = await failureOf(client.discover({ refresh: true }))
    expect(isStreamsError(failure, 'AUTHENTICATION')).toBe(true)
  })

  test('an answer that must not be kept is asked for again, and is not stale', async () => {
    const noStore: Plugin = {
      name: 'no-store',
      attempt: next => async call => {
        const reply = await next(call)
        if (reply.kind !== 'request') return reply
        return { ...reply, headers: new Headers({ 'cache-control': 'no-store' }) }
      },
    }
    const { endpoint, wsEndpoint } = service
    const plugins = [...defaultPreset(credentials), noStore]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    for (const times of [1, 2]) {
      expect((await client.discover()).isStale).toBe(false)
      expect(service.asked()).toBe(times)
    }
  })
})
