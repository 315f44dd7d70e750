import { sha256 } from '@noble/hashes/sha2'
import { DataStreamsError, type ErrorFacts, ValidationError } from '../../core/errors.js'
import { decodeBase64, encodeBase64 } from '../bytes.js'
import {
  decodePoint,
  decodeScalar,
  encodePoint,
  encodeScalar,
  GROUP,
  type Point,
  pointDigits,
  reduceDigest,
} from './group.js'

/**
 * A key, ciphertext or decryption share of the threshold encryption is malformed or does not
 * verify.
 */
export class TDH2Error extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'TDH2', ...facts })
  }

  static {
    TDH2Error.prototype.name = 'TDH2Error'
  }
}

/** Declares the code of these errors. */
declare module '../../core/errors.js' {
  interface ErrorClasses {
    /** A key, a ciphertext or a share is malformed, or does not verify. */
    TDH2: TDH2Error
  }
}

/** Makes the error for an object that breaks `rule`, such as a key. */
export function rejection(name: string, rule: string): TDH2Error {
  return new TDH2Error(`the ${name} is rejected: ${rule}`)
}

/**
 * The longest JSON text that is parsed, in UTF-16 units. The longest ciphertext that `encrypt`
 * makes fits.
 */
const MAX_TEXT = 1_048_576

/**
 * Reads the fields of a JSON object that encodes a key, a ciphertext or a share. Ignores unknown
 * fields, the order of fields and white space. Names are case-sensitive. No error quotes the whole
 * text, because the text may be secret.
 */
export class FieldReader {
  readonly #name: string
  readonly #values: Readonly<Record<string, unknown>>

  /** Parses a JSON object. Errors call the object by `name`. */
  constructor(name: string, json: string) {
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
    this.#name = name
    this.#values = values as Readonly<Record<string, unknown>>
  }

  /** Parses a JSON object whose Group is P256. */
  static ofGroup(name: string, json: string): FieldReader {
    const fields = new FieldReader(name, json)
    const { Group: group } = fields.#values
    if (group === GROUP) return fields
    const isShort = typeof group === 'string' && group.length <= 16
    throw rejection(name, `Group: unsupported group${isShort ? `: ${JSON.stringify(group)}` : ''}`)
  }

  /** Reads the bytes of a field. */
  bytes(field: string, value: unknown = this.#values[field]): Uint8Array {
    if (value === undefined) throw rejection(this.#name, `${field} is missing`)
    const bytes = typeof value === 'string' ? decodeBase64(value) : undefined
    if (bytes === undefined) throw rejection(this.#name, `${field} must be base64 text`)
    return bytes
  }

  /** Reads the point of a field. Rejects infinity. */
  point(field: string, value: unknown = this.#values[field]): Point {
    const point = decodePoint(this.bytes(field, value))
    if (typeof point === 'string') throw rejection(this.#name, `${field}: ${point}`)
    return point
  }

  /** Reads the points of an array. A missing field counts as an empty array. */
  points(field: string, limit: number): readonly Point[] {
    const value = this.#values[field] ?? []
    if (!Array.isArray(value)) throw rejection(this.#name, `${field} must be an array`)
    if (value.length > limit)
      throw rejection(this.#name, `${field} must not have more than ${limit} entries`)
    return value.map((entry, index) => this.point(`${field}[${index}]`, entry))
  }

  /** Reads the scalar of a field, from 0 to n - 1. */
  scalar(field: string): bigint {
    const scalar = decodeScalar(this.bytes(field))
    if (typeof scalar === 'string') throw rejection(this.#name, `${field}: ${scalar}`)
    return scalar
  }

  /** Reads the scalar of a field, from 1 to n - 1. */
  nonzeroScalar(field: string): bigint {
    const scalar = this.scalar(field)
    if (scalar === 0n) throw rejection(this.#name, `${field}: it is zero`)
    return scalar
  }

  /** Reads the index of a share, from 0 on. */
  index(): number {
    const { Index: index } = this.#values
    if (typeof index !== 'number' || !Number.isSafeInteger(index) || index < 0)
      throw rejection(this.#name, 'Index: invalid share index')
    return index
  }
}

/** Writes a point as the value of a field. */
export function pointText(point: Point): string {
  return encodeBase64(encodePoint(point))
}

/** Writes a scalar as the value of a field. */
export function scalarText(scalar: bigint): string {
  return encodeBase64(encodeScalar(scalar))
}

/*
 * The hashes of TDH2 (Shoup and Gennaro, “Securing Threshold Cryptosystems against Chosen
 * Ciphertext Attack”). Each is the SHA-256 of a tag of 9 bytes and the concatenated parts, without
 * their lengths. H3 of the paper derives the second generator. It is not needed here, because the
 * public key contains the second generator.
 */

/** Computes H1: hashes a point to a one-time pad of 32 bytes. */
export function hashToPad(point: Point): Uint8Array {
  return sha256(`tdh2hash1${cat([point])}`)
}

/**
 * Computes H2, the challenge of a ciphertext. Hashes c (32 bytes), the label (32 bytes) and the
 * points u, w, ū and w̄.
 */
export function hashCiphertext(
  c: Uint8Array,
  label: Uint8Array,
  points: readonly (Point | undefined)[],
): bigint {
  const digest = sha256.create().update('tdh2hash2').update(c).update(label).update(cat(points))
  return reduceDigest(digest.digest())
}

/** Computes H4, the challenge of a decryption share. Hashes the points uᵢ, û and ĥ. */
export function hashShare(points: readonly (Point | undefined)[]): bigint {
  return reduceDigest(sha256(`tdh2hash4${cat(points)}`))
}

function cat(points: readonly (Point | undefined)[]): string {
  return [GROUP, ...points.map(pointDigits)].join(',')
}
