import type { Feed } from 'sluice/client'
import type { Output } from '../io.js'
import { green } from './colours.js'
import { feedName } from './feeds.js'
import type { Format, PrintedReport } from './format.js'

/** Shows reports: as a table on a terminal, elsewhere as lines. */
export interface View {
  show(report: PrintedReport): void
  /** Prints a line between the reports. */
  note(text: string): void
  end(): void
}

/** Milliseconds between two drawings of a table. */
const REDRAW = 100

/**
 * Makes a view that writes to `out`: a row for each feed on a terminal, elsewhere a line for each
 * report.
 */
export function createView(out: Output, feeds: readonly Feed[], format: Format): View {
  if (!out.isTTY) {
    return {
      show: report => void out.write(`${format.line(report)}\n`),
      note: text => void out.write(`${text}\n`),
      end: () => undefined,
    }
  }
  const rows = new Map<string, { count: number; report?: PrintedReport }>(
    feeds.map(({ feedID }) => [feedID, { count: 0 }]),
  )
  const names = new Map(feeds.map(feed => [feed.feedID, feedName(feed)]))
  let drawn = 0
  let last = ''

  function draw(): void {
    const width = (out.columns || 80) - 8
    const most = Math.max(1, (out.rows || 24) - 2)
    const shown = [...rows].slice(0, rows.size > most ? most - 1 : most)
    const lines = shown.map(([feedID, { count, report }]) => {
      const text = report === undefined ? `${names.get(feedID)}  waiting` : format.line(report)
      return `\x1b[2K ${green(String(count).padStart(5))} ${text.slice(0, width)}\n`
    })
    if (shown.length < rows.size)
      lines.push(`\x1b[2K       and ${rows.size - shown.length} more feeds\n`)
    const text = lines.join('')
    if (drawn > 0 && text === last) return
    last = text
    out.write(`${drawn > 0 ? `\x1b[${drawn}A` : ''}${text}`)
    drawn = lines.length
  }
  const timer = setInterval(draw, REDRAW)
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
