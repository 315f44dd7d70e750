import type { OriginRow, StackRow } from '../messages.js'
import { byID, formatCount, formatMs, make, setData, setText } from './dom.js'

/** The words of the states of a connection. */
const words: Readonly<Record<OriginRow['status'], string>> = {
  connected: 'connected',
  connecting: 'connecting',
  reconnecting: 'reconnecting',
  disconnected: 'disconnected',
  failed: 'failed',
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
export function drawOrigins(origins: readonly OriginRow[]): void {
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
    const isUp = open > 0 && open === connections
    setData(title.parentElement as HTMLElement, 'state', isUp ? 'live' : 'lost')
    setText(title, name)
    title.title = host
    const some = connections > 1 ? ` ${open}/${connections}` : ''
    drawState(state, `${words[status]}${some}`)
    state.title = origin.reason ?? ''
    setText(trip, roundTripMs === undefined ? '–' : formatMs(roundTripMs))
    drawShare(share, all === 0 ? undefined : first / all)
    setText(received, formatCount(origin.received))
    setText(disorder, formatCount(outOfOrder))
    setText(again, formatCount(reconnects))
    for (const cell of [trip, received, disorder, again]) cell.className = 'number'
  }
}

/** Draws a shape and a word into a cell. */
function drawState(cell: HTMLElement, text: string): void {
  if (cell.children.length === 0) {
    const shape = make('i', 'shape')
    shape.ariaHidden = 'true'
    cell.className = 'c-state'
    cell.append(shape, make('span'))
  }
  setText(cell.lastElementChild as HTMLElement, text)
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
