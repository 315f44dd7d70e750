import {
  checkBoolean,
  checkText,
  isStreamsError,
  number,
  type Schema as OptionRules,
  oneOf,
  readOptions,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import type { Candle } from 'sluice/plugins/candles'
import type { SinkBatch, SinkPosition, SinkRefusal, SinkStore } from 'sluice/plugins/sink'
import type { Decoder } from 'sluice/report'
import {
  checkDecoders,
  groupByTable,
  newestOf,
  type ReportRow,
  readDecimals,
  type Table,
  Tables,
} from '../tables.js'
import { Connection, type Run } from './connection.js'
import { postgresError } from './errors.js'
import { arraysOf, insertInto, quoted } from './rows.js'
import { type Hypertables, keyOf, Schema } from './schema.js'

/** What a store of Postgres keeps, and where. */
export interface PostgresOptions {
  /** Whether the signed bytes are kept, in the column `full_report`. @default true */
  readonly raw?: boolean
  /**
   * The digits after the point of prices, 0 to 18: one number, or one for each feed id. A feed that
   * the object does not name has 18. @default 18
   */
  readonly decimals?: number | Readonly<Record<string, number>>
  /** The decoders of your stack for versions that the library does not know. @default none */
  readonly decoders?: readonly Decoder[]
  /** The schema of the tables. It must exist. @default 'public' */
  readonly schema?: string
  /**
   * The name under which the position is kept. Streams that share a schema need different names.
   * @default 'default'
   */
  readonly name?: string
  /**
   * Whether new tables of reports become hypertables of TimescaleDB, divided by `observed_at`.
   * `auto`: if the extension is in the database. @default 'auto'
   */
  readonly hypertable?: Hypertables
  /**
   * Milliseconds that a connection or a statement may take. After that the connection is closed,
   * and the write is repeated. @default 30_000
   */
  readonly timeout?: number
}

const rules = {
  raw: withDefault(true, checkBoolean),
  decimals: unchecked<PostgresOptions['decimals']>,
  decoders: withDefault<readonly Decoder[]>([], checkDecoders),
  schema: withDefault('public', checkText),
  name: withDefault('default', checkText),
  hypertable: withDefault<Hypertables>('auto', checkHypertable),
  timeout: withDefault(30_000, number({ min: 1, max: 3_600_000 })),
} satisfies OptionRules<PostgresOptions>

function checkHypertable(field: string, value: unknown): Hypertables {
  return typeof value === 'boolean' ? value : oneOf('auto')(field, value)
}

/**
 * Stores reports and candles in Postgres, and with them the position of the stream. The package
 * `pg` must be installed.
 *
 * The URL is that of libpq: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with `sslmode` and
 * `sslrootcert` for TLS. The variables `PGUSER`, `PGPASSWORD` and the like fill in what it lacks.
 *
 * @example
 * ```ts
 * sink(postgres(process.env.DATABASE_URL, { decimals: 8 }))
 * ```
 */
export function postgres(url: string, options?: PostgresOptions): SinkStore {
  const checked = readOptions('postgres', options, rules)
  const { raw, decoders } = checked
  const tables = new Tables({ raw, decimalsOf: readDecimals(checked.decimals), decoders })
  return new PostgresStore(url, nameOf(url), tables, checked)
}

/** Names the server and the database of a URL, without user and password. */
function nameOf(url: unknown): string {
  const wrong = new ValidationError(
    'url must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of user and password as %XX',
  )
  if (typeof url !== 'string' || !/^postgres(ql)?:\/\//.test(url)) throw wrong
  // The library accepts a URL with a user and without a host. The platform does not.
  const parsed = parse(url) ?? parse(url.replace('@/', '@localhost/'))
  if (parsed === undefined) throw wrong
  const { host, pathname, search, hash } = parsed
  // Else a part of an unescaped password would be taken for the database, and be shown.
  if (/[@/]/.test(pathname.slice(1)) || search.includes('@') || hash !== '') throw wrong
  const socket = parsed.searchParams.get('host')
  return `postgres ${socket ?? host.replaceAll('%2F', '/')}${pathname}`
}

function parse(url: string): URL | undefined {
  try {
    return new URL(url)
  } catch {
    // The error of the platform holds the URL, with its password.
    return undefined
  }
}

interface Settings {
  readonly name: string
  readonly schema: string
  readonly hypertable: Hypertables
  readonly timeout: number
}

class PostgresStore implements SinkStore {
  readonly name: string
  readonly #url: string
  readonly #tables: Tables
  readonly #sink: string
  readonly #timeout: number
  readonly #schema: Schema
  #connection: Connection | undefined

  constructor(url: string, name: string, tables: Tables, settings: Settings) {
    this.name = name
    this.#url = url
    this.#tables = tables
    this.#sink = settings.name
    this.#timeout = settings.timeout
    this.#schema = new Schema(name, settings.schema, settings.hypertable)
  }

  async open(): Promise<void> {
    await this.#transaction('it could not be opened', run => this.#schema.open(run))
  }

  async write(batch: SinkBatch): Promise<readonly SinkRefusal[]> {
    const reports = inOrder(groupByTable(batch, this.#tables))
    const candles = candlesInOrder(newestOf(batch.candles))
    for (const [table] of reports) await this.#prepare(table)
    if (candles.length > 0) await this.#prepare(this.#tables.candles)
    await this.#transaction('a batch could not be stored', async run => {
      for (const [table, rows] of reports) await this.#insert(run, table, rows)
      if (candles.length > 0) await this.#upsert(run, this.#tables.candles, candles)
      if (batch.position !== undefined) await this.#keep(run, batch.position)
    })
    return []
  }

  async position(): Promise<SinkPosition> {
    const rows = await this.#transaction('the position could not be read', run =>
      run<{ readonly feed_id: string; readonly position: string }>(
        `SELECT feed_id, position::text FROM ${this.#schema.full('sink_positions')} WHERE sink = $1`,
        [this.#sink],
      ),
    )
    return Object.fromEntries(rows.map(({ feed_id, position }) => [feed_id, Number(position)]))
  }

  async close(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    await connection?.close().catch(() => undefined)
  }

  async #prepare<Row>(table: Table<Row>): Promise<void> {
    if (this.#schema.has(table.name)) return
    await this.#transaction(`table ${table.name} could not be prepared`, run =>
      this.#schema.prepare(run, table),
    )
    this.#schema.prepared(table.name)
  }

  async #insert<Row>(run: Run, table: Table<Row>, rows: readonly Row[]): Promise<void> {
    const insert = insertInto(this.#schema.full(table.name), table.columns)
    const key = keyOf(table).map(quoted).join(', ')
    await run(`${insert} ON CONFLICT (${key}) DO NOTHING`, arraysOf(table.columns, rows))
  }

  async #upsert(run: Run, table: Table<Candle>, rows: readonly Candle[]): Promise<void> {
    const full = this.#schema.full(table.name)
    const key = keyOf(table)
    const others = table.columns.map(({ name }) => name).filter(name => !key.includes(name))
    const set = others.map(name => `${quoted(name)} = excluded.${quoted(name)}`).join(', ')
    const update = `ON CONFLICT (${key.map(quoted).join(', ')}) DO UPDATE SET ${set}`
    const newer = `WHERE ${full}.revision <= excluded.revision`
    const insert = insertInto(full, table.columns)
    await run(`${insert} ${update} ${newer}`, arraysOf(table.columns, rows))
  }

  async #keep(run: Run, position: SinkPosition): Promise<void> {
    const feeds = Object.keys(position).sort()
    const times = feeds.map(feedID => position[feedID])
    await run(
      `INSERT INTO ${this.#schema.full('sink_positions')} (sink, feed_id, position)
       SELECT $1, feed_id, position FROM unnest($2::text[], $3::bigint[]) AS sent(feed_id, position)
       ON CONFLICT (sink, feed_id) DO UPDATE SET position = excluded.position`,
      [this.#sink, `{${feeds.join(',')}}`, `{${times.join(',')}}`],
    )
  }

  /** Runs a transaction on the present connection, or on a new one if there is none. */
  async #transaction<Result>(
    what: string,
    statements: (run: Run) => Promise<Result>,
  ): Promise<Result> {
    try {
      if (this.#connection === undefined || this.#connection.isClosed)
        this.#connection = await Connection.open(this.#url, this.#timeout)
      return await this.#connection.transaction(statements)
    } catch (thrown) {
      // Somebody may have changed the tables meanwhile, or this may be another server.
      this.#schema.forget()
      throw isStreamsError(thrown, 'VALIDATION') ? thrown : postgresError(this.name, what, thrown)
    }
  }
}

/**
 * The reports of each table, in the order of its key, and the tables in the order of their names.
 * All sinks lock rows in this order, so none waits for another that waits for it.
 */
function inOrder(
  groups: ReadonlyMap<Table<ReportRow>, ReportRow[]>,
): readonly (readonly [Table<ReportRow>, readonly ReportRow[]])[] {
  for (const rows of groups.values())
    rows.sort(
      (one, other) =>
        compare(one.feedID, other.feedID) ||
        one.report.observationsTimestamp - other.report.observationsTimestamp,
    )
  return [...groups].sort(([one], [other]) => compare(one.name, other.name))
}

const candlesInOrder = (candles: readonly Candle[]): readonly Candle[] =>
  [...candles].sort(
    (one, other) =>
      compare(one.feedID, other.feedID) ||
      compare(one.interval, other.interval) ||
      one.start - other.start,
  )

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}
