import { describe, expect, test } from '@jest/globals'
import {
  type HoursModel,
  hoursModels,
  hoursOf,
  meaningOf,
} from '../../../plugins/market-guard/hours.js'
import {
  isTradableAlone,
  judge,
  MarketFeed,
  observe,
  type ReadFields,
} from '../../../plugins/market-guard/judgement.js'
import { type MarketPolicy, readSettings } from '../../../plugins/market-guard/policy.js'
import { type MarketReason, marketReasons } from '../../../plugins/market-guard/reasons.js'

const NOW = 1_800_000_000_000
const e18 = 10n ** 18n
const ns = (ms: number): bigint => BigInt(Math.round(ms)) * 1_000_000n

/** A report of each version with nothing against trading, observed at a time. */
const sound: Readonly<Record<number, (at: number) => ReadFields>> = {
  2: () => ({ price: e18 }),
  3: () => ({ price: e18, bid: e18 - 1n, ask: e18 + 1n }),
  4: () => ({ price: e18, marketStatus: 2 }),
  5: at => ({ rate: e18, timestamp: at / 1000, duration: 86_400 }),
  6: () => ({ price: e18, price2: e18, price3: e18, price4: e18, price5: e18 }),
  7: () => ({ exchangeRate: e18 }),
  8: at => ({ midPrice: e18, lastUpdateTimestamp: Number(ns(at)), marketStatus: 2 }),
  9: at => ({ navPerShare: e18, navDate: at, aum: e18, ripcord: 0 }),
  10: at => ({
    price: 100n * e18,
    lastUpdateTimestamp: Number(ns(at)),
    marketStatus: 2,
    currentMultiplier: e18,
    newMultiplier: e18,
    activationDateTime: 0,
    tokenizedPrice: 101n * e18,
  }),
  11: at => ({
    mid: 100n * e18,
    lastSeenTimestampNs: ns(at),
    bid: 99n * e18,
    ask: 101n * e18,
    marketStatus: 2,
  }),
  12: at => ({ navPerShare: e18, nextNavPerShare: e18, navDate: Number(ns(at)), ripcord: 0 }),
  13: () => ({ bestBid: 99n * e18, bestAsk: 101n * e18, lastTradedPrice: 0n }),
  14: at => ({
    midPrice: 100n * e18,
    bidPrice: 99n * e18,
    askPrice: 101n * e18,
    expiryTime: 1_805_000_000,
    lastSeenTimestampNs: ns(at),
    marketStatus: 2,
    contractMonth: 3,
  }),
}

function idOf(version: number): string {
  return `0x100${version.toString(16)}${'ab'.repeat(30)}`
}

function open(version: number, policy: MarketPolicy = {}, model?: HoursModel) {
  const feed = new MarketFeed(idOf(version), readSettings(policy).policyOf(idOf(version)), model)
  const fieldsAt = (at: number, fields: object = {}): ReadFields => ({
    observationsTimestamp: at,
    expiresAt: at + 86_400_000,
    ...sound[version]?.(at),
    ...fields,
  })
  return {
    feed,
    fieldsAt,
    /** Observes a report, and judges the feed `age` milliseconds later. */
    see(at: number, fields: object = {}, age = 0): MarketReason {
      observe(feed, fieldsAt(at, fields), at)
      return judge(feed, at + age)
    },
    later: (at: number) => judge(feed, at),
  }
}

