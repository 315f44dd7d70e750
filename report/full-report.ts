/**
 * The bytes of a signed report, `fullReport`:
 *
 *     abi.encode(
 *       bytes32[3] reportContext, bytes reportBlob, bytes32[] rawRs, bytes32[] rawSs, bytes32 rawVs
 *     )
 *
 * Its words of 32 bytes:
 *
 *     0    config digest                      words 0 to 2 are the report context
 *     1    epoch (uint32) and round (uint8)
 *     2    extra hash
 *     3    offset of the blob                 always 7 words
 *     4    offset of rawRs                    right after the blob
 *     5    offset of rawSs                    right after rawRs
 *     6    rawVs                              byte i is the recovery id of signature i
 *     7    length of the blob in bytes
 *     8…   the blob, then rawRs and rawSs, each with its length first
 *
 * The words of the blob, for every version from 2 on:
 *
 *     0    feed id
 *     1    validFromTimestamp                 uint32 seconds or uint64 milliseconds, by the feed id
 *     2    observationsTimestamp              as word 1
 *     3    nativeFee                          uint192
 *     4    linkFee                            uint192
 *     5    expiresAt                          as word 1
 *     6…   the fields of the version
 *
 * An ABI encoding has one canonical form, and only that form is accepted. So every offset and
 * length is known beforehand, and every byte of the report is read.
 */
import { DataStreamsError, type ErrorFacts } from '../core/errors.js'
import { writeText } from '../platform/bytes.js'
import { buffer, bytes, decodeDigits, MAX_BYTES } from './digits/digits.js'
import { feedResolution, feedVersion, feedWords } from './feed-id.js'

/**
 * The bytes of a report break a rule, contradict their envelope, or have a version without a
 * decoder.
 */
export class ReportDecodingError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'DECODING', ...facts })
  }

  static {
    ReportDecodingError.prototype.name = 'ReportDecodingError'
  }
}

/** The code of this error. */
declare module '../core/errors.js' {
  interface ErrorClasses {
    /** The bytes are not a report of the feed, or no decoder knows their version. */
    DECODING: ReportDecodingError
  }
}

/** The times of a blob. They are signed; the times of the envelope are not. */
export interface Head {
  /** Undefined for version 1, which has a block number in its place. */
  readonly validFromTimestamp: number | undefined
  /** The time of the observations, in the feed's unit. */
  readonly observationsTimestamp: number
  /** The length of the blob in bytes. */
  readonly blobLength: number
}

/** A report's blob, opened for reading. */
export interface Blob {
  /** The feed's id in normal form. */
  readonly feedID: string
  /**
   * Begins with the blob's first byte, and continues after its last byte. The next report
   * overwrites it, so copy the values that you decode.
   */
  readonly view: DataView
  /** The length of the blob in bytes; the view is longer. */
  readonly length: number
}

/** The number of words before the blob. */
const BLOB = 8
/**
 * The number of words of a report with an empty blob and no signatures: the lengths of rawRs and
 * rawSs take one word each.
 */
const LEAST_WORDS = BLOB + 2
/** The number of words of the blob's head, which is the same for all versions from 2 on. */
export const HEAD_WORDS = 6
/**
 * The most signatures of a report: rawVs has one byte per signature, and is one word of 32 bytes.
 */
const MAX_SIGNATURES = 32

/** The number of hexadecimal digits of a word. A feed id is one word. */
export const DIGITS = 64
/** The number of digits before the blob. The blob's first word is the signed feed id. */
export const BLOB_DIGITS: number = DIGITS * BLOB
/** The number of digits of the shortest report. */
export const LEAST_DIGITS: number = DIGITS * LEAST_WORDS

/** The bytes that were decoded last, from the first byte of the blob on. */
const blob = new DataView(bytes.buffer, bytes.byteOffset + 32 * BLOB, MAX_BYTES - 32 * BLOB)

/** All bytes that were decoded last, as 32-bit integers in the byte order of the platform. */
const ints = new Int32Array(bytes.buffer, bytes.byteOffset, MAX_BYTES / 4)

/**
 * The report whose bytes were decoded last, if its encoding has been checked. Most reports are
 * decoded as soon as they arrive, so the check need not be repeated.
 */
let fresh: FreshReport | undefined

interface FreshReport {
  readonly fullReport: string
  readonly feedID: string
  readonly blobLength: number
}

/**
 * Checks the whole encoding of a report, and that its signed feed id is `feedID` (in normal form).
 * Returns the times of the blob. Throws ReportDecodingError.
 */
export function readHead(fullReport: string, feedID: string): Head {
  try {
    return readSignedHead(fullReport, feedID)
  } catch (thrown) {
    // A signed report begins with the digest of a configuration.
    if (fullReport.slice(0, feedID.length).toLowerCase() !== feedID) throw thrown
    const rule =
      'it is a blob alone, as the verifier contract returns it: give the whole signed report that was verified'
    throw decodingError(feedID, rule)
  }
}

