import { ValidationError } from '../core/errors.js'
import { readUTF8 } from '../platform/bytes.js'
import { type Blob, decodingError, type ReportDecodingError, readSafeUint } from './full-report.js'

/**
 * The type of one field, as Solidity names it. The width of an integer must be a multiple of 8.
 *
 * | type | decoded as |
 * |---|---|
 * | `uint8` … `uint48`, `int8` … `int48` | `number` |
 * | `uint56` … `uint256`, `int56` … `int256` | `bigint` |
 * | `uint64-twin` | the nearest `number`, and the exact `bigint` in a second field, whose name ends in `Raw` |
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

/**
 * Reads the field `name` from the word at byte `at`. Throws ReportDecodingError if the word is not
 * a value of the type.
 */
export type Reader<Value = unknown> = (blob: Blob, at: number, name: string) => Value

/**
 * The reader of a type whose value is stored in the field's own word. That excludes strings. Throws
 * ValidationError for other types.
 */
export function readerOf(name: string, type: FieldType | undefined): Reader {
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

/** The bits of the widest integers that are decoded as numbers. */
const EXACT_WIDTH = 48
/** Values of at most this many bits are read faster. The values in reports have at most 80 bits. */
const SHORT = 128

function uintReader(width: number): Reader {
  const limit = 1n << BigInt(width)
  if (width <= EXACT_WIDTH) {
    const most = 2 ** width - 1
    return (blob, at, name) => {
      const value = readSafeUint(blob.view, at)
      if (!(value <= most)) throw outside(blob, name, `uint${width}`)
      return value
    }
  }
  return (blob, at, name) => {
    const { view } = blob
    const isShort = isExtended(view, at, 0)
    const value = isShort ? readUint128(view, at + 16) : BigInt.asUintN(256, readInt256(view, at))
    if (!(isShort && width >= SHORT) && value >= limit) throw outside(blob, name, `uint${width}`)
    return value
  }
}

function intReader(width: number): Reader {
  const limit = 1n << BigInt(width - 1)
  const least = -limit
  const isSmall = width <= EXACT_WIDTH
  return (blob, at, name) => {
    const { view } = blob
    const isShort = isExtended(view, at, view.getInt32(at + 16) >> 31)
    const value = isShort ? readInt128(view, at + 16) : readInt256(view, at)
    if (!(isShort && width >= SHORT) && (value >= limit || value < least))
      throw outside(blob, name, `int${width}`)
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

/** Reads a fee, in the smallest unit of its token. */
export const readFee: Reader<bigint> = uintReader(192) as Reader<bigint>
/** Reads a time of a feed whose times are in seconds. */
export const readSeconds: Reader<number> = uintReader(32) as Reader<number>

/** Reads a time of a feed whose times are in milliseconds. */
export function readMilliseconds(blob: Blob, at: number, name: string): number {
  const value = readSafeUint(blob.view, at)
  if (Number.isNaN(value)) throw outside(blob, name, 'time of at most 2^53 - 1')
  return value
}

function readBool(blob: Blob, at: number, name: string): boolean {
  const value = readSafeUint(blob.view, at)
  if (value !== 0 && value !== 1) throw outside(blob, name, 'bool')
  return value === 1
}

/**
 * The length in bytes of the string whose offset is at byte `at`. The string must begin at byte
 * `tail`.
 */
export function stringLength(blob: Blob, at: number, tail: number, name: string): number {
  const { view } = blob
  const length =
    readSafeUint(view, at) === tail && tail + 32 <= blob.length
      ? readSafeUint(view, tail)
      : Number.NaN
  if (!(tail + 32 + length <= blob.length))
    throw outside(blob, name, 'string: its offset or length points elsewhere')
  return length
}

/**
 * Reads a string of `length` bytes from `start` on. The string must be UTF-8, and padded with
 * zeros.
 */
export function readString(blob: Blob, start: number, length: number, name: string): string {
  const { view } = blob
  for (let at = start + length; at % 32 !== 0; at++) {
    if (view.getUint8(at) !== 0) throw outside(blob, name, 'string: its padding is not zero')
  }
  try {
    return readUTF8(new Uint8Array(view.buffer, view.byteOffset + start, length))
  } catch {
    throw outside(blob, name, 'string: it is not valid UTF-8')
  }
}

/**
 * Whether the upper half of the word at byte `at` only repeats the sign of the lower half: all its
 * bits are those of `sign`, 0 or -1.
 */
function isExtended(view: DataView, at: number, sign: number): boolean {
  return (
    ((view.getInt32(at) ^ sign) |
      (view.getInt32(at + 4) ^ sign) |
      (view.getInt32(at + 8) ^ sign) |
      (view.getInt32(at + 12) ^ sign)) ===
    0
  )
}

function readUint128(view: DataView, at: number): bigint {
  const low = view.getBigUint64(at + 8)
  if ((view.getInt32(at) | view.getInt32(at + 4)) === 0) return low
  return (view.getBigUint64(at) << 64n) | low
}

function readInt128(view: DataView, at: number): bigint {
  const low = view.getBigUint64(at + 8)
  if ((view.getInt32(at) | view.getInt32(at + 4)) === 0) return low
  return (view.getBigInt64(at) << 64n) | low
}

function readInt256(view: DataView, at: number): bigint {
  return (readInt128(view, at) << 128n) | readUint128(view, at + 16)
}

function outside(blob: Blob, name: string, type: string): ReportDecodingError {
  return decodingError(blob.feedID, `${name} is no ${type}`)
}
