// What the parts of a report mean, in a sentence each, and how their values are written for people.
import { ExtendedMarketStatus, MarketStatus, Ripcord } from 'sluice/plugins/decoders'
import { feedResolution, formatPrice } from 'sluice/report'

/** How a value is written for people. */
export type Unit =
  | 'none'
  /** An integer with decimals that the report does not name. */
  | 'price'
  /** The smallest unit of a token with 18 decimals. */
  | 'fee'
  /** A time in the feed's unit: seconds or milliseconds. */
  | 'time'
  | 's'
  | 'ms'
  | 'ns'
  | 'seconds'
  | 'status'
  | 'extended'
  | 'ripcord'

/** What a part means. */
export interface Meaning {
  readonly unit: Unit
  readonly meaning: string
}

type Row = readonly [Unit, string]

/** The parts of all versions; a name with a version takes precedence. */
const rows: Readonly<Record<string, Row>> = {
  configDigest: ['none', 'The configuration of signers that signed the report.'],
  epochAndRound: [
    'none',
    'Epoch and round of the network’s protocol, in the last five bytes. In newer networks the sequence number is epoch × 256 + round.',
  ],
  extraHash: ['none', 'Zero in older networks. Otherwise the network’s id: donID << 32 | 1.'],
  rawVs: ['none', 'Byte i is the recovery id of signature i: 0 or 1.'],
  feedID: ['none', 'The first four bits give the unit of time, the next twelve the version.'],
  validFromTimestamp: ['time', 'The earliest time for which the report is valid.'],
  observationsTimestamp: ['time', 'The time of the observations.'],
  nativeFee: ['fee', 'The cost of verifying on chain, in the native token (wei).'],
  linkFee: ['fee', 'The cost of verifying on chain, in LINK (juels, 10^-18 LINK).'],
  expiresAt: ['time', 'After this time the report can’t be verified on chain.'],
  price: ['price', 'The price.'],
  'price 10': ['price', 'The price of the share. It stands still while its market is closed.'],
  bid: ['price', 'The price at which buyers buy.'],
  ask: ['price', 'The price at which sellers sell.'],
  marketStatus: ['status', 'Whether the market is open.'],
  'marketStatus 11': ['extended', 'The session of a market with extended hours.'],
  rate: ['price', 'The interest rate.'],
  timestamp: ['s', 'The time of the rate, in Unix seconds.'],
  duration: ['seconds', 'The duration of the rate, in seconds.'],
  price2: ['price', 'The second price.'],
  price3: ['price', 'The third price.'],
  price4: ['price', 'The fourth price.'],
  price5: ['price', 'The fifth price.'],
  exchangeRate: ['price', 'The rate at which a token is redeemed.'],
  lastUpdateTimestamp: ['ns', 'The last update of the price, in Unix nanoseconds.'],
  midPrice: ['price', 'The middle between bid and ask.'],
  navPerShare: ['price', 'The net asset value of one share.'],
  nextNavPerShare: ['price', 'The next net asset value of one share.'],
  navDate: ['ns', 'The date of the net asset value, in Unix nanoseconds.'],
  'navDate 9': ['ms', 'The date of the net asset value, in Unix milliseconds.'],
  aum: ['price', 'The assets under management.'],
  ripcord: ['ripcord', 'Whether the values may be used: only if it is NORMAL.'],
  currentMultiplier: ['price', 'Shares per token.'],
  newMultiplier: ['price', 'Shares per token from activationDateTime on.'],
  activationDateTime: ['s', 'When the new multiplier applies, in Unix seconds. 0: there is none.'],
  tokenizedPrice: ['price', 'The price of the token, around the clock.'],
  mid: ['price', 'The middle between bid and ask.'],
  lastSeenTimestampNs: ['ns', 'When the mid price was last seen, in Unix nanoseconds.'],
  bidVolume: ['price', 'The volume at the bid. 0 if the market publishes none.'],
  askVolume: ['price', 'The volume at the ask. 0 if the market publishes none.'],
  'bidVolume 13': ['none', 'The volume at the best bid.'],
  'askVolume 13': ['none', 'The volume at the best ask.'],
  lastTradedPrice: ['price', 'The price of the last trade. 0 if the market publishes none.'],
  bestAsk: ['price', 'The best ask of the order book.'],
  bestBid: ['price', 'The best bid of the order book.'],
  bidPrice: ['price', 'The price at which buyers buy.'],
  askPrice: ['price', 'The price at which sellers sell.'],
  expiryTime: ['s', 'When the future expires, in Unix seconds.'],
  firstDayOfNotice: ['s', 'The first day of notice, in Unix seconds.'],
  contractMonth: ['none', 'The month of the contract, 1 to 12.'],
  goldmanRollPrice: ['price', 'The roll price.'],
  currentBusinessDay: ['none', 'The business day of the roll prices, as the network counts.'],
  interpolatedGoldmanRollPrice: ['price', 'The interpolated roll price.'],
  'offset of the blob': ['none', 'Where the blob begins, in bytes. Always 224.'],
  'offset of rawRs': ['none', 'Where the list of r begins, right behind the blob.'],
  'offset of rawSs': ['none', 'Where the list of s begins, right behind the list of r.'],
  'length of the blob': ['none', 'The bytes of the blob: the signed fields.'],
  'number of rawRs': ['none', 'How many signatures there are.'],
  'number of rawSs': ['none', 'The same number again.'],
}

/** What a part means. */
export function meaningOf(name: string, version: number | undefined): Meaning {
  const [unit, meaning] = rows[`${name} ${version}`] ?? rows[name] ?? ['none', '']
  return { unit, meaning }
}

const names: Partial<Record<Unit, Readonly<Record<string, number>>>> = {
  status: MarketStatus,
  extended: ExtendedMarketStatus,
  ripcord: Ripcord,
}
/** Units of a second. */
const perSecond: Partial<Record<Unit, bigint>> = { s: 1n, ms: 1000n, ns: 1_000_000_000n }

/** A value as people write it; undefined if the exact text says it all. */
export function showValue(
  value: string,
  unit: Unit,
  feedID: string | undefined,
  decimals: number,
): string | undefined {
  if (value === '' || unit === 'none') return undefined
  const number = BigInt(value)
  if (unit === 'price') return decimals === 0 ? undefined : formatPrice(number, decimals)
  if (unit === 'fee') return formatPrice(number, 18)
  if (unit === 'seconds') return `${value} s`
  const named = names[unit]
  if (named !== undefined)
    return Object.entries(named).find(([, each]) => BigInt(each) === number)?.[0] ?? 'no name'
  return showTime(number, unit === 'time' ? (feedID && feedResolution(feedID)) || 's' : unit)
}

/** A time in UTC with all its digits; undefined for one that no calendar has. */
function showTime(value: bigint, unit: Unit): string | undefined {
  const scale = perSecond[unit] ?? 1n
  if (value <= 0n) return undefined
  const seconds = Number(value / scale)
  if (seconds > 253_402_300_799) return undefined
  const whole = new Date(1000 * seconds).toISOString().slice(0, 19).replace('T', ' ')
  const rest = (value % scale).toString().padStart(String(scale).length - 1, '0')
  return `${whole}${scale === 1n ? '' : `.${rest.replace(/0+$/, '') || '0'}`} UTC`
}
