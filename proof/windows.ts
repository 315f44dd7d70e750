import { ValidationError } from '../core/errors.js'
import { checkNumber } from '../core/options.js'
import { isSameBlob } from '../report/full-report.js'
import { Intervals } from '../report/intervals.js'
import type { Report } from '../report/report.js'

/** A range of time in a feed's unit. It includes both ends. */
export interface TimeRange {
  /** The earliest time. */
  readonly from: number
  /** The latest time. */
  readonly to: number
}

/** What the windows of reports need of a report. */
export type Windowed = Pick<
  Report,
  'feedID' | 'fullReport' | 'validFromTimestamp' | 'observationsTimestamp'
>

/**
 * How the ends of an average count. The service has published neither, so you have to choose.
 * https://docs.chain.link/data-streams/concepts/twap-streams has the formula.
 */
export interface WindowEnds {
  /**
   * The end that does not belong to the window. With `from`, the window is the times after `from`
   * up to `to`. With `to`, it is the times from `from` on and before `to`. Both have `to - from`
   * units of time.
   */
  readonly open: 'from' | 'to'
  /**
   * How a report counts whose window begins before the average's window: with `clip`, for the part
   * inside; with `whole`, for the part before it as well. A report that ends after the average's
   * window always counts for the part inside.
   */
  readonly straddling: 'clip' | 'whole'
}

/** A report, and the part of the interval for which it stands. */
export interface Part<Each extends Windowed> extends TimeRange {
  readonly report: Each
}

/** An interval, divided among the reports that hold it. */
export interface Tiling<Each extends Windowed> {
  /** In ascending order. */
  readonly parts: readonly Part<Each>[]
  /** The ranges that no report holds, in ascending order. */
  readonly missing: readonly TimeRange[]
}

/** The times of an average's window, both included. */
export function rangeOf(from: number, to: number, { open }: WindowEnds): TimeRange {
  checkNumber('from', from, { min: 0, whole: true })
  checkNumber('to', to, { min: 0, whole: true })
  if (to <= from)
    throw new ValidationError(`to must be after from: a window from ${from} to ${to} is empty`)
  return open === 'from' ? { from: from + 1, to } : { from, to: to - 1 }
}

/**
 * Two reports contradict each other: they were observed at the same time, and differ. `index` is
 * the position of the second.
 */
export class ContradictionError extends ValidationError {
  readonly index: number

  constructor(index: number, one: Windowed, other: Windowed) {
    super(
      `reports[${index}] must be observed after the report before it: ${describe(other)} follows ${describe(one)}`,
    )
    this.index = index
  }
}

function describe({ validFromTimestamp, observationsTimestamp }: Windowed): string {
  return `${validFromTimestamp}–${observationsTimestamp}`
}

/**
 * Divides an interval among the reports of one feed, which must be in ascending order. A time that
 * several windows hold belongs to the report that was observed first. Throws ContradictionError.
 */
export function tile<Each extends Windowed>(
  reports: readonly Each[],
  { from, to }: TimeRange,
): Tiling<Each> {
  const parts: Part<Each>[] = []
  const held = new Intervals()
  reports.forEach((report, index) => {
    const { validFromTimestamp: start, observationsTimestamp: end } = report
    const before = reports[index - 1]
    if (before !== undefined && end <= before.observationsTimestamp)
      throw new ContradictionError(index, before, report)
    for (const part of held.missingIn(Math.max(start, from), Math.min(end, to))) {
      parts.push({ report, ...part })
      held.add(part.from, part.to)
    }
  })
  parts.sort((one, other) => one.from - other.from)
  return { parts, missing: held.missingIn(from, to) }
}

/** Sorts reports by time, and leaves out repeated ones. */
export function inOrder<Each extends Windowed>(reports: Iterable<Each>): readonly Each[] {
  const sorted = [...reports].sort(
    (one, other) =>
      one.observationsTimestamp - other.observationsTimestamp ||
      one.validFromTimestamp - other.validFromTimestamp,
  )
  return sorted.filter((report, index) => {
    const before = sorted[index - 1]
    return before === undefined || !isSameBlob(before.fullReport, report.fullReport)
  })
}

/** The sum of price times duration over parts, and the sum of the durations. */
export interface Weighed {
  readonly sum: bigint
  /** In the feed's unit. */
  readonly duration: number
  /** The number of reports that count. */
  readonly count: number
}

/** Weighs each report of a tiling with the time for which it stands. */
export function weigh<Each extends Windowed>(
  { parts }: Tiling<Each>,
  { straddling }: WindowEnds,
  priceOf: (report: Each) => bigint,
): Weighed {
  let sum = 0n
  let duration = 0
  const counted = new Set<Each>()
  for (const [index, { report, from, to }] of parts.entries()) {
    const isWhole = index === 0 && straddling === 'whole'
    const width = to - (isWhole ? report.validFromTimestamp : from) + 1
    sum += priceOf(report) * BigInt(width)
    duration += width
    counted.add(report)
  }
  return { sum, duration, count: counted.size }
}
