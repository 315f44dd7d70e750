import { ValidationError } from 'sluice/core'
import { type Resolution, reportSchema } from './encode.js'
import type { Ledger, PublishedReport } from './ledger.js'
import type { TWAPSpec } from './twap-spec.js'

/** The field that is averaged, by the version of the report. */
const priceFields: Readonly<Record<number, string>> = {
  2: 'price',
  3: 'price',
  4: 'price',
  5: 'rate',
  6: 'price',
  7: 'exchangeRate',
  8: 'midPrice',
  9: 'navPerShare',
  10: 'price',
  11: 'mid',
  12: 'navPerShare',
  13: 'lastTradedPrice',
  14: 'midPrice',
}

/** Reads the price of a signed report, whose bytes are words of 32 bytes in hex. */
export function priceOf(fullReport: string, version: number, resolution: Resolution): bigint {
  const wordAt = (byte: number): bigint =>
    BigInt(`0x${fullReport.slice(2 + 2 * byte, 2 + 2 * byte + 64)}`)
  const name = priceFields[version]
  const at = reportSchema(version, resolution)?.findIndex(field => field.name === name) ?? -1
  if (at === -1) throw new ValidationError(`reports of version ${version} have no price`)
  // The fourth word says where the blob is. The blob begins with its length.
  const blob = Number(wordAt(3 * 32)) + 32
  return BigInt.asIntN(256, wordAt(blob + 32 * at))
}

/** The average over one window. All times are in the unit of the feed, and belong to the window. */
export interface Average {
  readonly price: bigint
  /** How many reports have a part in it. */
  readonly samples: number
  readonly first: number
  readonly last: number
  /** The first and the last time that a report covers. */
  readonly firstCovered: number
  readonly lastCovered: number
}

/**
 * The time-weighted average of a feed's stored reports over the window that ends at `end`. The sum
 * of price x duration is divided by the durations that have counted: those of a window that reports
 * cover wholly are its length. The quotient is rounded towards zero. Undefined if no report covers
 * any part of the window.
 */
export function averageOf(
  ledger: Pick<Ledger, 'page'>,
  feed: { readonly feedID: string; readonly version: number; readonly resolution: Resolution },
  end: number,
  { window, openEnd, straddling }: Required<Omit<TWAPSpec, 'feedID'>>,
): Average | undefined {
  const length = feed.resolution === 's' ? window : 1000 * window
  const last = openEnd === 'end' ? end - 1 : end
  const first = last - length + 1
  const observed = ledger.page(feed.feedID, first, Number.POSITIVE_INFINITY, last)
  // A report that absorbed a gap may hold the end of the window, and be observed after it.
  const reports = [...observed, ...ledger.page(feed.feedID, last + 1, 1)]
  let sum = 0n
  let counted = 0
  let samples = 0
  let firstCovered: number | undefined
  let lastCovered = first - 1
  for (const report of reports) {
    const share = shareOf(report, first, last, lastCovered + 1)
    if (share === undefined) continue
    const { from, to } = share
    const begin = straddling === 'whole' && from === first ? report.validFromTimestamp : from
    const duration = to - begin + 1
    sum += priceOf(report.fullReport, feed.version, feed.resolution) * BigInt(duration)
    counted += duration
    samples++
    firstCovered ??= from
    lastCovered = to
  }
  if (firstCovered === undefined) return undefined
  return { price: sum / BigInt(counted), samples, first, last, firstCovered, lastCovered }
}

/** The part of a report that is inside the window, and that no report before it has covered. */
function shareOf(
  { validFromTimestamp, observationsTimestamp }: PublishedReport,
  first: number,
  last: number,
  uncovered: number,
): { from: number; to: number } | undefined {
  const from = Math.max(validFromTimestamp, first, uncovered)
  const to = Math.min(observationsTimestamp, last)
  return from <= to ? { from, to } : undefined
}
