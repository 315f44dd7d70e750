/** A report as the service sends it, of version 7: encoded as it should be, signed by nobody. */
export interface SignedRecord {
  readonly feedID: string
  readonly validFromTimestamp: number
  readonly observationsTimestamp: number
  readonly fullReport: string
}

const word = (value: number): string => value.toString(16).padStart(64, '0')

/** A record of a feed for a stretch of time, both ends included, in the feed's unit. */
export function makeRecord(feedID: string, from: number, to: number): SignedRecord {
  const blob = [from, to, 5, 6, to, 42].map(word)
  const words = [0, 0, 0, 7 * 32, 15 * 32, 16 * 32, 0, 7 * 32].map(word)
  const parts = [...words, feedID.slice(2), ...blob, word(0), word(0)]
  return {
    feedID,
    validFromTimestamp: from,
    observationsTimestamp: to,
    fullReport: `0x${parts.join('')}`,
  }
}

/** The message of a stream that carries it. */
export function frameOf(record: SignedRecord): string {
  return JSON.stringify({ report: record })
}
