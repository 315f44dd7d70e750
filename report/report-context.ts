import { BLOB_DIGITS, DIGITS, readHead } from './full-report.js'

/** One signature of a report, as it stands there. */
export interface ReportSignature {
  /** `0x` and 64 digits, lower-case. */
  readonly r: string
  /** `0x` and 64 digits, lower-case. */
  readonly s: string
  /** The recovery id: 0 or 1 if all is well, and what `ecrecover` wants less 27. */
  readonly v: number
}

/** What stands around a report's blob: which configuration signed it, when in its count, and the signatures. */
export interface ReportContext {
  /** The configuration of the network that signed, `0x` and 64 digits, lower-case. */
  readonly configDigest: string
  readonly epoch: number
  readonly round: number
  /** The network's count of its reports, `epoch * 256 + round`; undefined for networks that don't count so. */
  readonly sequenceNumber: number | undefined
  /** 32 bytes, `0x` and 64 digits, lower-case: zero for the older networks, else who signed, `donID << 32 | 1`. */
  readonly extraHash: string
  /** As many as the report carries, in its order; nothing of them has been checked. */
  readonly signatures: readonly ReportSignature[]
}

const NO_HASH = `0x${'0'.repeat(DIGITS)}`
/** The word that is rawVs. */
const VS = 6

/**
 * Reads a report's context and signatures after checking its encoding and its feed id (in normal form). Throws
 * ReportDecodingError.
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
    // LLO networks split their sequence number so (SeqNrToEpochAndRound beside the LLO report codecs); the networks before
    // them have epochs and rounds of their own, and no extra hash.
    sequenceNumber: extraHash === NO_HASH ? undefined : epoch * 256 + round,
    extraHash,
    signatures: Array.from({ length: count }, (_, i) => ({
      r: word(rs + 1 + i),
      s: word(rs + 2 + count + i),
      v: Number(`0x${vs.slice(2 + 2 * i, 4 + 2 * i)}`),
    })),
  }
}
