// Random signed reports of every version, encoded by viem, with the fields of the table that others bear witness to.

import fc from 'fast-check'
import { type AbiParameter, encodeAbiParameters } from 'viem'
import { anyCharacter } from '../characters.js'
import { fieldsOnWire, schemas } from './report-schemas.js'

export type Hex = `0x${string}`
export type Resolution = 's' | 'ms'

/** A field of a report blob, as an ABI parameter. */
export interface AbiField {
  readonly name: string
  readonly type: string
}

export const versions: readonly number[] = schemas.map(({ version }) => version)
export const resolutions: readonly Resolution[] = ['s', 'ms']

/** A version that is none of the service's: that of a third party's decoder, and the only one with strings. */
export const THIRD_PARTY = 42
const thirdPartyTail =
  'int192 price, string symbol, uint64 time, string venue, uint32 marketStatus, int192 volume'

const times = ['validFromTimestamp', 'observationsTimestamp', 'expiresAt']

/** The uint64 fields that are decoded twice: as a number and, with `Raw` added to the name, as a bigint. */
const twins: Readonly<Record<number, readonly string[]>> = {
  8: ['lastUpdateTimestamp'],
  9: ['navDate'],
  10: ['lastUpdateTimestamp'],
  12: ['navDate'],
  13: ['askVolume', 'bidVolume'],
  14: ['expiryTime', 'firstDayOfNotice'],
}

function isTwin(version: number, name: string): boolean {
  return twins[version]?.includes(name) === true
}

/** Fields from a list such as `int192 price, uint32 marketStatus`. */
export function parseFields(list: string): readonly AbiField[] {
  return list.split(', ').map(declaration => {
    const [type = '', name = ''] = declaration.split(' ')
    return { type, name }
  })
}

/** The six fields that every version from 2 on begins with. */
export function headFields(resolution: Resolution): readonly AbiField[] {
  const time = resolution === 's' ? 'uint32' : 'uint64'
  return parseFields(
    `bytes32 feedID, ${time} validFromTimestamp, ${time} observationsTimestamp, uint192 nativeFee, uint192 linkFee, ${time} expiresAt`,
  )
}

const tables = new Map<string, readonly AbiField[]>()

/** The fields of a version's blob, in the order of the encoding. */
export function fieldsOf(version: number, resolution: Resolution): readonly AbiField[] {
  const key = `${version} ${resolution}`
  let fields = tables.get(key)
  if (fields === undefined) {
    fields =
      version === THIRD_PARTY
        ? [...headFields(resolution), ...parseFields(thirdPartyTail)]
        : fieldsOnWire(version, resolution).map(({ name, type }) => ({
            name: name === 'feedId' ? 'feedID' : name,
            type,
          }))
    tables.set(key, fields)
  }
  return fields
}

/** The words around a report's blob. */
export interface Envelope {
  readonly context: readonly [Hex, Hex, Hex]
  readonly rs: readonly Hex[]
  readonly ss: readonly Hex[]
  readonly vs: Hex
}

const outer: readonly AbiParameter[] = [
  { type: 'bytes32[3]' },
  { type: 'bytes' },
  { type: 'bytes32[]' },
  { type: 'bytes32[]' },
  { type: 'bytes32' },
]

/** The types of the report's parts. */
export const outerTypes: readonly string[] = outer.map(({ type }) => type)

/** The whole report around a blob. */
export function encodeOuter(blob: Hex, { context, rs, ss, vs }: Envelope): Hex {
  return encodeAbiParameters(outer, [context, blob, rs, ss, vs])
}

/** The whole report, by viem. */
export function encodeReport(
  fields: readonly AbiField[],
  values: readonly unknown[],
  envelope: Envelope = noSignatures,
): Hex {
  return encodeOuter(encodeAbiParameters(fields, values), envelope)
}

/**
 * What a report of these values must decode to, with nothing left out and nothing added. The values are in the order of
 * the encoding, and their integers numbers or bigints as the ABI coder at hand has it.
 */
export function expectedData(
  version: number,
  fields: readonly AbiField[],
  values: readonly unknown[],
): Record<string, unknown> {
  const data: Record<string, unknown> = { version: `V${version}` }
  for (const [index, { name, type }] of fields.entries()) {
    const value = values[index]
    if (type === 'uint32' || times.includes(name)) data[name] = Number(value)
    else if (isTwin(version, name)) {
      data[name] = Number(value)
      data[`${name}Raw`] = value
    } else data[name] = value
  }
  return data
}

/** The values of a decoded report in the order of the encoding, as viem takes them. */
export function valuesOf(
  version: number,
  fields: readonly AbiField[],
  data: Readonly<Record<string, unknown>>,
): unknown[] {
  return fields.map(({ name, type }) => {
    const value = data[isTwin(version, name) ? `${name}Raw` : name]
    return type === 'uint64' ? BigInt(value as number | bigint) : value
  })
}

