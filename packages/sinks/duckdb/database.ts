import { randomBytes } from 'node:crypto'
import { link, realpath, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import type { DuckDBConnection, DuckDBInstance, DuckDBType, DuckDBValue } from '@duckdb/node-api'
import { asError, DataStreamsError, isStreamsError, ValidationError } from 'sluice/core'
import { codeOf, draftPrefix, foreignCause, syncFolder } from 'sluice/internal'
import { lazyLibrary } from '../library.js'
import type { DuckDBLibrary } from './rows.js'

/** Loads the library of DuckDB. */
const loadDuckDB = lazyLibrary('@duckdb/node-api', () => import('@duckdb/node-api'))

/** Quotes a name for SQL. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** Quotes a text for SQL. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** How often a transaction is tried again that is in conflict with another of this process. */
const MAX_CONFLICTS = 10

/** The size of the log of changes at which DuckDB moves it into the database: its own, and ours. */
const DEFAULT_THRESHOLD = '16.0 MiB'
const THRESHOLD = '64MiB'

/** What DuckDB says of a fault that lasts until somebody mends it, and what we say. */
const lasting: readonly (readonly [RegExp, string])[] = [
  [/not a valid DuckDB database/, 'it is not a DuckDB database: give another path'],
  [
    /different configuration/,
    'this process has it open with other settings: open it with DuckDBInstance.fromCache(path), and without settings',
  ],
  [
    /permission denied|read-only file system|read-only mode|operation not permitted/i,
    'this process may not write it: give the process the permission, or give another path',
  ],
  [/Is a directory/, 'it is a folder: give the path of a file in it'],
  [
    /database file with version number|storage version|newer version/i,
    'another version of DuckDB has written it: install a version that reads it',
  ],
]
/** What DuckDB says of a fault that may pass, and what we say. */
const passing: readonly (readonly [RegExp, string])[] = [
  [
    /Could not set lock/,
    'another process has it open, and DuckDB lets one process open a file that is written',
  ],
  [/No space left|File too large|Disk quota exceeded/i, 'the disk is full'],
  [
    /has been invalidated/,
    'an earlier fault has made it unusable in this process until all of its connections are closed',
  ],
]

/**
 * An error of DuckDB or of the file system as one of this library. It is a ValidationError if
 * waiting does not mend the fault.
 */
export function databaseError(name: string, done: string, thrown: unknown): DataStreamsError {
  if (isStreamsError(thrown)) return thrown
  const cause = foreignCause(thrown)
  const [line = ''] = asError(thrown).message.split('\n')
  const find = (faults: typeof lasting): string | undefined =>
    faults.find(([pattern]) => pattern.test(cause.message))?.[1]
  const lasts = find(lasting)
  if (lasts !== undefined)
    return new ValidationError(`${name} can’t be ${done}: ${lasts}`, { cause })
  const reason = find(passing)
  const pid = /\(PID (\d+)\)/.exec(line)?.[0] ?? ''
  const said = reason === undefined ? line : [reason, pid].filter(Boolean).join(' ')
  return new DataStreamsError(`${name} can’t be ${done}: ${said}`, { cause, isRetryable: true })
}

/** Whether two transactions of this process were in each other's way. */
function isConflict(thrown: unknown): boolean {
  return /Conflict on|constraint violation|violates primary key|write-write conflict/i.test(
    asError(thrown).message,
  )
}

/**
 * An open database file: one connection, and what all stores do with it. After an error the
 * database may be unusable. The owner then closes it, and opens another.
 */
export class DuckDatabase {
  readonly library: DuckDBLibrary
  readonly #instance: DuckDBInstance
  readonly #connection: DuckDBConnection

  private constructor(
    library: DuckDBLibrary,
    instance: DuckDBInstance,
    connection: DuckDBConnection,
  ) {
    this.library = library
    this.#instance = instance
    this.#connection = connection
  }

  /**
   * Opens a file, and makes it if it is absent. Connections of this process share one instance of
   * DuckDB: two instances would destroy the file.
   */
  static async open(file: string): Promise<DuckDatabase> {
    const library = await loadDuckDB()
    await makeDatabase(library, file)
    const instance = await library.DuckDBInstance.fromCache(file)
    try {
      const database = new DuckDatabase(library, instance, await instance.connect())
      await database.#raiseThreshold()
      return database
    } catch (thrown) {
      instance.closeSync()
      throw thrown
    }
  }

  /**
   * Lets the log of changes grow before DuckDB moves it into the database. At each move DuckDB
   * writes the last rows anew, up to 122,880 of each table. A value that somebody has set stays.
   */
  async #raiseThreshold(): Promise<void> {
    const [row] = await this.run(`SELECT current_setting('checkpoint_threshold')`)
    if (row?.[0] === DEFAULT_THRESHOLD)
      await this.run(`SET GLOBAL checkpoint_threshold = '${THRESHOLD}'`)
  }

  /** Runs a statement, and returns its rows. A statement without values is not prepared first. */
  async run(
    sql: string,
    values?: DuckDBValue[],
    types?: DuckDBType[],
  ): Promise<readonly (readonly DuckDBValue[])[]> {
    const result = await this.#connection.runAndReadAll(sql, values, types)
    return result.getRows()
  }

  /** Runs the work in a transaction. It runs again if another connection was in its way. */
  async transaction<Result>(work: () => Promise<Result>): Promise<Result> {
    for (let conflicts = 0; ; conflicts++) {
      try {
        await this.run('BEGIN')
        const result = await work()
        await this.run('COMMIT')
        return result
      } catch (thrown) {
        // The transaction may be over already.
        await this.run('ROLLBACK').catch(() => undefined)
        if (conflicts === MAX_CONFLICTS || !isConflict(thrown)) throw thrown
      }
    }
  }

  /** Appends columns of values to a temporary table. Each chunk has at most 2,048 rows. */
  async append(
    table: string,
    types: readonly DuckDBType[],
    chunks: readonly (readonly (readonly DuckDBValue[])[])[],
  ): Promise<void> {
    const appender = await this.#connection.createAppender(table, 'main', 'temp')
    try {
      for (const columns of chunks) {
        const chunk = this.library.DuckDBDataChunk.create(types)
        chunk.setColumns(columns)
        appender.appendDataChunk(chunk)
      }
    } finally {
      appender.closeSync()
    }
  }

  /**
   * Closes the connection. Moves the log of changes into the database first, so that the end of the
   * last connection does not stop the program for that.
   */
  async close(): Promise<void> {
    // Another connection may be in a transaction, or the database may be unusable. Then the log
    // stays, and the next opening reads it.
    await this.run('CHECKPOINT').catch(() => undefined)
    this.#connection.closeSync()
    this.#instance.closeSync()
  }
}

