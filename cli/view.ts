import pc from 'picocolors'
import type { Feed } from '../client/rest.js'
import { findFeed } from '../presets/feeds.js'
import type { DecodedReport } from '../presets/versions.js'
import { formatPrice } from '../report/price.js'
import type { Report } from '../report/report.js'

const commonFields = new Set([
  'version',
  'feedID',
  'validFromTimestamp',
  'observationsTimestamp',
  'nativeFee',
  'linkFee',
  'expiresAt',
])

/** Colours a text if the terminal can and NO_COLOR is not set. */
type Colour = (text: string) => string
export const bold: Colour = pc.bold
export const red: Colour = pc.red
export const yellow: Colour = pc.yellow
export const green: Colour = pc.green

/** Shortens a feed id for a column. */
export function shortID(feedID: string): string {
  return `${feedID.slice(0, 10)}…${feedID.slice(-4)}`
}

/** A feed in a line: its id, and what is known of it. The service's words are printed without control characters. */
export function describeFeed(feed: Feed): string {
  const { feedID, name, decimals } = { ...findFeed(feed.feedID), ...feed }
  const facts = [name, decimals === undefined ? undefined : `${decimals} decimals`]
  const line = [feedID, ...facts.filter(fact => fact !== undefined)].join('  ')
  return line.replace(/[^ -~]/g, '?')
}

/** The decimals of most feeds, for those of which they are not known. */
const USUAL_DECIMALS = 18

/** Formats the fields of a report's version in one line. */
function summarize(decoded: DecodedReport): string {
  const { decimals = USUAL_DECIMALS } = findFeed(decoded.feedID) ?? {}
  return Object.entries(decoded)
    .filter(([name]) => !commonFields.has(name) && !name.endsWith('Raw'))
    .slice(0, 4)
    .map(
      ([name, value]) =>
        `${name} ${typeof value === 'bigint' && !/time|date|volume/i.test(name) ? formatPrice(value, decimals, { digits: 4 }) : value}`,
    )
    .join('  ')
}

/** Formats the time of a report's observations as a time of day. */
function observedAt({ feedID, observationsTimestamp }: Report): string {
  const ms = feedID[2] === '0' ? observationsTimestamp * 1000 : observationsTimestamp
  return new Date(ms).toISOString().slice(11, feedID[2] === '0' ? 19 : 23)
}

/** Shows reports: as a table on a terminal, elsewhere as lines. */
export interface View {
  show(report: Report<DecodedReport>): void
  /** Prints a line between the reports. */
  note(text: string): void
  end(): void
}

/** Makes a view that writes to `out`. */
export function createView(out: NodeJS.WriteStream, feedIDs: readonly string[]): View {
  if (!out.isTTY) {
    return {
      show: report => void out.write(`${line(report)}\n`),
      note: text => void out.write(`${text}\n`),
      end: () => undefined,
    }
  }
  const rows = new Map<string, { count: number; report?: Report<DecodedReport> }>(
    feedIDs.map(id => [id, { count: 0 }]),
  )
  let drawn = 0

  function draw(): void {
    const width = (out.columns || 80) - 8
    const lines = [...rows].map(([feedID, { count, report }]) => {
      const text = report === undefined ? `${shortID(feedID)}  waiting` : line(report)
      return `\x1b[2K ${green(String(count).padStart(5))} ${text.slice(0, width)}\n`
    })
    out.write(`${drawn > 0 ? `\x1b[${drawn}A` : ''}${lines.join('')}`)
    drawn = lines.length
  }
  const timer = setInterval(draw, 100)
  draw()
  return {
    show(report) {
      const row = rows.get(report.feedID)
      if (row === undefined) return
      row.count++
      row.report = report
    },
    note(text) {
      out.write(`${drawn > 0 ? `\x1b[${drawn}A\x1b[J` : ''}${text}\n`)
      drawn = 0
      draw()
    },
    end() {
      clearInterval(timer)
      draw()
    },
  }
}

function line(report: Report<DecodedReport>): string {
  const time = observedAt(report)
  try {
    const { decoded } = report
    return `${shortID(report.feedID)}  ${decoded.version.padEnd(3)}  ${time.padEnd(12)}  ${summarize(decoded)}`
  } catch {
    return `${shortID(report.feedID)}  ?    ${time.padEnd(12)}  (no decoder)`
  }
}
