import {
  type Checked,
  checkBoolean,
  kindOf,
  oneOf,
  optional,
  type Rule,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import type { Decoder } from 'sluice/report'
import { readDecimals, Tables } from '../tables.js'
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
   * What becomes of a value that its column can't hold: one of more than 38 digits, where a price
   * has 18 of them after the point. `text`: the column is NULL, and the column `beyond` has the
   * exact integer. `refuse`: the report is not stored, and the sink announces it. @default 'text'
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

function checkDecoders(field: string, value: unknown): readonly Decoder[] {
  if (!Array.isArray(value))
    throw new ValidationError(`${field} must be an array of decoders, not ${kindOf(value)}`)
  const wrong = value.findIndex(each => !Number.isInteger((each as Partial<Decoder>)?.version))
  if (wrong === -1) return value
  throw new ValidationError(`${field}[${wrong}] must be a decoder: defineDecoder makes one`)
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
