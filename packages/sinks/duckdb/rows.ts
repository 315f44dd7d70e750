import type * as DuckDB from '@duckdb/node-api'
import type { DuckDBType, DuckDBValue } from '@duckdb/node-api'
import { ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'
import { type Column, type ColumnKind, type ColumnValue, SCALE, type Table } from '../tables.js'

/** The library of DuckDB. */
export type DuckDBLibrary = typeof DuckDB

/** How a store keeps a value that its column can't hold: as a text, or not at all. */
export type Beyond = 'text' | 'refuse'

/** The types of columns in DuckDB and in Parquet files. */
export const sqlTypes: Readonly<Record<ColumnKind, string>> = {
  text: 'VARCHAR',
  time: 'BIGINT',
  instant: 'TIMESTAMP WITH TIME ZONE',
  decimal: `DECIMAL(38,${SCALE})`,
  integer: 'UBIGINT',
  wide: 'DECIMAL(38,0)',
  boolean: 'BOOLEAN',
  bytes: 'BLOB',
}

/** The digits of a DECIMAL. */
const DIGITS = 38
const MAX_DECIMAL = 10n ** BigInt(DIGITS) - 1n

/** The rows of a chunk. DuckDB takes no more at once. */
const CHUNK = 2048

/** Rows in the form in which DuckDB takes them. */
export interface Converted<Row> {
  readonly types: readonly DuckDBType[]
  /** Chunks of columns of values. */
  readonly chunks: readonly (readonly DuckDBValue[][])[]
  /** How many rows there are. */
  readonly count: number
  /** The bytes of the rows: 8 for a time or an integer, 16 for a decimal, and those of texts. */
  readonly bytes: number
  /** The earliest and the latest time of the rows, in their unit. */
  readonly from: number
  readonly to: number
  /** The rows that a column can't hold, and why. */
  readonly refused: readonly (readonly [Row, string])[]
}

interface Keyed {
  readonly feedID: string
}

/** How rows are converted. */
export interface ConversionRules {
  readonly beyond: Beyond
  /** The digits after the point of a feed's prices. */
  readonly decimalsOf: (feedID: string) => number
}

/**
 * Converts the rows of a table. A value that its column can't hold is kept as text in the column
 * `beyond`, or the row is refused.
 */
export function convertRows<Row extends Keyed>(
  library: DuckDBLibrary,
  table: Table<Row>,
  rows: readonly Row[],
  rules: ConversionRules,
): Converted<Row> {
  const convert = converterOf(library)
  const { columns } = table
  const time = columns.find(({ kind, isKey }) => isKey && kind === 'time') as Column<Row>
  const types = [...columns.map(({ kind }) => typeOf(library, kind)), library.VARCHAR]
  const chunks: DuckDBValue[][][] = []
  const refused: [Row, string][] = []
  let count = 0
  let bytes = 0
  let [from, to] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  let chunk: DuckDBValue[][] = []
  const row: DuckDBValue[] = []
  for (const each of rows) {
    let beyond: Record<string, string> | undefined
    let reason: string | undefined
    let size = 0
    for (let index = 0; index < columns.length; index++) {
      const column = columns[index] as Column<Row>
      const value = read(table, column, each)
      if (value !== null && !fits(column.kind, value)) {
        reason ??= describe(column, value)
        beyond ??= {}
        beyond[column.name] = textOf(column.kind, value, rules.decimalsOf(each.feedID))
        row[index] = null
      } else {
        row[index] = value === null ? null : convert(column.kind, value)
        size += value === null ? 0 : sizeOf(column.kind, value)
      }
    }
    if (reason !== undefined && rules.beyond === 'refuse') {
      refused.push([each, reason])
      continue
    }
    const text = beyond === undefined ? null : JSON.stringify(beyond)
    row[columns.length] = text
    if (count % CHUNK === 0) {
      chunk = types.map(() => [])
      chunks.push(chunk)
    }
    for (let index = 0; index < row.length; index++)
      (chunk[index] as DuckDBValue[]).push(row[index] as DuckDBValue)
    count++
    bytes += size + (text?.length ?? 0)
    const at = time.of(each) as number
    from = Math.min(from, at)
    to = Math.max(to, at)
  }
  return { types, chunks, count, bytes, from, to, refused }
}

function read<Row extends Keyed>(
  table: Table<Row>,
  column: Column<Row>,
  row: Row,
): Exclude<ColumnValue, undefined> {
  try {
    return column.of(row) ?? null
  } catch (thrown) {
    throw new ValidationError(
      `the report of feed ${row.feedID} has no value for the column ${column.name} of ${table.name}: if your stack decodes it by a decoder of its own, give the store that decoder, in decoders`,
      { cause: foreignCause(thrown) },
    )
  }
}

function fits(kind: ColumnKind, value: NonNullable<ColumnValue>): boolean {
  if (kind === 'decimal' || kind === 'wide')
    return (value as bigint) <= MAX_DECIMAL && (value as bigint) >= -MAX_DECIMAL
  // The library passes texts on to DuckDB up to the first NUL.
  if (kind === 'text') return !(value as string).includes('\0')
  return true
}

/** Why a column can't hold a value. */
function describe({ name, kind }: Column<never>, value: NonNullable<ColumnValue>): string {
  if (kind === 'text') return `${name} has a NUL character, and a VARCHAR holds none`
  const digits = String(value).replace('-', '').length
  return `${name} needs ${digits} digits, and a ${sqlTypes[kind]} holds ${DIGITS}`
}

/** The exact value: an integer as the report has it, or a text. */
function textOf(kind: ColumnKind, value: NonNullable<ColumnValue>, decimals: number): string {
  if (kind !== 'decimal') return String(value)
  return String((value as bigint) / 10n ** BigInt(SCALE - decimals))
}

function sizeOf(kind: ColumnKind, value: NonNullable<ColumnValue>): number {
  if (kind === 'text') return (value as string).length
  if (kind === 'bytes') return (value as Uint8Array).byteLength
  if (kind === 'boolean') return 1
  return kind === 'decimal' || kind === 'wide' ? 16 : 8
}

function typeOf(library: DuckDBLibrary, kind: ColumnKind): DuckDBType {
  const { VARCHAR, BIGINT, TIMESTAMPTZ, DECIMAL, UBIGINT, BOOLEAN, BLOB } = library
  if (kind === 'decimal') return DECIMAL(DIGITS, SCALE)
  if (kind === 'wide') return DECIMAL(DIGITS, 0)
  const others = { text: VARCHAR, time: BIGINT, instant: TIMESTAMPTZ, integer: UBIGINT }
  return { ...others, boolean: BOOLEAN, bytes: BLOB }[kind]
}

function converterOf(
  library: DuckDBLibrary,
): (kind: ColumnKind, value: NonNullable<ColumnValue>) => DuckDBValue {
  const { DuckDBTimestampTZValue, DuckDBDecimalValue, DuckDBBlobValue } = library
  return function convert(kind, value) {
    switch (kind) {
      case 'time':
      case 'integer':
        return BigInt(value as number | bigint)
      case 'instant':
        return new DuckDBTimestampTZValue(BigInt(value as number) * 1000n)
      case 'decimal':
        return new DuckDBDecimalValue(value as bigint, DIGITS, SCALE)
      case 'wide':
        return new DuckDBDecimalValue(BigInt(value as bigint), DIGITS, 0)
      case 'bytes':
        return new DuckDBBlobValue(value as Uint8Array)
      default:
        return value as string | boolean
    }
  }
}
