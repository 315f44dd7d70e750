/**
 * The bytes of a signed report, `fullReport`:
 *
 *     abi.encode(bytes32[3] reportContext, bytes reportBlob, bytes32[] rawRs, bytes32[] rawSs, bytes32 rawVs)
 *
 * in words of 32 bytes:
 *
 *     0    config digest                      the report context is
 *     1    epoch (uint32) and round (uint8)   words 0 to 2
 *     2    extra hash
 *     3    offset of the blob                 always 7 words
 *     4    offset of rawRs                    right behind the blob
 *     5    offset of rawSs                    right behind rawRs
 *     6    rawVs                              byte i is the recovery id of signature i
 *     7    length of the blob in bytes
 *     8…   the blob, then rawRs and rawSs, each a length and its words
 *
 * and in the blob, for every version from 2 on:
 *
 *     0    feed id
 *     1    validFromTimestamp                 uint32 seconds, or uint64 milliseconds: the feed id says which
 *     2    observationsTimestamp              the same
 *     3    nativeFee                          uint192
 *     4    linkFee                            uint192
 *     5    expiresAt                          as the timestamps
 *     6…   the fields of the version
 *
 * An ABI encoding has one canonical form. Only that is accepted, so every offset and length is known beforehand and a
 * byte too many has nowhere to hide.
 */
import { ReportDecodingError } from './errors.js'
import { feedResolution, feedVersion } from './feed-id.js'

/** What the blob itself says of the report: the signed truth, unlike the envelope around it. */
export interface Head {
  /** Undefined for version 1, which counts blocks there. */
  readonly validFromTimestamp: number | undefined
  readonly observationsTimestamp: number
  /** Length of the blob in bytes. */
  readonly blobLength: number
}

/** A report's blob, opened for reading. */
export interface Blob {
  /** In normal form. */
  readonly feedID: string
  /** Begins with the blob's first byte. */
  readonly view: DataView
  /** In bytes. */
  readonly length: number
}

/** Words before the blob's first byte. */
const BLOB = 8
/** Words of the head that all versions from 2 on share. */
export const HEAD_WORDS = 6
/** rawVs is one word, so there is room for as many signatures as it has bytes. */
const MAX_SIGNATURES = 32
/** No report is near this; what is longer is not read. */
const MAX_BYTES = 65_536

const DIGITS = 64
const ZEROS_50 = '0'.repeat(50)
const ZEROS_56 = '0'.repeat(56)
const NO_DIGIT = 16
/** The value of a hexadecimal digit by its character code. */
const DIGIT_OF: Uint8Array = Uint8Array.from({ length: 128 }, (_, code) => {
  const value = Number.parseInt(String.fromCharCode(code), 16)
  return Number.isNaN(value) ? NO_DIGIT : value
})

/**
 * Checks the encoding of a report and reads the blob's own times, holding its feed id against `feedID` (in normal
 * form). The digits of the fields are not looked at. Throws ReportDecodingError.
 */
export function readHead(fullReport: string, feedID: string): Head {
  checkSize(fullReport, feedID)
  return checkHead(fullReport, feedID, fullReport, readUintOfText)
}

/**
 * Opens a report's blob after checking everything `readHead` does, and every digit. The view is written over by the
 * next call: read what you need of it at once. Throws ReportDecodingError.
 */
export function openBlob(fullReport: string, feedID: string): Blob {
  checkSize(fullReport, feedID)
  scratch ??= allocate()
  // Writing stops at the first character that is no digit, but past Latin-1 it takes a character for its low byte.
  const isASCII = Buffer.byteLength(fullReport) === fullReport.length
  if (!isASCII || scratch.bytes.write(fullReport.slice(2), 'hex') !== (fullReport.length - 2) / 2) {
    throw refuse(feedID, 'it has a character that is no hexadecimal digit')
  }
  const { blobLength } = checkHead(fullReport, feedID, scratch.report, readUintOfBytes)
  return { feedID, view: scratch.blob, length: blobLength }
}

/** The digits of a report's blob, without those of context and signatures. The report's encoding has been checked. */
export function blobDigits(fullReport: string): string {
  const start = 2 + DIGITS * BLOB
  return fullReport.slice(start, start + 2 * readUintOfText(fullReport, BLOB - 1))
}

/** The error for a report of `feedID` that breaks `rule`. */
export function refuse(feedID: string, rule: string, cause?: unknown): ReportDecodingError {
  return new ReportDecodingError(
    `fullReport of feed ${feedID} is refused: ${rule}`,
    cause === undefined ? {} : { cause },
  )
}

let scratch:
  | { readonly bytes: Buffer; readonly report: DataView; readonly blob: DataView }
  | undefined

function allocate(): NonNullable<typeof scratch> {
  const bytes = Buffer.alloc(MAX_BYTES)
  return {
    bytes,
    report: new DataView(bytes.buffer, bytes.byteOffset),
    blob: new DataView(bytes.buffer, bytes.byteOffset + 32 * BLOB),
  }
}

