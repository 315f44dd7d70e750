/** A row of a table in markdown, by the names of its columns. */
export type Row = Readonly<Record<string, string>>

const cellsOf = (line: string): string[] =>
  line
    .split('|')
    .slice(1, -1)
    .map(cell => cell.trim())

/** The tables of a document, each with the heading above it. */
export function tablesOf(text: string): { readonly heading: string; readonly rows: Row[] }[] {
  const tables: { heading: string; rows: Row[] }[] = []
  let heading = ''
  let columns: string[] | undefined
  for (const line of text.split('\n')) {
    if (line.startsWith('#')) heading = line.replace(/^#+ /, '')
    if (!line.startsWith('|')) columns = undefined
    else if (columns === undefined) {
      columns = cellsOf(line)
      tables.push({ heading, rows: [] })
    } else if (!/^\| *-/.test(line)) {
      const cells = cellsOf(line)
      tables
        .at(-1)
        ?.rows.push(Object.fromEntries(columns.map((name, at) => [name, cells[at] ?? ''])))
    }
  }
  return tables
}

/** The table under a heading. */
export function tableUnder(heading: string, text: string): readonly Row[] {
  const table = tablesOf(text).find(each => each.heading === heading)
  if (table === undefined) throw new Error(`there is no table under "${heading}"`)
  return table.rows
}

/** The text of a cell without its backticks. */
export function codeOf(row: Row, column: string): string {
  return (row[column] ?? '').replaceAll('`', '')
}
