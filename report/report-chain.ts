import { feedResolution, feedVersion } from './feed-id.js'
import type { Report } from './report.js'
import { LONGEST_RANGE } from './seen-times.js'
import { SigningOrder, signingOf } from './signing-order.js'

/** The times of a report, and the config digest of the network that signed the report. */
interface Link {
  /** The time at which the report's range begins, in the feed's unit. */
  readonly from: number
  readonly time: number
  readonly digest: string
  /** The sequence number; undefined for older networks. */
  readonly number: number | undefined
}

/**
 * A range without reports. `missing`: a later report names a predecessor in the range. `possible`:
 * the range looks like a gap, but the feed has not shown that its reports name their predecessors.
 */
export interface MissingReports {
  readonly feedID: string
  readonly from: number
  readonly to: number
  readonly kind: 'missing' | 'possible'
}

/** The reports of a feed, and the gaps between them. */
export interface ReportChain {
  readonly feedID: string
  readonly reports: number
  /** How many duplicates there are. */
  readonly repeated: number
  /** How many reports their network signed later than their time. */
  readonly signedLater: number
  readonly missing: readonly MissingReports[]
}

/**
 * Finds the gaps between the reports of a feed. A report names its predecessor by the time at which
 * its own range begins (docs/concepts/continuity.md). Two kinds of report name no predecessor: a
 * report with the longest range, and the first report of a new configuration.
 */
function checkChain(feedID: string, given: readonly Link[]): Omit<ReportChain, 'signedLater'> {
  const sorted = [...given].sort((one, other) => one.time - other.time || one.from - other.from)
  const links = sorted.filter(({ time }, at) => time !== sorted[at - 1]?.time)
  const longest = LONGEST_RANGE * (feedResolution(feedID) === 'ms' ? 1000 : 1)
  // A report of version 1 has block numbers in place of its range.
  const hasRanges = feedVersion(feedID) !== 1
  const ranges: { readonly from: number; readonly to: number; readonly digest: string }[] = []
  const linked = new Set<string>()
  let before: Link | undefined
  for (const link of links) {
    const { from, time, digest } = link
    if (hasRanges && before?.digest === digest) {
      if (from === before.time + 1 && time > from) linked.add(digest)
      if (from > before.time + 1 && time - from + 1 < longest)
        ranges.push({ from: before.time + 1, to: from - 1, digest })
    }
    before = link
  }
  return {
    feedID,
    reports: links.length,
    repeated: sorted.length - links.length,
    missing: ranges.map(({ from, to, digest }) => {
      const kind = linked.has(digest) ? 'missing' : 'possible'
      return { feedID, from, to, kind }
    }),
  }
}

/** The length of a config digest in characters, with `0x`. */
const DIGEST = 66

/** The links of reports, by feed. They find the gaps of a recording. */
export class ReportLinks {
  readonly #links = new Map<string, Link[]>()
  readonly #order = new SigningOrder()
  /** One string for each distinct digest, so that the reports share it and memory stays small. */
  readonly #digests = new Map<string, string>()

  readonly add = (
    report: Pick<Report, 'feedID' | 'fullReport' | 'validFromTimestamp' | 'observationsTimestamp'>,
  ): void => {
    const { feedID, fullReport, validFromTimestamp: from, observationsTimestamp: time } = report
    const digest = this.#digestOf(fullReport)
    const number = signingOf(report)?.number
    const link = { from, time, digest, number }
    if (number !== undefined) this.#order.add({ feedID, digest, number, time })
    const links = this.#links.get(feedID)
    if (links === undefined) this.#links.set(feedID, [link])
    else links.push(link)
  }

  /** Checks the reports, and returns the chain of each feed. */
  check(): readonly ReportChain[] {
    return [...this.#links].map(([feedID, links]) => ({
      ...checkChain(feedID, links),
      signedLater: links.filter(link => this.#isSignedLater(feedID, link)).length,
    }))
  }

  #isSignedLater(feedID: string, { digest, number, time }: Link): boolean {
    return number !== undefined && this.#order.find({ feedID, digest, number, time }) !== undefined
  }

  #digestOf(fullReport: string): string {
    const digest = fullReport.slice(0, DIGEST).toLowerCase()
    const found = this.#digests.get(digest)
    if (found !== undefined) return found
    // A slice would keep the whole report in memory.
    const own = [...digest].join('')
    this.#digests.set(own, own)
    return own
  }
}
