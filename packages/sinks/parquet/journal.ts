import { open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, syncFolder } from 'sluice/internal'
import type { SinkBatch, SinkPosition, SinkRefusal } from 'sluice/plugins/sink'
import { DuckDatabase, literal, quoted } from '../duckdb/database.js'
import type { planTables } from '../duckdb/options.js'
import { DuckWriter, type Prepared } from '../duckdb/writer.js'
import type { ReportRow, Table, TableChoice } from '../tables.js'

/** The name of the journal in its folder. */
const JOURNAL = '.sluice-parquet.duckdb'
/** The name of the sink in the journal. No other sink uses it. */
const SINK = 'parquet'

/** Matches the names of files, and of their drafts. The number is that of the rotation. */
const pattern = /^\.?[a-z_\d]+-\d{8}T\d{6}Z-(\d{6,})\.parquet(\.tmp)?$/

/**
 * The keys of rows that are in files, with the rotation that has put them there. They are kept for
 * as long as a report may come again: while it is newer than its feed's position, and in any case
 * until the next rotation. A feed without a position keeps those of a day.
 */
const schema = `
  CREATE TABLE IF NOT EXISTS parquet_journal (number BIGINT, bytes BIGINT, since BIGINT);
  CREATE TABLE IF NOT EXISTS parquet_rotations (number BIGINT, stamp VARCHAR);
  CREATE TABLE IF NOT EXISTS parquet_keys (
    number BIGINT, kind VARCHAR, feed_id VARCHAR, time BIGINT
  )`
/** Seconds. */
const DAY = 86_400
/** What to do if rows wait in a table of another shape. */
const ADVICE = 'close the sink once as it was before, so that the rows go into files'

/**
 * The journal of a folder of Parquet files, a DuckDB database. Rows wait in tables that have the
 * number of a rotation in their names: `reports_v3_17`. A rotation is two transactions, and the
 * files between them:
 *
 * 1. The first one makes the next number the current one, so that no row is added to the tables of
 *    this number. It stores the name of the files, and the keys of the rows.
 * 2. Each table is written into a draft, which is renamed when it is on the disk. A file that is
 *    there already is whole.
 * 3. The second one drops the tables.
 *
 * A process that is killed in between leaves the tables of an earlier number. The next one goes on
 * with 2.
 */
export class ParquetJournal {
  readonly #database: DuckDatabase
  readonly #writer: DuckWriter
  readonly #folder: string
  readonly #plan: ReturnType<typeof planTables>
  /** The tables of the current number, by those without a number. */
  readonly #current = new Map<Table<never>, Table<never>>()
  #number = 1
  #bytes = 0
  #since: number | undefined
  #pending = 0

  private constructor(
    database: DuckDatabase,
    writer: DuckWriter,
    folder: string,
    plan: ReturnType<typeof planTables>,
  ) {
    this.#database = database
    this.#writer = writer
    this.#folder = folder
    this.#plan = plan
  }

  /** Opens the journal of a folder, and makes it if it is absent. */
  static async open(
    folder: string,
    name: string,
    plan: ReturnType<typeof planTables>,
  ): Promise<ParquetJournal> {
    const database = await DuckDatabase.open(join(folder, JOURNAL))
    try {
      // Nobody else uses this database. Threads that share a batch cost a third more time.
      await database.run('SET GLOBAL threads = 1')
      const writer = new DuckWriter(database, name, plan.rules, ADVICE)
      await writer.open([])
      const journal = new ParquetJournal(database, writer, folder, plan)
      await journal.#read()
      return journal
    } catch (thrown) {
      await database.close()
      throw thrown
    }
  }

  /** The bytes of the rows that wait for the next rotation. */
  get bytes(): number {
    return this.#bytes
  }

  /** When the first row came that waits, in milliseconds of Unix time. */
  get since(): number | undefined {
    return this.#since
  }

  /** Whether a rotation has begun, and not ended. */
  get isRotating(): boolean {
    return this.#pending > 0
  }

