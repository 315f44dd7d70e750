import { ValidationError } from 'sluice/core'
import { type Field, nameKind, readMessage } from './fields.js'
import { type DurationMessage, TYPE_NAMES } from './message.js'

/** One second in nanoseconds. */
export const SECOND: bigint = 1_000_000_000n
const MAX_SECONDS = 315_576_000_000n

/** The units of a duration, in nanoseconds. */
const UNITS = { ms: 1_000_000n, s: SECOND, m: 60n * SECOND } as const

const SHAPE = { typeName: TYPE_NAMES.Duration, fields: { seconds: readWhole, nanos: readNanos } }

/**
 * Converts a duration of any form to its normal form. Throws a ValidationError that names `field`
 * unless the duration is more than 0.
 */
export function parseDuration(field: string, value: unknown): DurationMessage {
  const total =
    typeof value === 'string' ? parseText(field, value) : parseMessage({ path: field, value })
  if (total <= 0n) throw new ValidationError(`${field} must be more than 0`)
  if (total / SECOND > MAX_SECONDS)
    throw new ValidationError(`${field} must be at most ${MAX_SECONDS} seconds`)
  return {
    $typeName: TYPE_NAMES.Duration,
    seconds: total / SECOND,
    nanos: Number(total % SECOND),
  }
}

/** Converts a duration to milliseconds, with decimals. */
export function durationMs({ seconds, nanos }: Omit<DurationMessage, '$typeName'>): number {
  return Number(seconds) * 1000 + nanos / 1_000_000
}

/** Writes a duration as protobuf's JSON does: in seconds, with 0, 3, 6 or 9 decimals. */
export function formatDuration({ seconds, nanos }: Omit<DurationMessage, '$typeName'>): string {
  if (nanos === 0) return `${seconds}s`
  const decimals = String(nanos)
    .padStart(9, '0')
    .replace(/(000){1,2}$/, '')
  return `${seconds}.${decimals}s`
}

function parseText(field: string, text: string): bigint {
  const [, sign, whole = '', decimals = '', unit] =
    /^(-?)([0-9]{1,32})(?:\.([0-9]{1,9}))?(ms|s|m)$/.exec(text) ?? []
  if (unit === undefined)
    throw new ValidationError(
      `${field} must be a number of at most 9 decimals and its unit, such as 5s, 1.5s, 200ms or 1m`,
    )
  const scaled = BigInt(whole + decimals.padEnd(9, '0')) * UNITS[unit as keyof typeof UNITS]
  if (scaled % SECOND !== 0n) throw new ValidationError(`${field} must be in whole nanoseconds`)
  return sign === '-' ? -scaled / SECOND : scaled / SECOND
}

function parseMessage(field: Field): bigint {
  if (typeof field.value !== 'object' || field.value === null)
    throw new ValidationError(
      `${field.path} must be a duration such as 5s or 200ms, not ${nameKind(field.value)}`,
    )
  const { seconds, nanos } = readMessage(field, SHAPE)
  return seconds * SECOND + nanos
}

function readNanos(field: Field): bigint {
  const nanos = readWhole(field)
  if (nanos >= 0n && nanos < SECOND) return nanos
  throw new ValidationError(`${field.path} must be 0 to 999999999`)
}

function readWhole({ path, value = 0n }: Field): bigint {
  if (typeof value === 'bigint') return value
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value)
  if (typeof value === 'string' && /^-?[0-9]{1,32}$/.test(value)) return BigInt(value)
  throw new ValidationError(
    `${path} must be a whole number${typeof value === 'number' ? '' : `, not ${nameKind(value)}`}`,
  )
}
