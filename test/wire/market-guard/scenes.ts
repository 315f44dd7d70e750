import type { CatalogueSpec, ReportFields } from '@sluice/engine'
import type {
  HoursModel,
  MarketGuardOptions,
  MarketReason,
} from '../../../plugins/market-guard/index.js'

/** One report, or a while of silence, and the verdict after it. */
export interface Step {
  /** The fields of a report. Without them, nothing is published. */
  readonly fields?: (now: number) => ReportFields
  /** Milliseconds to wait before the verdict is looked at. @default 0 */
  readonly wait?: number
  readonly verdict: MarketReason
}

/** A condition of the market, as reports show it. */
export interface Scene {
  readonly title: string
  readonly version: number
  readonly options?: MarketGuardOptions
  readonly hours?: HoursModel
  /**
   * What the catalogue says of the feed; undefined where the catalogue is unavailable. @default
   * what the engine says of a feed of this version
   */
  readonly entry?: CatalogueSpec | undefined
  readonly steps: readonly Step[]
}

const e18 = 10n ** 18n
const ns = (ms: number): bigint => BigInt(Math.round(ms)) * 1_000_000n
const at = (fields: ReportFields, verdict: MarketReason, wait?: number): Step => ({
  fields: () => fields,
  verdict,
  ...(wait !== undefined && { wait }),
})
const silence = (wait: number, verdict: MarketReason): Step => ({ wait, verdict })

/** A report of version 8. The age is that of the value. */
const fx = (marketStatus: number, age: number, verdict: MarketReason, price = 100n): Step => ({
  fields: now => ({ midPrice: price * e18, lastUpdateTimestamp: ns(now - age), marketStatus }),
  verdict,
})
/** A report of version 11. */
function equity(
  marketStatus: number,
  age: number,
  verdict: MarketReason,
  more: ReportFields = {},
): Step {
  return {
    fields: now => ({
      mid: 100n * e18,
      bid: 99n * e18,
      ask: 101n * e18,
      lastSeenTimestampNs: ns(now - age),
      marketStatus,
      ...more,
    }),
    verdict,
  }
}
const closeOf = 3_600_000
/** Value times that stand still are the same in each step: of a moment when the test began. */
const began = Date.now()
const equityAt = (
  marketStatus: number,
  time: number,
  verdict: MarketReason,
  more: ReportFields = {},
) => equity(marketStatus, 0, verdict, { lastSeenTimestampNs: ns(time), ...more })
const fxAt = (marketStatus: number, time: number, verdict: MarketReason, price = 100n): Step =>
  at({ midPrice: price * e18, lastUpdateTimestamp: ns(time), marketStatus }, verdict)

const crypto = (price: bigint, bid: bigint, ask: bigint, verdict: MarketReason): Step =>
  at({ price: price * e18, bid: bid * e18, ask: ask * e18 }, verdict)

function token(fields: ReportFields, verdict: MarketReason, time?: number): Step {
  return {
    fields: now => ({
      price: 100n * e18,
      tokenizedPrice: 101n * e18,
      currentMultiplier: e18,
      newMultiplier: e18,
      activationDateTime: 0,
      marketStatus: 2,
      lastUpdateTimestamp: ns(time ?? now),
      ...fields,
    }),
    verdict,
  }
}

function future(fields: ReportFields, verdict: MarketReason, age = 0): Step {
  return {
    fields: now => ({
      midPrice: 100n * e18,
      bidPrice: 99n * e18,
      askPrice: 101n * e18,
      contractMonth: 3,
      expiryTime: 1_900_000_000,
      lastSeenTimestampNs: ns(now - age),
      marketStatus: 2,
      ...fields,
    }),
    verdict,
  }
}

const nav = (ripcord: number, verdict: MarketReason): Step =>
  at({ navPerShare: e18, ripcord }, verdict)
const soon = { openingTime: 300, sessionTime: 300, rollTime: 300 }
const inDays = (days: number): string => new Date(began + 86_400_000 * days).toISOString()

