import { ValidationError } from 'sluice/core'
import type { Column, Table } from '../tables.js'
import type { Run } from './connection.js'
import { columnTypes, quoted } from './rows.js'

/** The number of this layout of tables. A later one has a higher number. */
const LAYOUT = 1
/** The lock of the database under which tables are made and changed. */
const LOCK = '8317142866484163429'

/** Whether tables of reports become hypertables: where TimescaleDB is there, or always. */
export type Hypertables = boolean | 'auto'

/** A table in the words of Postgres. */
interface Shape {
  readonly name: string
  /** The types of the columns, by name. */
  readonly columns: ReadonlyMap<string, string>
  /** The columns of the primary key, in their order. */
  readonly key: readonly string[]
  /** The column by whose time a hypertable is divided. */
  readonly time?: string
}

/** What the sink keeps beside reports. */
const ownShapes: readonly Shape[] = [
  {
    name: 'sluice_schema',
    columns: new Map([
      ['table_name', 'text'],
      ['layout', 'integer'],
      ['made_at', 'timestamp with time zone'],
    ]),
    key: ['table_name'],
  },
  {
    name: 'sink_positions',
    columns: new Map([
      ['sink', 'text'],
      ['feed_id', 'text'],
      ['position', 'bigint'],
    ]),
    key: ['sink', 'feed_id'],
  },
]

/**
 * The columns of a table's key. The instant stands before the time that it is made of: so one index
 * finds duplicates and serves queries by feed and `observed_at`, and TimescaleDB accepts the key.
 */
export function keyOf<Row>({ columns }: Table<Row>): readonly string[] {
  const instant = columns.find(({ kind }) => kind === 'instant')
  const key = columns.filter(({ isKey }) => isKey)
  const isTime = ({ kind }: Column<Row>): boolean => kind === 'time'
  return [...key.filter(column => !isTime(column)), instant, ...key.filter(isTime)].flatMap(
    column => column?.name ?? [],
  )
}

/** The tables of one schema of a database. Makes them, and adds columns that they lack. */
export class Schema {
  /** Names the store in errors. */
  readonly #store: string
  readonly #name: string
  readonly #hypertables: Hypertables
  /** The names of the tables that have been checked. */
  readonly #ready = new Set<string>()

  constructor(store: string, name: string, hypertables: Hypertables) {
    this.#store = store
    this.#name = name
    this.#hypertables = hypertables
  }

  /** The full name of a table, for statements. */
  full(table: string): string {
    return `${quoted(this.#name)}.${quoted(table)}`
  }

  /** True if the table has been checked since the last `forget`. */
  has(table: string): boolean {
    return this.#ready.has(table)
  }

  /** All tables are checked again. Called after a failure: somebody may have changed them. */
  forget(): void {
    this.#ready.clear()
  }

