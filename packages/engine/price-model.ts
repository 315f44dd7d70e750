import { type FieldValue, rangeOf, reportSchema } from './encode.js'
import type { Feed, ReportFields } from './feeds.js'
import { seededRandom } from './random.js'

/**
 * Makes the field values of a feed's next report, for a time in ms. The three times in `headTimes`
 * are not included.
 */
export type PriceModel = (ms: number) => Record<string, FieldValue>

/** The input of a field's model, for one report. */
interface Moment {
  readonly name: string
  readonly ms: number
  readonly random: () => number
  /** The feed's start values, as given. */
  readonly start: ReportFields
  /** The field's value in the last report; undefined for the first report. */
  readonly last: FieldValue | undefined
  /** The fields of this report that are already made. */
  readonly made: Readonly<Record<string, FieldValue>>
}

type Model = (moment: Moment) => FieldValue

const e9 = 1_000_000_000n
const e18 = e9 * e9
const dayMs = 86_400_000

const parts = (fraction: number): bigint => BigInt(Math.round(fraction * 1e9))
const size = (value: bigint): bigint => (value < 0n ? -value : value)
const seconds = (ms: number): bigint => BigInt(Math.floor(ms / 1000))
const nanoseconds = (ms: number): bigint => BigInt(ms) * 1_000_000n
const midnight = (ms: number): number => Math.floor(ms / dayMs) * dayMs

/**
 * A random number within ±2 with a bell-shaped distribution. It is a sum, so that every JavaScript
 * engine computes the same number.
 */
function bell(random: () => number): number {
  return random() + random() + random() + random() - 2
}

/** A random price from 5000 to 1 200 000 that uses all 18 decimals: 73 to 80 bits. */
function somePrice(random: () => number): bigint {
  const whole = BigInt(5000 + Math.floor(random() * 1_195_000))
  return whole * e18 + parts(random()) * e9 + parts(random())
}

/** A random walk. Per step, the relative change is at most twice the volatility, plus the drift. */
function walk(volatility: number, from?: bigint, drift = 0): Model {
  return function walkOn({ random, last }) {
    if (last === undefined) return from ?? somePrice(random)
    const value = last as bigint
    return value + (value * parts(drift + bell(random) * volatility)) / e9
  }
}

/**
 * Stays above (1n) or below (-1n) another field. The relative distance is that of the start values;
 * without start values, it is random and small.
 */
function beside(anchor: string, sign: 1n | -1n): Model {
  return function stayBeside({ name, random, start, made }) {
    const price = made[anchor] as bigint
    const given = start[name]
    const base = start[anchor]
    const share =
      given !== undefined && base !== undefined && BigInt(base) !== 0n
        ? (size(BigInt(given) - BigInt(base)) * e9) / size(BigInt(base))
        : parts(0.00002 + random() * 0.0001)
    const distance = (size(price) * share) / e9
    return price + sign * (distance > 0n ? distance : 1n)
  }
}

const above = (anchor: string): Model => beside(anchor, 1n)
const below = (anchor: string): Model => beside(anchor, -1n)

/** Stays at its first value. */
function fixed(first: (moment: Moment) => FieldValue): Model {
  return moment => moment.last ?? first(moment)
}

/** A time in ns, up to `ms` before the report. */
function lately(ms: number): Model {
  return moment => nanoseconds(moment.ms) - BigInt(Math.floor(moment.random() * ms * 1e6))
}

function weekdayOfMonth({ ms }: Moment): bigint {
  return BigInt(Math.ceil((new Date(ms).getUTCDate() * 5) / 7))
}

/** The month, 1 to 12, of another field that is a time in seconds. */
function monthOf(time: string): Model {
  return ({ made }) => BigInt(new Date(Number(made[time]) * 1000).getUTCMonth() + 1)
}

const open: Model = fixed(() => 2n)
const none: Model = fixed(() => 0n)

