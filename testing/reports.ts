import { secp256k1 } from '@noble/curves/secp256k1'
import { keccak_256 } from '@noble/hashes/sha3'
import { concatBytes, hexToBytes } from '@noble/hashes/utils'
import { ValidationError } from '../core/errors.js'
import {
  checkBoolean,
  number,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../core/options.js'
import type { SignerSet } from '../plugins/verify/options.js'
import { feedResolution, feedVersion, parseFeedID } from '../report/feed-id.js'

/** A report as the service sends it. */
export interface SampleReport {
  /** In lower case. */
  readonly feedID: string
  /** In the feed's unit. */
  readonly validFromTimestamp: number
  /** In the feed's unit. */
  readonly observationsTimestamp: number
  /** The signed bytes, `0x` and hexadecimal digits. */
  readonly fullReport: string
}

/** What `sampleReport` makes. */
export interface SampleReportOptions {
  /** `0x` and 64 hexadecimal digits; the first four are the version. */
  readonly feedID: string
  /** In the feed's unit. */
  readonly observationsTimestamp: number
  /** In the feed's unit. @default one unit before `observationsTimestamp` */
  readonly validFromTimestamp?: number
  /**
   * The values after the common head, one per 32 byte word, in the order of the encoding.
   * @default plausible values for the versions 2 to 14
   */
  readonly values?: readonly (bigint | number | boolean)[]
  /** Whether two of the `sampleSigners` sign the report, in milliseconds. @default false */
  readonly signed?: boolean
}

/**
 * The fields after the common head, by version: `p` price, `n` nanoseconds, `t` seconds, `d` a
 * duration, `s` a status, `v` a volume, `m` a month, `z` zero.
 */
const shapes: Readonly<Record<number, string>> = {
  2: 'p',
  3: 'ppp',
  4: 'ps',
  5: 'ptd',
  6: 'ppppp',
  7: 'p',
  8: 'nps',
  9: 'pnpz',
  10: 'npspptp',
  11: 'pnppppps',
  12: 'ppnz',
  13: 'ppvvp',
  14: 'pppnnnsmpdp',
}

/**
 * A price of 72 bits with 18 decimals. It changes from second to second, and is a tenth higher in
 * each seventh second.
 */
function priceAt(seconds: number): bigint {
  const second = Math.floor(seconds)
  const price = 3_214_581_200_000_000_000_000n + BigInt(second % 1000) * 1_000_000_000_000_000n
  return second % 7 === 0 ? price + price / 10n : price
}

const values: Readonly<Record<string, (seconds: number) => bigint>> = {
  p: priceAt,
  n: seconds => BigInt(Math.floor(seconds)) * 1_000_000_000n + 123_456_789n,
  t: seconds => BigInt(Math.floor(seconds)),
  d: () => 3600n,
  s: () => 2n,
  v: () => 1_234_567n,
  m: () => 11n,
  z: () => 0n,
}

/** The versions whose reports `sampleReport` can make without `values`. */
export const sampleVersions: readonly number[] = Object.keys(shapes).map(Number)

const word = (value: bigint | number | boolean): string =>
  BigInt.asUintN(256, BigInt(value)).toString(16).padStart(64, '0')

/** A time in the feed's unit. Times below 10^11 are seconds. */
export function sampleTime(feedID: string, time: number): number {
  return feedResolution(feedID) === 'ms' && time < 1e11 ? time * 1000 : time
}

/** The signers of the reports that `sampleReport` signs. Their keys are the numbers 1 to 4. */
export const sampleSigners: SignerSet = {
  signers: [
    '0x7e5f4552091a69125d5dfcb7b8c2659029395bdf',
    '0x2b5ad5c4795c026514f8317c7a215e218dccd6cf',
    '0x6813eb9362372eef6200f3b1dbc3f819671cba69',
    '0x1eff47bc3a10a45d4b230b5d10e37751fe6aa718',
  ],
  f: 1,
}

/** The config digest of all sample reports. */
export const sampleDigest: string = `0x0009${'5a'.repeat(30)}`

/** The three words that are signed together with the hash of the blob. */
const context = [sampleDigest.slice(2), word(300), word((3n << 32n) | 1n)]

function sign(blob: string): { rs: string[]; ss: string[]; vs: string } {
  const hash = keccak_256(
    concatBytes(keccak_256(hexToBytes(blob)), ...context.map(each => hexToBytes(each))),
  )
  const made = [1, 2].map(key => secp256k1.sign(hash, hexToBytes(word(key))))
  return {
    rs: made.map(({ r }) => word(r)),
    ss: made.map(({ s }) => word(s)),
    vs: made
      .map(({ recovery }) => `0${recovery}`)
      .join('')
      .padEnd(64, '0'),
  }
}

function checkValues(field: string, value: unknown): readonly (bigint | number | boolean)[] {
  const isValue = (each: unknown): boolean =>
    typeof each === 'bigint' || typeof each === 'boolean' || Number.isSafeInteger(each)
  if (!Array.isArray(value) || !value.every(isValue))
    throw new ValidationError(`${field} must be an array of bigints, safe integers and booleans`)
  return value
}

const time = number({ min: 0, max: Number.MAX_SAFE_INTEGER, whole: true })
const schema = {
  feedID: (field, value) => parseFeedID(value, field),
  observationsTimestamp: time,
  validFromTimestamp: optional(time),
  values: optional(checkValues),
  signed: withDefault(false, checkBoolean),
} satisfies Schema<SampleReportOptions>

/**
 * Makes a report with the encoding of the service: three words of context, the blob, and the
 * signatures.
 *
 * @example
 * ```ts
 * const feedID = `0x0003${'ab'.repeat(30)}`
 * const report = sampleReport({ feedID, observationsTimestamp: 1_700_000_000 })
 * ```
 */
export function sampleReport(options: SampleReportOptions): SampleReport {
  const given = readOptions('sampleReport', options, schema)
  const { feedID, observationsTimestamp: time, signed } = given
  const { validFromTimestamp = Math.max(0, time - 1) } = given
  const isMilliseconds = feedResolution(feedID) === 'ms'
  const seconds = isMilliseconds ? time / 1000 : time
  const shape = shapes[feedVersion(feedID)]
  if (given.values === undefined && shape === undefined)
    throw new ValidationError(
      `values: the kit knows no fields of version ${feedVersion(feedID)}, so give one value for each`,
    )
  const tail = given.values ?? [...(shape as string)].map(kind => values[kind]?.(seconds) ?? 0n)
  const expiresAt = time + 30 * 86_400 * (isMilliseconds ? 1000 : 1)
  // 40,000 gwei and 0.01 LINK.
  const head = [validFromTimestamp, time, 40_000_000_000_000n, 10_000_000_000_000_000n, expiresAt]
  const blob = feedID.slice(2) + [...head, ...tail].map(word).join('')
  const { rs, ss, vs } = signed ? sign(blob) : { rs: [], ss: [], vs: word(0) }
  const blobAt = 7 * 32
  const rsAt = blobAt + 32 + blob.length / 2
  const ssAt = rsAt + 32 * (1 + rs.length)
  const fullReport = [
    '0x',
    ...context,
    ...[blobAt, rsAt, ssAt].map(word),
    vs,
    word(blob.length / 2),
    blob,
    word(rs.length),
    ...rs,
    word(ss.length),
    ...ss,
  ].join('')
  return { feedID, validFromTimestamp, observationsTimestamp: time, fullReport }
}
