/** A report as the service sends it, of version 7: encoded as it should be, signed by nobody. */
export interface SignedRecord {
  readonly feedID: string
  readonly validFromTimestamp: number
  readonly observationsTimestamp: number
  readonly fullReport: string
}

/** What a record says besides its times. */
export interface RecordFacts {
  /** The config digest, as a number. */
  readonly digest?: number
  readonly value?: number
}

const ZEROS = '0'.repeat(64)

function word(value: number): string {
  const digits = value.toString(16)
  return ZEROS.slice(digits.length) + digits
}

// The words that are the same in all: where the parts begin, the fees, and no signatures.
const offsets = [0, 0, 7 * 32, 15 * 32, 16 * 32, 0, 7 * 32].map(word).join('')
const fees = [5, 6].map(word).join('')
const signatures = [0, 0].map(word).join('')

/** A record of a feed for a stretch of time, both ends included, in the feed's unit. */
export function makeRecord(
  feedID: string,
  from: number,
  to: number,
  { digest = 0, value = 42 }: RecordFacts = {},
): SignedRecord {
  const time = word(to)
  const blob = `${feedID.slice(2)}${word(from)}${time}${fees}${time}${word(value)}`
  return {
    feedID,
    validFromTimestamp: from,
    observationsTimestamp: to,
    fullReport: `0x${word(digest)}${offsets}${blob}${signatures}`,
  }
}

/** The message of a stream that carries it. */
export function frameOf(record: SignedRecord): string {
  return JSON.stringify({ report: record })
}