  /** Stores a batch. */
  async append(batch: SinkBatch): Promise<readonly SinkRefusal[]> {
    const { tables } = this.#plan
    const numbered: TableChoice = {
      of: report => this.#numbered(tables.of(report)),
      candles: this.#numbered(tables.candles),
    }
    const { reports, candles, refusals } = await this.#writer.prepare(numbered, batch)
    const all = [...reports, ...(candles === undefined ? [] : [candles])]
    const bytes = this.#bytes + all.reduce((sum, each) => sum + each.bytes, 0)
    const isFirst = all.some(({ count }) => count > 0)
    const since = this.#since ?? (isFirst ? Date.now() : undefined)
    await this.#database.transaction(async () => {
      for (const rows of reports) await this.#writer.insert(rows, isNew(rows))
      if (candles !== undefined) await this.#writer.upsert(candles)
      if (batch.position !== undefined) await this.#writer.savePosition(SINK, batch.position)
      await this.#database.run(
        `UPDATE parquet_journal SET bytes = ${bytes}, since = ${since ?? 'NULL'}`,
      )
    })
    this.#bytes = bytes
    this.#since = since
    return refusals
  }

  /** The position that was stored last. */
  position(): Promise<SinkPosition> {
    return this.#writer.position(SINK)
  }

  /** Puts all rows that wait into files. First ends a rotation that has begun. */
  async rotate(): Promise<void> {
    await this.#finish()
    if (this.#since === undefined) return
    await this.#cut()
    await this.#finish()
  }

  /** Closes the journal. */
  close(): Promise<void> {
    return this.#database.close()
  }

  async #read(): Promise<void> {
    const database = this.#database
    await database.run(schema)
    const [row] = await database.run('SELECT number, bytes, since FROM parquet_journal')
    if (row === undefined) {
      // The journal may have been lost. A number is used once.
      this.#number = 1 + (await this.#lastNumber())
      await database.run(`INSERT INTO parquet_journal VALUES (${this.#number}, 0, NULL)`)
    } else {
      const [number, bytes, since] = row
      this.#number = Number(number)
      this.#bytes = Number(bytes)
      this.#since = since === null ? undefined : Number(since)
    }
    const [pending] = await database.run('SELECT count(*) FROM parquet_rotations')
    this.#pending = Number(pending?.[0])
  }

  /** The highest number of the files. */
  async #lastNumber(): Promise<number> {
    const names = await readdir(this.#folder)
    return Math.max(0, ...names.map(name => Number(pattern.exec(name)?.[1] ?? 0)))
  }

  #numbered<Row>(table: Table<Row>): Table<Row> {
    const known = this.#current.get(table)
    if (known !== undefined) return known as Table<Row>
    const numbered = { ...table, name: `${table.name}_${this.#number}` }
    this.#current.set(table, numbered)
    return numbered
  }

  /** Makes the next number the current one: the first transaction of a rotation. */
  async #cut(): Promise<void> {
    const database = this.#database
    const number = this.#number
    const stamp = new Date().toISOString().replace(/[-:]|\.\d+/g, '')
    const tables = (await this.#tablesOf(number)).filter(({ kind }) => kind !== 'candles')
    await database.transaction(async () => {
      await database.run(forgetKeys)
      for (const { name, kind } of tables)
        await database.run(
          `INSERT INTO parquet_keys SELECT ${number}, ${literal(kind)}, feed_id, observations_timestamp
           FROM ${quoted(name)}`,
        )
      await database.run(`INSERT INTO parquet_rotations VALUES (${number}, ${literal(stamp)})`)
      await database.run(
        `UPDATE parquet_journal SET number = ${number + 1}, bytes = 0, since = NULL`,
      )
    })
    for (const table of this.#current.values()) await this.#writer.forget(table)
    this.#current.clear()
    this.#number = number + 1
    this.#bytes = 0
    this.#since = undefined
    this.#pending++
  }

  /** Writes the files of the rotations that have begun, and ends them. */
  async #finish(): Promise<void> {
    const database = this.#database
    const rotations = await database.run('SELECT number, stamp FROM parquet_rotations ORDER BY 1')
    for (const [number, stamp] of rotations) {
      const tables = await this.#tablesOf(Number(number))
      const suffix = `${stamp}-${String(number).padStart(6, '0')}.parquet`
      for (const { name, kind } of tables) await this.#writeFile(name, `${kind}-${suffix}`)
      await syncFolder(this.#folder)
      await database.transaction(async () => {
        for (const { name } of tables) await database.run(`DROP TABLE ${quoted(name)}`)
        await database.run(`DELETE FROM parquet_rotations WHERE number = ${number}`)
      })
      this.#pending--
    }
  }

  /** The tables of a rotation that have rows, and what their files are called for. */
  async #tablesOf(
    number: number,
  ): Promise<readonly { readonly name: string; readonly kind: string }[]> {
    const rows = await this.#database.run(
      `SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()
       AND schema_name = 'main' AND (table_name LIKE 'reports!_%' ESCAPE '!' OR table_name LIKE 'candles!_%' ESCAPE '!')
       AND table_name LIKE '%!_${number}' ESCAPE '!' ORDER BY 1`,
    )
    return rows.map(([name]) => ({
      name: String(name),
      kind: String(name).slice(0, -1 - String(number).length),
    }))
  }

  /** Writes a table into a file, unless the file is there. A file is whole or absent. */
  async #writeFile(table: string, name: string): Promise<void> {
    const path = join(this.#folder, name)
    if (await exists(path)) return
    const [row] = await this.#database.run(`SELECT count(*) FROM ${quoted(table)}`)
    if (Number(row?.[0]) === 0) return
    const draft = join(this.#folder, `.${name}.tmp`)
    await rm(draft, { force: true })
    try {
      await this.#database.run(
        `COPY (FROM ${quoted(table)} ORDER BY 1, 2, 3) TO ${literal(draft)}
         (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)`,
      )
      const file = await open(draft, 'r+')
      try {
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(draft, path)
    } catch (thrown) {
      // Its bytes may be what has filled the disk.
      await rm(draft, { force: true }).catch(() => undefined)
      throw thrown
    }
  }
}

/** Whether rows are not in a file yet. */
function isNew({ table, from, to }: Prepared<ReportRow>): string {
  const kind = table.name.slice(0, table.name.lastIndexOf('_'))
  return `NOT EXISTS (SELECT 1 FROM parquet_keys AS stored WHERE stored.kind = ${literal(kind)}
    AND stored.time BETWEEN ${from} AND ${to}
    AND stored.feed_id = staged.feed_id AND stored.time = staged.observations_timestamp)`
}

/** Removes the keys that are no longer needed, except those of the last rotation. */
const forgetKeys = `
  DELETE FROM parquet_keys WHERE number < (SELECT max(number) FROM parquet_keys) AND time <= coalesce(
    (SELECT position FROM sink_positions
     WHERE sink = '${SINK}' AND sink_positions.feed_id = parquet_keys.feed_id),
    (SELECT max(newest.time) FROM parquet_keys AS newest
     WHERE newest.feed_id = parquet_keys.feed_id)
      - CASE WHEN feed_id LIKE '0x1%' THEN ${DAY * 1000} ELSE ${DAY} END)`

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return false
    throw thrown
  }
}
