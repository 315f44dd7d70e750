import type { Feed } from 'sluice/client'
import type { IO, Output } from '../io.js'
import { bold } from './colours.js'
import { dateTime, feedName, observedAt } from './feeds.js'
import type { Format, PrintedReport } from './format.js'
import { Keyboard } from './keyboard.js'

/** Shows reports: as a table on a terminal, elsewhere as lines. */
export interface View {
  readonly show: (report: PrintedReport) => undefined
  /** Prints a line between the reports. */
  readonly note: (text: string) => void
  /** Shows the last state, and gives the terminal back. */
  end(): void
  /** Resolves when the user presses q. */
  readonly quit: Promise<void>
}

/** Milliseconds between two drawings of a table. */
const REDRAW = 100

/**
 * Makes a view that writes to standard output: a row for each feed on a terminal, elsewhere a line
 * for each report.
 */
export function createView(io: ViewIO, feeds: readonly Feed[], format: Format): View {
  const { stdout } = io
  if (stdout.isTTY) return new LiveTable(io, feeds, format)
  return {
    show: report => void stdout.write(`${format.line(report)}\n`),
    note: text => void stdout.write(`${text}\n`),
    end: () => undefined,
    quit: new Promise(() => undefined),
  }
}

/** The terminal; with its keys if standard input is given. */
type ViewIO = Pick<IO, 'stdout'> & Partial<Pick<IO, 'stdin'>>

/** How the keys move the rows: by rows, or by as many as the terminal shows. */
const moves: Readonly<Record<string, (page: number) => number>> = {
  k: () => -1,
  j: () => 1,
  '\x1b[A': () => -1,
  '\x1bOA': () => -1,
  '\x1b[B': () => 1,
  '\x1bOB': () => 1,
  '\x1b[5~': page => -page,
  '\x1b[6~': page => page,
}

/** A table that is drawn again and again at the same place of a terminal. */
class LiveTable implements View {
  readonly quit: Promise<void>
  readonly #out: Output
  readonly #table: Table
  readonly #keyboard: Keyboard | undefined
  readonly #timer: NodeJS.Timeout
  #drawn = 0
  #last = ''
  #quit: () => void = () => undefined

  constructor(io: ViewIO, feeds: readonly Feed[], format: Format) {
    this.#out = io.stdout
    this.quit = new Promise(resolve => {
      this.#quit = resolve
    })
    this.#keyboard = Keyboard.open(io.stdin, {
      press: this.#press,
      suspend: this.#leave,
      resume: this.#draw,
    })
    this.#table = new Table(feeds, format, this.#keyboard !== undefined)
    this.#timer = setInterval(this.#draw, REDRAW)
    this.#out.on('resize', this.#resize)
    this.#draw()
  }

  readonly show = (report: PrintedReport): undefined => {
    this.#table.add(report)
  }

  readonly note = (text: string): void => {
    this.#out.write(`${this.#drawn > 0 ? `\x1b[${this.#drawn}A\x1b[J` : ''}${text}\n`)
    this.#leave()
    this.#draw()
  }

  end(): void {
    clearInterval(this.#timer)
    this.#out.off('resize', this.#resize)
    this.#draw()
    this.#keyboard?.close()
  }

  readonly #draw = (): void => {
    const { columns, rows } = this.#out
    const lines = this.#table.lines(columns || 80, rows || 24)
    const text = lines.map(line => `\x1b[2K${line}\n`).join('')
    const drawn = this.#drawn
    if (drawn > 0 && text === this.#last) return
    this.#last = text
    this.#drawn = lines.length
    const up = drawn > 0 ? `\x1b[${drawn}A` : ''
    this.#out.write(`${up}${text}${drawn > lines.length ? '\x1b[J' : ''}`)
  }

  /** Has the table drawn below what the terminal shows by then. */
  readonly #leave = (): void => {
    this.#drawn = 0
  }

  /** Clears the screen: a narrower terminal has broken the lines, and they can't be counted. */
  readonly #resize = (): void => {
    this.#out.write('\x1b[H\x1b[2J')
    this.#leave()
    this.#draw()
  }

  readonly #press = (key: string): void => {
    if (key === 'q') this.#quit()
    const move = moves[key]
    if (move === undefined) return
    this.#table.scroll(move)
    this.#draw()
  }
}

interface Row {
  count: number
  report?: PrintedReport
}

/** A column of the table. Numbers are aligned at the right. */
interface Column {
  readonly title: string
  readonly isText?: boolean
  /** The column with the lowest number is left out last. */
  readonly rank: number
  readonly cells: readonly string[]
}

/** The newest report of each feed, in columns. */
class Table {
  readonly #rows: Map<string, Row>
  readonly #names: ReadonlyMap<string, string>
  readonly #format: Format
  readonly #hasKeys: boolean
  /** The first row that is shown, and how many are. */
  #top = 0
  #page = 1

  /** `hasKeys` says whether the user can scroll. */
  constructor(feeds: readonly Feed[], format: Format, hasKeys: boolean) {
    this.#hasKeys = hasKeys
    this.#rows = new Map(feeds.map(({ feedID }) => [feedID, { count: 0 }]))
    this.#names = new Map(feeds.map(feed => [feed.feedID, feedName(feed)]))
    this.#format = format
  }