describe('every version', () => {
  const versions = Object.keys(sound).map(Number)
  test.each(versions)('V%i: a sound report is open, and stale at five minutes', version => {
    const { see, later, feed } = open(version, {}, version === 11 ? 'standard' : undefined)
    expect(later(NOW)).toBe('no-report')
    expect(see(NOW)).toBe('open')
    expect(feed.until).toBe(NOW + 300_000)
    expect(later(NOW + 299_999)).toBe('open')
    expect(later(NOW + 300_000)).toBe('stale')
  })

  test.each(versions.filter(version => version !== 5))('V%i: zero and below are bad', version => {
    const fields = sound[version]?.(NOW) ?? {}
    const prices = Object.keys(fields).filter(name => /price|mid|bid|ask|nav|rate/i.test(name))
    const used = prices.filter(
      name =>
        !/tokenized|lastTraded|navDate|nextNav/.test(name) && typeof fields[name] === 'bigint',
    )
    expect(used.length).toBeGreaterThan(0)
    for (const name of used) {
      expect([name, open(version, {}, 'standard').see(NOW, { [name]: 0n })]).toEqual([
        name,
        'bad-value',
      ])
      expect([name, open(version, {}, 'standard').see(NOW, { [name]: -1n })]).toEqual([
        name,
        'bad-value',
      ])
      expect(open(version, {}, 'standard').see(NOW, { [name]: undefined })).toBe('bad-value')
    }
  })

  test('V5: a rate may be zero, negative, and far from the last', () => {
    const { see } = open(5)
    for (const [index, rate] of [0n, -5n, 900n * e18].entries())
      expect(see(NOW + index, { rate })).toBe('open')
    expect(open(5, { values: 'not-negative' }).see(NOW, { rate: -1n })).toBe('bad-value')
    expect(open(5, { values: 'not-negative' }).see(NOW, { rate: 0n })).toBe('open')
    expect(open(5, { values: 'positive' }).see(NOW, { rate: 0n })).toBe('bad-value')
  })

  test('an unknown version is refused', () => {
    const feed = new MarketFeed(idOf(15), readSettings({}).policyOf(idOf(15)), undefined)
    observe(feed, { observationsTimestamp: NOW, expiresAt: NOW + 1 }, NOW)
    expect(judge(feed, NOW)).toBe('unknown-schema')
  })
})

describe('the status', () => {
  test.each([
    [4, 0, 'unknown'],
    [4, 1, 'closed'],
    [8, 0, 'unknown'],
    [8, 1, 'closed'],
    [8, 3, 'unexpected-status'],
    [10, 1, 'closed'],
    [14, 0, 'unknown'],
    [14, 1, 'closed'],
    [14, 5, 'unexpected-status'],
    [14, 4_294_967_295, 'unexpected-status'],
  ] as const)('V%i %i is %s', (version, marketStatus, reason) => {
    expect(open(version).see(NOW, { marketStatus })).toBe(reason)
  })

  const models: Readonly<Record<HoursModel | 'none', readonly string[]>> = {
    standard: [
      'unknown',
      'unexpected-status',
      'open',
      'unexpected-status',
      'unexpected-status',
      'closed',
      'unexpected-status',
    ],
    '24/5': ['unknown', 'open', 'open', 'open', 'open', 'closed', 'unexpected-status'],
    '24/5-regular': [
      'unknown',
      'other-session',
      'open',
      'other-session',
      'other-session',
      'closed',
      'unexpected-status',
    ],
    '24/5-extended': [
      'unknown',
      'open',
      'other-session',
      'open',
      'other-session',
      'closed',
      'unexpected-status',
    ],
    '24/5-overnight': [
      'unknown',
      'other-session',
      'other-session',
      'other-session',
      'open',
      'closed',
      'unexpected-status',
    ],
    '24/7': [
      'unknown',
      'always-open',
      'always-open',
      'always-open',
      'always-open',
      'always-open',
      'unexpected-status',
    ],
    'top-of-book': [
      'unknown',
      'unmapped-status',
      'unmapped-status',
      'unmapped-status',
      'unmapped-status',
      'unmapped-status',
      'unexpected-status',
    ],
    none: [
      'unknown',
      'unexpected-status',
      'hours-unknown',
      'unexpected-status',
      'unexpected-status',
      'closed',
      'unexpected-status',
    ],
  }
  test.each(Object.entries(models))('V11, model %s', (model, reasons) => {
    const hours = model === 'none' ? undefined : (model as HoursModel)
    const found = reasons.map((_, marketStatus) => open(11, {}, hours).see(NOW, { marketStatus }))
    expect(found).toEqual(reasons)
  })

  test('there is a case for every model', () => {
    expect(Object.keys(models).sort()).toEqual([...Object.keys(hoursModels), 'none'].sort())
  })

  test('an unknown model never trades where a known model refuses, but for status 2', () => {
    for (const status of [0, 1, 3, 4, 5, 6])
      expect(marketReasons[meaningOf(11, status, undefined, undefined)].tradable).toBe(false)
    expect(marketReasons['hours-unknown']).toMatchObject({ tradable: true, caution: true })
  })

  test('openStatus takes the place of the model', () => {
    expect(meaningOf(11, 3, 'top-of-book', [3])).toBe('open')
    expect(meaningOf(11, 2, 'top-of-book', [3])).toBe('closed')
    expect(meaningOf(11, 2, 'standard', [3])).toBe('closed')
    expect(meaningOf(11, 0, 'top-of-book', [3])).toBe('unknown')
    expect(meaningOf(14, 1, undefined, [1])).toBe('open')
  })

  test('that is missing has no meaning', () => {
    for (const version of [4, 8, 10, 11, 14])
      expect(open(version).see(NOW, { marketStatus: undefined })).toBe('unexpected-status')
    expect(open(8).see(NOW, { lastUpdateTimestamp: undefined })).toBe('stale')
  })

  test('stands before the age and the values', () => {
    const shut = open(8)
    expect(shut.see(NOW, { marketStatus: 1, midPrice: 0n }, 900_000)).toBe('closed')
    expect(open(9).see(NOW, { ripcord: 1, navPerShare: 0n }, 900_000)).toBe('ripcord')
    expect(open(12).see(NOW, { ripcord: 2 })).toBe('ripcord')
  })
})

