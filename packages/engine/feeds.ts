import { findFeed } from 'sluice'
import {
  checkBoolean,
  checkNumber,
  readOptions,
  type Schema,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { feedVersion, isFeedID } from 'sluice/report'
import { type CatalogueSpec, checkCatalogue } from './catalogue-spec.js'
import { checkField, type Field, type FieldValue, type Resolution, reportSchema } from './encode.js'
import { checkTWAP, type TWAPSpec } from './twap-spec.js'

/** The values of a report's fields, by the field names of its version. */
export type ReportFields = Readonly<Record<string, FieldValue>>

/** A feed to publish. */
export interface FeedSpec {
  /**
   * `0x` and 64 hex digits. The first digit is the time unit: 0 for seconds, 1 for milliseconds.
   * The next three digits are the version.
   */
  readonly feedID: string
  /**
   * Milliseconds between two reports of this feed; 0 disables automatic publishing. @default the
   * engine's intervalMs
   */
  readonly intervalMs?: number
  /**
   * Values of the first report. Prices move on from these values in later reports; constant fields
   * keep them. @default plausible values that depend on the seed
   */
  readonly fields?: ReportFields
  /**
   * Whether the credentials may read this feed. If not, requests for the feed get 401, as for an
   * unknown feed. @default true
   */
  readonly entitled?: boolean
  /** What the catalogue says of this feed. @default plausible values for the feed's version */
  readonly catalogue?: CatalogueSpec
  /**
   * Makes a feed of V2 the time-weighted average of another feed of the engine. It publishes after
   * reports of that feed, at most once in `intervalMs`.
   */
  readonly twapOf?: TWAPSpec
}

/** A checked feed. */
export interface Feed {
  /** The feed's id, in lower case. */
  readonly feedID: string
  readonly version: number
  readonly resolution: Resolution
  readonly intervalMs: number
  readonly entitled: boolean
  readonly start: ReportFields
  readonly catalogue?: CatalogueSpec
  readonly twapOf?: Required<TWAPSpec>
}

/** The three times of every report. */
export const headTimes: ReadonlySet<string> = new Set([
  'validFromTimestamp',
  'observationsTimestamp',
  'expiresAt',
])

const e18 = 10n ** 18n

const price = (units: bigint): ReportFields => ({ price: units * e18 })

/** The default feeds: every version from V2 to V14, V3 first, and both time resolutions. */
export const defaultFeeds: readonly FeedSpec[] = [
  // Feeds of V3. Their ids are those of the service's test network for ETH, BTC, LINK, SOL, XRP and
  // HYPE against USD.
  feed(
    '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782',
    asset('ETH', 'Ethereum'),
    price(3_850n),
  ),
  feed(
    '0x00037da06d56d083fe599397a4769a042d63aa73dc4ef57709d31e9971a5b439',
    asset('BTC', 'Bitcoin'),
    price(104_000n),
  ),
  feed(
    '0x00036fe43f87884450b4c7e093cd5ed99cac6640d8c2000e6afc02c8838d0265',
    asset('LINK', 'Chainlink'),
    price(18n),
  ),
  feed(
    '0x0003d338ea2ac3be9e026033b1aa601673c37bab5e13851c59966f9f820754d6',
    asset('SOL', 'Solana'),
    price(190n),
  ),
  feed('0x00035e3ddda6345c3c8ce45639d4449451f1d5828d7a70845e446f04905937cd', asset('XRP', 'XRP'), {
    price: (5n * e18) / 2n,
  }),
  feed(
    '0x0003cbac760d50c462267f3127374f5fa039eb971dd4a58a2b4f2b664769f8ea',
    asset('HYPE', 'Hyperliquid'),
    price(42n),
  ),
  // A feed of V4, with the service's id for EUR/USD. The service retires feeds of V4. The ids of
  // the other versions are invented.
  feed(
    '0x0004b9905d8337c34e00f8dbe31619428bac5c3937e73e6af75c71780f1770ce',
    { ...asset('EUR', 'Euro'), expectedDecommissionAt: 30 },
    { price: 1_137_900_000_000_000_000n },
  ),
  feed(
    '0x0002f18b3a02b1c7a5cb5f1e2d6f6b1a0e9d4c3b2a19087f6e5d4c3b2a190876',
    asset('AVAX', 'Avalanche'),
  ),
  feed(
    '0x0005a1d63b7c14f08e2d93c5b46fa7081e2c3d4f5a6b7c8d9e0f1a2b3c4d5e6f',
    asset('SARON', 'Swiss Average Rate Overnight', 'CHF'),
  ),
  feed(
    '0x00060d4f8e1a5b2c73946d0fe8b1a2c3d4e5f60718293a4b5c6d7e8f9a0b1c2d',
    asset('DOGE', 'Dogecoin'),
  ),
  feed(
    '0x0007c2b85e9f304d1a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b',
    asset('WSTETH', 'Wrapped staked Ether', 'ETH'),
  ),
  feed(
    '0x0008f3a92c6d105e4b8a7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f',
    asset('GBP', 'Pound sterling'),
  ),
  feed(
    '0x0009d7e16a4b302f5c8d9eafb0c1d2e3f405162738495a6b7c8d9eafb0c1d2e3',
    asset('ACMEF', 'Acme Fund'),
  ),
  feed(
    '0x000ab84c7d5e2f10963a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90',
    asset('TACME', 'Tokenized Acme'),
  ),
  feed('0x000be6f05a3c7d1249b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6', {
    ...asset('ACME', 'Acme Corp'),
    name: 'ACME/USD-Streams-RegularHoursEquityPrice',
  }),
  feed(
    '0x000c91a7f4e2d3b5608c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f60',
    asset('ACMET', 'Acme Treasuries'),
  ),
  feed('0x000d3c58b1a9e7f2406d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a4b', {
    ...asset('ADA', 'Cardano'),
    name: 'ADA/USD-Streams-TopOfBook',
    hidden: true,
  }),
  feed(
    '0x000e7f20d4c5b6a3981e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e',
    asset('WTI', 'Crude oil'),
    // A price below zero, such as crude oil had in April 2020.
    { midPrice: -37_630_000_000_000_000_000n },
  ),
  // Feeds whose times are in milliseconds.
  feed(
    '0x10035a7b9c1d3e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7',
    { ...asset('ETH', 'Ethereum'), name: 'ETH/USD-Streams-Milliseconds' },
    price(3_850n),
  ),
  feed(
    '0x10082b4d6f8091a3c5e7f9081a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d',
    asset('JPY', 'Japanese yen'),
  ),
]

function asset(baseAsset: string, assetName: string, quoteAsset = 'USD'): CatalogueSpec {
  return { baseAsset, assetName, quoteAsset }
}

function feed(feedID: string, catalogue: CatalogueSpec, fields: ReportFields = {}): FeedSpec {
  return { feedID, catalogue, fields }
}

/** Reads the version and the resolution from a feed id. */
export function readFeedID(feedID: string): {
  version: number
  resolution: Resolution | undefined
} {
  const resolution = { 0: 's', 1: 'ms' } as const
  return { version: feedVersion(feedID), resolution: resolution[feedID[2] as '0' | '1'] }
}

/** About the price of each asset of the known feeds, in US dollars, as of November 2025. */
const prices: Readonly<Record<string, number>> = {
  ...{ BTC: 104_000, ETH: 3850, SOL: 190, XRP: 2.5, BNB: 950, DOGE: 0.18, ADA: 0.55, TRX: 0.29 },
  ...{ LINK: 18, AVAX: 17, SUI: 2, LTC: 95, DOT: 2.8, UNI: 7, AAVE: 190, ARB: 0.28, OP: 0.4 },
  ...{ NEAR: 2.4, TON: 2, BCH: 500, USDC: 1, USDT: 1, DAI: 1 },
}

/** The catalogue entry and the price of a feed whose id is known. */
function knownSpec(feedID: string): Pick<FeedSpec, 'catalogue' | 'fields'> | undefined {
  const own = defaultFeeds.find(each => each.feedID === feedID)
  const known = findFeed(feedID)
  if (own !== undefined || known === undefined) return own
  const { asset: name, quoteAsset } = known
  const price = prices[name]
  return {
    catalogue: asset(name, name, quoteAsset),
    ...(price !== undefined && { fields: { price: BigInt(price * 1e6) * 10n ** 12n } }),
  }
}

/** Checks one item of the option `feeds`. */
export function checkFeed(given: string | FeedSpec, engineIntervalMs: number): Feed {
  const spec = readOptions('feeds', typeof given === 'string' ? { feedID: given } : given, {
    feedID: unchecked<string>,
    intervalMs: unchecked<number | undefined>,
    fields: unchecked<ReportFields | undefined>,
    entitled: withDefault(true, checkBoolean),
    catalogue: unchecked<CatalogueSpec | undefined>,
    twapOf: unchecked<TWAPSpec | undefined>,
  } satisfies Schema<FeedSpec>)
  if (!isFeedID(spec.feedID))
    throw new ValidationError(
      `feeds: a feed id is 0x and 64 hex digits, got ${JSON.stringify(spec.feedID)}`,
    )
  const feedID = spec.feedID.toLowerCase()
  const { version, resolution } = readFeedID(feedID)
  const schema = resolution && reportSchema(version, resolution)
  if (resolution === undefined || schema === undefined)
    throw new ValidationError(
      `feeds: ${feedID} starts with neither 0 nor 1, or its version isn't one of 2 to 14`,
    )
  const intervalMs = spec.intervalMs ?? engineIntervalMs
  checkNumber(`feeds: intervalMs of ${feedID}`, intervalMs, { min: 0 })
  const known = knownSpec(feedID)
  const start = { ...(spec.fields ?? known?.fields) }
  for (const [name, value] of Object.entries(start)) {
    if (headTimes.has(name))
      throw new ValidationError(`feeds: ${name} of ${feedID} comes from the clock`)
    checkField(findField(schema, name, feedID), value)
  }
  const catalogue = checkCatalogue(`catalogue of ${feedID}`, spec.catalogue ?? known?.catalogue)
  const made = {
    feedID,
    version,
    resolution,
    intervalMs,
    entitled: spec.entitled,
    start,
    catalogue,
  }
  if (spec.twapOf === undefined) return made
  if (version !== 2)
    throw new ValidationError(`feeds: twapOf of ${feedID}: only a feed of V2 is an average`)
  return { ...made, twapOf: checkTWAP(`twapOf of ${feedID}`, spec.twapOf) }
}

/** Finds a field of a report by its name, except the feed id. Throws if there is no such field. */
export function findField(schema: readonly Field[], name: string, feedID: string): Field {
  const fields = schema.slice(1)
  const field = fields.find(field => field.name === name)
  if (field !== undefined) return field
  const names = fields.map(field => field.name).join(', ')
  throw new ValidationError(
    `V${feedVersion(feedID)} (${feedID}) has no field ${JSON.stringify(name)}; it has ${names}`,
  )
}
