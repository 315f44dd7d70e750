import { ValidationError } from '../../core/errors.js'
import { decodeBase64, encodeBase64 } from '../bytes.js'
import { TDH2Error } from './errors.js'
import { decodePoint, decodeScalar, encodePoint, encodeScalar, GROUP, type Point } from './group.js'

/**
 * The fields of a JSON object that encodes a key, a ciphertext or a share. Unknown fields, the order of fields and white space
 * are ignored; names are case-sensitive.
 */
export interface Fields {
  /** Names the object in errors. */
  readonly name: string
  readonly values: Readonly<Record<string, unknown>>
}

/** Far more than any object needs, in UTF-16 units. */
const MAX_TEXT = 1_048_576

/** Parses a JSON object. No error quotes the text, because it may be secret. */
export function parseFields(name: string, json: string): Fields {
  if (typeof json !== 'string')
    throw new ValidationError(`the ${name} must be JSON text, not ${typeof json}`)
  if (json.length > MAX_TEXT) throw rejection(name, `it is longer than ${MAX_TEXT} characters`)
  let values: unknown
  try {
    values = JSON.parse(json)
  } catch {
    throw rejection(name, 'it is not JSON')
  }
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw rejection(name, 'it is not a JSON object')
  return { name, values: values as Readonly<Record<string, unknown>> }
}

/** Parses a JSON object whose Group is P256. */
export function parseGroupFields(name: string, json: string): Fields {
  const fields = parseFields(name, json)
  const { Group: group } = fields.values
  if (group !== GROUP) {
    const isShort = typeof group === 'string' && group.length <= 16
    throw rejection(name, `Group: unsupported group${isShort ? `: ${JSON.stringify(group)}` : ''}`)
  }
  return fields
}

/** Makes the error for an object that breaks `rule`. */
export function rejection(name: string, rule: string): TDH2Error {
  return new TDH2Error(`the ${name} is rejected: ${rule}`)
}

/** Reads the bytes of a field. */
export function readBytes(fields: Fields, field: string): Uint8Array {
  return toBytes(fields.name, field, fields.values[field])
}

/** Reads the point of a field; infinity is an error. */
export function readPoint(fields: Fields, field: string): Point {
  return toPoint(fields.name, field, fields.values[field])
}

/** Reads the points of a field that is an array or missing. */
export function readPoints(fields: Fields, field: string, limit: number): readonly Point[] {
  const value = fields.values[field] ?? []
  if (!Array.isArray(value)) throw rejection(fields.name, `${field} must be an array`)
  if (value.length > limit)
    throw rejection(fields.name, `${field} must not have more than ${limit} entries`)
  return value.map((entry, index) => toPoint(fields.name, `${field}[${index}]`, entry))
}

/** Reads the scalar of a field, from 0 to n - 1. */
export function readScalar(fields: Fields, field: string): bigint {
  const scalar = decodeScalar(readBytes(fields, field))
  if (typeof scalar === 'string') throw rejection(fields.name, `${field}: ${scalar}`)
  return scalar
}

/** Reads the scalar of a field, from 1 to n - 1. */
export function readNonzeroScalar(fields: Fields, field: string): bigint {
  const scalar = readScalar(fields, field)
  if (scalar === 0n) throw rejection(fields.name, `${field}: it is zero`)
  return scalar
}

/** Reads the index of a share, from 0 on. */
export function readIndex(fields: Fields): number {
  const { Index: index } = fields.values
  if (typeof index !== 'number' || !Number.isSafeInteger(index) || index < 0)
    throw rejection(fields.name, 'Index: invalid share index')
  return index
}

/** Writes a point as the value of a field. */
export function pointText(point: Point): string {
  return encodeBase64(encodePoint(point))
}

/** Writes a scalar as the value of a field. */
export function scalarText(scalar: bigint): string {
  return encodeBase64(encodeScalar(scalar))
}

function toBytes(name: string, field: string, value: unknown): Uint8Array {
  if (value === undefined) throw rejection(name, `${field} is missing`)
  const bytes = typeof value === 'string' ? decodeBase64(value) : undefined
  if (bytes === undefined) throw rejection(name, `${field} must be base64 text`)
  return bytes
}

function toPoint(name: string, field: string, value: unknown): Point {
  const point = decodePoint(toBytes(name, field, value))
  if (typeof point === 'string') throw rejection(name, `${field}: ${point}`)
  return point
}