/**
 * The path of a database without symbolic links. Throws a ValidationError if there can't be a
 * database.
 */
export async function findDatabase(path: string): Promise<string> {
  const given = resolve(path)
  const folder = dirname(given)
  const fail = (rule: string, cause?: unknown): ValidationError =>
    new ValidationError(`the database ${path} can’t be opened: ${rule}`, { cause })
  const parent = await realpath(folder).catch((cause: unknown) => {
    const code = codeOf(cause)
    if (code === 'ENOENT' || code === 'ENOTDIR')
      throw fail(`there is no folder ${folder}; make it, or give another path`, cause)
    throw fail(`the folder ${folder} can’t be read (${code})`, cause)
  })
  const stats = await stat(given).catch((cause: unknown) => {
    if (codeOf(cause) === 'ENOENT') return undefined
    throw fail(`the file can’t be read (${codeOf(cause)})`, cause)
  })
  if (stats === undefined) return join(parent, basename(given))
  if (!stats.isFile()) throw fail('it is not a file; give the path of a file')
  return realpath(given)
}

/**
 * Makes an empty database if there is none. A process that is killed leaves the whole file or none:
 * DuckDB can't open a file that is half made.
 */
async function makeDatabase({ DuckDBInstance }: DuckDBLibrary, file: string): Promise<void> {
  const isThere = await stat(file).then(
    () => true,
    () => false,
  )
  if (isThere) return
  const folder = dirname(file)
  const draft = join(folder, `${draftPrefix(file)}${randomBytes(8).toString('hex')}`)
  try {
    const instance = await DuckDBInstance.create(draft)
    instance.closeSync()
    await link(draft, file)
  } catch (thrown) {
    // Another process has made it meanwhile.
    if (codeOf(thrown) !== 'EEXIST') throw thrown
  } finally {
    await rm(draft, { force: true })
    await rm(`${draft}.wal`, { force: true })
  }
  await syncFolder(folder)
}
