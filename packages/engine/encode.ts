import { ValidationError } from 'sluice/core'

/** The Solidity types that occur in a report blob. */
export type FieldType = 'bytes32' | 'int192' | 'uint192' | 'uint64' | 'uint32'

/** One field of a report blob. */
export interface Field {
  readonly name: string
  readonly type: FieldType
}

/** The unit of a feed's timestamps: seconds, or milliseconds when the top nibble of its id is 1. */
export type Resolution = 's' | 'ms'

// The fields that follow the common head, by report version.
const tails: Readonly<Record<number, string>> = {
  2: 'int192 price',
  3: 'int192 price, int192 bid, int192 ask',
  4: 'int192 price, uint32 marketStatus',
  5: 'int192 rate, uint32 timestamp, uint32 duration',
  6: 'int192 price, int192 price2, int192 price3, int192 price4, int192 price5',
  7: 'int192 exchangeRate',
  8: 'uint64 lastUpdateTimestamp, int192 midPrice, uint32 marketStatus',
  9: 'int192 navPerShare, uint64 navDate, int192 aum, uint32 ripcord',
  10: 'uint64 lastUpdateTimestamp, int192 price, uint32 marketStatus, int192 currentMultiplier, int192 newMultiplier, uint32 activationDateTime, int192 tokenizedPrice',
  11: 'int192 mid, uint64 lastSeenTimestampNs, int192 bid, int192 bidVolume, int192 ask, int192 askVolume, int192 lastTradedPrice, uint32 marketStatus',
  12: 'int192 navPerShare, int192 nextNavPerShare, uint64 navDate, uint32 ripcord',
  13: 'int192 bestAsk, int192 bestBid, uint64 askVolume, uint64 bidVolume, int192 lastTradedPrice',
  14: 'int192 midPrice, int192 bidPrice, int192 askPrice, uint64 expiryTime, uint64 firstDayOfNotice, uint64 lastSeenTimestampNs, uint32 marketStatus, uint32 contractMonth, int192 goldmanRollPrice, uint32 currentBusinessDay, int192 interpolatedGoldmanRollPrice',
}

function fieldsOf(signature: string): readonly Field[] {
  return signature.split(', ').map(declaration => {
    const [type, name] = declaration.split(' ') as [FieldType, string]
    return { name, type }
  })
}

function schema(time: FieldType, tail: string): readonly Field[] {
  return fieldsOf(
    `bytes32 feedId, ${time} validFromTimestamp, ${time} observationsTimestamp, uint192 nativeFee, uint192 linkFee, ${time} expiresAt, ${tail}`,
  )
}

const schemas = new Map<string, readonly Field[]>()
for (const [version, tail] of Object.entries(tails)) {
  schemas.set(`${version} s`, schema('uint32', tail))
  schemas.set(`${version} ms`, schema('uint64', tail))
}

/** The fields of a report blob in order, or undefined when the version isn't known. */
export function reportSchema(
  version: number,
  resolution: Resolution,
): readonly Field[] | undefined {
  return schemas.get(`${version} ${resolution}`)
}

/** A value of a report's field. */
export type FieldValue = bigint | number | string

/** The parts of a signed report. All are hex without `0x`. A word has 64 digits. */
export interface SignedParts {
  /** Three words: the config digest, epoch and round, and the extra hash. */
  readonly context: readonly [string, string, string]
  readonly blob: string
  readonly rs: readonly string[]
  readonly ss: readonly string[]
  /** Byte i is the recovery id (0 or 1) of signature i. */
  readonly vs: string
}

/** The smallest and the largest value of an integer type. */
export function rangeOf(type: Exclude<FieldType, 'bytes32'>): readonly [bigint, bigint] {
  if (type === 'int192') return [-(2n ** 191n), 2n ** 191n - 1n]
  return [0n, 2n ** BigInt(type.slice('uint'.length)) - 1n]
}

/** A non-negative integer as a 32-byte big-endian word in hex. */
export function word(value: bigint | number): string {
  return value.toString(16).padStart(64, '0')
}

function paddedBytes(hex: string): string {
  return hex.padEnd(Math.ceil(hex.length / 64) * 64, '0')
}

/** Checks a field's value against its type. */
export function checkField({ name, type }: Field, value: FieldValue): bigint | string {
  if (type === 'bytes32') {
    if (typeof value !== 'string')
      throw new ValidationError(`${name}: bytes32 takes a string, got a ${typeof value}`)
    if (!/^0x[0-9a-f]{64}$/.test(value)) {
      throw new ValidationError(`${name}: bytes32 takes 0x and 64 lower-case hex digits`)
    }
    return value
  }
  if (typeof value !== 'bigint' && !Number.isSafeInteger(value)) {
    const got = typeof value === 'number' ? value : `a ${typeof value}`
    throw new ValidationError(`${name}: ${type} takes a bigint or a safe integer, got ${got}`)
  }
  const integer = BigInt(value)
  const [least, most] = rangeOf(type)
  if (integer < least || integer > most) {
    throw new ValidationError(`${name}: ${type} takes ${least} to ${most}, got ${integer}`)
  }
  return integer
}

/**
 * `abi.encode(field, field, …)` in hex. Each field takes one word, because no field has a dynamic
 * type.
 */
export function encodeBlob(
  fields: readonly Field[],
  values: Readonly<Record<string, FieldValue>>,
): string {
  let blob = ''
  for (const field of fields) {
    const value = values[field.name]
    if (value === undefined) throw new ValidationError(`${field.name}: no value`)
    const checked = checkField(field, value)
    blob += typeof checked === 'bigint' ? word(BigInt.asUintN(256, checked)) : checked.slice(2)
  }
  return blob
}

/** `abi.encode(bytes32[3], bytes, bytes32[], bytes32[], bytes32)` with `0x`: a signed report. */
export function encodeFullReport({ context, blob, rs, ss, vs }: SignedParts): string {
  const blobAt = 7 * 32
  const blobTail = word(blob.length / 2) + paddedBytes(blob)
  const rsAt = blobAt + blobTail.length / 2
  const rsTail = word(rs.length) + rs.join('')
  const ssAt = rsAt + rsTail.length / 2
  const ssTail = word(ss.length) + ss.join('')
  return `0x${context.join('')}${word(blobAt)}${word(rsAt)}${word(ssAt)}${vs}${blobTail}${rsTail}${ssTail}`
}