describe('the catalogue names the model', () => {
  const base = { feedID: idOf(11) }
  test.each([
    [{ attributeType: 'EquityPrice', marketHours: 'US Equities' }, 'standard'],
    [{ attributeType: 'EquityPrice', marketHours: 'Korea KRX' }, 'standard'],
    [{ attributeType: 'EquityPrice', marketHours: 'US Equities 24/5' }, '24/5'],
    [{ attributeType: 'RegularHoursEquityPrice' }, '24/5-regular'],
    [{ attributeType: 'ExtendedHoursEquityPrice' }, '24/5-extended'],
    [{ name: 'ACME/USD-Streams-OvernightHoursEquityPrice' }, '24/5-overnight'],
    [{ attributeType: 'TopOfBook' }, 'top-of-book'],
    [{ attributeType: 'EquityPrice', marketHours: 'US Equities 24/7' }, '24/7'],
    [{ attributeType: 'EquityPrice', name: 'ACME/USD 24/7 TWAP' }, '24/7'],
    [{ attributeType: 'SomethingNew' }, undefined],
    [{}, undefined],
  ])('%j: %s', (entry, model) => {
    expect(hoursOf({ ...base, ...entry })).toBe(model)
  })
})

describe('the age', () => {
  test('is that of the value where the version has its time', () => {
    for (const [version, field] of [
      [8, 'lastUpdateTimestamp'],
      [10, 'lastUpdateTimestamp'],
      [11, 'lastSeenTimestampNs'],
      [14, 'lastSeenTimestampNs'],
    ] as const) {
      const time = (ms: number) => (field === 'lastSeenTimestampNs' ? ns(ms) : Number(ns(ms)))
      const see = (ms: number) =>
        open(version, {}, 'standard').see(NOW, { [field]: time(NOW - ms) })
      expect(see(299_000)).toBe('open')
      expect(see(300_001)).toBe('stale')
    }
  })

  test('of a value in the future counts from its arrival', () => {
    const { see, later } = open(8)
    expect(see(NOW, { lastUpdateTimestamp: Number(ns(NOW + 5000)) })).toBe('open')
    expect(later(NOW + 300_000)).toBe('stale')
    expect(see(NOW + 1, { lastUpdateTimestamp: Number(ns(NOW + 5002)) })).toBe('stale')
  })

  test('of a value without a time that is a number makes it stale', () => {
    expect(open(8).see(NOW, { lastUpdateTimestamp: Number.NaN })).toBe('stale')
  })

  test('may be greater by a known delay, which calls for caution', () => {
    const { see, later } = open(2, { delay: 900_000 })
    expect(see(NOW)).toBe('delayed')
    expect(later(NOW + 1_199_999)).toBe('delayed')
    expect(later(NOW + 1_200_000)).toBe('stale')
  })

  test('of an order book calls for caution first', () => {
    const { see, later } = open(11, { openStatus: [2] }, 'top-of-book')
    expect(see(NOW)).toBe('open')
    expect(later(NOW + 300_000)).toBe('quiet')
    expect(later(NOW + 3_599_999)).toBe('quiet')
    expect(later(NOW + 3_600_000)).toBe('stale')
  })

  test('goes back once, which is a note, and stays back, which calls for caution', () => {
    const { see } = open(8)
    const at = (ms: number) => ({ lastUpdateTimestamp: Number(ns(NOW + ms)) })
    expect(see(NOW, at(0))).toBe('open')
    expect(see(NOW + 1000, at(-2000))).toBe('time-back')
    expect(see(NOW + 2000, at(-1000))).toBe('time-back')
    expect(see(NOW + 3000, at(-500))).toBe('time-stays-back')
    expect(see(NOW + 4000, at(0))).toBe('open')
  })
})

