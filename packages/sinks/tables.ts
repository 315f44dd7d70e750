import { kindOf, ValidationError } from 'sluice/core'
import type { Candle } from 'sluice/plugins/candles'
import { allDecoders } from 'sluice/plugins/decoders'
import type { SinkBatch } from 'sluice/plugins/sink'
import { type Decoder, feedResolution, feedVersion, type Report } from 'sluice/report'

/**
 * What a column holds. Each store has a type of its own for each kind.
 *
 * | kind | value |
 * |---|---|
 * | `text` | a string |
 * | `time` | a whole number: a time in the feed's unit |
 * | `instant` | a number: milliseconds of Unix time |
 * | `decimal` | a bigint: a price or another value, times 10^18 |
 * | `integer` | a bigint or a number from 0 on, of at most 64 bits |
 * | `wide` | a bigint from 0 on, of at most 256 bits |
 * | `boolean` | a boolean |
 * | `bytes` | bytes |
 */
export type ColumnKind =
  | 'text'
  | 'time'
  | 'instant'
  | 'decimal'
  | 'integer'
  | 'wide'
  | 'boolean'
  | 'bytes'

/** A value of a row, before a store converts it. Null where a report has none. */
export type ColumnValue = string | number | bigint | boolean | Uint8Array | null

/** A column of a table. */
export interface Column<Row> {
  /** In lower case, with underscores. */
  readonly name: string
  readonly kind: ColumnKind
  /** True for the columns of the primary key. */
  readonly isKey: boolean
  /** The value of a row. */
  readonly of: (row: Row) => ColumnValue
}

/** A report as it is stored. */
export interface ReportRow {
  readonly feedID: string
  readonly report: Report
  /** When it came, in milliseconds of Unix time. */
  readonly receivedAt: number | undefined
}

/** A table: of a version of reports, of reports that nobody decodes, or of candles. */
export interface Table<Row> {
  /** `reports_v3`, `reports_undecoded` or `candles`. */
  readonly name: string
  readonly columns: readonly Column<Row>[]
}

/** The table that each row belongs to. */
export interface TableChoice {
  of(report: Report): Table<ReportRow>
  readonly candles: Table<Candle>
}

/** Digits after the point of a decimal. */
export const SCALE = 18

/**
 * The name of a column that a store may add: JSON of the values that their own columns can't hold,
 * by column. An integer is in it as the decimal digits that the report has.
 */
export const BEYOND = 'beyond'

/** The name of a column that rows of the first tables lack. */
export const RECEIVED_AT = 'received_at'

/** The options that the tables depend on. */
export interface TableOptions {
  /** Whether the signed bytes are kept, as the column `full_report`. */
  readonly raw: boolean
  /** The digits after the point of a feed's prices. */
  readonly decimalsOf: (feedID: string) => number
  /** The decoders of versions that the library does not know. */
  readonly decoders: readonly Decoder[]
}

/** The tables of a store, and which of them a report belongs to. */
export class Tables implements TableChoice {
  readonly #options: TableOptions
  readonly #decoders = new Map<number, Decoder>()
  readonly #byVersion = new Map<number, Table<ReportRow>>()
  readonly undecoded: Table<ReportRow>
  readonly candles: Table<Candle>

  constructor(options: TableOptions) {
    this.#options = options
    for (const decoder of [...allDecoders, ...options.decoders])
      this.#decoders.set(decoder.version, decoder)
    this.undecoded = {
      name: 'reports_undecoded',
      columns: [...headColumns, bytesColumn, ...tailColumns],
    }
    this.candles = { name: 'candles', columns: candleColumns(options.decimalsOf) }
  }