  add(report: PrintedReport): void {
    const row = this.#rows.get(report.feedID)
    if (row === undefined) return
    row.count++
    row.report = report
  }

  /** Moves the rows that are shown, by a number that depends on how many these are. */
  scroll(by: (page: number) => number): void {
    this.#top += by(this.#page)
  }

  /** The lines of the table for a terminal of this size. No number is cut: columns are left out. */
  lines(width: number, height: number): readonly string[] {
    const most = Math.max(1, height - 3)
    const { size } = this.#rows
    this.#page = size > most ? Math.max(1, most - 1) : most
    this.#top = Math.max(0, Math.min(this.#top, size - this.#page))
    const rows = [...this.#rows].slice(this.#top, this.#top + this.#page)
    const columns = fit(this.#columns(rows), width - 1)
    const lines = [bold(join(columns, ({ title }) => title))]
    for (const at of rows.keys()) lines.push(join(columns, ({ cells }) => cells[at] as string))
    if (rows.length < size) {
      const keys = this.#hasKeys ? '  (↑ ↓ PgUp PgDn, q ends)' : ''
      const shown = `rows ${this.#top + 1}–${this.#top + rows.length} of ${size}${keys}`
      lines.push(shown.slice(0, width - 1))
    }
    return lines
  }

  #columns(rows: readonly (readonly [string, Row])[]): readonly Column[] {
    const now = Date.now()
    const summaries = rows.map(
      ([, { report }]) => new Map(report && this.#format.summarize(report)?.map(titled)),
    )
    const titles = [...new Set(summaries.flatMap(summary => [...summary.keys()]))]
    const ofReports = (text: (report: PrintedReport) => string): readonly string[] =>
      rows.map(([, { report }]) => (report === undefined ? '' : text(report)))
    const observed = ofReports(report => dateTime(report.feedID, report.observationsTimestamp)).map(
      text => text.split(' '),
    )
    return [
      {
        title: 'feed',
        isText: true,
        rank: 0,
        cells: rows.map(([feedID]) => this.#names.get(feedID) as string),
      },
      {
        title: PRICE,
        rank: 1,
        cells: rows.map(([, { report }], at) =>
          report === undefined ? 'waiting' : (summaries[at]?.get(PRICE) ?? 'no decoder'),
        ),
      },
      ...titles
        .filter(title => title !== PRICE)
        .map((title, at) => ({
          title,
          rank: 3 + at,
          cells: summaries.map(summary => summary.get(title) ?? ''),
        })),
      { title: 'age', rank: 2, cells: ofReports(report => ageOf(observedAt(report), now)) },
      { title: 'date', rank: 92, cells: observed.map(([date = '']) => date) },
      { title: 'time', rank: 90, cells: observed.map(([, time = '']) => time) },
      { title: 'reports', rank: 91, cells: rows.map(([, { count }]) => String(count)) },
    ]
  }
}

/** The title of the column for the price of a feed, whatever its version calls the price. */
const PRICE = 'price'
/** The fewest characters of a feed's name that are shown. */
const SHORTEST_NAME = 6

const titled = (field: readonly [string, string], at: number): readonly [string, string] =>
  at === 0 ? [PRICE, field[1]] : field

/** How long ago a report was observed, by this machine's clock: `3 s`, `12 m`, `5 h`. */
function ageOf(ms: number, now: number): string {
  const seconds = Math.max(0, Math.floor((now - ms) / 1000))
  if (seconds < 120) return `${seconds} s`
  return seconds < 7200 ? `${Math.floor(seconds / 60)} m` : `${Math.floor(seconds / 3600)} h`
}

/** The width of a column, with the space before it. */
const widthOf = ({ title, cells }: Column): number =>
  2 + Math.max(title.length, ...cells.map(cell => cell.length))

/**
 * Leaves out the columns with the highest ranks until the others fit. If the feed and its price
 * don't fit either, shortens names, and puts `#` in place of a number that is too long.
 */
function fit(columns: readonly Column[], width: number): readonly Column[] {
  const total = (some: readonly Column[]): number =>
    some.reduce((sum, column) => sum + widthOf(column), -2)
  let kept = columns
  while (kept.length > 2 && total(kept) > width) {
    const worst = kept.reduce((one, other) => (one.rank > other.rank ? one : other))
    kept = kept.filter(column => column !== worst)
  }
  const [feed, price] = kept as [Column, Column]
  if (kept.length > 2 || total(kept) <= width) return kept
  const forName = Math.max(SHORTEST_NAME, width - widthOf(price))
  const forPrice = Math.max(1, width - 2 - forName)
  const shorten = (cell: string): string =>
    cell.length > forName ? `${cell.slice(0, forName - 1)}…` : cell
  const hide = (cell: string): string => (cell.length > forPrice ? '#'.repeat(forPrice) : cell)
  return [
    { ...feed, cells: feed.cells.map(shorten) },
    { ...price, cells: price.cells.map(hide) },
  ]
}

/** Joins the cells of a line. */
function join(columns: readonly Column[], cellOf: (column: Column) => string): string {
  const cells = columns.map((column, at) => {
    const cell = cellOf(column)
    const width = widthOf(column) - 2
    if (column.isText) return at === columns.length - 1 ? cell : cell.padEnd(width)
    return cell.padStart(width)
  })
  return cells.join('  ')
}