describe('the values', () => {
  const v3 = (bid: bigint, ask: bigint) => ({ price: 1000n * e18, bid: bid * e18, ask: ask * e18 })
  test('bid and ask may be equal and 5 % apart, not crossed and not more', () => {
    expect(open(3).see(NOW, v3(1000n, 1000n))).toBe('open')
    expect(open(3).see(NOW, v3(975n, 1025n))).toBe('open')
    expect(open(3).see(NOW, v3(974n, 1025n))).toBe('wide-spread')
    expect(open(3).see(NOW, v3(1001n, 1000n))).toBe('crossed')
    expect(open(3, { maxSpread: 0.0005 }).see(NOW, v3(999n, 1000n))).toBe('wide-spread')
  })

  test('a price may move by 25 %, not more, and is accepted when it stays', () => {
    const { see, feed } = open(2)
    expect(see(NOW, { price: 100n })).toBe('open')
    expect(see(NOW + 1, { price: 125n })).toBe('open')
    expect(see(NOW + 2, { price: 157n })).toBe('jump')
    // Back at the old level: it was a bad quote.
    expect(see(NOW + 3, { price: 125n })).toBe('open')
    expect(see(NOW + 1000, { price: 200n })).toBe('jump')
    expect(see(NOW + 200_000, { price: 210n })).toBe('jump')
    // Another level begins the wait anew.
    expect(see(NOW + 250_000, { price: 500n })).toBe('jump')
    expect(see(NOW + 549_999, { price: 500n })).toBe('jump')
    expect(see(NOW + 550_000, { price: 500n })).toBe('open')
    expect(see(NOW + 550_001, { price: 9n })).toBe('jump')
    feed.accept()
    expect(judge(feed, NOW + 550_002)).toBe('open')
    expect(see(NOW + 550_003, { price: 9n })).toBe('open')
  })

  test('a faulty price is not accepted as the one to compare with', () => {
    const { see } = open(2)
    see(NOW, { price: 100n })
    expect(see(NOW + 1, { price: 0n })).toBe('bad-value')
    expect(see(NOW + 2, { price: 101n })).toBe('open')
  })
})

