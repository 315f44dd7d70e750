import {
  allDecoders,
  type DecodedReport,
  ExtendedMarketStatus,
  MarketStatus,
  Ripcord,
} from 'sluice/plugins/decoders'
import { feedVersion, formatPrice } from 'sluice/report'
import { feedTimeMs } from '../values.js'
import { LAST_MS, utc } from './feeds.js'

/**
 * The fields of a report as a command prints them. Prices are decimal numbers, or integers with
 * `--raw`. Other values are unchanged.
 */
export type PrintedFields = Readonly<Record<string, string>>

/**
 * The names of the fields of a feed's reports after the common head. `prices` and `integers` hold
 * the names of prices and of small integers.
 */
export interface FeedFields {
  readonly names: readonly string[]
  readonly prices: ReadonlySet<string>
  readonly integers: ReadonlySet<string>
}

const byVersion = new Map<number, FeedFields>()

/** The fields of a feed's reports, by the version of the feed. An unknown version has no fields. */
export function fieldsOf(feedID: string): FeedFields {
  const version = feedVersion(feedID)
  let fields = byVersion.get(version)
  if (fields === undefined) {
    const tail = Object.entries(allDecoders.find(each => each.version === version)?.fields ?? {})
    const namesOf = (isOne: (type: string, name: string) => boolean): readonly string[] =>
      tail.flatMap(([name, type]) => (isOne(type, name) ? [name] : []))
    fields = {
      names: namesOf(() => true),
      prices: new Set(namesOf((type, name) => type === 'int192' && !/volume/i.test(name))),
      integers: new Set(namesOf(type => /^uint(32|64)/.test(type))),
    }
    byVersion.set(version, fields)
  }
  return fields
}

/**
 * The fields of a report as text. Prices are exact: decimal numbers, or integers if `decimals` is
 * undefined.
 */
export function printFields(decoded: DecodedReport, decimals: number | undefined): PrintedFields {
  const { names, prices } = fieldsOf(decoded.feedID)
  const values = decoded as unknown as Readonly<Record<string, unknown>>
  return Object.fromEntries(
    names.map(name => {
      // A field of 64 bits is rounded to a number. The field with the suffix `Raw` is exact.
      const value = values[`${name}Raw`] ?? values[name]
      const isScaled = decimals !== undefined && prices.has(name) && typeof value === 'bigint'
      return [name, isScaled ? formatPrice(value, decimals) : String(value)]
    }),
  )
}

/**
 * Formats a price for a column, with four digits after the point, or eight if the price is below 1.
 */
export function shortPrice(value: bigint, decimals: number): string {
  const size = value < 0n ? -value : value
  const digits = size >= 10n ** BigInt(decimals) ? 4 : 8
  return formatPrice(value, decimals, { digits: Math.min(digits, Math.max(decimals, 0)) })
}

/** The version whose market status has sessions. */
const WITH_SESSIONS = 11

/** The fields that say whether a report's values may be used, and the names of their values. */
function statusesOf(feedID: string, field: string): Readonly<Record<string, number>> | undefined {
  if (field === 'ripcord') return Ripcord
  if (field !== 'marketStatus') return undefined
  return feedVersion(feedID) === WITH_SESSIONS ? ExtendedMarketStatus : MarketStatus
}

/** Whether a field says whether a report's values may be used. */
export const isStatus = (feedID: string, field: string): boolean =>
  statusesOf(feedID, field) !== undefined

/** The name of a status; undefined for other fields, and for a number that has no name. */
function statusName(feedID: string, field: string, value: unknown): string | undefined {
  const statuses = Object.entries(statusesOf(feedID, field) ?? {})
  return statuses.find(([, number]) => number === Number(value))?.[0]
}

const inSeconds = (_feedID: string, time: number): number => time * 1000
const inNanoseconds = (_feedID: string, time: number): number => time / 1_000_000
/** The fields that hold a time, and how their unit becomes milliseconds. */
const times: Readonly<Record<string, (feedID: string, time: number) => number>> = {
  validFromTimestamp: feedTimeMs,
  observationsTimestamp: feedTimeMs,
  expiresAt: feedTimeMs,
  timestamp: inSeconds,
  activationDateTime: inSeconds,
  expiryTime: inSeconds,
  firstDayOfNotice: inSeconds,
  lastUpdateTimestamp: inNanoseconds,
  lastSeenTimestampNs: inNanoseconds,
  // Version 9 counts in milliseconds, version 12 in nanoseconds.
  navDate: (feedID, time) => (feedVersion(feedID) === 9 ? time : time / 1_000_000),
}

/** The time in a field, in UTC; undefined for other fields, and where a report has no time. */
function timeIn(feedID: string, field: string, value: unknown): string | undefined {
  const ms = times[field]?.(feedID, Number(value))
  return ms === undefined || ms === 0 || !(ms <= LAST_MS) ? undefined : utc(Math.floor(ms))
}

/**
 * A value of a report for a person who reads a line: a time in UTC, a status with its name, or the
 * value itself.
 */
export function readable(feedID: string, field: string, value: unknown): string {
  const name = statusName(feedID, field, value)
  return timeIn(feedID, field, value) ?? (name === undefined ? String(value) : `${value} (${name})`)
}

/** A value of a report with what it means to a person: a number and its time, or its name. */
export function explained(feedID: string, field: string, value: unknown): string {
  const meaning = timeIn(feedID, field, value) ?? statusName(feedID, field, value)
  return meaning === undefined ? String(value) : `${value} (${meaning})`
}
