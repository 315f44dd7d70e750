import { ValidationError } from 'sluice/core'
import type { Candle } from 'sluice/plugins/candles'
import type { SinkBatch, SinkPosition, SinkRefusal } from 'sluice/plugins/sink'
import {
  BEYOND,
  type Column,
  groupByTable,
  newestOf,
  RECEIVED_AT,
  type ReportRow,
  type Table,
  type TableChoice,
} from '../tables.js'
import { type DuckDatabase, quoted } from './database.js'
import { type ConversionRules, type Converted, convertRows, sqlTypes } from './rows.js'

/** The version of our tables. A database of a later version is left alone. */
export const SCHEMA_VERSION = 1

/** A column as a database has it, or should have it. */
interface ColumnShape {
  readonly name: string
  readonly type: string
  readonly isKey: boolean
  /** Whether every row must have a value. */
  readonly isRequired: boolean
}

/** A column that is there. */
interface FoundColumn extends ColumnShape {
  readonly hasDefault: boolean
}

/** The columns of the tables that are there, by the table's name in lower case. */
type FoundTables = ReadonlyMap<string, readonly FoundColumn[]>

/** A table as it should be in the database. */
interface TableShape {
  readonly name: string
  readonly columns: readonly ColumnShape[]
}

const column = (name: string, type: string, isKey = false): ColumnShape => ({
  ...{ name, type, isKey },
  isRequired: true,
})

const schemaTable: TableShape = {
  name: 'sluice_schema',
  columns: [column('version', 'INTEGER')],
}
const positionsTable: TableShape = {
  name: 'sink_positions',
  columns: [
    column('sink', 'VARCHAR', true),
    column('feed_id', 'VARCHAR', true),
    column('position', 'BIGINT'),
  ],
}

/**
 * The shape of a table for reports or candles. Values may be absent: a report may have none, a
 * column may not hold one, and rows of an earlier version have none for a new column.
 */
function shapeOf(table: Table<never>): TableShape {
  const isRequired = ({ name, kind, isKey }: Column<never>): boolean =>
    isKey || kind === 'time' || (kind === 'instant' && name !== RECEIVED_AT)
  const columns = table.columns.map(each => ({
    name: each.name,
    type: sqlTypes[each.kind],
    isKey: each.isKey,
    isRequired: isRequired(each),
  }))
  const beyond = { name: BEYOND, type: sqlTypes.text, isKey: false, isRequired: false }
  return { name: table.name, columns: [...columns, beyond] }
}

/** Rows that are ready for their table. */
export interface Prepared<Row> extends Converted<Row> {
  readonly table: Table<Row>
}

/** A batch that is ready for its tables. */
export interface PreparedBatch {
  readonly reports: readonly Prepared<ReportRow>[]
  readonly candles: Prepared<Candle> | undefined
  readonly refusals: readonly SinkRefusal[]
}

const stagingOf = (table: Table<never>): string => `staging_${table.name}`

const keysOf = (table: Table<never>): string =>
  table.columns
    .filter(({ isKey }) => isKey)
    .map(({ name }) => quoted(name))
    .join(', ')

/** Writes rows and positions into our tables of an open database. */
export class DuckWriter {
  readonly #database: DuckDatabase
  /** The database in messages. */
  readonly #name: string
  readonly #rules: ConversionRules
  /** What to do about a table of another shape. */
  readonly #advice: string
  /** The tables that are there and have our shape. */
  readonly #checked = new Set<string>()
  readonly #stagings = new Set<string>()

  constructor(
    database: DuckDatabase,
    name: string,
    rules: ConversionRules,
    advice = 'rename the table, or give the sink another database',
  ) {
    this.#database = database
    this.#name = name
    this.#rules = rules
    this.#advice = advice
  }

  /**
   * Checks the version of the tables, and the shape of those that are there. Brings tables of an
   * earlier version up to date.
   */
  async open(tables: readonly Table<never>[]): Promise<void> {
    const database = this.#database
    const there = await this.#readColumns()
    await this.#ensure(schemaTable, there)
    await this.#ensure(positionsTable, there)
    const [row] = await database.run('SELECT max(version) FROM sluice_schema')
    const version = row?.[0] as number | null
    if (version !== null && version > SCHEMA_VERSION)
      throw new ValidationError(
        `${this.#name} has tables of version ${version}, and this version of @sluice/sinks knows version ${SCHEMA_VERSION}: install a later one`,
      )
    for (const table of tables) {
      const shape = shapeOf(table)
      if (there.has(shape.name)) await this.#ensure(shape, there)
    }
    if (version === SCHEMA_VERSION) return
    await database.transaction(async () => {
      await database.run('DELETE FROM sluice_schema')
      await database.run(`INSERT INTO sluice_schema VALUES (${SCHEMA_VERSION})`)
    })
  }

