import {
  checkBoolean,
  checkText,
  number,
  readOptions,
  ValidationError,
  withDefault,
} from 'sluice/core'
import type { SinkStore } from 'sluice/plugins/sink'
import { type ColumnOptions, columnRules, planTables } from '../duckdb/options.js'
import { ParquetStore } from './store.js'

/** The options of `parquet`. */
export interface ParquetOptions extends ColumnOptions {
  /**
   * The milliseconds after which rows are in a file at the latest, from the arrival of the first
   * row. @default 3_600_000 (an hour)
   */
  readonly rotateMs?: number
  /**
   * The bytes of rows after which they go into a file, before compression: 8 for a time or an
   * integer, 16 for a price or a fee, 1 for a boolean, and those of texts and of the signed
   * bytes. @default 67_108_864
   */
  readonly rotateBytes?: number
  /**
   * Whether `close` puts the rows that wait into files. Otherwise they stay in the journal, and the
   * next process takes them up. @default true
   */
  readonly rotateOnClose?: boolean
}

/** The longest time for rows to wait: a week. */
const MAX_MS = 604_800_000

/**
 * A store that writes reports and candles into Parquet files of a folder, each with its signed
 * bytes. The package `@duckdb/node-api` must be installed. Rows wait in a journal, a small DuckDB
 * database in the folder, until they go into a file of their own. A file under its final name is
 * whole, and never changes. Only one store writes a folder at a time.
 *
 * @example
 * ```ts
 * const stack = [sink(parquet('prices', { rotateMs: 600_000 })), ...defaultPreset(config)]
 * ```
 */
export function parquet(folder: string, options?: ParquetOptions): SinkStore {
  checkText('folder', folder)
  if (folder.includes('\0')) throw new ValidationError('folder must be the path of a folder')
  const { rotateMs, rotateBytes, rotateOnClose, ...columns } = readOptions('parquet', options, {
    ...columnRules,
    rotateMs: withDefault(3_600_000, number({ min: 1000, max: MAX_MS })),
    rotateBytes: withDefault(67_108_864, number({ min: 65_536 })),
    rotateOnClose: withDefault(true, checkBoolean),
  })
  return new ParquetStore(folder, { rotateMs, rotateBytes, rotateOnClose }, planTables(columns))
}
