import type { OriginRow, StackRow } from '../messages.js'
import { byID, formatCount, formatMoment, formatMs, make, setData, setText } from './dom.js'
import { makeSortable } from './sorting.js'

/** The words of the states of a connection. */
const words: Readonly<Record<OriginRow['status'], string>> = {
  connected: 'connected',
  connecting: 'connecting',
  reconnecting: 'reconnecting',
  disconnected: 'disconnected',
  failed: 'failed',
}

/** The labels of the columns of origins, which a narrow page shows beside each value. */
const labels = ['', '', 'round trip', 'first with', 'received', 'out of order', 'reconnects']

/** Makes the function that draws the origins, in the order that the user chooses. */
export function createOriginsView(): (origins: readonly OriginRow[], now: number) => void {
  let last: readonly [readonly OriginRow[], number] = [[], 0]
  const sorting = makeSortable<OriginRow>(
    'origin-head',
    [
      ({ name }) => name,
      ({ status }) => words[status],
      ({ roundTripMs }) => roundTripMs,
      ({ first }) => first,
      ({ received }) => received,
      ({ outOfOrder }) => outOfOrder,
      ({ reconnects }) => reconnects,
    ],
    () => drawOrigins(sorting.sort(last[0]), last[1]),
  )
  return (origins, now) => {
    last = [origins, now]
    drawOrigins(sorting.sort(origins), now)
  }
}

/** Returns the cells of a row of a table, and adds the row if it is missing. */
function rowOf(table: HTMLElement, index: number, cells: number): readonly HTMLElement[] {
  while (table.children.length <= index) {
    const name = make('th')
    name.scope = 'row'
    table.append(make('tr', '', name, ...Array.from({ length: cells - 1 }, () => make('td'))))
  }
  return Array.from((table.children[index] as HTMLElement).children) as HTMLElement[]
}

/**
 * Draws the origins. The share of an origin is the number of reports that it brought first, divided
 * by the sum of these numbers over all origins.
 */
function drawOrigins(origins: readonly OriginRow[], now: number): void {
  const table = byID('origin-rows')
  const all = origins.reduce((sum, { first }) => sum + first, 0)
  while (table.children.length > origins.length) table.lastElementChild?.remove()
  for (const [index, origin] of origins.entries()) {
    const { name, host, status, open, connections, roundTripMs, first, outOfOrder, reconnects } =
      origin
    const cells = rowOf(table, index, 7)
    const [title, state, trip, share, received, disorder, again] = cells as [
      HTMLElement,
      HTMLElement,
      HTMLElement,
      HTMLElement,
      HTMLElement,
      HTMLElement,
      HTMLElement,
    ]
    const { awaySince, reason = '' } = origin
    setData(title.parentElement as HTMLElement, 'state', awaySince === undefined ? 'live' : 'lost')
    setText(title, name)
    title.title = host
    const some = connections > 1 ? ` ${open}/${connections}` : ''
    const since = awaySince === undefined ? '' : `since ${formatMoment(awaySince, now)}`
    drawState(state, `${words[status]}${some}`, since)
    state.title = reason
    setText(trip, roundTripMs === undefined ? '–' : formatMs(roundTripMs))
    drawShare(share, all === 0 ? undefined : first / all)
    setText(received, formatCount(origin.received))
    setText(disorder, formatCount(outOfOrder))
    setText(again, formatCount(reconnects))
    for (const cell of [trip, received, disorder, again]) cell.className = 'number'
    for (const [at, cell] of cells.entries()) setData(cell, 'label', labels[at] as string)
  }
}

/** Draws a shape and a word into a cell, and since when. */
function drawState(cell: HTMLElement, text: string, since: string): void {
  if (cell.children.length === 0) {
    const shape = make('i', 'shape')
    shape.ariaHidden = 'true'
    cell.className = 'c-state'
    cell.append(shape, make('span'), make('span', 'since'))
  }
  setText(cell.children[1] as HTMLElement, text)
  setText(cell.children[2] as HTMLElement, since)
}

/** Draws a percentage, and a bar of that length, into a cell. */
function drawShare(cell: HTMLElement, share: number | undefined): void {
  if (cell.children.length === 0) {
    const track = make('span', 'track', make('span', 'fill'))
    cell.append(make('span', 'share', make('span', 'percent'), track))
  }
  const percent = share === undefined ? 0 : Math.round(share * 100)
  const part = (name: string) => cell.querySelector(name) as HTMLElement
  setText(part('.percent'), share === undefined ? '–' : `${percent} %`)
  part('.fill').style.width = `${percent}%`
}

/**
 * Draws the stack between the user's program and the wire. The plugin nearest to the program comes
 * first.
 */
export function drawStack(rows: readonly StackRow[], wire: string): void {
  const table = byID('stack-rows')
  const top = rows.find(({ reports }) => reports !== undefined)?.reports?.out
  const bottom = rows.findLast(({ reports }) => reports !== undefined)?.reports?.in
  drawStackRow(rowOf(table, 0, 6), { name: 'you', hooks: 'your program', reports: top })
  for (const [index, { name, hooks, brings, calls, reports }] of rows.entries()) {
    const more = brings.length < 3 ? brings : [`${brings[0]} … ${brings.at(-1)}`]
    drawStackRow(rowOf(table, index + 1, 6), {
      name,
      hooks: [...hooks, ...more].join(' · '),
      calls: calls?.made,
      failed: calls?.failed,
      reports: reports?.out,
      stopped: reports && reports.in - reports.out,
    })
  }
  drawStackRow(rowOf(table, rows.length + 1, 6), { name: 'wire', hooks: wire, reports: bottom })
}

interface StackTexts {
  readonly name: string
  readonly hooks: string
  readonly calls?: number | undefined
  readonly failed?: number | undefined
  readonly reports?: number | undefined
  readonly stopped?: number | undefined
}

function drawStackRow(cells: readonly HTMLElement[], texts: StackTexts): void {
  const { name, hooks, calls, failed, reports, stopped } = texts
  const write = (value: number | undefined): string =>
    value === undefined ? '' : formatCount(value)
  const values = [name, hooks, write(calls), write(failed), write(reports), write(stopped)]
  for (const [index, cell] of cells.entries()) {
    setText(cell, values[index] as string)
    if (index > 1) cell.className = 'number'
  }
  ;(cells[1] as HTMLElement).className = 'hooks'
}
