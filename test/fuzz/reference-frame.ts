// What a message of the stream means, written down as plainly as can be: slow, and with nothing of the library in it.

/** The report in a message, or the code of the error that refuses it; undefined where it is of a feed no longer wanted. */
export type Verdict =
  | {
      readonly feedID: string
      readonly fullReport: string
      readonly validFromTimestamp: number
      readonly observationsTimestamp: number
    }
  | 'WS_FRAME'
  | 'DECODING'

const WORD = 32
const MAX_BYTES = 65_536
const MAX_SIGNATURES = 32n
const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER)
const MAX_UINT32 = 0xffff_ffffn

/** Reads a message as a stream that is subscribed to `feeds` does. */
export function readFrame(data: Uint8Array, feeds: readonly string[]): Verdict {
  let frame: unknown
  try {
    frame = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(data))
  } catch {
    return 'WS_FRAME'
  }
  if (typeof frame !== 'object' || frame === null || !Object.hasOwn(frame, 'report'))
    return 'WS_FRAME'
  const record = (frame as { report: unknown }).report
  if (typeof record !== 'object' || record === null) return 'WS_FRAME'
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = record as Record<
    string,
    unknown
  >
  // The x may be in upper case too, though fullReport's may not.
  if (typeof feedID !== 'string' || !/^0x[0-9a-f]{64}$/i.test(feedID)) return 'WS_FRAME'
  if (typeof fullReport !== 'string') return 'WS_FRAME'
  const id = feedID.toLowerCase()
  const signed = readSigned(fullReport, id)
  if (signed === undefined) return 'DECODING'

  const observed = agree(observationsTimestamp, signed.observationsTimestamp)
  if (typeof observed === 'string') return observed
  const validFrom = agree(validFromTimestamp, signed.validFromTimestamp ?? undefined)
  if (typeof validFrom === 'string') return validFrom
  if (!feeds.includes(id)) return 'WS_FRAME'
  return {
    feedID: id,
    fullReport,
    validFromTimestamp: validFrom ?? (observed as number),
    observationsTimestamp: observed as number,
  }
}

/** A time of the envelope: it may be left out, but not differ from the signed one. */
function agree(
  given: unknown,
  signed: number | undefined,
): number | undefined | 'WS_FRAME' | 'DECODING' {
  if (given === undefined) return signed
  if (typeof given !== 'number' || !Number.isSafeInteger(given) || given < 0) return 'WS_FRAME'
  return signed === undefined || given === signed ? given : 'DECODING'
}

interface Signed {
  readonly validFromTimestamp: number | undefined
  readonly observationsTimestamp: number
}

/** The times in the signed bytes; undefined where those are not a report of the feed, encoded in the one canonical form. */
function readSigned(fullReport: string, feedID: string): Signed | undefined {
  if (!/^0x([0-9a-fA-F]{64})*$/.test(fullReport)) return undefined
  const bytes = Buffer.from(fullReport.slice(2), 'hex')
  if (bytes.length > MAX_BYTES || bytes.length < 10 * WORD) return undefined
  const count = BigInt(bytes.length / WORD)
  const digits = (index: number): string =>
    bytes.subarray(WORD * index, WORD * (index + 1)).toString('hex')
  const word = (index: bigint): bigint => BigInt(`0x${digits(Number(index))}`)

  const blobLength = word(7n)
  if (blobLength % 32n !== 0n) return undefined
  const rs = 8n + blobLength / 32n
  if (rs >= count) return undefined
  const signatures = word(rs)
  if (signatures > MAX_SIGNATURES) return undefined
  const ss = rs + 1n + signatures
  if (count !== ss + 1n + signatures || word(ss) !== signatures) return undefined
  if (word(3n) !== 7n * 32n || word(4n) !== rs * 32n || word(5n) !== ss * 32n) return undefined

  const isBlockBased = Number.parseInt(feedID.slice(3, 6), 16) < 2
  if (blobLength < (isBlockBased ? 2n : 6n) * 32n) return undefined
  if (`0x${digits(8)}` !== feedID) return undefined
  const limit = feedID[2] === '0' ? MAX_UINT32 : MAX_SAFE
  const first = word(9n)
  if (isBlockBased)
    return first > limit
      ? undefined
      : { validFromTimestamp: undefined, observationsTimestamp: Number(first) }
  const second = word(10n)
  if (first > limit || second > limit) return undefined
  return { validFromTimestamp: Number(first), observationsTimestamp: Number(second) }
}
