import { feedVersion, LONGEST_RANGE } from 'sluice/report'
import { feedTime } from '../input/times.js'

/** The times of a report, and the configuration of the network that signed it. */
export interface Link {
  /** In the feed's unit. */
  readonly from: number
  readonly time: number
  readonly digest: string
}

/**
 * A range in which reports are missing. `missing`: a later report names one there as its predecessor. `possible`: so it seems,
 * but the feed has not shown that its reports name their predecessors.
 */
export interface Missing {
  readonly feedID: string
  readonly from: number
  readonly to: number
  readonly kind: 'missing' | 'possible'
}

/** What is known of a feed by its reports. */
export interface Chain {
  readonly feedID: string
  readonly reports: number
  /** How many reports stand there more than once. */
  readonly repeated: number
  /** The first and the last time. */
  readonly first: number
  readonly last: number
  readonly missing: readonly Missing[]
}

/**
 * Finds what is missing between the reports of a feed: a report names the one before it by where its own range begins
 * (docs/continuity.md). Nothing is said of the time before a report of the longest range, or of another configuration.
 */
export function checkChain(feedID: string, given: readonly Link[]): Chain {
  const sorted = [...given].sort((one, other) => one.time - other.time || one.from - other.from)
  const links = sorted.filter(({ time }, at) => time !== sorted[at - 1]?.time)
  const longest = LONGEST_RANGE * feedTime(feedID, 1000)
  // Version 1 has blocks in place of the time from which on it holds.
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
    first: links[0]?.time ?? 0,
    last: before?.time ?? 0,
    missing: ranges.map(({ from, to, digest }) => {
      const kind = linked.has(digest) ? 'missing' : 'possible'
      return { feedID, from, to, kind }
    }),
  }
}

/** Digits of a config digest, with `0x`. */
const DIGEST = 66

/** The config digest of a report; the same text object for equal ones, since there are as many as reports. */
export function digestOf(fullReport: string, known: Map<string, string>): string {
  const digest = fullReport.slice(0, DIGEST)
  const found = known.get(digest)
  if (found !== undefined) return found
  // A slice would retain the whole report.
  const own = Buffer.from(digest).toString()
  known.set(own, own)
  return own
}
