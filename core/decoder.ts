import { isStreamsError, ReportDecodingError, ValidationError } from './errors.js'
import { feedResolution, feedVersion, parseFeedID } from './feed-id.js'
import { type Blob, HEAD_WORDS, openBlob, readSafeUint, refuse } from './full-report.js'
import type { Log } from './types.js'

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

/**
 * The type of one field, as Solidity names it; integers are those whose width is a multiple of 8.
 *
 * | type | decoded as |
 * |---|---|
 * | `uint8` … `uint48`, `int8` … `int48` | `number` |
 * | `uint56` … `uint256`, `int56` … `int256` | `bigint` |
 * | `uint64-twin` | a `number`, the nearest there is, and beside it an exact `bigint` under the name with `Raw` added |
 * | `bool` | `boolean` |
 * | `address`, `bytes1` … `bytes32` | `0x` and lower-case hexadecimal digits |
 * | `string` | `string` |
 */
export type FieldType =
  | `uint${number}`
  | `int${number}`
  | 'uint64-twin'
  | 'bool'
  | 'address'
  | `bytes${number}`
  | 'string'

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

/** A table of decoders by version, and decoding through it. */
export interface DecoderTable<out Data = unknown> {
  readonly versions: readonly number[]
  /** Decodes a report of a feed (in normal form). Throws ReportDecodingError. */
  decode(fullReport: string, feedID: string): Data
}

/** What a decoder decodes to, or any of several. */
type DecodedBy<Each extends Decoder> = Each extends Decoder<infer Data> ? Data : never

/** Joins decoders into a table. Where two have a version, the first wins. */
export function createDecoderTable<Each extends Decoder>(
  decoders: Iterable<Each>,
  log: Log = {},
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
  function decodeThrough(fullReport: string, feedID: string): Data {
    const version = feedVersion(feedID)
    const decoder = table.get(version)
    if (decoder === undefined) {
      throw new ReportDecodingError(
        `report of feed ${feedID} is of version V${version}, for which the stack has no decoder`,
      )
    }
    return decoder.decode(openBlob(fullReport, feedID))
  }
  function decode(fullReport: string, feedID: string): Data {
    try {
      const data = decodeThrough(fullReport, feedID)
      log.debug?.('report decoded', { feedID, version: feedVersion(feedID) })
      return data
    } catch (thrown) {
      const error = isStreamsError(thrown, 'DECODING')
        ? thrown
        : refuse(feedID, 'its decoder threw', thrown)
      log.error?.(`report decoding failed: ${error.message}`, { feedID })
      throw error
    }
  }
  return { versions: [...table.keys()], decode }
}

/** Makes a `decodeReport` from decoders: the table of a stack standing alone. */
export function createDecodeReport<Each extends Decoder>(
  decoders: Iterable<Each>,
): (fullReport: string, feedID: string) => DecodedBy<Each> {
  const table = createDecoderTable(decoders)
  return function decodeReport(fullReport, feedID) {
    const id = parseFeedID(feedID)
    if (typeof fullReport !== 'string')
      throw refuse(id, `it must be a string, not ${typeof fullReport}`)
    return table.decode(fullReport, id)
  }
}

type Reader = (blob: Blob, at: number, name: string) => unknown

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

function readerOf(name: string, type: FieldType | undefined): Reader {
  if (type === 'string') return readFee
  if (type === 'bool') return readBool
  if (type === 'address') return bytesReader(20, 'right')
  if (type === 'uint64-twin') return uintReader(64)
  const [, kind, digits] = /^(uint|int|bytes)([1-9][0-9]*)$/.exec(String(type)) ?? []
  const size = Number(digits)
  if (kind === 'bytes' && size <= 32) return bytesReader(size, 'left')
  if (kind === 'uint' && size <= 256 && size % 8 === 0) return uintReader(size)
  if (kind === 'int' && size <= 256 && size % 8 === 0) return intReader(size)
  throw new ValidationError(
    `fields.${name} must be a type such as int192, uint32, bool, bytes32 or string, not ${String(type)}`,
  )
}

