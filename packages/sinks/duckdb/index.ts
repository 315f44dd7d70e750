import { checkText, readOptions, ValidationError, withDefault } from 'sluice/core'
import type { SinkBatch, SinkPosition, SinkRefusal, SinkStore } from 'sluice/plugins/sink'
import type { Tables } from '../tables.js'
import { DuckDatabase, databaseError, findDatabase } from './database.js'
import { type ColumnOptions, columnRules, planTables } from './options.js'
import type { ConversionRules } from './rows.js'
import { DuckWriter } from './writer.js'

export type { ColumnOptions } from './options.js'

/** The options of `duckdb`. */
export interface DuckDBOptions extends ColumnOptions {
  /**
   * The name under which the position is kept. Sinks with different names in one database share the
   * tables, and each has a position of its own. @default 'default'
   */
  readonly name?: string
}

/**
 * A store that writes reports and candles into a DuckDB database: one table for each version of
 * reports. The package `@duckdb/node-api` must be installed. The file is made if it is absent, and
 * its folder must exist. Only one process can have the file open.
 *
 * @example
 * ```ts
 * const stack = [sink(duckdb('prices.db')), ...defaultPreset(config)]
 * ```
 */
export function duckdb(path: string, options?: DuckDBOptions): SinkStore {
  checkText('path', path)
  if (path === ':memory:' || path.includes('\0'))
    throw new ValidationError('path must be the path of a file')
  const { name, ...columns } = readOptions('duckdb', options, {
    ...columnRules,
    name: withDefault('default', checkText),
  })
  const { tables, rules } = planTables(columns)
  return new DuckDBStore(path, name, tables, rules)
}

/** The sinks of this process that are open: the path of the file, and the sink's name. */
const openSinks = new Map<string, DuckDBStore>()

interface OpenDatabase {
  readonly database: DuckDatabase
  readonly writer: DuckWriter
}

class DuckDBStore implements SinkStore {
  readonly name: string
  readonly #path: string
  readonly #sink: string
  readonly #tables: Tables
  readonly #rules: ConversionRules
  /** The entry in `openSinks`. */
  #entry: string | undefined
  #open: OpenDatabase | undefined

  constructor(path: string, sink: string, tables: Tables, rules: ConversionRules) {
    this.name = `duckdb ${path}`
    this.#path = path
    this.#sink = sink
    this.#tables = tables
    this.#rules = rules
  }

  open(): Promise<void> {
    return this.#use('opened', async () => undefined)
  }

  write(batch: SinkBatch): Promise<readonly SinkRefusal[]> {
    return this.#use('written', async ({ database, writer }) => {
      const { reports, candles, refusals } = await writer.prepare(this.#tables, batch)
      await database.transaction(async () => {
        for (const rows of reports) await writer.insert(rows)
        if (candles !== undefined) await writer.upsert(candles)
        if (batch.position !== undefined) await writer.savePosition(this.#sink, batch.position)
      })
      return refusals
    })
  }

  position(): Promise<SinkPosition> {
    return this.#use('read', ({ writer }) => writer.position(this.#sink))
  }

  async close(): Promise<void> {
    if (this.#entry !== undefined) openSinks.delete(this.#entry)
    this.#entry = undefined
    await this.#close()
  }

  /**
   * Opens the database if it is not open, and does the work. After an error the database is closed,
   * and the next call opens it again: the error may have left it unusable.
   */
  async #use<Result>(done: string, work: (open: OpenDatabase) => Promise<Result>): Promise<Result> {
    try {
      this.#open ??= await this.#openDatabase()
      return await work(this.#open)
    } catch (thrown) {
      await this.#close()
      throw databaseError(this.name, done, thrown)
    }
  }

  async #openDatabase(): Promise<OpenDatabase> {
    const file = await findDatabase(this.#path)
    this.#register(`${file}\0${this.#sink}`)
    const database = await DuckDatabase.open(file)
    try {
      const writer = new DuckWriter(database, this.name, this.#rules)
      await writer.open([...this.#tables.reports, this.#tables.candles])
      return { database, writer }
    } catch (thrown) {
      await database.close()
      throw thrown
    }
  }

  /** Two sinks of one name would overwrite each other's position. */
  #register(entry: string): void {
    if ((openSinks.get(entry) ?? this) !== this)
      throw new ValidationError(
        `another sink of this process writes ${this.#path} under the name ${this.#sink}: give each a name of its own, in the option name`,
      )
    openSinks.set(entry, this)
    this.#entry = entry
  }

  async #close(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.database.close()
  }
}
