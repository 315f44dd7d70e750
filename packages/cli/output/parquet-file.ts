import { rmSync, statSync } from 'node:fs'
import type { ParquetWriter } from 'hyparquet-writer'
import type { Feed } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { checkFolder, fileError, loadPackage } from '../input/files.js'
import { decimalsOf, type FormatOptions, fieldsIn, type PrintedReport } from './format.js'
import { fieldsOf } from './prices.js'

/** How many reports a group of rows holds. A group is in memory until it is written. */
const GROUP = 10_000

type Value = string | number | bigint | null
type Type = 'STRING' | 'INT64' | 'DOUBLE'

/** A column of the file, and a function that returns its value for a report. */
interface Column {
  readonly name: string
  readonly type: Type
  readonly of: (report: PrintedReport, fields: Readonly<Record<string, string>>) => Value
}

/**
 * A Parquet file of reports. Prices are DOUBLE, which is not exact. With `--raw`, prices are exact
 * integers as strings.
 */
export class ParquetFile {
  /** Undefined, because a Parquet file is never continued. */
  readonly last: undefined
  /** Opens the file. It is opened for the first rows, so that a failure before leaves no file. */
  readonly #open: () => ParquetWriter
  readonly #path: string
  #file: ParquetWriter | undefined
  readonly #columns: readonly Column[]
  readonly #decimals: number | undefined
  #rows: PrintedReport[] = []

  private constructor(
    { ParquetWriter, fileWriter, schemaFromColumnData }: typeof import('hyparquet-writer'),
    path: string,
    { feedID }: Feed,
    decimals: number | undefined,
  ) {
    this.#columns = columnsOf(feedID, decimals)
    this.#decimals = decimals
    this.#path = path
    const schema = schemaFromColumnData({ columnData: this.#columnData() })
    this.#open = () => new ParquetWriter({ writer: fileWriter(path), schema })
  }

  /** Opens a file. It replaces an existing file. */
  static async open(path: string, feed: Feed, options: FormatOptions): Promise<ParquetFile> {
    const library = await loadPackage(
      '--parquet',
      'hyparquet-writer',
      () => import('hyparquet-writer'),
    )
    checkFolder('--out', path)
    const found = statSync(path, { throwIfNoEntry: false })
    if (found !== undefined && !found.isFile())
      throw new ValidationError(
        `--out must be the path of a file: ${path} is a ${found.isDirectory() ? 'folder' : 'device or a pipe'}`,
      )
    return new ParquetFile(library, path, feed, options.raw ? undefined : decimalsOf(feed, options))
  }

  write(report: PrintedReport): Promise<void> | undefined {
    return this.#rows.push(report) < GROUP ? undefined : this.#flush()
  }

  /** Writes the rest, and closes the file. */
  async close(): Promise<void> {
    if (this.#rows.length > 0) await this.#flush()
    await this.#use(file => file.finish())
  }

  /** Ends after a failure before the first report: no file has been opened. */
  async discard(): Promise<void> {}

  async #flush(): Promise<void> {
    const columnData = this.#columnData()
    await this.#use(file => file.write({ columnData, rowGroupSize: GROUP }))
    this.#rows = []
  }

  /** Removes the file if it can't be written, because nothing reads a part of a Parquet file. */
  async #use(write: (file: ParquetWriter) => unknown): Promise<void> {
    try {
      this.#file ??= this.#open()
      await write(this.#file)
    } catch (cause) {
      if (this.#file !== undefined) rmSync(this.#path, { force: true })
      throw fileError('--out', this.#path, cause, 'written to')
    }
  }

  #columnData(): { name: string; type: Type; data: Value[]; nullable: boolean }[] {
    const read = this.#rows.map(report => ({
      report,
      fields: fieldsIn(report, this.#decimals) ?? {},
    }))
    return this.#columns.map(({ name, type, of }) => ({
      name,
      type,
      nullable: true,
      data: read.map(({ report, fields }) => of(report, fields)),
    }))
  }
}

function columnsOf(feedID: string, decimals: number | undefined): readonly Column[] {
  const { names, prices, integers } = fieldsOf(feedID)
  const time = (name: 'validFromTimestamp' | 'observationsTimestamp'): Column => ({
    name,
    type: 'INT64',
    of: report => BigInt(report[name]),
  })
  function column(name: string, type: Type, convert: (text: string) => Value): Column {
    return {
      name,
      type,
      of: (_report, { [name]: text }) => (text === undefined ? null : convert(text)),
    }
  }
  return [
    { name: 'feedID', type: 'STRING', of: report => report.feedID },
    time('validFromTimestamp'),
    time('observationsTimestamp'),
    ...names.map(name => {
      if (integers.has(name)) return column(name, 'INT64', BigInt)
      const isNumber = prices.has(name) && decimals !== undefined
      return isNumber ? column(name, 'DOUBLE', Number) : column(name, 'STRING', String)
    }),
    { name: 'fullReport', type: 'STRING', of: report => report.fullReport },
  ]
}
