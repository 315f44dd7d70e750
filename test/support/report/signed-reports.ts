// Reports that are signed by keys of ours, whole or wrong in one place.
import { secp256k1 } from '@noble/curves/secp256k1'
import { computeAddress } from 'ethers'
import { concat, encodeAbiParameters, keccak256, numberToHex, toBytes } from 'viem'
import type { SignerSet } from '../../../plugins/verify/options.js'
import { createDecoderTable } from '../../../report/decoder.js'
import { Report } from '../../../report/report.js'
import { publishedReports } from './published-reports.js'
import {
  type Envelope,
  encodeOuter,
  feedIDOf,
  fieldsOf,
  type Hex,
  type Resolution,
} from './report-arbitrary.js'

/** The signers of the published reports. */
export const publishedSigners: SignerSet = {
  signers: [
    '0x6b23132dece4da06571ba9149e2986549cb5fb30',
    '0x72cce7298ae2f6e516be2f2343ebedf863548d12',
    '0x87abf51625b8587a8b331b305d026bb48772a20c',
    '0xdd3210a31d062cada9f37c69305032b7e5594e25',
  ],
  f: 1,
}

/** A published report. */
export function published(index: number): (typeof publishedReports)[number] {
  const report = publishedReports[index]
  if (report === undefined) throw new RangeError(`there is no published report ${index}`)
  return report
}

const keys = Array.from({ length: 12 }, (_, index) =>
  keccak256(`0x${index.toString(16).padStart(4, '0')}`),
)
export const addresses: readonly string[] = keys.map(key => computeAddress(key).toLowerCase())

export const DIGEST: Hex = `0x0009${'ab'.repeat(30)}`
export const OTHER_DIGEST: Hex = `0x0009${'cd'.repeat(30)}`
export const TIME = 1_700_000_000

/** The first seven of our signers, two of whom may be faulty. */
export const signers: SignerSet = { signers: addresses.slice(0, 7), f: 2 }

/** The parts of a report. */
export interface Making {
  /** The numbers of the keys that sign it. */
  readonly by?: readonly number[]
  readonly digest?: Hex
  readonly sequenceNumber?: number
  readonly extraHash?: Hex
  /** Seconds. */
  readonly time?: number
  readonly expiresAt?: number
  readonly resolution?: Resolution
  /** Changes the envelope after signing. */
  readonly alter?: (envelope: Envelope) => Envelope
}

export interface Made {
  readonly feedID: string
  readonly fullReport: string
}

const word = (value: number | bigint): Hex => numberToHex(value, { size: 32 })

/** Signs a report. */
export function makeReport(making: Making = {}): Made {
  const { by = [0, 1, 2], digest = DIGEST, sequenceNumber = 300, time = TIME } = making
  const { resolution = 's', alter = (envelope: Envelope) => envelope } = making
  const { extraHash = word((3n << 32n) | 1n), expiresAt = TIME + 86_400 } = making
  const feedID = feedIDOf(3, resolution, 0xfeedn)
  const unit = (seconds: number): number | bigint =>
    resolution === 's' ? seconds : BigInt(seconds) * 1000n
  const values = [feedID, unit(time - 1), unit(time), 5n, 6n, unit(expiresAt), 1n, 2n, 3n]
  const blob = encodeAbiParameters(fieldsOf(3, resolution), values)
  const context = [digest, word(sequenceNumber), extraHash] as const
  const hash = keccak256(concat([keccak256(blob), ...context]))
  const made = by.map(each => secp256k1.sign(toBytes(hash), (keys[each] as string).slice(2)))
  const envelope: Envelope = {
    context,
    rs: made.map(({ r }) => word(r)),
    ss: made.map(({ s }) => word(s)),
    vs: `0x${made
      .map(({ recovery }) => `0${recovery}`)
      .join('')
      .padEnd(64, '0')}`,
  }
  return { feedID, fullReport: encodeOuter(blob, alter(envelope)) }
}

/** The same bytes as a stream's report. */
export function reportOf(
  { feedID, fullReport }: Made,
  changes: { readonly validFromTimestamp?: number; readonly observationsTimestamp?: number } = {},
): Report {
  const seconds = (index: number): number =>
    Number(`0x${fullReport.slice(2 + 64 * (8 + index), 66 + 64 * (8 + index))}`)
  const { validFromTimestamp = seconds(1), observationsTimestamp = seconds(2) } = changes
  const table = createDecoderTable([])
  return new Report(
    feedID,
    fullReport,
    validFromTimestamp,
    observationsTimestamp,
    'one',
    'live',
    table,
  )
}

/** One of its bits is another. */
export function flip(fullReport: string, bit: number): string {
  const bytes = Buffer.from(fullReport.slice(2), 'hex')
  bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7))
  return `0x${bytes.toString('hex')}`
}

/** The order of the curve. */
export const ORDER: bigint = secp256k1.CURVE.n

/** The hexadecimal digits of a word. */
export { word }

function hasBinding(): boolean {
  try {
    require('secp256k1/bindings.js')
    return true
  } catch {
    return false
  }
}

/** Whether the native engine is installed here. */
export const isNativeHere: boolean = hasBinding()
