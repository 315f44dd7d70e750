import type { ParquetWriter } from 'hyparquet-writer'
import type { Feed } from 'sluice/client'
import { fileError, loadPackage } from '../input/files.js'
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
  readonly #file: ParquetWriter
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
    const schema = schemaFromColumnData({ columnData: this.#columnData() })
    try {
      this.#file = new ParquetWriter({ writer: fileWriter(path), schema })
    } catch (cause) {
      throw fileError('--out', path, cause, 'written to')
    }
  }

  /** Opens a file. It replaces an existing file. */
  static async open(path: string, feed: Feed, options: FormatOptions): Promise<ParquetFile> {
    const library = await loadPackage(
      '--parquet',
      'hyparquet-writer',
      () => import('hyparquet-writer'),
    )
    return new ParquetFile(library, path, feed, options.raw ? undefined : decimalsOf(feed, options))
  }

  write(report: PrintedReport): Promise<void> | undefined {
    return this.#rows.push(report) < GROUP ? undefined : this.#flush()
  }

  /** Writes the rest, and closes the file. */
  async close(): Promise<void> {
    if (this.#rows.length > 0) await this.#flush()
    await this.#file.finish()
  }

  async #flush(): Promise<void> {
    await this.#file.write({ columnData: this.#columnData(), rowGroupSize: GROUP })
    this.#rows = []
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
