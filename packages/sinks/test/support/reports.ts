// Reports and candles of every version, with values that a test chooses.

import {
  encodeBlob,
  encodeFullReport,
  type FieldValue,
  rangeOf,
  reportSchema,
} from '@sluice/source/packages/engine/encode.js'
import { allDecoders } from '@sluice/source/plugins/decoders/versions.js'
import { createRandom, type Random } from '@sluice/test-support/random.js'
import type { Candle } from 'sluice/plugins/candles'
import { createDecoderTable, type Decoder, type DecoderTable, Report } from 'sluice/report'

/** The versions of reports that the library knows. */
export const versions: readonly number[] = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]

/** A time in seconds, of which tests count on. */
export const TIME = 1_800_000_000

/** The id of the n-th feed of a version. */
export function feedOf(version: number, number = 1, unit: 's' | 'ms' = 's'): string {
  const digits = BigInt(number) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834n
  return `0x${unit === 's' ? 0 : 1}${version.toString(16).padStart(3, '0')}${digits.toString(16).padStart(60, 'a').slice(-60)}`
}

/** What a report is made of. */
export interface ReportParts {
  readonly version?: number
  readonly feedID?: string
  /** The time of the observations, in the feed's unit. */
  readonly time?: number
  /** Values of the encoded fields. Others are random. */
  readonly values?: Readonly<Record<string, FieldValue>>
  readonly seed?: number
  readonly origin?: string
  readonly source?: Report['source']
  readonly table?: DecoderTable
}

const known = createDecoderTable(allDecoders)
/** A table that knows decoders of a test, too. */
export const tableWith = (...decoders: readonly Decoder[]): DecoderTable =>
  createDecoderTable([...decoders, ...allDecoders])

const randomBits = (random: Random, bits: number): bigint => {
  let value = 0n
  for (let have = 0; have < bits; have += 32)
    value = (value << 32n) | BigInt(random.pick(0, 2 ** 32 - 1))
  return BigInt.asUintN(bits, value)
}

/** A price of 72 to 80 bits, as the service has them. One in three is negative. */
function priceOf(random: Random): bigint {
  const price = 2n ** 71n + (randomBits(random, 80) % (2n ** 80n - 2n ** 71n))
  return random.chance(1 / 3) ? -price : price
}

/** Makes a report. The same parts make the same report. */
export function makeReport(parts: ReportParts = {}): Report {
  const { version = 3, feedID = feedOf(version), time = TIME, values = {}, table = known } = parts
  const { seed = time, origin = 'wss://localhost#001', source = 'live' } = parts
  const unit = feedID.startsWith('0x1') ? 'ms' : 's'
  const random = createRandom(seed)
  const schema = reportSchema(version, unit)
  if (schema === undefined) throw new Error(`there is no version ${version}`)
  const made: Record<string, FieldValue> = {
    feedId: feedID,
    validFromTimestamp: time,
    observationsTimestamp: time,
    expiresAt: time + 86_400,
  }
  for (const { name, type } of schema) {
    if (name in made || type === 'bytes32') continue
    if (type === 'int192') made[name] = priceOf(random)
    else if (type === 'uint192') made[name] = randomBits(random, 53)
    else made[name] = randomBits(random, Number(type.slice('uint'.length)))
  }
  const blob = encodeBlob(schema, { ...made, ...values })
  const word = (): string => randomBits(random, 256).toString(16).padStart(64, '0')
  const fullReport = encodeFullReport({
    context: [word(), word(), word()],
    blob,
    rs: [word(), word()],
    ss: [word(), word()],
    vs: '00'.repeat(32),
  })
  return new Report(
    feedID,
    fullReport,
    Number(made.validFromTimestamp),
    time,
    origin,
    source,
    table,
  )
}

/** Reports of V3 feeds: one of each feed for the first second, then one of each for the next. */
export function makeReports(count: number, feeds = 5, from: number = TIME): readonly Report[] {
  return Array.from({ length: count }, (_, index) =>
    makeReport({
      feedID: feedOf(3, 1 + (index % feeds)),
      time: from + Math.floor(index / feeds),
      seed: index,
    }),
  )
}

/** The last times of feeds' reports. */
export function positionOf(reports: readonly Report[]): Readonly<Record<string, number>> {
  const position: Record<string, number> = {}
  for (const { feedID, observationsTimestamp: time } of reports)
    position[feedID] = Math.max(time, position[feedID] ?? 0)
  return position
}

/** A candle of a minute. */
export function makeCandle(changes: Partial<Candle> = {}): Candle {
  const start = changes.start ?? TIME
  return {
    feedID: feedOf(3),
    interval: '1m',
    start,
    end: start + 59,
    open: 4_231_000_000_000_000_000_001n,
    high: 4_239_000_000_000_000_000_002n,
    low: -1n,
    close: 4_235_000_000_000_000_000_003n,
    twap: 4_234_000_000_000_000_000_004n,
    count: 60,
    complete: true,
    missing: [],
    signedLater: 0,
    revision: 60,
    ...changes,
  }
}

/** The smallest and the largest value of a type of reports. */
export { rangeOf }
