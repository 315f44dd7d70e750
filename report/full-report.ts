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
import { areDigits, buffer, characters } from './characters.js'
import { ReportDecodingError } from './errors.js'
import { feedResolution, feedVersion } from './feed-id.js'
import { readBytes, readWord } from './hex-digits.js'

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
  /**
   * Begins with the blob's first byte, and goes on behind its last. It is written over by the next report: take from it
   * what you decode, and keep nothing of it.
   */
  readonly view: DataView
  /** In bytes. */
  readonly length: number
}

/** Words before the blob's first byte. */
const BLOB = 8
/** Words of a report without a blob: two lengths are left. */
const LEAST_WORDS = BLOB + 2
/** Words of the head that all versions from 2 on share. */
export const HEAD_WORDS = 6
/** rawVs is one word, so there is room for as many signatures as it has bytes. */
const MAX_SIGNATURES = 32
/** No report is near this; what is longer is not read. */
const MAX_BYTES = 65_536

/** Digits of a word, and so of a feed id. */
export const DIGITS = 64
/** Where the blob begins, and with it the feed id that is signed: so many digits behind the report's first. */
export const BLOB_DIGITS: number = DIGITS * BLOB
/** A report has so many digits at least. */
export const LEAST_DIGITS: number = DIGITS * LEAST_WORDS

/** The bytes of the blob that was opened last. */
const blob = new DataView(new ArrayBuffer(MAX_BYTES))

/** The report whose digits lie checked in the buffer: whoever decodes a report mostly does so as soon as it is there. */
let fresh: FreshReport | undefined

interface FreshReport {
  readonly fullReport: string
  readonly feedID: string
  /** Of its first digit. */
  readonly at: number
  readonly blobLength: number
}

/**
 * Checks the encoding of a report to the last digit and reads the blob's own times, holding its feed id against `feedID`
 * (in normal form). Throws ReportDecodingError.
 */
export function readHead(fullReport: string, feedID: string): Head {
  const blobLength = checkReport(fullReport, feedID)
  return readTimes(2, blobLength, feedID)
}

/**
 * As `readHead`, of a report whose digits stand in the buffer from `at` on, so many words of them, and whose feed id has
 * been compared.
 */
export function readHeadAt(at: number, words: number, feedID: string): Head {
  fresh = undefined
  if (words > MAX_BYTES / 32) throw refuse(feedID, `it is longer than ${MAX_BYTES} bytes`)
  checkDigits(at, words, feedID)
  return readTimes(at, checkBlob(at, words, feedID), feedID)
}

/** Writes a message into the buffer, over whatever report is there. */
export function takeMessage(message: Uint8Array): void {
  fresh = undefined
  buffer.set(message)
}

/** Notes that the report whose head was read last is this one, so that opening its blob need not check it again. */
export function keepFresh(
  fullReport: string,
  feedID: string,
  at: number,
  { blobLength }: Head,
): void {
  fresh = { fullReport, feedID, at, blobLength }
}

/**
 * Opens a report's blob after checking everything `readHead` does. The view is written over by the next call: read what
 * you need of it at once. Throws ReportDecodingError.
 */
export function openBlob(fullReport: string, feedID: string): Blob {
  let at = 2
  let length: number
  if (fresh?.fullReport === fullReport && fresh.feedID === feedID) {
    at = fresh.at
    length = fresh.blobLength
  } else {
    length = readHead(fullReport, feedID).blobLength
  }
  readBytes(characters, at + BLOB_DIGITS, length, blob)
  return { feedID, view: blob, length }
}

/** The digits of a report's blob, without those of context and signatures. The encoding must have been checked. */
export function blobDigits(fullReport: string): string {
  const start = 2 + BLOB_DIGITS
  return fullReport.slice(
    start,
    start + 2 * Number.parseInt(fullReport.slice(start - 8, start), 16),
  )
}

/** True where two reports say the same, whoever signed them: any f + 1 of the signers will do. */
export function isSameBlob(one: string, other: string): boolean {
  if (one === other) return true
  const [blob, otherBlob] = [blobDigits(one), blobDigits(other)]
  return blob === otherBlob || blob.toLowerCase() === otherBlob.toLowerCase()
}

/** The error for a report of `feedID` that breaks `rule`. */
export function refuse(feedID: string, rule: string, cause?: unknown): ReportDecodingError {
  return new ReportDecodingError(
    `fullReport of feed ${feedID} is refused: ${rule}`,
    cause === undefined ? {} : { cause },
  )
}

