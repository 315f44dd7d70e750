import { ValidationError } from '../core/errors.js'
import { feedResolution } from './feed-id.js'
import {
  type FieldType,
  type Reader,
  readerOf,
  readFee,
  readMilliseconds,
  readSeconds,
  readString,
  stringLength,
} from './field.js'
import { type Blob, HEAD_WORDS, refuse } from './full-report.js'

/** Decodes the reports of one version. */
export interface Decoder<out Data = unknown> {
  /** 3 for feeds whose id begins with `0x0003`. */
  readonly version: number
  /** Reads a blob whose encoding and feed id have been checked. Throws ReportDecodingError. */
  decode(blob: Blob): Data
}

/** What every decoded report has. */
export interface BaseFields {
  /** In lower case. */
  readonly feedID: string
  /** Earliest time for which the report holds, in the feed's unit: seconds, or milliseconds for ids beginning `0x1`. */
  readonly validFromTimestamp: number
  /** Time of the observations, in the feed's unit. */
  readonly observationsTimestamp: number
  /** Cost of verifying the report on chain in the native token, in wei. */
  readonly nativeFee: bigint
  /** Cost of verifying the report on chain in LINK, in juels (10^-18 LINK). */
  readonly linkFee: bigint
  /** Time after which the report can no longer be verified on chain, in the feed's unit. */
  readonly expiresAt: number
}

/** The fields of a version after the common head, in the order of the encoding. */
export type Fields = Readonly<Record<string, FieldType>>

type SmallWidth = 8 | 16 | 24 | 32 | 40 | 48

type ValueOf<Type extends FieldType> = Type extends 'bool'
  ? boolean
  : Type extends `uint${SmallWidth}` | `int${SmallWidth}` | 'uint64-twin'
    ? number
    : Type extends `uint${number}` | `int${number}`
      ? bigint
      : string

/** What a schema decodes to. */
export type Decoded<Version extends number, Schema extends Fields> = BaseFields & {
  readonly version: `V${Version}`
} & {
  readonly [Name in keyof Schema]: ValueOf<Schema[Name]>
} & {
  readonly [Name in keyof Schema & string as Schema[Name] extends 'uint64-twin'
    ? `${Name}Raw`
    : never]: bigint
}

/**
 * Makes a decoder from a schema: the version, and the fields after the common head in the order of the encoding.
 *
 * @example
 * ```ts
 * export const v42 = defineDecoder({ version: 42, fields: { price: 'int192', halted: 'bool' } })
 * ```
 */
export function defineDecoder<const Version extends number, const Schema extends Fields>(schema: {
  readonly version: Version
  readonly fields: Schema
}): Decoder<Decoded<Version, Schema>> {
  const { version, fields } = schema
  if (!Number.isInteger(version) || version < 2 || version > 0xfff) {
    throw new ValidationError(
      `version must be a whole number from 2 to 4095, not ${String(version)}`,
    )
  }
  if (typeof fields !== 'object' || fields === null) {
    throw new ValidationError('fields must be an object of names and types')
  }
  const names = Object.keys(fields)
  const taken = new Set(['version', 'feedID', ...headFields])
  for (const name of names.flatMap(name =>
    fields[name] === 'uint64-twin' ? [name, `${name}Raw`] : [name],
  )) {
    // An object lists names that are numbers first, so their fields would be read in another order than written.
    if (!/^\p{L}/u.test(name))
      throw new ValidationError(`fields.${name} must have a name that begins with a letter`)
    if (taken.has(name))
      throw new ValidationError(`fields.${name} is decoded already: a name stands once in a report`)
    taken.add(name)
  }
  const label = `V${version}` as const
  const plan = names.map(name => planField(name, fields[name]))
  const isDynamic = plan.some(field => field.isString)
  const headLength = 32 * (HEAD_WORDS + plan.length)

  function decode(blob: Blob): Record<string, unknown> {
    const { view, feedID } = blob
    if (isDynamic ? blob.length < headLength : blob.length !== headLength) {
      throw refuse(
        feedID,
        `a blob of ${label} has ${isDynamic ? 'at least ' : ''}${headLength} bytes, this one ${blob.length}`,
      )
    }
    const readTime = feedResolution(feedID) === 's' ? readSeconds : readMilliseconds
    const data: Record<string, unknown> = {
      version: label,
      feedID,
      validFromTimestamp: readTime(blob, 32, 'validFromTimestamp'),
      observationsTimestamp: readTime(blob, 64, 'observationsTimestamp'),
      nativeFee: readFee(blob, 96, 'nativeFee'),
      linkFee: readFee(blob, 128, 'linkFee'),
      expiresAt: readTime(blob, 160, 'expiresAt'),
    }
    let at = 32 * HEAD_WORDS
    let tail = headLength
    for (const field of plan) {
      if (field.isString) {
        const length = stringLength(blob, at, tail, field.name)
        data[field.name] = readString(view, tail + 32, length, blob, field.name)
        tail += 32 + 32 * Math.ceil(length / 32)
      } else {
        const value = field.read(blob, at, field.name)
        if (field.rawName === undefined) data[field.name] = value
        else {
          data[field.name] = Number(value)
          data[field.rawName] = value
        }
      }
      at += 32
    }
    if (tail !== blob.length)
      throw refuse(feedID, `its blob has ${blob.length - tail} bytes too many`)
    return data
  }
  return Object.freeze({ version, decode: decode as (blob: Blob) => Decoded<Version, Schema> })
}

interface Field {
  readonly name: string
  readonly rawName: string | undefined
  readonly isString: boolean
  readonly read: Reader
}

const headFields = [
  'validFromTimestamp',
  'observationsTimestamp',
  'nativeFee',
  'linkFee',
  'expiresAt',
] as const

function planField(name: string, type: FieldType | undefined): Field {
  return {
    name,
    rawName: type === 'uint64-twin' ? `${name}Raw` : undefined,
    isString: type === 'string',
    read: readerOf(name, type),
  }
}
