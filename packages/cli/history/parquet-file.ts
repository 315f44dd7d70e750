import type { Feed } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { fileError } from '../input/files.js'
import { decimalsOf, type FormatOptions, fieldsIn, type PrintedReport } from '../output/format.js'
import { fieldsOf } from '../output/prices.js'
import type { ReportFile } from './report-file.js'

/** Reports of a group of rows: all of them are in memory until it is written. */
const GROUP = 10_000

type Value = string | number | bigint | null
type Type = 'STRING' | 'INT64' | 'DOUBLE'

/** A column of the file, and its value of a report. */
interface Column {
  readonly name: string
  readonly type: Type
  readonly of: (report: PrintedReport, fields: Readonly<Record<string, string>>) => Value
}

/**
 * Opens a Parquet file, which replaces one that is there. Prices are DOUBLE, which is not exact, or exact integers as texts with
 * `--raw`.
 */
export async function openParquetFile(
  path: string,
  feed: Feed,
  options: FormatOptions,
): Promise<ReportFile> {
  const { ParquetWriter, fileWriter, schemaFromColumnData } = await load()
  const decimals = options.raw ? undefined : decimalsOf(feed, options)
  const columns = columnsOf(feed.feedID, decimals)
  let rows: PrintedReport[] = []
  const data = (): { name: string; type: Type; data: Value[]; nullable: boolean }[] => {
    const read = rows.map(report => ({ report, fields: fieldsIn(report, decimals) ?? {} }))
    return columns.map(({ name, type, of }) => ({
      name,
      type,
      nullable: true,
      data: read.map(({ report, fields }) => of(report, fields)),
    }))
  }
  const writer = openWriter(path, fileWriter)
  const file = new ParquetWriter({ writer, schema: schemaFromColumnData({ columnData: data() }) })
  async function flush(): Promise<void> {
    await file.write({ columnData: data(), rowGroupSize: GROUP })
    rows = []
  }
  return {
    last: undefined,
    write: report => (rows.push(report) < GROUP ? undefined : flush()),
    async close() {
      if (rows.length > 0) await flush()
      await file.finish()
    },
  }
}

async function load(): Promise<typeof import('hyparquet-writer')> {
  try {
    return await import('hyparquet-writer')
  } catch (cause) {
    throw new ValidationError('--parquet needs the package hyparquet-writer: install it', { cause })
  }
}

function openWriter<Writer>(path: string, fileWriter: (path: string) => Writer): Writer {
  try {
    return fileWriter(path)
  } catch (cause) {
    throw fileError('--out', path, cause, 'written to')
  }
}

function columnsOf(feedID: string, decimals: number | undefined): readonly Column[] {
  const { names, prices, integers } = fieldsOf(feedID)
  return [
    { name: 'feedID', type: 'STRING', of: report => report.feedID },
    {
      name: 'validFromTimestamp',
      type: 'INT64',
      of: report => BigInt(report.validFromTimestamp),
    },
    {
      name: 'observationsTimestamp',
      type: 'INT64',
      of: report => BigInt(report.observationsTimestamp),
    },
    ...names.map((name): Column => {
      if (integers.has(name)) return column(name, 'INT64', BigInt)
      const isNumber = prices.has(name) && decimals !== undefined
      return isNumber ? column(name, 'DOUBLE', Number) : column(name, 'STRING', String)
    }),
    { name: 'fullReport', type: 'STRING', of: report => report.fullReport },
  ]
}

function column(name: string, type: Type, convert: (text: string) => Value): Column {
  return {
    name,
    type,
    of(_report, { [name]: text }) {
      return text === undefined ? null : convert(text)
    },
  }
}