/** Writes a report's characters into the buffer and checks them; returns the blob's length in bytes. */
function checkReport(fullReport: string, feedID: string): number {
  fresh = undefined
  const count = fullReport.length - 2
  if (count > 2 * MAX_BYTES) throw refuse(feedID, `it is longer than ${MAX_BYTES} bytes`)
  if (!fullReport.startsWith('0x')) throw refuse(feedID, 'it does not start with 0x')
  if (count % DIGITS !== 0)
    throw refuse(feedID, `${count} hexadecimal digits are not whole words of 32 bytes`)
  const words = count / DIGITS
  if (words < LEAST_WORDS) throw refuse(feedID, `it is cut short: ${words} words`)
  // Of a character past ASCII no byte is a digit's, and its first one stands at its place or behind it.
  buffer.write(fullReport, 'utf8')
  checkDigits(2, words, feedID)
  const blobLength = checkBlob(2, words, feedID)
  const start = 2 + BLOB_DIGITS
  const signedFor = fullReport.slice(start, start + DIGITS)
  if (!feedID.endsWith(signedFor) && !feedID.endsWith(signedFor.toLowerCase())) {
    throw refuse(feedID, `it is signed for feed 0x${signedFor}`)
  }
  return blobLength
}

function checkDigits(at: number, words: number, feedID: string): void {
  if (!areDigits(at, at + DIGITS * words))
    throw refuse(feedID, 'it has a character that is no hexadecimal digit')
}

/** Checks all around the blob; returns the blob's length in bytes. */
function checkBlob(at: number, words: number, feedID: string): number {
  const blobLength = checkEncoding(at, words, feedID)
  if (blobLength < 32 * (isBlockBased(feedID) ? 2 : HEAD_WORDS)) {
    throw refuse(feedID, `its blob of ${blobLength} bytes is shorter than a report’s head`)
  }
  return blobLength
}

function readTimes(at: number, blobLength: number, feedID: string): Head {
  const first = readUint(at, BLOB + 1)
  if (isBlockBased(feedID)) {
    const observationsTimestamp = checkTime(first, 'observationsTimestamp', feedID)
    return { validFromTimestamp: undefined, observationsTimestamp, blobLength }
  }
  const second = readUint(at, BLOB + 2)
  return {
    validFromTimestamp: checkTime(first, 'validFromTimestamp', feedID),
    observationsTimestamp: checkTime(second, 'observationsTimestamp', feedID),
    blobLength,
  }
}

function isBlockBased(feedID: string): boolean {
  return feedVersion(feedID) < 2
}

/** Checks every offset and length around the blob; returns the blob's length in bytes. */
function checkEncoding(at: number, words: number, feedID: string): number {
  // The comparisons are written so that NaN, which stands for what is no number of ours, fails them.
  const blobLength = readUint(at, BLOB - 1)
  if (blobLength % 32 !== 0)
    throw refuse(feedID, 'the length of its blob is not whole words of 32 bytes')
  const rs = BLOB + blobLength / 32
  if (!(rs < words)) throw refuse(feedID, 'the length of its blob goes past the end')
  const signatures = readUint(at, rs)
  if (!(signatures <= MAX_SIGNATURES))
    throw refuse(feedID, `it has more than ${MAX_SIGNATURES} signatures`)
  const ss = rs + 1 + signatures
  if (words !== ss + 1 + signatures) {
    throw refuse(feedID, `its parts take ${ss + 1 + signatures} words, but there are ${words}`)
  }
  if (readUint(at, ss) !== signatures) throw refuse(feedID, 'rawRs and rawSs differ in length')
  if (
    readUint(at, 3) !== 32 * (BLOB - 1) ||
    readUint(at, 4) !== 32 * rs ||
    readUint(at, 5) !== 32 * ss
  ) {
    throw refuse(feedID, 'an offset does not point where its part begins')
  }
  return blobLength
}

function checkTime(value: number, field: string, feedID: string): number {
  if (Number.isNaN(value)) throw refuse(feedID, `${field} is no time: it is over 2^53 - 1`)
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

/** The word at an index of the report as a number, or NaN if it is over 2^53 - 1. */
function readUint(at: number, word: number): number {
  return readWord(characters, at + DIGITS * word)
}