describe('sessions', () => {
  test('an open market with the price of the close is refused, then just opened', () => {
    const { see, later } = open(8)
    const shutAt = Number(ns(NOW - 1000))
    expect(see(NOW, { marketStatus: 1, lastUpdateTimestamp: shutAt })).toBe('closed')
    expect(see(NOW + 1000, { lastUpdateTimestamp: shutAt })).toBe('stale-after-open')
    expect(see(NOW + 2000, { lastUpdateTimestamp: Number(ns(NOW + 1500)) })).toBe('just-opened')
    expect(later(NOW + 61_999)).toBe('just-opened')
    expect(later(NOW + 62_000)).toBe('open')
  })

  test('V4 has no time of the value, so its price must move', () => {
    const { see } = open(4)
    expect(see(NOW, { marketStatus: 1 })).toBe('closed')
    expect(see(NOW + 1000)).toBe('stale-after-open')
    expect(see(NOW + 2000, { price: e18 + 10n ** 6n })).toBe('just-opened')
  })

  test('an unknown status between does not hide the opening', () => {
    const { see } = open(8)
    const lastUpdateTimestamp = Number(ns(NOW))
    see(NOW, { marketStatus: 1, lastUpdateTimestamp })
    expect(see(NOW + 1, { marketStatus: 0, lastUpdateTimestamp })).toBe('unknown')
    expect(see(NOW + 2, { lastUpdateTimestamp })).toBe('stale-after-open')
  })

  test('an unknown status of an open market is no opening', () => {
    const { see } = open(8)
    see(NOW)
    expect(see(NOW + 1, { marketStatus: 0 })).toBe('unknown')
    expect(see(NOW + 2)).toBe('open')
  })

  test.each([
    ['caution', 'session-change'],
    ['pause', 'session-pause'],
  ] as const)('a change of session asks for %s', (sessionChange, reason) => {
    const { see, later } = open(11, { sessionChange }, '24/5')
    expect(see(NOW, { marketStatus: 1 })).toBe('open')
    expect(see(NOW + 1000, { marketStatus: 2 })).toBe(reason)
    expect(later(NOW + 60_999)).toBe(reason)
    expect(later(NOW + 61_000)).toBe('open')
  })

  test('overnight begins with the bid and ask of before', () => {
    const { see } = open(11, { sessionTime: 10 }, '24/5')
    const [bid, ask] = [100n * e18 - 5n, 100n * e18 + 5n]
    see(NOW, { marketStatus: 3, bid, ask })
    expect(see(NOW + 1000, { marketStatus: 4, bid, ask })).toBe('carry-over')
    expect(see(NOW + 2000, { marketStatus: 4, bid, ask })).toBe('carry-over')
    expect(see(NOW + 3000, { marketStatus: 4, bid: bid - 10n ** 17n, ask })).toBe('open')
    expect(see(NOW + 4000, { marketStatus: 4, bid, ask })).toBe('open')
  })
})