/** A random report and what it is made of. */
export interface RandomReport {
  readonly version: number
  readonly resolution: Resolution
  readonly feedID: Hex
  /** In the order of the encoding. */
  readonly values: readonly unknown[]
  readonly envelope: Envelope
}

/** Random numbers from a seed (mulberry32): whole, 0 to 2^32 - 1. */
export function randomFrom(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
}

const ZERO_WORD: Hex = `0x${'0'.repeat(64)}`
const FULL_WORD: Hex = `0x${'f'.repeat(64)}`
/** Digits to cut words from. */
const noise = Array.from({ length: 2000 }, randomFrom(1))
  .map(number => number.toString(16).padStart(8, '0'))
  .join('')

export const noSignatures: Envelope = {
  context: [ZERO_WORD, ZERO_WORD, ZERO_WORD],
  rs: [],
  ss: [],
  vs: ZERO_WORD,
}

/** A context and signatures that are nobody's: a decoder does not look into them. */
export function envelopeFrom(seed: number, signatures: number): Envelope {
  const random = randomFrom(seed)
  const word = (): Hex => {
    const kind = random()
    if (kind % 16 === 0) return ZERO_WORD
    if (kind % 16 === 1) return FULL_WORD
    const start = (kind >>> 4) % (noise.length - 64)
    return `0x${noise.slice(start, start + 64)}`
  }
  const words = (): Hex[] => Array.from({ length: signatures }, word)
  const vs = Array.from({ length: signatures }, () => `0${random() % 2}`).join('')
  return {
    context: [word(), word(), word()],
    rs: words(),
    ss: words(),
    vs: `0x${vs.padEnd(64, '0')}`,
  }
}

const envelopes: fc.Arbitrary<Envelope> = fc
  .tuple(
    fc.integer(),
    fc.oneof({ arbitrary: fc.nat(4), weight: 7 }, { arbitrary: fc.nat(31), weight: 1 }),
  )
  .map(([seed, signatures]) => envelopeFrom(seed, signatures))

const corners = [8, 16, 31, 32, 48, 53, 63, 64, 65, 96, 127, 128, 129, 160, 190, 191, 192]
  .flatMap(bits => [2n ** BigInt(bits) - 1n, 2n ** BigInt(bits), 2n ** BigInt(bits) + 1n])
  .concat([0n, 1n, 2n, 10n ** 18n])

/** Integers of a range: its ends, the places where representations change, all magnitudes alike, and any. */
function integers(min: bigint, max: bigint): fc.Arbitrary<bigint> {
  const edges = [min, min + 1n, max - 1n, max, ...corners, ...corners.map(edge => -edge)].filter(
    edge => edge >= min && edge <= max,
  )
  const any = fc.bigInt({ min, max })
  const bits = max.toString(2).length
  const ofAnySize = fc
    .tuple(fc.nat(bits), any)
    .map(([shift, value]) => value >> BigInt(shift))
    .filter(value => value >= min)
  return fc.oneof(fc.constantFrom(...edges), ofAnySize, any)
}

const anyText: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom('', 'F', 'Z', '\0', 'é', '€', '𝄞', '\ufeffF', '\uffff', 'Märzkontrakt'),
  fc.nat(200).map(length => 'H'.repeat(length)),
  fc.string({ unit: anyCharacter, maxLength: 80, size: 'max' }),
)

const valuesOfType = new Map<string, fc.Arbitrary<unknown>>([
  ['uint32', integers(0n, 2n ** 32n - 1n).map(Number)],
  ['uint64', integers(0n, 2n ** 64n - 1n)],
  ['uint192', integers(0n, 2n ** 192n - 1n)],
  ['int192', integers(-(2n ** 191n), 2n ** 191n - 1n)],
])
const milliseconds = integers(0n, 2n ** 53n - 1n)

function valuesFor({ name, type }: AbiField): fc.Arbitrary<unknown> {
  if (type === 'uint64' && times.includes(name)) return milliseconds
  const values = type === 'string' ? anyText : valuesOfType.get(type)
  if (values === undefined) throw new TypeError(`no random values of type ${type}`)
  return values
}

const feedNumbers = fc.oneof(
  fc.constantFrom(0n, 2n ** 240n - 1n),
  fc.bigInt({ min: 0n, max: 2n ** 240n - 1n }),
)

/** The id of a feed: version and resolution, then 30 bytes. */
export function feedIDOf(version: number, resolution: Resolution, rest: bigint): Hex {
  const prefix = version.toString(16).padStart(3, '0')
  return `0x${resolution === 's' ? 0 : 1}${prefix}${rest.toString(16).padStart(60, '0')}`
}

/** Random reports of a version. */
export function reports(version: number, resolution: Resolution): fc.Arbitrary<RandomReport> {
  const fields = fieldsOf(version, resolution)
  return fc
    .tuple(feedNumbers, envelopes, fc.tuple(...fields.slice(1).map(valuesFor)))
    .map(([rest, envelope, values]) => {
      const feedID = feedIDOf(version, resolution, rest)
      return { version, resolution, feedID, values: [feedID, ...values], envelope }
    })
}
