/**
 * What the verifier program of Solana takes. Its facts come from the program's source of 2025-05-14
 * and from the service's tutorials of 2026-02-20, which contradict each other in one point: the
 * tutorial calls the seed of the report config "the feed ID". The program takes the first 32 bytes
 * of the report, and these are the digest of the signers' configuration.
 */
import { SnappyCompressor } from 'snappyjs/snappy_compressor.js'
import { ValidationError } from '../core/errors.js'
import { kindOf } from '../core/options.js'
import { MAX_BYTES } from './digits/digits.js'
import { LEAST_DIGITS } from './full-report.js'

/** The first eight bytes of the instruction `verify`. */
const DISCRIMINATOR = [133, 161, 141, 48, 120, 198, 88, 150] as const

/** The seed of the account `verifier`, a program-derived address. */
export function verifierSeed(): Uint8Array {
  return Uint8Array.from('verifier', letter => letter.charCodeAt(0))
}

/**
 * The seed of the account `report config`, a program-derived address: the digest of the signers'
 * configuration, the first 32 bytes of the report.
 */
export function reportConfigSeed(fullReport: string): Uint8Array {
  return toBytes(fullReport).slice(0, 32)
}

/**
 * Compresses a signed report in the raw block format of Snappy, as the verifier program takes it:
 * the length of the report as a varint, then one block. It is not the format with frames.
 */
export function compressReport(fullReport: string): Uint8Array {
  const compressor = new SnappyCompressor(toBytes(fullReport))
  const output = new Uint8Array(compressor.maxCompressedLength())
  return output.slice(0, compressor.compressToBuffer(output))
}

/**
 * The data of the instruction `verify`:
 *
 *     bytes 0 to 7     the discriminator 133, 161, 141, 48, 120, 198, 88, 150
 *     bytes 8 to 11    the length of the compressed report, unsigned, little-endian
 *     bytes 12…        the compressed report
 *
 * Its accounts, in this order: verifier (read), access controller (read), user (signer, read) and
 * report config (read).
 */
export function verifyInstructionData(fullReport: string): Uint8Array {
  const report = compressReport(fullReport)
  const data = new Uint8Array(DISCRIMINATOR.length + 4 + report.length)
  data.set(DISCRIMINATOR)
  new DataView(data.buffer).setUint32(DISCRIMINATOR.length, report.length, true)
  data.set(report, DISCRIMINATOR.length + 4)
  return data
}

/** The bytes of a report. The program fails on other bytes, so their form is checked here. */
function toBytes(fullReport: unknown): Uint8Array {
  if (typeof fullReport !== 'string')
    throw new ValidationError(`fullReport must be a string, not ${kindOf(fullReport)}`)
  const digits = fullReport.slice(2)
  if (!/^0x[0-9a-f]*$/i.test(fullReport) || digits.length % 64 !== 0)
    throw new ValidationError('fullReport must be 0x and hexadecimal digits of whole 32-byte words')
  if (digits.length < LEAST_DIGITS || digits.length > 2 * MAX_BYTES)
    throw new ValidationError(
      `fullReport must have ${LEAST_DIGITS / 2} to ${MAX_BYTES} bytes, not ${digits.length / 2}`,
    )
  return Uint8Array.from({ length: digits.length / 2 }, (_, index) =>
    Number.parseInt(digits.slice(2 * index, 2 * index + 2), 16),
  )
}