function readSignedHead(fullReport: string, feedID: string): Head {
  const count = fullReport.length - 2
  if (count > 2 * MAX_BYTES) throw decodingError(feedID, `it is longer than ${MAX_BYTES} bytes`)
  if (fullReport.charCodeAt(0) !== 48 || fullReport.charCodeAt(1) !== 120)
    throw decodingError(feedID, 'it does not start with 0x')
  if (count % DIGITS !== 0)
    throw decodingError(feedID, `${count} hexadecimal digits are not whole words of 32 bytes`)
  const words = count / DIGITS
  if (words < LEAST_WORDS) throw decodingError(feedID, `it is cut short: ${words} words`)
  // A character beyond ASCII becomes bytes, none of which is a digit. The first of these
  // bytes is at the character's position or after it, so the check finds it.
  writeText(buffer, fullReport)
  const blobLength = checkEncoding(2, words, feedID)
  if (!isSignedFor(feedID)) {
    const start = 2 + BLOB_DIGITS
    throw decodingError(
      feedID,
      `it is signed for feed 0x${fullReport.slice(start, start + DIGITS)}`,
    )
  }
  return readTimes(blobLength, feedID)
}

/** Compares the first word of the blob with a feed's id. */
function isSignedFor(feedID: string): boolean {
  const words = feedWords(feedID)
  for (let index = 0; index < 8; index++)
    if (blob.getInt32(4 * index) !== words[index]) return false
  return true
}

/**
 * Like `readHead`, for a report of `words` words whose digits are in the buffer from `at` on. Does
 * not check the feed id.
 */
export function readHeadAt(at: number, words: number, feedID: string): Head {
  if (words > MAX_BYTES / 32) throw decodingError(feedID, `it is longer than ${MAX_BYTES} bytes`)
  return readTimes(checkEncoding(at, words, feedID), feedID)
}

/** Remembers the report whose head was read last, so that `openBlob` need not check it again. */
export function keepFresh(fullReport: string, feedID: string, { blobLength }: Head): void {
  fresh = { fullReport, feedID, blobLength }
}

/**
 * Opens a report's blob after the checks of `readHead`. The next call overwrites the view, so read
 * the view at once. Throws ReportDecodingError.
 */
export function openBlob(fullReport: string, feedID: string): Blob {
  const cached = fresh
  // A decoder may write into the bytes, so they are used only once.
  fresh = undefined
  const isFresh = cached?.fullReport === fullReport && cached.feedID === feedID
  const { blobLength } = isFresh ? cached : readHead(fullReport, feedID)
  return { feedID, view: blob, length: blobLength }
}

/** The digits of a report's blob. The report's encoding must have been checked. */
function blobDigits(fullReport: string): string {
  const start = 2 + BLOB_DIGITS
  return fullReport.slice(
    start,
    start + 2 * Number.parseInt(fullReport.slice(start - 8, start), 16),
  )
}

/**
 * True if two reports have the same blob. Their signatures may differ, as any f + 1 of the signers
 * suffice.
 */
export function isSameBlob(one: string, other: string): boolean {
  if (one === other) return true
  const [blob, otherBlob] = [blobDigits(one), blobDigits(other)]
  return blob === otherBlob || blob.toLowerCase() === otherBlob.toLowerCase()
}

/** The error for a report of `feedID` that breaks `rule`. */
export function decodingError(feedID: string, rule: string, cause?: unknown): ReportDecodingError {
  return new ReportDecodingError(
    `fullReport of feed ${feedID} is refused: ${rule}`,
    cause === undefined ? {} : { cause },
  )
}

function readTimes(blobLength: number, feedID: string): Head {
  const first = readSafeUint(blob, 32)
  if (isBlockBased(feedID)) {
    const observationsTimestamp = checkTime(first, 'observationsTimestamp', feedID)
    return { validFromTimestamp: undefined, observationsTimestamp, blobLength }
  }
  const second = readSafeUint(blob, 64)
  return {
    validFromTimestamp: checkTime(first, 'validFromTimestamp', feedID),
    observationsTimestamp: checkTime(second, 'observationsTimestamp', feedID),
    blobLength,
  }
}

/**
 * True for version 1, whose reports sign a block number as the start of their range. All other
 * versions sign a time.
 */
function isBlockBased(feedID: string): boolean {
  return feedVersion(feedID) < 2
}

/**
 * Checks every digit, offset and length, and that the blob has a head. Returns the blob's length in
 * bytes.
 */