function checkSize(fullReport: string, feedID: string): void {
  const digits = fullReport.length - 2
  if (digits > 2 * MAX_BYTES) throw refuse(feedID, `it is longer than ${MAX_BYTES} bytes`)
  if (!fullReport.startsWith('0x')) throw refuse(feedID, 'it does not start with 0x')
  if (digits % DIGITS !== 0) {
    throw refuse(feedID, `${digits} hexadecimal digits are not whole words of 32 bytes`)
  }
  if (digits < DIGITS * (BLOB + 2))
    throw refuse(feedID, `it is cut short: ${digits / DIGITS} words`)
}

/** Reads the number in a word of 32 bytes: NaN if it is over 2^53 - 1 or not hexadecimal. */
type ReadUint<Source> = (source: Source, word: number) => number

/** The checks of `readHead`, on a report's text or on its bytes. */
function checkHead<Source>(
  fullReport: string,
  feedID: string,
  source: Source,
  readUint: ReadUint<Source>,
): Head {
  const blobLength = checkEncoding((fullReport.length - 2) / DIGITS, feedID, source, readUint)
  const isBlockBased = feedVersion(feedID) < 2
  if (blobLength < 32 * (isBlockBased ? 2 : HEAD_WORDS)) {
    throw refuse(feedID, `its blob of ${blobLength} bytes is shorter than a report’s head`)
  }
  const start = 2 + DIGITS * BLOB
  const signedFor = fullReport.slice(start, start + DIGITS)
  if (!feedID.endsWith(signedFor) && !feedID.endsWith(signedFor.toLowerCase())) {
    throw refuse(feedID, `it is signed for feed 0x${signedFor}`)
  }
  const first = readUint(source, BLOB + 1)
  const second = isBlockBased ? first : readUint(source, BLOB + 2)
  return {
    validFromTimestamp: isBlockBased ? undefined : checkTime(first, 'validFromTimestamp', feedID),
    observationsTimestamp: checkTime(second, 'observationsTimestamp', feedID),
    blobLength,
  }
}

/** Checks every offset and length around the blob; returns the blob's length in bytes. */
function checkEncoding<Source>(
  words: number,
  feedID: string,
  source: Source,
  readUint: ReadUint<Source>,
): number {
  // The comparisons are written so that NaN, which stands for what is no number of ours, fails them.
  const blobLength = readUint(source, BLOB - 1)
  if (blobLength % 32 !== 0)
    throw refuse(feedID, 'the length of its blob is not whole words of 32 bytes')
  const rs = BLOB + blobLength / 32
  if (!(rs < words)) throw refuse(feedID, 'the length of its blob goes past the end')
  const signatures = readUint(source, rs)
  if (!(signatures <= MAX_SIGNATURES))
    throw refuse(feedID, `it has more than ${MAX_SIGNATURES} signatures`)
  const ss = rs + 1 + signatures
  if (words !== ss + 1 + signatures) {
    throw refuse(feedID, `its parts take ${ss + 1 + signatures} words, but there are ${words}`)
  }
  if (readUint(source, ss) !== signatures) throw refuse(feedID, 'rawRs and rawSs differ in length')
  if (
    readUint(source, 3) !== 32 * (BLOB - 1) ||
    readUint(source, 4) !== 32 * rs ||
    readUint(source, 5) !== 32 * ss
  ) {
    throw refuse(feedID, 'an offset does not point where its part begins')
  }
  return blobLength
}

function checkTime(value: number, field: string, feedID: string): number {
  if (Number.isNaN(value))
    throw refuse(feedID, `${field} is no time: it is over 2^53 - 1, or not hexadecimal`)
  if (value > 0xffff_ffff && feedResolution(feedID) === 's') {
    throw refuse(feedID, `${field} is ${value}, more than the 32 bits of a time in seconds`)
  }
  return value
}

/** The word at `at` as a number, or NaN if it is over 2^53 - 1. */
export function readSafeUint(view: DataView, at: number): number {
  const high =
    view.getUint32(at) |
    view.getUint32(at + 4) |
    view.getUint32(at + 8) |
    view.getUint32(at + 12) |
    view.getUint32(at + 16) |
    view.getUint32(at + 20)
  const value = view.getUint32(at + 24) * 0x1_0000_0000 + view.getUint32(at + 28)
  return high === 0 && value <= Number.MAX_SAFE_INTEGER ? value : Number.NaN
}

function readUintOfBytes(report: DataView, word: number): number {
  return readSafeUint(report, 32 * word)
}

function readUintOfText(fullReport: string, word: number): number {
  const end = 2 + DIGITS * (word + 1)
  // Nearly every number here has 32 bits, and long runs of zeros compare fast.
  if (fullReport.startsWith(ZEROS_56, end - DIGITS)) return readDigits(fullReport, end - 8, end)
  if (!fullReport.startsWith(ZEROS_50, end - DIGITS)) return Number.NaN
  const value = readDigits(fullReport, end - 14, end)
  return value <= Number.MAX_SAFE_INTEGER ? value : Number.NaN
}

function readDigits(fullReport: string, start: number, end: number): number {
  let value = 0
  let bits = 0
  for (let at = start; at < end; at++) {
    const code = fullReport.charCodeAt(at)
    const digit = code < 128 ? (DIGIT_OF[code] as number) : NO_DIGIT
    bits |= digit
    value = value * 16 + digit
  }
  return bits < NO_DIGIT ? value : Number.NaN
}