  /** All tables for reports, also those that no report has needed yet. */
  get reports(): readonly Table<ReportRow>[] {
    const versions = [...this.#decoders.keys()]
    const tables = versions.map(version => this.#byVersion.get(version) ?? this.#add(version))
    return [...new Set([...tables, this.undecoded])]
  }

  /**
   * The table of a report. A report that can't be decoded goes to a table of its own, with its
   * bytes, so that it is not lost.
   */
  of(report: Report): Table<ReportRow> {
    const version = feedVersion(report.feedID)
    const table = this.#byVersion.get(version) ?? this.#add(version)
    try {
      void report.decoded
      return table
    } catch {
      return this.undecoded
    }
  }

  #add(version: number): Table<ReportRow> {
    const decoder = this.#decoders.get(version)
    const table =
      decoder?.fields === undefined ? this.undecoded : this.#tableOf(version, decoder.fields)
    this.#byVersion.set(version, table)
    return table
  }

  #tableOf(version: number, fields: NonNullable<Decoder['fields']>): Table<ReportRow> {
    const { raw, decimalsOf } = this.#options
    const after: readonly Column<ReportRow>[] = [
      feeColumn('nativeFee'),
      feeColumn('linkFee'),
      column('expires_at', 'time', ({ report }) => fieldOf(report, 'expiresAt') as number),
      ...(raw ? [bytesColumn] : []),
      ...tailColumns,
    ]
    const taken = new Set([...headColumns, ...after, bytesColumn].map(({ name }) => name))
    taken.add(BEYOND)
    const own = Object.entries(fields).map(([name, type]) => {
      const made = fieldColumn(name, type, decimalsOf)
      const free = freeName(made.name, taken)
      taken.add(free)
      return { ...made, name: free }
    })
    return { name: `reports_v${version}`, columns: [...headColumns, ...own, ...after] }
  }
}

/** The rows of each table. */
export function groupByTable(
  { reports, receivedAt }: SinkBatch,
  tables: TableChoice,
): Map<Table<ReportRow>, ReportRow[]> {
  const groups = new Map<Table<ReportRow>, ReportRow[]>()
  for (const [index, report] of reports.entries()) {
    const row = { feedID: report.feedID, report, receivedAt: receivedAt[index] }
    const table = tables.of(report)
    const group = groups.get(table)
    if (group === undefined) groups.set(table, [row])
    else group.push(row)
  }
  return groups
}

/** The candle with the highest revision of each feed, interval and start; of equals the last. */
export function newestOf(candles: readonly Candle[]): readonly Candle[] {
  const newest = new Map<string, Candle>()
  for (const candle of candles) {
    const key = `${candle.feedID} ${candle.interval} ${candle.start}`
    const other = newest.get(key)
    if (other === undefined || candle.revision >= other.revision) newest.set(key, candle)
  }
  return [...newest.values()]
}

function column<Row>(
  name: string,
  kind: ColumnKind,
  of: (row: Row) => ColumnValue,
  isKey = false,
): Column<Row> {
  return { name, kind, isKey, of }
}

const msOf = (feedID: string, time: number): number =>
  feedResolution(feedID) === 's' ? time * 1000 : time

const headColumns: readonly Column<ReportRow>[] = [
  column('feed_id', 'text', ({ feedID }) => feedID, true),
  column('observations_timestamp', 'time', ({ report }) => report.observationsTimestamp, true),
  column('valid_from_timestamp', 'time', ({ report }) => report.validFromTimestamp),
  column('observed_at', 'instant', ({ feedID, report }) =>
    msOf(feedID, report.observationsTimestamp),
  ),
]
const tailColumns: readonly Column<ReportRow>[] = [
  // How and from where the report came: `live` or `backfill`, and the id of the origin.
  column('source', 'text', ({ report }) => report.source),
  column('origin_id', 'text', ({ report }) => report.originID ?? null),
  column(RECEIVED_AT, 'instant', ({ receivedAt }) => receivedAt ?? null),
]
const bytesColumn: Column<ReportRow> = column('full_report', 'bytes', ({ report }) =>
  Buffer.from(report.fullReport.slice(2), 'hex'),
)

function feeColumn(field: 'nativeFee' | 'linkFee'): Column<ReportRow> {
  return column(snakeCase(field), 'wide', ({ report }) => fieldOf(report, field) as bigint)
}