function checkEncoding(at: number, words: number, feedID: string): number {
  fresh = undefined
  if (!decodeDigits(at, DIGITS * words))
    throw decodingError(feedID, 'it has a character that is no hexadecimal digit')
  // A number that is too large is read as NaN. NaN fails each of these comparisons.
  const blobLength = readSafeUint(bytes, 32 * (BLOB - 1))
  if (blobLength % 32 !== 0)
    throw decodingError(feedID, 'the length of its blob is not whole words of 32 bytes')
  const rs = BLOB + blobLength / 32
  if (!(rs < words)) throw decodingError(feedID, 'the length of its blob goes past the end')
  const signatures = readSmall(rs)
  if (!(signatures <= MAX_SIGNATURES))
    throw decodingError(feedID, `it has more than ${MAX_SIGNATURES} signatures`)
  const ss = rs + 1 + signatures
  if (words !== ss + 1 + signatures) {
    throw decodingError(
      feedID,
      `its parts take ${ss + 1 + signatures} words, but there are ${words}`,
    )
  }
  if (readSmall(ss) !== signatures) throw decodingError(feedID, 'rawRs and rawSs differ in length')
  if (readSmall(3) !== 32 * (BLOB - 1) || readSmall(4) !== 32 * rs || readSmall(5) !== 32 * ss) {
    throw decodingError(feedID, 'an offset does not point where its part begins')
  }
  if (blobLength < 32 * (isBlockBased(feedID) ? 2 : HEAD_WORDS))
    throw decodingError(feedID, `its blob of ${blobLength} bytes is shorter than a report’s head`)
  return blobLength
}

function checkTime(value: number, field: string, feedID: string): number {
  if (Number.isNaN(value)) throw decodingError(feedID, `${field} is no time: it is over 2^53 - 1`)
  if (value > 0xffff_ffff && feedResolution(feedID) === 's') {
    throw decodingError(feedID, `${field} is ${value}, more than the 32 bits of a time in seconds`)
  }
  return value
}

/** The word at byte `at` as a number, or NaN if it is over 2^53 - 1. */
export function readSafeUint(view: DataView, at: number): number {
  const high =
    view.getInt32(at) |
    view.getInt32(at + 4) |
    view.getInt32(at + 8) |
    view.getInt32(at + 12) |
    view.getInt32(at + 16) |
    view.getInt32(at + 20)
  const value = view.getUint32(at + 24) * 0x1_0000_0000 + view.getUint32(at + 28)
  return high === 0 && value <= Number.MAX_SAFE_INTEGER ? value : Number.NaN
}

/** The word with the index `word` in the report, as a number. NaN if it has more than 32 bits. */
function readSmall(word: number): number {
  const at = 8 * word
  const high =
    (ints[at] as number) |
    (ints[at + 1] as number) |
    (ints[at + 2] as number) |
    (ints[at + 3] as number) |
    (ints[at + 4] as number) |
    (ints[at + 5] as number) |
    (ints[at + 6] as number)
  return high === 0 ? bytes.getUint32(32 * word + 28) : Number.NaN
}

/** One signature of a report. */
export interface ReportSignature {
  /** `0x` and 64 digits, lower-case. */
  readonly r: string
  /** `0x` and 64 digits, lower-case. */
  readonly s: string
  /** The recovery id, which should be 0 or 1. It is the v of `ecrecover` minus 27. */
  readonly v: number
}

/**
 * The parts of a report around its blob: the configuration of its signers, its sequence number, and
 * its signatures.
 */
export interface ReportContext {
  /** The digest of the signing network's configuration: `0x` and 64 digits, lower-case. */
  readonly configDigest: string
  /** The epoch of the network's protocol in which the network made the report. */
  readonly epoch: number
  /** The round of that epoch, 0 to 255. */
  readonly round: number
  /**
   * The network's count of its reports: `epoch * 256 + round`. Undefined for older networks, which
   * count in another way.
   */
  readonly sequenceNumber: number | undefined
  /**
   * `0x` and 64 digits, lower-case. Zero for older networks; otherwise it holds the network's id:
   * `donID << 32 | 1`.
   */
  readonly extraHash: string
  /** All signatures in the order of the report. None of them is checked. */
  readonly signatures: readonly ReportSignature[]
}

const NO_HASH = `0x${'0'.repeat(DIGITS)}`
/** The index of the word that holds rawVs. */
const VS = 6

/**
 * Checks a report's encoding, and that its feed id is `feedID` (in normal form). Returns its
 * context and signatures. Throws ReportDecodingError.
 */
export function readContext(fullReport: string, feedID: string): ReportContext {
  const { blobLength } = readHead(fullReport, feedID)
  const digits = fullReport.slice(2).toLowerCase()
  const word = (index: number): string => `0x${digits.slice(DIGITS * index, DIGITS * (index + 1))}`
  const rs = BLOB_DIGITS / DIGITS + blobLength / 32
  const count = Number(word(rs))
  const vs = word(VS)
  const position = word(1)
  const epoch = Number(`0x${position.slice(-10, -2)}`)
  const round = Number(`0x${position.slice(-2)}`)
  const extraHash = word(2)
  return {
    configDigest: word(0),
    epoch,
    round,
    // LLO networks split their sequence number this way (see SeqNrToEpochAndRound in the LLO report
    // codecs). Older networks count epochs and rounds in another way, and have no extra hash.
    sequenceNumber: extraHash === NO_HASH ? undefined : epoch * 256 + round,
    extraHash,
    signatures: Array.from({ length: count }, (_, i) => ({
      r: word(rs + 1 + i),
      s: word(rs + 2 + count + i),
      v: Number(`0x${vs.slice(2 + 2 * i, 4 + 2 * i)}`),
    })),
  }
}