describe('corporate actions and contracts', () => {
  const staged = (activationDateTime: number) => ({ newMultiplier: 10n * e18, activationDateTime })
  test('a staged multiplier is caution, and ends trading 15 minutes before', () => {
    const { see, later } = open(10)
    expect(see(NOW, staged(NOW / 1000 + 1000))).toBe('action-staged')
    expect(later(NOW + 99_999)).toBe('action-staged')
    expect(later(NOW + 100_000)).toBe('action-near')
    expect(see(NOW + 2_000_000, staged(NOW / 1000 + 1000))).toBe('action-near')
  })

  test('an activated multiplier waits for a price that has followed', () => {
    const { see } = open(10)
    const update = (ms: number) => ({ lastUpdateTimestamp: Number(ns(NOW + ms)) })
    const split = { currentMultiplier: 10n * e18 }
    see(NOW, update(0))
    see(NOW + 1000, { ...update(0), marketStatus: 1 })
    expect(see(NOW + 2000, { ...update(0), ...split, marketStatus: 1 })).toBe('closed')
    expect(see(NOW + 3000, { ...update(0), ...split })).toBe('multiplier-changed')
    // A new quote, which has not followed.
    expect(see(NOW + 4000, { ...update(3500), ...split })).toBe('multiplier-changed')
    const wrong = { ...split, price: (100n * e18 * 1051n) / 10_000n }
    expect(see(NOW + 5000, { ...update(4500), ...wrong })).toBe('multiplier-changed')
    const right = { ...split, price: (100n * e18 * 1049n) / 10_000n }
    expect(see(NOW + 6000, { ...update(5500), ...right })).toBe('just-opened')
  })

  test('the token goes on while its market is closed, with caution', () => {
    const { see } = open(10, { tokenized: true })
    const old = { lastUpdateTimestamp: Number(ns(NOW - 9_000_000)) }
    expect(see(NOW, { ...old, marketStatus: 1, price: 0n })).toBe('off-hours')
    expect(see(NOW + 1, { ...old, marketStatus: 0 })).toBe('unknown')
    expect(see(NOW + 2, { ...old, marketStatus: 1, currentMultiplier: 2n * e18 })).toBe('off-hours')
    expect(see(NOW + 3, { ...old, marketStatus: 1, tokenizedPrice: 0n })).toBe('bad-value')
  })

  test.each([{ contractMonth: 4 }, { expiryTime: 1_806_000_000 }])('a roll: %j', next => {
    const { see, later } = open(14)
    see(NOW)
    const price = { midPrice: 200n * e18, bidPrice: 199n * e18, askPrice: 201n * e18 }
    expect(see(NOW + 1000, { ...next, ...price })).toBe('contract-rolled')
    expect(see(NOW + 2000, { ...next, ...price })).toBe('contract-rolled')
    const seen = { lastSeenTimestampNs: ns(NOW + 3_600_999) }
    expect(see(NOW + 3_600_999, { ...next, ...price, ...seen })).toBe('contract-rolled')
    expect(later(NOW + 3_601_000)).toBe('open')
  })
})

describe('the end', () => {
  test('of a report, with slack', () => {
    const fields = { expiresAt: NOW + 1000 }
    expect(open(2).see(NOW, fields, 999)).toBe('open')
    expect(open(2).see(NOW, fields, 1000)).toBe('expired')
    expect(open(2, { expirySlack: 400 }).see(NOW, fields, 600)).toBe('expired')
  })

  test('of a feed', () => {
    const { see, later, feed } = open(2)
    see(NOW)
    feed.retiringAt = NOW + 2_592_000_100
    expect(later(NOW + 99)).toBe('open')
    expect(later(NOW + 100)).toBe('retiring')
    feed.retiredAt = NOW + 200
    expect(later(NOW + 199)).toBe('retiring')
    expect(later(NOW + 200)).toBe('retired')
  })
})

describe('a report that is not the newest', () => {
  test('is judged by what it says itself', () => {
    const { feed, fieldsAt } = open(8)
    const alone = (fields: object, now = NOW) => isTradableAlone(feed, fieldsAt(NOW, fields), now)
    expect(alone({})).toBe(true)
    expect(alone({}, NOW + 300_000)).toBe(false)
    expect(alone({ marketStatus: 1 })).toBe(false)
    expect(alone({ midPrice: 0n })).toBe(false)
    expect(alone({ expiresAt: NOW })).toBe(false)
    expect(feed.hasReport).toBe(false)
  })
})

test('each reason of the table can come about: the others have their tests over a socket', () => {
  expect(Object.keys(marketReasons)).toHaveLength(34)
  expect(Object.values(marketReasons).filter(({ tradable }) => !tradable)).toHaveLength(20)
})