function fieldOf({ decoded }: Report, name: string): unknown {
  return (decoded as Readonly<Record<string, unknown>>)[name]
}

/** The column of a field after the head. A signed integer is a value with decimals. */
function fieldColumn(
  field: string,
  type: string,
  decimalsOf: TableOptions['decimalsOf'],
): Column<ReportRow> {
  const name = snakeCase(field)
  if (type === 'uint64-twin')
    return column(name, 'integer', ({ report }) => fieldOf(report, `${field}Raw`) as bigint)
  if (type === 'bool')
    return column(name, 'boolean', ({ report }) => fieldOf(report, field) as boolean)
  const [, kind, digits] = /^(u?int)(\d+)$/.exec(type) ?? []
  const value = ({ report }: ReportRow): ColumnValue => fieldOf(report, field) as ColumnValue
  if (kind === 'uint') return column(name, Number(digits) <= 64 ? 'integer' : 'wide', value)
  if (kind === 'int')
    return column(name, 'decimal', ({ feedID, report }) =>
      scaled(BigInt(fieldOf(report, field) as bigint | number), decimalsOf(feedID)),
    )
  return column(name, 'text', value)
}

function candleColumns(decimalsOf: TableOptions['decimalsOf']): readonly Column<Candle>[] {
  const prices = ['open', 'high', 'low', 'close', 'twap'] as const
  return [
    column('feed_id', 'text', candle => candle.feedID, true),
    column('candle_interval', 'text', candle => candle.interval, true),
    column('start_time', 'time', candle => candle.start, true),
    column('end_time', 'time', candle => candle.end),
    column('started_at', 'instant', candle => msOf(candle.feedID, candle.start)),
    ...prices.map(name =>
      column<Candle>(name, 'decimal', candle => scaled(candle[name], decimalsOf(candle.feedID))),
    ),
    column('report_count', 'integer', candle => candle.count),
    column('complete', 'boolean', candle => candle.complete),
    // The ranges that no report holds, as JSON: [{"from":1700000000,"to":1700000004}]
    column('missing', 'text', candle => JSON.stringify(candle.missing)),
    column('revision', 'integer', candle => candle.revision),
  ]
}

/** A value with the feed's decimals as one with `SCALE` digits after the point. */
export function scaled(value: bigint, decimals: number): bigint {
  return value * 10n ** BigInt(SCALE - decimals)
}

/**
 * A name for the column of a field. A field of a decoder of yours may be called as a column that
 * every table has: `source` gets the column `source_`.
 */
function freeName(name: string, taken: ReadonlySet<string>): string {
  // Databases know no case.
  return taken.has(name.toLowerCase()) ? freeName(`${name}_`, taken) : name.toLowerCase()
}

/** `lastUpdateTimestamp` as `last_update_timestamp`. */
function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

/** Reads the option `decimals`: one number, or one for each feed. */
export function readDecimals(
  given: number | Readonly<Record<string, number>> | undefined,
): TableOptions['decimalsOf'] {
  const check = (field: string, value: unknown): number => {
    if (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= SCALE)
      return value as number
    throw new ValidationError(`${field} must be a whole number from 0 to ${SCALE}`)
  }
  if (given === undefined) return () => SCALE
  if (typeof given !== 'object' || given === null) {
    const decimals = check('decimals', given)
    return () => decimals
  }
  const byFeed = new Map(
    Object.entries(given).map(([feedID, value]) => [
      feedID.toLowerCase(),
      check(`decimals[${feedID}]`, value),
    ]),
  )
  return feedID => byFeed.get(feedID) ?? SCALE
}

/** Checks the option of a store that holds decoders. */
export function checkDecoders(field: string, value: unknown): readonly Decoder[] {
  if (!Array.isArray(value))
    throw new ValidationError(`${field} must be an array of decoders, not ${kindOf(value)}`)
  const wrong = value.findIndex(each => !Number.isInteger((each as Partial<Decoder>)?.version))
  if (wrong === -1) return value
  throw new ValidationError(`${field}[${wrong}] must be a decoder: defineDecoder makes one`)
}
