import { ValidationError } from '../../core/errors.js'
import { decodeBase64, encodeBase64 } from '../base64.js'
import { TDH2Error } from './errors.js'
import { decodePoint, decodeScalar, encodePoint, encodeScalar, GROUP, type Point } from './group.js'

/**
 * The fields of the JSON objects that keys, ciphertexts and shares travel as. Unknown fields are ignored, their order and
 * the white space between them do not matter; names are taken as they are written.
 */
export interface Fields {
  /** What the object is, for errors. */
  readonly name: string
  readonly values: Readonly<Record<string, unknown>>
}

/** No object is near this; what is longer is not read. In UTF-16 units, of which base64 needs one per digit. */
export const MAX_TEXT = 1_048_576

/** The fields of a JSON object. No error repeats any of the text: it may be a secret. */
export function parseFields(name: string, json: string): Fields {
  if (typeof json !== 'string')
    throw new ValidationError(`the ${name} must be JSON text, not ${typeof json}`)
  if (json.length > MAX_TEXT) throw refuse(name, `it is longer than ${MAX_TEXT} characters`)
  let values: unknown
  try {
    values = JSON.parse(json)
  } catch {
    throw refuse(name, 'it is not JSON')
  }
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw refuse(name, 'it is not a JSON object')
  return { name, values: values as Readonly<Record<string, unknown>> }
}

/** The fields of a JSON object whose Group is P256. */
export function parseGroupFields(name: string, json: string): Fields {
  const fields = parseFields(name, json)
  const { Group: group } = fields.values
  if (group !== GROUP) {
    const isShort = typeof group === 'string' && group.length <= 16
    throw refuse(name, `Group: unsupported group${isShort ? `: ${JSON.stringify(group)}` : ''}`)
  }
  return fields
}

/** The error for an object that breaks `rule`. */
export function refuse(name: string, rule: string): TDH2Error {
  return new TDH2Error(`the ${name} is refused: ${rule}`)
}

/** The bytes of a field. */
export function readBytes(fields: Fields, field: string): Uint8Array {
  return toBytes(fields.name, field, fields.values[field])
}

/** The point of a field, which infinity is not. */
export function readPoint(fields: Fields, field: string): Point {
  return toPoint(fields.name, field, fields.values[field])
}

/** The points of a field that is an array, or missing. */
export function readPoints(fields: Fields, field: string, limit: number): readonly Point[] {
  const value = fields.values[field] ?? []
  if (!Array.isArray(value)) throw refuse(fields.name, `${field} must be an array`)
  if (value.length > limit)
    throw refuse(fields.name, `${field} must not have more than ${limit} entries`)
  return value.map((entry, index) => toPoint(fields.name, `${field}[${index}]`, entry))
}

/** The scalar of a field, from 0 to n - 1. */
export function readScalar(fields: Fields, field: string): bigint {
  const scalar = decodeScalar(readBytes(fields, field))
  if (typeof scalar === 'string') throw refuse(fields.name, `${field}: ${scalar}`)
  return scalar
}

/** The scalar of a field, from 1 to n - 1. */
export function readNonzeroScalar(fields: Fields, field: string): bigint {
  const scalar = readScalar(fields, field)
  if (scalar === 0n) throw refuse(fields.name, `${field}: it is zero`)
  return scalar
}

/** The index of a share, from 0 on. */
export function readIndex(fields: Fields): number {
  const { Index: index } = fields.values
  if (typeof index !== 'number' || !Number.isSafeInteger(index) || index < 0)
    throw refuse(fields.name, 'Index: invalid share index')
  return index
}

/** A point as the value of a field. */
export function pointText(point: Point): string {
  return encodeBase64(encodePoint(point))
}

/** A scalar as the value of a field. */
export function scalarText(scalar: bigint): string {
  return encodeBase64(encodeScalar(scalar))
}

function toBytes(name: string, field: string, value: unknown): Uint8Array {
  if (value === undefined) throw refuse(name, `${field} is missing`)
  const bytes = typeof value === 'string' ? decodeBase64(value) : undefined
  if (bytes === undefined) throw refuse(name, `${field} must be base64 text`)
  return bytes
}

function toPoint(name: string, field: string, value: unknown): Point {
  const point = decodePoint(toBytes(name, field, value))
  if (typeof point === 'string') throw refuse(name, `${field}: ${point}`)
  return point
}