  /** Prepares what every sink needs. Runs in a transaction of its own. */
  async open(run: Run): Promise<void> {
    await run('SELECT pg_advisory_xact_lock($1)', [LOCK])
    const [found] = await run('SELECT 1 FROM pg_namespace WHERE nspname = $1', [this.#name])
    if (found === undefined) {
      const sql = `CREATE SCHEMA ${quoted(this.#name)}`
      throw this.#error(`there is no schema ${this.#name}: run ${sql}, or name another`)
    }
    if (this.#hypertables === true && (await timescale(run)) === undefined) {
      const sql = 'CREATE EXTENSION timescaledb'
      throw this.#error(`hypertable is true and TimescaleDB is missing: run ${sql}`)
    }
    for (const shape of ownShapes) await this.#prepare(run, shape)
  }

  /** Makes a table, or adds the columns that it lacks. Runs in a transaction of its own. */
  async prepare<Row>(run: Run, table: Table<Row>): Promise<void> {
    await run('SELECT pg_advisory_xact_lock($1)', [LOCK])
    const columns = new Map(table.columns.map(({ name, kind }) => [name, columnTypes[kind]]))
    const time = table.columns.find(({ name }) => name === 'observed_at')?.name
    const shape = { name: table.name, columns, key: keyOf(table), ...(time && { time }) }
    await this.#prepare(run, shape)
    await this.#number(run, table.name)
  }

  /** The transaction of `prepare` was committed. */
  prepared(table: string): void {
    this.#ready.add(table)
  }

  async #prepare(run: Run, shape: Shape): Promise<void> {
    const found = await readTable(run, this.#name, shape.name)
    if (found === undefined) return this.#create(run, shape)
    this.#check(shape, found)
    const missing = [...shape.columns].filter(([name]) => !found.columns.has(name))
    for (const [name, type] of missing)
      await run(`ALTER TABLE ${this.full(shape.name)} ADD COLUMN ${quoted(name)} ${type}`)
  }

  async #create(run: Run, shape: Shape): Promise<void> {
    const columns = [...shape.columns].map(([name, type]) => `${quoted(name)} ${type}`)
    const key = `PRIMARY KEY (${shape.key.map(quoted).join(', ')})`
    await run(`CREATE TABLE ${this.full(shape.name)} (${[...columns, key].join(', ')})`)
    if (shape.time === undefined || this.#hypertables === false) return
    const place = await timescale(run)
    if (place === undefined) return
    const make = `SELECT ${quoted(place)}.create_hypertable($1::regclass, $2::name)`
    await run(make, [this.full(shape.name), shape.time])
  }

  /** Throws if rows of the shape do not fit the table, or would not be found again. */
  #check(shape: Shape, found: Found): void {
    const { name } = shape
    const wrong = (what: string, todo: string) => this.#error(`table ${name}: ${what}: ${todo}`)
    const rename = `rename the table (ALTER TABLE ${this.full(name)} RENAME TO …), or give the sink another schema`
    if (!found.isTable) throw wrong('it is a view, and a table is needed', rename)
    for (const [column, type] of shape.columns) {
      const there = found.columns.get(column)
      if (there === undefined && !shape.key.includes(column)) continue
      if (there === undefined) throw wrong(`the key column ${column} (${type}) is missing`, rename)
      if (there.type === type) continue
      throw wrong(`column ${column} is ${there.type}, and ${type} is needed`, rename)
    }
    for (const [column, { isRequired }] of found.columns) {
      if (!isRequired || shape.key.includes(column)) continue
      throw wrong(
        `column ${column} is NOT NULL, and the sink may have no value for it`,
        `ALTER TABLE ${this.full(name)} ALTER COLUMN ${quoted(column)} DROP NOT NULL`,
      )
    }
    const wanted = [...shape.key].sort().join(', ')
    if (found.keys.some(key => [...key].sort().join(', ') === wanted)) return
    const keys = found.keys.map(key => `(${key.join(', ')})`).join(' and ') || 'none'
    throw wrong(
      `its unique keys are ${keys}, and (${shape.key.join(', ')}) is needed`,
      `ALTER TABLE ${this.full(name)} ADD UNIQUE (${shape.key.join(', ')}), or ${rename}`,
    )
  }

  /** Notes which layout a table has. Throws if it has a later one. */
  async #number(run: Run, table: string): Promise<void> {
    const place = this.full('sluice_schema')
    const select = `SELECT layout FROM ${place} WHERE table_name = $1`
    const [row] = await run<{ readonly layout: number }>(select, [table])
    if (row === undefined) {
      const insert = `INSERT INTO ${place} (table_name, layout, made_at) VALUES ($1, $2, now())`
      await run(insert, [table, LAYOUT])
    } else if (row.layout > LAYOUT) {
      throw this.#error(
        `table ${table} has layout ${row.layout}, and this version writes ${LAYOUT}: install a later @sluice/sinks`,
      )
    }
  }

  #error(message: string): ValidationError {
    return new ValidationError(`${this.#store}: ${message}`)
  }
}

/** The schema of TimescaleDB's functions; undefined if the extension is not there. */
async function timescale(run: Run): Promise<string | undefined> {
  const [row] = await run<{ readonly nspname: string }>(
    `SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'timescaledb'`,
  )
  return row?.nspname
}

/** A table as it is. */
interface Found {
  /** False for a view. */
  readonly isTable: boolean
  readonly columns: ReadonlyMap<string, { readonly type: string; readonly isRequired: boolean }>
  /** The columns of the primary key and of other unique keys. */
  readonly keys: readonly (readonly string[])[]
}

async function readTable(run: Run, schema: string, name: string): Promise<Found | undefined> {
  const [table] = await run<{ readonly oid: string; readonly kind: string }>(
    'SELECT c.oid::text AS oid, relkind AS kind FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relname = $2',
    [schema, name],
  )
  if (table === undefined) return undefined
  const columns = await run<{
    readonly name: string
    readonly type: string
    readonly required: boolean
  }>(
    `SELECT attname AS name, format_type(atttypid, atttypmod) AS type,
       attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = '' AS required
     FROM pg_attribute WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped`,
    [table.oid],
  )
  const keys = await run<{ readonly names: readonly string[] }>(
    `SELECT array_agg(attname::text ORDER BY place) AS names
     FROM pg_index, unnest(indkey) WITH ORDINALITY AS key(number, place)
       JOIN pg_attribute ON attnum = number
     WHERE indrelid = $1::oid AND attrelid = indrelid AND indisunique AND indisvalid
       AND indimmediate AND indpred IS NULL AND indexprs IS NULL AND place <= indnkeyatts
     GROUP BY indexrelid ORDER BY indexrelid`,
    [table.oid],
  )
  return {
    isTable: table.kind === 'r' || table.kind === 'p',
    columns: new Map(
      columns.map(({ name, type, required }) => [name, { type, isRequired: required }]),
    ),
    keys: keys.map(({ names }) => names),
  }
}
