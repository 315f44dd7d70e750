import { DataStreamsError, isStreamsError, ValidationError } from '../core/errors.js'
import type { Log } from '../core/log.js'
import { checkOptions } from '../core/options.js'
import { feedResolution, feedVersion, parseKnownFeedID } from './feed-id.js'
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
import {
  type Blob,
  decodingError,
  HEAD_WORDS,
  openBlob,
  ReportDecodingError,
} from './full-report.js'
import { fieldsToJSON } from './json.js'
import type { DecoderTable, Report } from './report.js'
import type { ReportVerifier } from './verifier.js'

/** Decodes the reports of one version. */
export interface Decoder<out Data = unknown> {
  /** The version of the reports: 3 for feeds whose id begins with `0x0003`. */
  readonly version: number
  /**
   * The fields after the common head, with their types. A store makes its columns from them.
   * `defineDecoder` sets it.
   */
  readonly fields?: Fields
  /** Reads a blob whose encoding and feed id have been checked. Throws ReportDecodingError. */
  decode(blob: Blob): Data
}

/** The type of the reports that a decoder returns. */
export type DecodedBy<Each extends Decoder> = Each extends Decoder<infer Data> ? Data : never

/** The fields that every decoded report has. */
export interface BaseFields {
  /** In lower case. */
  readonly feedID: string
  /**
   * The earliest time for which the report is valid, in the feed's unit: seconds, or milliseconds
   * if the feed's id begins with `0x1`.
   */
  readonly validFromTimestamp: number
  /** The time of the observations, in the feed's unit. */
  readonly observationsTimestamp: number
  /** The cost of verifying the report on chain if it is paid in the native token, in wei. */
  readonly nativeFee: bigint
  /** The cost of verifying the report on chain if it is paid in LINK, in juels (10^-18 LINK). */
  readonly linkFee: bigint
  /** The time after which the report can no longer be verified on chain, in the feed's unit. */
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

/** The type of the reports that are decoded with a schema. */
export type Decoded<Version extends number, Schema extends Fields> = BaseFields & {
  /** Distinguishes the types of decoded reports. */
  readonly version: `V${Version}`
} & {
  readonly [Name in keyof Schema]: ValueOf<Schema[Name]>
} & {
  readonly [Name in keyof Schema & string as Schema[Name] extends 'uint64-twin'
    ? `${Name}Raw`
    : never]: bigint
}

/**
 * A decoded report. It is a class so that `JSON.stringify` finds `toJSON` on the prototype: a field
 * would cost time and memory for each report. Its `constructor` is `Object`, so that it looks like
 * a plain object.
 */
class DecodedFields {
  static {
    DecodedFields.prototype.constructor = Object
  }
  [field: string]: unknown

  constructor(
    version: string,
    feedID: string,
    validFromTimestamp: number,
    observationsTimestamp: number,
    nativeFee: bigint,
    linkFee: bigint,
    expiresAt: number,
  ) {
    this.version = version
    this.feedID = feedID
    this.validFromTimestamp = validFromTimestamp
    this.observationsTimestamp = observationsTimestamp
    this.nativeFee = nativeFee
    this.linkFee = linkFee
    this.expiresAt = expiresAt
  }

