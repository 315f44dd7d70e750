import { type FieldValue, rangeOf } from './encode.js'
import type { Feed, ReportFields } from './feeds.js'
import { seededRandom } from './random.js'
import { reportSchema } from './schemas.js'

/** Makes the values of a feed's next report, all but the three head times, for the given time in ms. */
export type Walk = (ms: number) => Record<string, FieldValue>

/** What a model sees while one report is made. */
interface Moment {
  readonly ms: number
  readonly random: () => number
  /** The feed's start values, as given. */
  readonly start: ReportFields
  /** This field in the report before; undefined in the first. */
  readonly last: FieldValue | undefined
  /** The fields of this report that are made already. */
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

/** A bell-shaped number within ±2, made of uniform ones so that every engine computes the same. */
function bell(random: () => number): number {
  return random() + random() + random() + random() - 2
}

/** Some price from 1 to 10 000, 18 decimals. */
function somePrice(random: () => number): bigint {
  return (
    BigInt(10_000 + Math.floor(random() * 90_000)) * 10n ** BigInt(14 + Math.floor(random() * 4))
  )
}

/** Moves by at most twice the volatility a step, plus the drift. */
function walk(volatility: number, from?: bigint, drift = 0): Model {
  return function walkOn({ random, last }) {
    if (last === undefined) return from ?? somePrice(random)
    const value = last as bigint
    return value + (value * parts(drift + bell(random) * volatility)) / e9
  }
}

/** Stays beside another field, on the side the sign says; as far from it, in proportion, as in the start values. */
function beside(anchor: string, sign: 1n | -1n): (name: string) => Model {
  return name =>
    function stayBeside({ random, start, made }) {
      const price = made[anchor] as bigint
      const given = start[name]
      const base = start[anchor]
      const apart =
        given !== undefined && base !== undefined && BigInt(base) !== 0n
          ? (size(BigInt(given) - BigInt(base)) * e9) / size(BigInt(base))
          : parts(0.00002 + random() * 0.0001)
      const distance = (size(price) * apart) / e9
      return price + sign * (distance > 0n ? distance : 1n)
    }
}

const above = (anchor: string, name: string): Model => beside(anchor, 1n)(name)
const below = (anchor: string, name: string): Model => beside(anchor, -1n)(name)

/** Keeps its first value. */
function fixed(first: (moment: Moment) => FieldValue): Model {
  return moment => moment.last ?? first(moment)
}

/** A time in ns, up to so many ms before the report. */
function lately(ms: number): Model {
  return moment => nanoseconds(moment.ms) - BigInt(Math.floor(moment.random() * ms * 1e6))
}

function weekdayOfMonth({ ms }: Moment): bigint {
  return BigInt(Math.ceil((new Date(ms).getUTCDate() * 5) / 7))
}

/** The month, from 1 to 12, of a time in seconds that is made already. */
function monthOf(time: string): Model {
  return ({ made }) => BigInt(new Date(Number(made[time]) * 1000).getUTCMonth() + 1)
}

const open: Model = fixed(() => 2n)
const none: Model = fixed(() => 0n)

// In the order the fields are made, which is the order a field may look at another.
const models: Readonly<Record<number, Readonly<Record<string, Model>>>> = {
  2: { price: walk(0.0002) },
  3: { price: walk(0.0002), bid: below('price', 'bid'), ask: above('price', 'ask') },
  4: { price: walk(0.00005), marketStatus: open },
  5: {
    rate: walk(0.0001, 43n * 10n ** 15n),
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
    tokenizedPrice: above('price', 'tokenizedPrice'),
  },
  11: {
    mid: walk(0.0001),
    lastSeenTimestampNs: lately(900),
    bid: below('mid', 'bid'),
    ask: above('mid', 'ask'),
    bidVolume: walk(0.05, 300n * e18),
    askVolume: walk(0.05, 280n * e18),
    lastTradedPrice: below('mid', 'lastTradedPrice'),
    marketStatus: open,
  },
  12: {
    navPerShare: walk(0.000001, 1_031n * 10n ** 15n),
    nextNavPerShare: above('navPerShare', 'nextNavPerShare'),
    navDate: ({ ms }) => nanoseconds(midnight(ms)),
    ripcord: none,
  },
  13: {
    lastTradedPrice: walk(0.0002),
    bestAsk: above('lastTradedPrice', 'bestAsk'),
    bestBid: below('lastTradedPrice', 'bestBid'),
    askVolume: walk(0.05, 2n * e18),
    bidVolume: walk(0.05, 2n * e18),
  },
  14: {
    midPrice: walk(0.0001),
    bidPrice: below('midPrice', 'bidPrice'),
    askPrice: above('midPrice', 'askPrice'),
    expiryTime: fixed(({ ms }) => seconds(midnight(ms) + 60 * dayMs)),
    firstDayOfNotice: fixed(({ ms }) => seconds(midnight(ms) + 30 * dayMs)),
    lastSeenTimestampNs: lately(900),
    marketStatus: open,
    contractMonth: fixed(monthOf('expiryTime')),
    goldmanRollPrice: above('midPrice', 'goldmanRollPrice'),
    currentBusinessDay: weekdayOfMonth,
    interpolatedGoldmanRollPrice: above('midPrice', 'interpolatedGoldmanRollPrice'),
  },
}

const fees: Readonly<Record<string, Model>> = {
  nativeFee: walk(0.0002, 25_600_000_000_000n),
  linkFee: walk(0.0002, 3_500_000_000_000_000n),
}

/** The values of a feed over time. Two walks of equal feed and seed are equal, whatever other feeds there are. */
export function createWalk(feed: Feed, seed: number): Walk {
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
      const value = model({ ms, random, start: feed.start, last: last[name], made })
      made[name] =
        given === undefined
          ? within(name, value)
          : typeof given === 'number'
            ? BigInt(given)
            : given
    }
    last = made
    return { ...made }
  }
}
