import { inMilliseconds } from 'sluice/internal'
import { ExtendedMarketStatus, MarketStatus, Ripcord } from 'sluice/plugins/decoders'
import { feedVersion, formatPrice, priceField } from 'sluice/report'
import type { FoundFeed, VerifiedReport } from './service.js'
import { ToolError } from './tool-error.js'

/** A price is old, in seconds, and a value that its provider has not renewed. */
const OLD = 60
const OLD_VALUE = 300
/** A report may be dated this many seconds ahead, because clocks differ. */
const AHEAD = 5

const bids: readonly string[] = ['bid', 'bestBid', 'bidPrice']
const asks: readonly string[] = ['ask', 'bestAsk', 'askPrice']
/** Exact integers of a report that are no prices. */
const noPrice = /^(nativeFee|linkFee)$|Raw$|volume|Timestamp/i
/** Fields of version 10 that have 18 decimals on every feed. */
const multipliers: readonly string[] = ['currentMultiplier', 'newMultiplier']
const MULTIPLIER_DECIMALS = 18
/** The version whose market status has sessions. */
const WITH_SESSIONS = 11

/** A verified report as the tools tell it. Prices are exact decimal text, never numbers. */
export interface PriceFacts {
  feedID: string
  name: string | null
  schema: string
  price: string | null
  bid: string | null
  ask: string | null
  values: { field: string; decimal: string | null; integer: string }[]
  decimals: number | null
  observedAt: string
  ageSeconds: number
  holdsFrom: string
  holdsTo: string
  expiresAt: string
  valueUpdatedAt: string | null
  marketStatus: string | null
  signersCount: number
  signersNeeded: number
  warnings: string[]
}

/**
 * Tells a verified report. Throws if its values must not be used. With `isPast`, the report is that
 * of a moment in the past, so its age is no reason to warn.
 */
export function priceFacts(
  { report, verification }: VerifiedReport,
  { feedID, name, decimals, isAssumed }: FoundFeed,
  isPast = false,
): PriceFacts {
  const fields = report.decoded as unknown as Readonly<Record<string, unknown>>
  if ('ripcord' in fields && fields.ripcord !== Ripcord.NORMAL)
    throw new ToolError(
      'not-usable',
      'the report is genuine, but its ripcord is pulled: its values must not be used, so none is told',
    )
  const values = Object.entries(fields).flatMap(([field, value]) => {
    if (typeof value !== 'bigint' || noPrice.test(field)) return []
    const scale = multipliers.includes(field) ? MULTIPLIER_DECIMALS : decimals
    const decimal = scale === undefined ? null : formatPrice(value, scale)
    return [{ field, decimal, integer: String(value) }]
  })
  const main = priceField(feedID)
  const decimalOf = (names: readonly (string | undefined)[]): string | null =>
    values.find(({ field }) => names.includes(field))?.decimal ?? null
  const observed = inMilliseconds(feedID, report.observationsTimestamp)
  const updated = updatedAt(fields)
  const facts = {
    ...{ feedID, name: name ?? null, schema: String(fields.version) },
    ...{ price: decimalOf([main]), bid: decimalOf(bids), ask: decimalOf(asks), values },
    decimals: decimals ?? null,
    observedAt: dateText(observed),
    ageSeconds: Math.floor((Date.now() - observed) / 1000),
    holdsFrom: dateText(inMilliseconds(feedID, report.validFromTimestamp)),
    holdsTo: dateText(observed),
    expiresAt: dateText(inMilliseconds(feedID, Number(fields.expiresAt))),
    valueUpdatedAt: updated === undefined ? null : dateText(updated),
    marketStatus: statusText(feedID, fields.marketStatus),
    signersCount: verification.signers.length,
    signersNeeded: verification.f + 1,
  }
  return { ...facts, warnings: warningsOf(facts, { main, observed, updated, isPast, isAssumed }) }
}

/** The names of the statuses in which the price moves as usual. */
const open: readonly string[] = ['OPEN', 'REGULAR']

/** What is known of a report besides its facts. */
interface Circumstances {
  /** The field with the single price. */
  readonly main: string | undefined
  readonly observed: number
  readonly updated: number | undefined
  readonly isPast: boolean
  /** The decimals are an assumption. */
  readonly isAssumed: boolean
}

function warningsOf(
  facts: Omit<PriceFacts, 'warnings'>,
  { main, observed, updated, isPast, isAssumed }: Circumstances,
): string[] {
  const { ageSeconds, decimals, marketStatus, expiresAt } = facts
  const idle = updated === undefined ? 0 : Math.floor((observed - updated) / 1000)
  return [
    !isPast && ageSeconds > OLD
      ? `stale: the report is ${ageSeconds} s old. Do not call it the current price.`
      : '',
    !isPast && ageSeconds < -AHEAD
      ? `the report is dated ${-ageSeconds} s ahead of this machine’s clock: one of the two is wrong.`
      : '',
    !isPast && Date.parse(expiresAt) < Date.now() ? 'the report has expired.' : '',
    idle > OLD_VALUE ? `the value itself is ${idle} s older than the report.` : '',
    marketStatus !== null && !open.includes(marketStatus)
      ? `the market status is ${marketStatus}: the price may be that of the last session.`
      : '',
    decimals === null
      ? 'the decimals of this feed are not known, so there are integers alone. Do not scale them. The operator can set SLUICE_DECIMALS.'
      : '',
    isAssumed
      ? `nothing says the decimals of this feed: ${decimals} is an assumption of the operator, so the price may be wrong by a power of ten. Compare the integer.`
      : '',
    main === undefined ? 'the reports of this feed have no single price: see bid and ask.' : '',
    feedVersion(facts.feedID) === SEVERAL_PRICES
      ? 'the report has prices of several assets: the documentation of the feed says which.'
      : '',
  ].filter(text => text !== '')
}

/** The version whose reports have the prices of several assets. */
const SEVERAL_PRICES = 6

/** When the value was last renewed, in milliseconds; undefined for versions that do not say so. */
function updatedAt(fields: Readonly<Record<string, unknown>>): number | undefined {
  const ns = fields.lastUpdateTimestampRaw ?? fields.lastSeenTimestampNs
  return typeof ns === 'bigint' && ns > 0n ? Number(ns / 1_000_000n) : undefined
}

function statusText(feedID: string, status: unknown): string | null {
  if (typeof status !== 'number') return null
  const statuses = feedVersion(feedID) === WITH_SESSIONS ? ExtendedMarketStatus : MarketStatus
  return Object.entries(statuses).find(([, number]) => number === status)?.[0] ?? `status ${status}`
}

/** The latest time that a date can hold, in milliseconds. */
const LATEST = 8_640_000_000_000_000

/** A time in UTC, without parts of a second that are zero. */
export function dateText(ms: number): string {
  if (!(Math.abs(ms) <= LATEST)) return 'no date'
  return new Date(ms).toISOString().replace('.000', '')
}