/** At least one scene for each row of the table of conditions. */
export const scenes: readonly Scene[] = [
  {
    title: 'a market closes and opens again',
    version: 8,
    options: soon,
    steps: [
      fx(2, 0, 'open'),
      fxAt(1, began - closeOf, 'closed'),
      fxAt(2, began - closeOf, 'stale-after-open'),
      fx(2, 0, 'just-opened'),
      silence(400, 'open'),
    ],
  },
  {
    title: 'the status is unknown for a while',
    version: 8,
    steps: [fx(2, 0, 'open'), fx(0, 0, 'unknown'), fx(2, 0, 'open')],
  },
  {
    title: 'a status without a meaning',
    version: 8,
    steps: [fx(2, 0, 'open'), fx(3, 0, 'unexpected-status'), fx(2, 0, 'open')],
  },
  ...[1, 3, 4].map(
    (status): Scene => ({
      title: `the reserved status ${status} of standard hours`,
      version: 11,
      entry: { attributeType: 'EquityPrice', marketHours: 'US Equities' },
      steps: [equity(2, 0, 'open'), equity(status, 0, 'unexpected-status'), equity(2, 0, 'open')],
    }),
  ),
  {
    title: 'the 24/5 sessions in one stream',
    version: 11,
    options: soon,
    entry: { attributeType: 'EquityPrice', marketHours: 'US Equities 24/5' },
    steps: [
      equity(1, 0, 'open'),
      equity(2, 0, 'session-change'),
      silence(400, 'open'),
      equity(3, 0, 'session-change'),
      equity(4, 0, 'carry-over'),
      equity(4, 0, 'session-change', { bid: 98n * e18 }),
      silence(400, 'open'),
      equity(5, 60_000, 'closed'),
    ],
  },
  {
    title: 'a change of session that pauses',
    version: 11,
    options: { ...soon, sessionChange: 'pause' },
    entry: { attributeType: 'EquityPrice', marketHours: 'US Equities 24/5' },
    steps: [equity(1, 0, 'open'), equity(2, 0, 'session-pause'), silence(400, 'open')],
  },
  {
    title: 'the regular stream through a day',
    version: 11,
    options: soon,
    entry: { attributeType: 'RegularHoursEquityPrice' },
    steps: [
      equityAt(1, began - closeOf, 'other-session'),
      equityAt(2, began - closeOf, 'stale-after-open'),
      equity(2, 0, 'just-opened'),
      silence(400, 'open'),
      equity(3, 1000, 'other-session'),
      equity(5, 9000, 'closed'),
    ],
  },
  {
    title: 'the overnight stream begins',
    version: 11,
    options: soon,
    entry: { attributeType: 'EquityPrice', name: 'ACME/USD-Streams-OvernightHoursEquityPrice' },
    steps: [
      equityAt(3, began - closeOf, 'other-session'),
      equityAt(4, began - closeOf, 'stale-after-open'),
      equity(4, 0, 'carry-over'),
      equity(4, 0, 'just-opened', { ask: 102n * e18 }),
      silence(400, 'open'),
    ],
  },
  {
    title: 'the extended stream in the regular session',
    version: 11,
    entry: { attributeType: 'ExtendedHoursEquityPrice' },
    steps: [equity(1, 0, 'open'), equity(2, 1000, 'other-session'), equity(3, 0, 'just-opened')],
  },
  {
    title: 'a lunch break in Asia',
    version: 11,
    options: soon,
    entry: { attributeType: 'EquityPrice', marketHours: 'Japan TSE' },
    steps: [
      equity(2, 0, 'open'),
      equityAt(5, began - 5_400_000, 'closed'),
      equityAt(2, began - 5_400_000, 'stale-after-open'),
      equity(2, 0, 'just-opened'),
      silence(400, 'open'),
    ],
  },
  {
    title: 'a 24/7 stream',
    version: 11,
    entry: { attributeType: 'EquityPrice', name: 'ACME/USD-24/7' },
    steps: [
      equity(2, 0, 'always-open'),
      equity(5, 0, 'always-open'),
      equity(0, 0, 'unknown'),
      equity(1, 0, 'always-open'),
    ],
  },
  {
    title: 'an unavailable catalogue',
    version: 11,
    entry: undefined,
    steps: [
      equity(2, 0, 'hours-unknown'),
      equity(4, 0, 'unexpected-status'),
      equity(5, 0, 'closed'),
    ],
  },
  {
    title: 'the user’s own hours',
    version: 11,
    hours: '24/5-overnight',
    entry: undefined,
    steps: [equity(4, 0, 'open'), equity(2, 0, 'other-session')],
  },
  {
    title: 'an order book without a meaning of its status',
    version: 11,
    entry: { attributeType: 'TopOfBook' },
    steps: [equity(2, 0, 'unmapped-status'), equity(0, 0, 'unknown')],
  },
  {
    title: 'an order book that rests',
    version: 11,
    options: { openStatus: [2] },
    entry: { attributeType: 'TopOfBook' },
    steps: [
      equity(2, 0, 'open'),
      equityAt(2, began - 310_000, 'quiet'),
      equityAt(2, began - 3_700_000, 'stale'),
      equity(2, 0, 'open'),
    ],
  },
  {
    title: 'a halt: the value stands still, the status does not change',
    version: 11,
    entry: { attributeType: 'EquityPrice' },
    steps: [equity(2, 299_200, 'open'), silence(1200, 'stale'), equity(2, 0, 'open')],
  },
  {
    title: 'an outage: no report at all',
    version: 3,
    options: { maxAge: 700 },
    steps: [
      crypto(100n, 100n, 100n, 'open'),
      silence(1000, 'stale'),
      crypto(100n, 100n, 100n, 'open'),
    ],
  },
  {
    title: 'a provider of futures stops',
    version: 14,
    steps: [future({}, 'open'), future({}, 'stale', 300_001), future({}, 'open')],
  },
  {
    title: 'the time of the value goes back once',
    version: 8,
    steps: [fx(2, 0, 'open'), fx(2, 2000, 'time-back'), fx(2, 0, 'open')],
  },
  {
    title: 'the time of the value stays back',
    version: 8,
    steps: [
      fx(2, 0, 'open'),
      fx(2, 5000, 'time-back'),
      fx(2, 4900, 'time-back'),
      fx(2, 4800, 'time-stays-back'),
      fx(2, 0, 'open'),
    ],
  },
  {
    title: 'a bad quote: zero',
    version: 11,
    hours: '24/5',
    steps: [equity(4, 0, 'open'), equity(4, 0, 'bad-value', { mid: 0n }), equity(4, 0, 'open')],
  },
  {
    title: 'a bad quote: absurd',
    version: 11,
    hours: '24/5',
    steps: [
      equity(4, 0, 'open'),
      equity(4, 0, 'jump', { mid: 200n * e18, bid: 199n * e18, ask: 201n * e18 }),
      equity(4, 0, 'open'),
    ],
  },
  {
    title: 'a negative price, and a policy that allows it',
    version: 2,
    steps: [at({ price: -5n }, 'bad-value'), at({ price: 5n }, 'open')],
  },
  {
    title: 'a negative rate',
    version: 5,
    steps: [at({ rate: -5n * e18 }, 'open'), at({ rate: 1n }, 'open')],
  },
  {
    title: 'a policy that allows negative prices',
    version: 14,
    options: { values: 'any' },
    steps: [future({ midPrice: -37n * e18, bidPrice: -38n * e18, askPrice: -37n * e18 }, 'open')],
  },
  {
    title: 'bid and ask are crossed, or far apart',
    version: 3,
    steps: [
      crypto(100n, 99n, 101n, 'open'),
      crypto(100n, 102n, 101n, 'crossed'),
      crypto(100n, 90n, 110n, 'wide-spread'),
      crypto(100n, 99n, 101n, 'open'),
    ],
  },
  {
    title: 'the state of a pool: bid, ask and price are equal',
    version: 3,
    options: { maxAge: 700 },
    entry: { attributeType: 'DexPrice', feedType: 'Crypto-DEX' },
    steps: [crypto(7n, 7n, 7n, 'open'), silence(1000, 'stale'), crypto(7n, 7n, 7n, 'open')],
  },
  {
    title: 'a crossed order book',
    version: 13,
    steps: [
      at({ bestBid: 99n, bestAsk: 101n }, 'open'),
      at({ bestBid: 102n, bestAsk: 101n }, 'crossed'),
      at({ bestBid: 99n, bestAsk: 101n }, 'open'),
    ],
  },
  {
    title: 'a spin-off: closed, then a step',
    version: 8,
    options: soon,
    steps: [
      fx(2, 0, 'open'),
      fxAt(1, began - closeOf, 'closed'),
      fx(2, 0, 'jump', 60n),
      fx(2, 0, 'jump', 61n),
      fx(2, 0, 'just-opened', 100n),
    ],
  },
  {
    title: 'a new level that stays',
    version: 2,
    options: { jumpTime: 300 },
    steps: [
      at({ price: 100n }, 'open'),
      at({ price: 200n }, 'jump'),
      silence(400, 'jump'),
      at({ price: 201n }, 'open'),
    ],
  },
  {
    title: 'a dividend: closed, then a step that the policy allows',
    version: 8,
    options: soon,
    steps: [
      fx(2, 0, 'open'),
      fxAt(1, began - closeOf, 'closed'),
      fx(2, 0, 'just-opened', 90n),
      silence(400, 'open'),
    ],
  },
  {
    title: 'a delisting: closed, the last price, and later zero',
    version: 8,
    steps: [
      fx(2, 0, 'open'),
      fxAt(1, began - closeOf, 'closed'),
      fxAt(1, began - closeOf, 'closed', 0n),
      fx(2, 0, 'bad-value', 0n),
    ],
  },
  {
    title: 'a split is staged, and nears',
    version: 10,
    options: { activationLead: 1_000_000 },
    steps: [
      token({}, 'open'),
      token(
        { newMultiplier: 10n * e18, activationDateTime: Math.ceil(began / 1000) + 2000 },
        'action-staged',
      ),
      token(
        { newMultiplier: 10n * e18, activationDateTime: Math.ceil(began / 1000) + 900 },
        'action-near',
      ),
    ],
  },
  {
    title: 'a split is activated while the market is closed',
    version: 10,
    options: soon,
    steps: [
      token({}, 'open'),
      token({ marketStatus: 1 }, 'closed', began),
      token({ marketStatus: 1, currentMultiplier: 10n * e18 }, 'closed', began),
      token({ currentMultiplier: 10n * e18 }, 'multiplier-changed', began),
      token({ currentMultiplier: 10n * e18 }, 'multiplier-changed'),
      token({ currentMultiplier: 10n * e18, price: 10n * e18 }, 'just-opened'),
      silence(400, 'open'),
    ],
  },
  {
    title: 'a weekend of a token, by the price',
    version: 10,
    steps: [token({}, 'open'), token({ marketStatus: 1 }, 'closed', began - closeOf)],
  },
  {
    title: 'a weekend of a token, by the tokenized price',
    version: 10,
    options: { tokenized: true },
    steps: [
      token({}, 'open'),
      token({ marketStatus: 1 }, 'off-hours', began - closeOf),
      token({}, 'open'),
    ],
  },
  ...[9, 12].map(
    (version): Scene => ({
      title: 'the ripcord',
      version,
      steps: [nav(0, 'open'), nav(1, 'ripcord'), nav(0, 'open')],
    }),
  ),
  {
    title: 'a contract rolls',
    version: 14,
    options: soon,
    steps: [
      future({}, 'open'),
      future(
        { contractMonth: 4, midPrice: 150n * e18, bidPrice: 149n * e18, askPrice: 151n * e18 },
        'contract-rolled',
      ),
      silence(400, 'open'),
      future({ contractMonth: 4, expiryTime: 1_903_000_000 }, 'contract-rolled'),
    ],
  },
  {
    title: 'a fund that is 15 minutes late',
    version: 11,
    hours: 'standard',
    options: { delay: 900_000 },
    steps: [
      equity(2, 1_190_000, 'delayed'),
      equity(2, 1_210_000, 'stale'),
      equity(2, 0, 'delayed'),
    ],
  },
  {
    title: 'a report expires',
    version: 2,
    steps: [
      { fields: now => ({ price: 5n, expiresAt: BigInt(now + 700) }), verdict: 'open' },
      silence(1000, 'expired'),
      at({ price: 5n }, 'open'),
    ],
  },
  {
    title: 'a date of retirement is known',
    version: 2,
    entry: { expectedDecommissionAt: inDays(20) },
    steps: [at({ price: 5n }, 'retiring')],
  },
  {
    title: 'a date of retirement is far',
    version: 2,
    entry: { expectedDecommissionAt: inDays(60) },
    steps: [at({ price: 5n }, 'open')],
  },
  {
    title: 'a feed has retired',
    version: 2,
    entry: { decommissionedAt: inDays(-1) },
    steps: [at({ price: 5n }, 'retired')],
  },
  ...[
    [6, { price: 5n, price2: 5n, price3: 5n, price4: 5n, price5: 5n }, { price4: 0n }],
    [7, { exchangeRate: 5n }, { exchangeRate: 0n }],
    [4, { price: 5n, marketStatus: 2 }, { price: 0n }],
    [4, { price: 5n, marketStatus: 2 }, { price: -1n }],
  ].map(
    ([version, sound, bad]): Scene => ({
      title: 'a price of zero or below',
      version: version as number,
      steps: [
        at(sound as ReportFields, 'open'),
        at({ ...(sound as ReportFields), ...(bad as ReportFields) }, 'bad-value'),
        at(sound as ReportFields, 'open'),
      ],
    }),
  ),
]
