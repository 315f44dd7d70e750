import { DataStreamsError, ValidationError } from '../core/errors.js'
import {
  checkNumber,
  checkObject,
  checkText,
  kindOf,
  number,
  oneOf,
  optional,
  type Rule,
  readOptions,
  type Schema,
} from '../core/options.js'
import { isFeedID } from '../report/feed-id.js'
import { priceField } from '../report/price-field.js'
import type { Report } from '../report/report.js'
import { findSignedLater } from '../report/signing-order.js'
import { inOrder, rangeOf, type TimeRange, tile, type WindowEnds, weigh } from './windows.js'

/** A report to be averaged. */
export type AveragedReport = Pick<
  Report,
  'feedID' | 'fullReport' | 'validFromTimestamp' | 'observationsTimestamp' | 'decoded'
> &
  Partial<Pick<Report, 'signedLater'>>

/** Options of `twap`. Times are in the unit of the feed. */
export interface TwapOptions {
  /** The start of the window. */
  readonly from: number
  /** The end of the window. */
  readonly to: number
  /** Which end belongs to the window, and how a report counts that straddles its start. */
  readonly ends: WindowEnds
  /** The field that is averaged. @default the version's price */
  readonly field?: string
}

/** A time-weighted average. */
export interface Twap {
  /** In lower case. */
  readonly feedID: string
  /** The averaged field. */
  readonly field: string
  /** The average, `sum / duration` rounded towards zero, in the unit of the price. */
  readonly value: bigint
  /** The sum of price times duration over the reports. */
  readonly sum: bigint
  /** The sum of the durations, in the feed's unit. */
  readonly duration: number
  /** The number of reports that count. */
  readonly reports: number
  /**
   * How many of them their network signed later than their time, as these reports show, or as
   * others have shown the client.
   */
  readonly signedLater: number
}

/** An average has a hole: ranges of its window that no report holds. */
export class IncompleteError extends DataStreamsError {
  /** The ranges, both ends included, in the feed's unit. */
  readonly missing: readonly TimeRange[]

  constructor(missing: readonly TimeRange[]) {
    const ranges = missing.slice(0, 3).map(({ from, to }) => `${from}–${to}`)
    const more = missing.length > 3 ? ` and ${missing.length - 3} more` : ''
    super(`the window must be covered by the reports: none holds ${ranges.join(', ')}${more}`, {
      code: 'INCOMPLETE',
    })
    this.missing = missing
  }

  static {
    IncompleteError.prototype.name = 'IncompleteError'
  }
}

/** The codes of proofs and averages. */
declare module '../core/errors.js' {
  interface ErrorClasses {
    /** An average has ranges that no report holds. */
    INCOMPLETE: IncompleteError
  }
}

/** The rule of the option `ends`. */
export const checkEnds: Rule<WindowEnds> = (field, value) => {
  if (value === undefined)
    throw new ValidationError(
      `${field} is required: the service has not published which end of a window is open, nor how a report counts that straddles it`,
    )
  return readOptions(
    field,
    value as WindowEnds,
    { open: oneOf('from', 'to'), straddling: oneOf('clip', 'whole') } satisfies Schema<WindowEnds>,
    `${field}.`,
  )
}

const time = number({ min: 0, whole: true })
const schema = {
  from: time,
  to: time,
  ends: checkEnds,
  field: optional(checkText),
} satisfies Schema<TwapOptions>

/**
 * The time-weighted average price over signed reports: the sum of price times duration, divided by
 * the sum of the durations. The duration of a report is the width of its window, so a report that
 * absorbed a gap counts for the gap, too. The order of the reports does not matter.
 *
 * The prices are those of `decoded`: the signed bytes are neither verified nor decoded here.
 *
 * A time that several windows hold counts for the report that was observed first. Throws
 * IncompleteError if a range of the window is in no report, and ValidationError if the reports are
 * of several feeds, or two of one time differ.
 */
export function twap(reports: Iterable<AveragedReport>, options: TwapOptions): Twap {
  const { from, to, ends, field: wanted } = readOptions('twap', options, schema)
  const range = rangeOf(from, to, ends)
  const given = readReports(reports)
  const [first] = given
  if (first === undefined) throw new ValidationError('reports must hold at least one report')
  const { feedID } = first
  const other = given.find(report => report.feedID !== feedID)
  if (other !== undefined)
    throw new ValidationError(
      `reports must be of one feed: there are ${feedID} and ${other.feedID}`,
    )
  const field = findField(feedID, wanted)
  for (const [index, report] of given.entries()) priceOf(report, field, ` of reports[${index}]`)
  const sorted = inOrder(given)
  const tiling = tile(sorted, range)
  if (tiling.missing.length > 0) throw new IncompleteError(tiling.missing)
  const { sum, duration, count } = weigh(tiling, ends, report => priceOf(report, field))
  const value = sum / BigInt(duration)
  const later = new Set<AveragedReport>()
  for (const report of sorted) if (report.signedLater !== undefined) later.add(report)
  findSignedLater(sorted, report => later.add(report))
  const signedLater = new Set(
    tiling.parts.flatMap(({ report }) => (later.has(report) ? [report] : [])),
  ).size
  return { feedID, field, value, sum, duration, reports: count, signedLater }
}

/** The reports as a list. Throws a ValidationError that names the first that is none. */
function readReports(reports: Iterable<AveragedReport>): readonly AveragedReport[] {
  const isIterable = typeof (reports as Partial<typeof reports>)?.[Symbol.iterator] === 'function'
  if (!isIterable || typeof reports === 'string')
    throw new ValidationError(`reports must be a list of reports, not ${kindOf(reports)}`)
  return Array.from(reports, (report, index) => {
    const place = `reports[${index}]`
    const { feedID, fullReport, observationsTimestamp, decoded } = checkObject(place, report)
    if (!isFeedID(feedID))
      throw new ValidationError(`${place}.feedID must be 0x and 64 hexadecimal digits`)
    checkText(`${place}.fullReport`, fullReport)
    const end = `${place}.observationsTimestamp`
    const max = checkNumber(end, observationsTimestamp, { min: 0, whole: true })
    const start = `${place}.validFromTimestamp`
    checkNumber(start, report.validFromTimestamp, { min: 0, max, whole: true })
    checkObject(`${place}.decoded`, decoded as object)
    return report
  })
}

/** The field of the price: the given one, or the version's. */
export function findField(feedID: string, wanted: string | undefined): string {
  const field = wanted ?? priceField(feedID)
  if (field !== undefined) return field
  throw new ValidationError(`field is required: reports of feed ${feedID} have no single price`)
}

/** Exact numbers of every report that are no price. */
const fees: readonly string[] = ['nativeFee', 'linkFee']

/** The value of a report's field, an exact integer. Errors say with `place` which report it is. */
export function priceOf({ decoded }: Pick<Report, 'decoded'>, field: string, place = ''): bigint {
  const fields = decoded as Readonly<Record<string, unknown>>
  const value = Object.hasOwn(fields, field) && !fees.includes(field) ? fields[field] : undefined
  if (typeof value === 'bigint') return value
  const names = Object.keys(fields).filter(
    name => typeof fields[name] === 'bigint' && !fees.includes(name),
  )
  const others =
    names.length > 0
      ? `there is ${names.join(', ')}`
      : 'and there is no bigint, as in a report read from JSON: decode its fullReport'
  throw new ValidationError(
    `field must name an exact number of the report: ${JSON.stringify(field.slice(0, 40))}${place} is ${kindOf(value)}, ${others}`,
  )
}
