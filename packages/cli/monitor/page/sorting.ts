import { byID, make } from './dom.js'

/** The value of a row in a column; rows without a value come last. */
type Column<Row> = (row: Row) => string | number | undefined

/** The order that the user has chosen for a table. */
export interface Sorting<Row> {
  readonly isChosen: boolean
  /** The rows in the chosen order, or as they are. */
  sort(rows: readonly Row[]): readonly Row[]
}

/**
 * Puts a button into the head of each column, which sorts the rows by this column: first the
 * greatest or, of texts, the first of the alphabet; then the other way round; then as at the start.
 */
export function makeSortable<Row>(
  headID: string,
  columns: readonly Column<Row>[],
  onChange: () => void,
): Sorting<Row> {
  const heads = [...byID(headID).querySelectorAll('th')]
  let chosen: number | undefined
  let direction: 'ascending' | 'descending' = 'ascending'

  function choose(index: number): void {
    const first = heads[index]?.classList.contains('number') ? 'descending' : 'ascending'
    if (chosen !== index) [chosen, direction] = [index, first]
    else if (direction === first) direction = first === 'ascending' ? 'descending' : 'ascending'
    else chosen = undefined
    for (const [at, head] of heads.entries()) head.ariaSort = at === chosen ? direction : null
    onChange()
  }

  for (const [index, head] of heads.entries()) {
    const button = make('button', 'sort', ...head.childNodes)
    button.type = 'button'
    button.addEventListener('click', () => choose(index))
    head.append(button)
  }

  return {
    get isChosen() {
      return chosen !== undefined
    },
    sort(rows) {
      const column = chosen === undefined ? undefined : columns[chosen]
      if (column === undefined) return rows
      const sign = direction === 'ascending' ? 1 : -1
      return [...rows].sort((one, other) => compare(column(one), column(other), sign))
    },
  }
}

function compare(
  one: string | number | undefined,
  other: string | number | undefined,
  sign: number,
): number {
  if (one === undefined || other === undefined)
    return Number(one === undefined) - Number(other === undefined)
  if (typeof one === 'string') return sign * one.localeCompare(String(other), 'en')
  return sign * (one - Number(other))
}
