import {
  type Checked,
  checkBoolean,
  oneOf,
  optional,
  type Rule,
  unchecked,
  withDefault,
} from 'sluice/core'
import type { Decoder } from 'sluice/report'
import { checkDecoders, readDecimals, Tables } from '../tables.js'
import type { ConversionRules } from './rows.js'

/** What a store keeps of a report, and in which form. */
export interface ColumnOptions {
  /** Whether the signed bytes are kept, as the column `full_report`. @default true */
  readonly raw?: boolean
  /**
   * The digits after the point of prices, from 0 to 18: one number, or one for each feed id. A feed
   * that is not listed has 18. @default 18
   */
  readonly decimals?: number | Readonly<Record<string, number>>
  /**
   * How the store keeps a value that its column can't hold: a value of more than 38 digits, where
   * a price has 18 of them after the point. `text`: the column is NULL, and the column `beyond` has
   * the exact integer. `refuse`: the report is not stored, and the sink announces it.
   * @default 'text'
   */
  readonly beyond?: 'text' | 'refuse'
  /** The decoders of your stack for versions that the library does not know. @default none */
  readonly decoders?: readonly Decoder[]
}

/** The rules of `ColumnOptions`. */
export const columnRules: {
  readonly raw: Rule<boolean>
  readonly decimals: Rule<ColumnOptions['decimals']>
  readonly beyond: Rule<'text' | 'refuse'>
  readonly decoders: Rule<ColumnOptions['decoders']>
} = {
  raw: withDefault(true, checkBoolean),
  decimals: unchecked<ColumnOptions['decimals']>,
  beyond: withDefault('text', oneOf('text', 'refuse')),
  decoders: optional(checkDecoders),
}

/** The tables of a store, and how their rows are converted. */
export function planTables(options: Checked<typeof columnRules>): {
  readonly tables: Tables
  readonly rules: ConversionRules
} {
  const { raw, decimals, beyond, decoders = [] } = options
  const decimalsOf = readDecimals(decimals)
  return { tables: new Tables({ raw, decimalsOf, decoders }), rules: { beyond, decimalsOf } }
}