const EXACT_WIDTH = 48

function uintReader(width: number): Reader {
  const limit = 1n << BigInt(width)
  if (width <= EXACT_WIDTH) {
    return (blob, at, name) => {
      const value = readSafeUint(blob.view, at)
      if (!(value < Number(limit))) throw outside(blob, name, `uint${width}`)
      return value
    }
  }
  return (blob, at, name) => {
    const value = readBigUint(blob.view, at)
    if (value >= limit) throw outside(blob, name, `uint${width}`)
    return value
  }
}

function intReader(width: number): Reader {
  const limit = 1n << BigInt(width - 1)
  const isSmall = width <= EXACT_WIDTH
  return (blob, at, name) => {
    const value =
      blob.view.getInt8(at) < 0
        ? BigInt.asIntN(256, readBigUint(blob.view, at))
        : readBigUint(blob.view, at)
    if (value >= limit || value < -limit) throw outside(blob, name, `int${width}`)
    return isSmall ? Number(value) : value
  }
}

function bytesReader(size: number, aligned: 'left' | 'right'): Reader {
  return (blob, at, name) => {
    const start = aligned === 'left' ? at : at + 32 - size
    let text = '0x'
    for (let index = at; index < at + 32; index++) {
      const byte = blob.view.getUint8(index)
      if (index >= start && index < start + size) text += (byte < 16 ? '0' : '') + byte.toString(16)
      else if (byte !== 0) throw outside(blob, name, `value of ${size} bytes`)
    }
    return text
  }
}

const readFee = uintReader(192) as (blob: Blob, at: number, name: string) => bigint
const readSeconds = uintReader(32) as (blob: Blob, at: number, name: string) => number

function readMilliseconds(blob: Blob, at: number, name: string): number {
  const value = readSafeUint(blob.view, at)
  if (Number.isNaN(value)) throw outside(blob, name, 'time of at most 2^53 - 1')
  return value
}

function readBool(blob: Blob, at: number, name: string): boolean {
  const value = readSafeUint(blob.view, at)
  if (value !== 0 && value !== 1) throw outside(blob, name, 'bool')
  return value === 1
}

function stringLength(blob: Blob, at: number, tail: number, name: string): number {
  const { view } = blob
  const length =
    readSafeUint(view, at) === tail && tail + 32 <= blob.length
      ? readSafeUint(view, tail)
      : Number.NaN
  if (!(tail + 32 + length <= blob.length))
    throw outside(blob, name, 'string: its offset or length points elsewhere')
  return length
}

function readString(
  view: DataView,
  start: number,
  length: number,
  blob: Blob,
  name: string,
): string {
  for (let at = start + length; at % 32 !== 0; at++) {
    if (view.getUint8(at) !== 0) throw outside(blob, name, 'string: its padding is not zero')
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      new Uint8Array(view.buffer, view.byteOffset + start, length),
    )
  } catch {
    throw outside(blob, name, 'string: it is not valid UTF-8')
  }
}

/** The word at `at`; most values are short, and a short bigint is cheaper to make. */
function readBigUint(view: DataView, at: number): bigint {
  const low = view.getBigUint64(at + 24)
  if ((view.getUint32(at + 16) | view.getUint32(at + 20)) === 0 && isZero128(view, at)) return low
  const low128 = (view.getBigUint64(at + 16) << 64n) | low
  if (isZero128(view, at)) return low128
  return (view.getBigUint64(at) << 192n) | (view.getBigUint64(at + 8) << 128n) | low128
}

function isZero128(view: DataView, at: number): boolean {
  return (
    (view.getUint32(at) |
      view.getUint32(at + 4) |
      view.getUint32(at + 8) |
      view.getUint32(at + 12)) ===
    0
  )
}

function outside(blob: Blob, name: string, type: string): ReportDecodingError {
  return refuse(blob.feedID, `${name} is no ${type}`)
}
