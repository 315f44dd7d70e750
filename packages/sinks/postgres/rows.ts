import { type Column, type ColumnKind, type ColumnValue, SCALE } from '../tables.js'

/** The types of columns, in the words of Postgres. */
export const columnTypes: Readonly<Record<ColumnKind, string>> = {
  text: 'text',
  time: 'bigint',
  instant: 'timestamp with time zone',
  // Without a precision it holds every value exactly, also both ends of int192.
  decimal: 'numeric',
  // A bigint of Postgres ends at 2^63.
  integer: 'numeric(20,0)',
  wide: 'numeric',
  boolean: 'boolean',
  bytes: 'bytea',
}

/** The types in which values are sent: an instant as its milliseconds. */
const sentTypes: Readonly<Record<ColumnKind, string>> = { ...columnTypes, instant: 'bigint' }

/** Quotes a name. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** The statement that inserts rows, given as one array for each column. */
export function insertInto<Row>(table: string, columns: readonly Column<Row>[]): string {
  const names = columns.map(({ name }) => quoted(name))
  const arrays = columns.map(({ kind }, index) => `$${index + 1}::${sentTypes[kind]}[]`)
  const values = columns.map(({ name, kind }) => {
    const value = `sent.${quoted(name)}`
    if (kind !== 'instant') return value
    return `timestamp with time zone 'epoch' + ${value} * interval '1 millisecond'`
  })
  const sent = `unnest(${arrays.join(', ')}) AS sent(${names.join(', ')})`
  return `INSERT INTO ${table} (${names.join(', ')}) SELECT ${values.join(', ')} FROM ${sent}`
}

/** The arrays of `insertInto`, in the text form of Postgres. */
export function arraysOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string[] {
  return columns.map(({ kind, of }) => {
    const write = writers[kind]
    const values = rows.map(row => {
      const value = of(row)
      return value === null ? 'NULL' : write(value)
    })
    return `{${values.join(',')}}`
  })
}

type Writer = (value: Exclude<ColumnValue, null>) => string

const quoteText: Writer = value => `"${String(value).replace(/["\\]/g, '\\$&')}"`

/** How a value stands in an array. */
const writers: Readonly<Record<ColumnKind, Writer>> = {
  text: quoteText,
  time: String,
  instant: String,
  decimal: value => formatDecimal(value as bigint),
  integer: String,
  wide: String,
  boolean: value => (value === true ? 't' : 'f'),
  // The backslash of `\x`, which begins hexadecimal bytes, is quoted.
  bytes: value => `"\\\\x${Buffer.from(value as Uint8Array).toString('hex')}"`,
}

/** A value times 10^18, as a decimal number without needless zeros. */
export function formatDecimal(value: bigint): string {
  const isNegative = value < 0n
  const digits = (isNegative ? -value : value).toString().padStart(SCALE + 1, '0')
  const fraction = digits.slice(-SCALE).replace(/0+$/, '')
  const whole = `${isNegative ? '-' : ''}${digits.slice(0, -SCALE)}`
  return fraction === '' ? whole : `${whole}.${fraction}`
}