  toJSON(): object {
    return fieldsToJSON(this)
  }
}

/**
 * Makes a decoder from a schema. A schema is the version, and the fields after the common head in
 * the order of the encoding.
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
  const { version, fields } = checkOptions('defineDecoder', schema, { version: true, fields: true })
  if (!Number.isInteger(version) || version < 2 || version > 0xfff) {
    throw new ValidationError(
      `version must be a whole number from 2 to 4095, not ${String(version)}`,
    )
  }
  if (typeof fields !== 'object' || fields === null) {
    throw new ValidationError('fields must be an object of names and types')
  }
  const plan = planFields(fields)
  const label = `V${version}` as const
  const isDynamic = plan.some(field => field.read === undefined)
  const headLength = 32 * (HEAD_WORDS + plan.length)

  function decode(blob: Blob): Record<string, unknown> {
    const { feedID } = blob
    if (isDynamic ? blob.length < headLength : blob.length !== headLength) {
      throw decodingError(
        feedID,
        `a blob of ${label} has ${isDynamic ? 'at least ' : ''}${headLength} bytes, this one ${blob.length}`,
      )
    }
    const readTime = feedResolution(feedID) === 's' ? readSeconds : readMilliseconds
    const data = new DecodedFields(
      label,
      feedID,
      readTime(blob, 32, 'validFromTimestamp'),
      readTime(blob, 64, 'observationsTimestamp'),
      readFee(blob, 96, 'nativeFee'),
      readFee(blob, 128, 'linkFee'),
      readTime(blob, 160, 'expiresAt'),
    )
    let at = 32 * HEAD_WORDS
    let tail = headLength
    for (const field of plan) {
      const { name, rawName, read } = field
      if (read === undefined) {
        const length = stringLength(blob, at, tail, name)
        data[name] = readString(blob, tail + 32, length, name)
        tail += 32 + 32 * Math.ceil(length / 32)
      } else if (rawName === undefined) data[name] = read(blob, at, name)
      else {
        const exact = read(blob, at, name)
        data[name] = Number(exact)
        data[rawName] = exact
      }
      at += 32
    }
    if (tail !== blob.length)
      throw decodingError(feedID, `its blob has ${blob.length - tail} bytes too many`)
    return data
  }
  const shown: Fields = Object.freeze({ ...fields })
  return Object.freeze({
    version,
    fields: shown,
    decode: decode as (blob: Blob) => Decoded<Version, Schema>,
  })
}

/** The names of `BaseFields`, and `version`. */
const headFields = [
  'version',
  'feedID',
  'validFromTimestamp',
  'observationsTimestamp',
  'nativeFee',
  'linkFee',
  'expiresAt',
] as const

interface Field {
  readonly name: string
  /** The field for the exact value, if the field `name` holds the nearest number. */
  readonly rawName: string | undefined
  /** Reads the field; undefined for the type `string`. */
  readonly read: Reader | undefined
}

/** Checks the names and types of a schema's fields, and finds their readers. */
function planFields(fields: Fields): readonly Field[] {
  const taken = new Set<string>([...headFields, 'toJSON'])
  return Object.entries(fields).map(([name, type]) => {
    const rawName = type === 'uint64-twin' ? `${name}Raw` : undefined
    for (const each of rawName === undefined ? [name] : [name, rawName]) {
      // Objects list numeric names first, so such fields would be read in another order than they
      // were written.
      if (!/^\p{L}/u.test(each))
        throw new ValidationError(`fields.${each} must have a name that begins with a letter`)
      if (taken.has(each))
        throw new ValidationError(`fields.${each} is taken already: each name must be unique`)
      taken.add(each)
    }
    return { name, rawName, read: type === 'string' ? undefined : readerOf(name, type) }
  })
}

/**
 * Makes a table of decoders by version. If two decoders have the same version, the first is used.
 */
export function createDecoderTable<Each extends Decoder>(
  decoders: Iterable<Each>,
  log: Log = {},
  verifier?: ReportVerifier,
  failed?: () => void,
): DecoderTable<DecodedBy<Each>> {
  type Data = DecodedBy<Each>
  const table = new Map<number, Decoder<Data>>()
  for (const decoder of decoders as Iterable<Decoder<Data>>) {
    if (typeof decoder?.decode !== 'function' || !Number.isInteger(decoder.version)) {
      throw new ValidationError(
        'a decoder must have a version, a whole number, and a decode function',
      )
    }
    if (!table.has(decoder.version)) table.set(decoder.version, decoder)
  }

  function decode(fullReport: string, feedID: string): Data {
    try {
      const version = feedVersion(feedID)
      const decoder = table.get(version)
      if (decoder === undefined) {
        throw new ReportDecodingError(
          `report of feed ${feedID} is of version V${version}, for which the stack has no decoder`,
        )
      }
      const data = decoder.decode(openBlob(fullReport, feedID))
      log.debug?.(`report of feed ${feedID} decoded`)
      return data
    } catch (thrown) {
      const error = isStreamsError(thrown, 'DECODING')
        ? thrown
        : decodingError(feedID, 'its decoder threw', thrown)
      failed?.()
      log.error?.(`report decoding failed: ${error.message}`, { feedID })
      throw error
    }
  }

  function verify(report: Report): Promise<void> {
    return new Promise((resolve, reject) => {
      if (verifier === undefined) {
        throw new DataStreamsError(
          'report.verify needs the plugin verify in the stack that the report came up',
          { code: 'PLUGIN' },
        )
      }
      verifier.check(report, failure => (failure === undefined ? resolve() : reject(failure)))
    })
  }
  return { versions: [...table.keys()], decode, verify }
}

/** Makes your own `decodeReport` from a list of decoders. */
export function createDecodeReport<Each extends Decoder>(
  decoders: Iterable<Each>,
): (fullReport: string, feedID: string) => DecodedBy<Each> {
  const table = createDecoderTable(decoders)
  return function decodeReport(fullReport, feedID) {
    const id = parseKnownFeedID(feedID)
    if (typeof fullReport !== 'string')
      throw decodingError(id, `it must be a string, not ${typeof fullReport}`)
    return table.decode(fullReport, id)
  }
}
