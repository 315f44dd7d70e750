import { BLOB_DIGITS, DIGITS, readHead } from './full-report.js'

/** One signature of a report. */
export interface ReportSignature {
  /** `0x` and 64 digits, lower-case. */
  readonly r: string
  /** `0x` and 64 digits, lower-case. */
  readonly s: string
  /** The recovery id, which should be 0 or 1: the v of `ecrecover` less 27. */
  readonly v: number
}

/** Everything around a report's blob: the configuration that signed it, its sequence number, and the signatures. */
export interface ReportContext {
  /** The configuration of the signing network, `0x` and 64 digits, lower-case. */
  readonly configDigest: string
  /** The epoch of the network's protocol in which the report was made. */
  readonly epoch: number
  /** The round of that epoch, 0 to 255. */
  readonly round: number
  /** The network's count of its reports, `epoch * 256 + round`; undefined for networks that count otherwise. */
  readonly sequenceNumber: number | undefined
  /** `0x` and 64 digits, lower-case: zero for the older networks, else the network's id, `donID << 32 | 1`. */
  readonly extraHash: string
  /** All signatures of the report, in its order, unchecked. */
  readonly signatures: readonly ReportSignature[]
}

const NO_HASH = `0x${'0'.repeat(DIGITS)}`
/** The index of the word rawVs. */
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
    // LLO networks split their sequence number this way (SeqNrToEpochAndRound beside the LLO report codecs). Older networks
    // have epochs and rounds of their own, and no extra hash.
    sequenceNumber: extraHash === NO_HASH ? undefined : epoch * 256 + round,
    extraHash,
    signatures: Array.from({ length: count }, (_, i) => ({
      r: word(rs + 1 + i),
      s: word(rs + 2 + count + i),
      v: Number(`0x${vs.slice(2 + 2 * i, 4 + 2 * i)}`),
    })),
  }
}