// The fields are listed in the order in which they are made. A model sees the fields that are
// listed before its own field.
const models: Readonly<Record<number, Readonly<Record<string, Model>>>> = {
  2: { price: walk(0.0002) },
  3: { price: walk(0.0002), bid: below('price'), ask: above('price') },
  4: { price: walk(0.00005), marketStatus: open },
  5: {
    // A rate below zero, such as some currencies have had.
    rate: walk(0.0001, -5_312_604_118_273_905n),
    timestamp: ({ ms }) => seconds(ms),
    duration: fixed(() => 86_400n),
  },
  6: {
    price: walk(0.0002),
    price2: walk(0.0002),
    price3: walk(0.0002),
    price4: walk(0.0002),
    price5: walk(0.0002),
  },
  7: { exchangeRate: walk(0, 1_047n * 10n ** 15n, 0.000000002) },
  8: { midPrice: walk(0.0001), lastUpdateTimestamp: lately(900), marketStatus: open },
  9: {
    navPerShare: walk(0.000001, 1_012n * 10n ** 15n),
    navDate: ({ ms }) => BigInt(midnight(ms)),
    aum: walk(0.00001, 384_000_000n * e18),
    ripcord: none,
  },
  10: {
    price: walk(0.0001),
    lastUpdateTimestamp: lately(900),
    marketStatus: open,
    currentMultiplier: fixed(() => e18),
    newMultiplier: fixed(({ made }) => made.currentMultiplier as bigint),
    activationDateTime: none,
    tokenizedPrice: above('price'),
  },
  11: {
    mid: walk(0.0001),
    lastSeenTimestampNs: lately(900),
    bid: below('mid'),
    ask: above('mid'),
    bidVolume: walk(0.05, 300n * e18),
    askVolume: walk(0.05, 280n * e18),
    lastTradedPrice: below('mid'),
    marketStatus: open,
  },
  12: {
    navPerShare: walk(0.000001, 1_031n * 10n ** 15n),
    nextNavPerShare: above('navPerShare'),
    navDate: ({ ms }) => nanoseconds(midnight(ms)),
    ripcord: none,
  },
  13: {
    lastTradedPrice: walk(0.0002),
    bestAsk: above('lastTradedPrice'),
    bestBid: below('lastTradedPrice'),
    askVolume: walk(0.05, 2n * e18),
    bidVolume: walk(0.05, 2n * e18),
  },
  14: {
    midPrice: walk(0.0001),
    bidPrice: below('midPrice'),
    askPrice: above('midPrice'),
    expiryTime: fixed(({ ms }) => seconds(midnight(ms) + 60 * dayMs)),
    firstDayOfNotice: fixed(({ ms }) => seconds(midnight(ms) + 30 * dayMs)),
    lastSeenTimestampNs: lately(900),
    marketStatus: open,
    contractMonth: fixed(monthOf('expiryTime')),
    goldmanRollPrice: above('midPrice'),
    currentBusinessDay: weekdayOfMonth,
    interpolatedGoldmanRollPrice: above('midPrice'),
  },
}

const fees: Readonly<Record<string, Model>> = {
  nativeFee: walk(0.0002, 256_000_000_000_000n),
  linkFee: walk(0.0002, 3_500_000_000_000_000n),
}

/**
 * Creates the price model of a feed. Its values depend only on the feed, the seed and the times of
 * the reports.
 */
export function createPriceModel(feed: Feed, seed: number): PriceModel {
  const random = seededRandom(seed, `walk ${feed.feedID}`)
  const recipe = Object.entries({ ...fees, ...models[feed.version] })
  const types = new Map(
    reportSchema(feed.version, feed.resolution)?.map(field => [field.name, field.type]),
  )
  let last: ReportFields = {}

  function within(name: string, value: FieldValue): FieldValue {
    const type = types.get(name)
    if (typeof value !== 'bigint' || type === undefined || type === 'bytes32') return value
    const [least, most] = rangeOf(type)
    return value < least ? least : value > most ? most : value
  }

  return function nextValues(ms) {
    const made: Record<string, FieldValue> = {}
    for (const [name, model] of recipe) {
      const given = last[name] === undefined ? feed.start[name] : undefined
      const value = model({ name, ms, random, start: feed.start, last: last[name], made })
      if (given === undefined) made[name] = within(name, value)
      else made[name] = typeof given === 'number' ? BigInt(given) : given
    }
    last = made
    return { ...made }
  }
}