  /** Forgets a table that gets no more rows. */
  async forget(table: Table<never>): Promise<void> {
    this.#checked.delete(table.name)
    if (this.#stagings.delete(stagingOf(table)))
      await this.#database.run(`DROP TABLE temp.${quoted(stagingOf(table))}`)
  }

  /** Converts a batch, and makes the tables that it needs. */
  async prepare(tables: TableChoice, batch: SinkBatch): Promise<PreparedBatch> {
    const { candles } = batch
    const prepared: Prepared<ReportRow>[] = []
    for (const [table, rows] of groupByTable(batch, tables))
      prepared.push(await this.#prepareRows(table, rows, this.#rules))
    const refusals = prepared.flatMap(({ refused }) =>
      refused.map(([{ report }, reason]) => ({ report, reason })),
    )
    if (candles.length === 0) return { reports: prepared, candles: undefined, refusals }
    // A candle is never refused: a sink announces reports only.
    const rules = { ...this.#rules, beyond: 'text' } as const
    const made = await this.#prepareRows(tables.candles, newestOf(candles), rules)
    return { reports: prepared, candles: made, refusals }
  }

  async #prepareRows<Row extends { readonly feedID: string }>(
    table: Table<Row>,
    rows: readonly Row[],
    rules: ConversionRules,
  ): Promise<Prepared<Row>> {
    const database = this.#database
    await this.#ensure(shapeOf(table))
    const staging = stagingOf(table)
    if (!this.#stagings.has(staging)) {
      const columns = shapeOf(table).columns.map(({ name, type }) => `${quoted(name)} ${type}`)
      await database.run(`CREATE TEMP TABLE ${quoted(staging)} (${columns.join(', ')})`)
      this.#stagings.add(staging)
    }
    return { table, ...convertRows(database.library, table, rows, rules) }
  }

  /** Inserts the reports that the table does not have yet. In a transaction. */
  insert(rows: Prepared<ReportRow>, condition = 'true'): Promise<void> {
    return this.#throughStaging(rows, (table, columns, staging) => [
      `INSERT INTO ${table} (${columns}) SELECT ${columns} FROM ${staging} AS staged`,
      `WHERE ${condition} ON CONFLICT DO NOTHING`,
    ])
  }

  /**
   * Inserts candles. A candle replaces that of its feed, interval and start, unless that one has a
   * higher revision. In a transaction.
   */
  upsert(rows: Prepared<Candle>): Promise<void> {
    const changes = [...rows.table.columns.filter(({ isKey }) => !isKey), { name: BEYOND }].map(
      each => `${quoted(each.name)} = excluded.${quoted(each.name)}`,
    )
    return this.#throughStaging(rows, (table, columns, staging) => [
      `INSERT INTO ${table} (${columns}) SELECT ${columns} FROM ${staging}`,
      `ON CONFLICT (${keysOf(rows.table)}) DO UPDATE SET ${changes.join(', ')}`,
      `WHERE excluded.revision >= ${table}.revision`,
    ])
  }

  /**
   * Has a statement take rows from a temporary table. The rows are in that table only within the
   * transaction: rows of committed transactions would be in the way of later ones.
   */
  async #throughStaging<Row>(
    { table, types, chunks, count }: Prepared<Row>,
    statement: (table: string, columns: string, staging: string) => readonly string[],
  ): Promise<void> {
    if (count === 0) return
    const database = this.#database
    const staging = stagingOf(table)
    const columns = [...table.columns.map(({ name }) => name), BEYOND].map(quoted).join(', ')
    await database.append(staging, types, chunks)
    const lines = statement(quoted(table.name), columns, `temp.${quoted(staging)}`)
    await database.run(lines.join(' '))
    await database.run(`TRUNCATE temp.${quoted(staging)}`)
  }

  /** Stores a position. The feeds that are not in it keep theirs. In a transaction. */
  async savePosition(sink: string, position: SinkPosition): Promise<void> {
    const entries = Object.entries(position)
    if (entries.length === 0) return
    const { VARCHAR, BIGINT, LIST, listValue } = this.#database.library
    await this.#database.run(
      `INSERT INTO sink_positions SELECT $1, unnest($2), unnest($3)
       ON CONFLICT (sink, feed_id) DO UPDATE SET position = excluded.position`,
      [
        sink,
        listValue(entries.map(([feedID]) => feedID)),
        listValue(entries.map(([, time]) => BigInt(time))),
      ],
      [VARCHAR, LIST(VARCHAR), LIST(BIGINT)],
    )
  }

  /** The position that was stored last. */
  async position(sink: string): Promise<SinkPosition> {
    const rows = await this.#database.run(
      'SELECT feed_id, position FROM sink_positions WHERE sink = $1',
      [sink],
    )
    return Object.fromEntries(rows.map(([feedID, time]) => [feedID as string, Number(time)]))
  }

  /** Makes a table, or checks the one that is there and adds the columns that it lacks. */
  async #ensure(wanted: TableShape, there?: FoundTables): Promise<void> {
    if (this.#checked.has(wanted.name)) return
    const database = this.#database
    const found = (there ?? (await this.#readColumns())).get(wanted.name)
    if (found === undefined) {
      await this.#checkFree(wanted.name)
      await database.transaction(() => database.run(createTable(wanted)))
    } else {
      const missing = this.#findMissing(wanted, found)
      if (missing.length > 0)
        await database.transaction(async () => {
          for (const { name, type } of missing)
            await database.run(
              `ALTER TABLE ${quoted(wanted.name)} ADD COLUMN IF NOT EXISTS ${quoted(name)} ${type}`,
            )
        })
    }
    this.#checked.add(wanted.name)
  }

  /** The tables that are there. */
  async #readColumns(): Promise<FoundTables> {
    const rows = await this.#database.run(
      `SELECT lower(table_name), lower(column_name), data_type, is_nullable,
         column_default IS NOT NULL, coalesce(list_contains(key_columns, column_name), false)
       FROM duckdb_columns()
       SEMI JOIN duckdb_tables() USING (database_name, schema_name, table_name)
       LEFT JOIN (
         SELECT database_name, schema_name, table_name, constraint_column_names AS key_columns
         FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'
       ) USING (database_name, schema_name, table_name)
       WHERE database_name = current_database() AND schema_name = 'main'
       ORDER BY ALL`,
    )
    const tables = new Map<string, FoundColumn[]>()
    for (const [table, name, type, isNullable, hasDefault, isKey] of rows) {
      const columns = tables.get(table as string) ?? []
      tables.set(table as string, columns)
      columns.push({
        name: name as string,
        type: type as string,
        isKey: isKey === true,
        isRequired: isNullable !== true,
        hasDefault: hasDefault === true,
      })
    }
    return tables
  }

  /** Throws if the name belongs to something that is not a table. */
  async #checkFree(table: string): Promise<void> {
    const rows = await this.#database.run(
      `SELECT 1 FROM duckdb_views() WHERE database_name = current_database()
       AND schema_name = 'main' AND lower(view_name) = $1`,
      [table],
    )
    if (rows.length > 0)
      throw new ValidationError(
        `${this.#name} has a view ${table}, and the sink needs a table of this name: rename the view`,
      )
  }

  /** The columns to add to a table. Throws if the table is not one of ours. */
  #findMissing(wanted: TableShape, there: readonly FoundColumn[]): readonly ColumnShape[] {
    const fail = (what: string): ValidationError =>
      new ValidationError(
        `the table ${wanted.name} of ${this.#name} is not one that this sink can write: ${what}; ${this.#advice}`,
      )
    const missing: ColumnShape[] = []
    for (const { name, type, isKey, isRequired } of wanted.columns) {
      const found = there.find(each => each.name === name)
      if (found === undefined) {
        if (isRequired) throw fail(`it has no column ${name}, and ${type} is wanted`)
        missing.push({ name, type, isKey, isRequired })
      } else if (found.type !== type) {
        throw fail(`its column ${name} is ${found.type}, and ${type} is wanted`)
      } else if (found.isKey !== isKey) {
        throw fail(
          isKey
            ? `its column ${name} is not in the primary key, and the key (${keyList(wanted)}) is wanted`
            : `its column ${name} is in the primary key, and the key (${keyList(wanted)}) is wanted`,
        )
      } else if (found.isRequired && !isRequired && !found.hasDefault) {
        throw fail(`its column ${name} is NOT NULL, and a column that takes NULL is wanted`)
      }
    }
    const names = wanted.columns.map(({ name }) => name)
    const extra = there.find(
      ({ name, isRequired, hasDefault }) => !names.includes(name) && isRequired && !hasDefault,
    )
    if (extra !== undefined)
      throw fail(`its column ${extra.name} is NOT NULL, and the sink has no value for it`)
    return missing
  }
}

const keyList = ({ columns }: TableShape): string =>
  columns
    .filter(({ isKey }) => isKey)
    .map(({ name }) => name)
    .join(', ')

function createTable({ name, columns }: TableShape): string {
  const lines = columns.map(
    each => `${quoted(each.name)} ${each.type}${each.isRequired ? ' NOT NULL' : ''}`,
  )
  const keys = columns.filter(({ isKey }) => isKey).map(each => quoted(each.name))
  if (keys.length > 0) lines.push(`PRIMARY KEY (${keys.join(', ')})`)
  return `CREATE TABLE IF NOT EXISTS ${quoted(name)} (${lines.join(', ')})`
}
