import { characters } from '../../../report/digits/digits.js'
import { DIGITS, LEAST_DIGITS } from '../../../report/full-report.js'

/** ASCII text, as the 32-bit numbers that four characters each make; the last number may overlap the one before. */
interface Text {
  readonly length: number
  readonly words: Int32Array
}

const OPENING = textOf('{"report":{')
const FEED_ID = textOf('"feedID":"0x')
const FULL_REPORT = textOf('"fullReport":"0x')
const VALID_FROM = textOf('"validFromTimestamp":')
const OBSERVED = textOf('"observationsTimestamp":')
const [QUOTE, COMMA, BRACE, ZERO, NINE] = [34, 44, 125, 48, 57] as const
/** The second letter of each key, which differs from those of the others. */
const [E, U, A, B] = [101, 117, 97, 98] as const
/** Digits of the longest safe integer. */
const TIME_DIGITS = 16

/** The fields of the last message. A place is that of the first digit after 0x in the buffer; 0 is for a missing field. */
const fields = {
  feedAt: 0,
  reportAt: 0,
  /** In digits. */
  reportLength: LEAST_DIGITS as number,
  /** -1 for a missing time, NaN for one that no report can have. */
  validFrom: -1,
  observed: -1,
}
/** The place that is read next. */
let at: number
/** The end of the message. */
let end: number

/**
 * Finds the fields of a message of `length` bytes in the buffer, `{"report":{…}}` without spaces and escapes; undefined
 * where it is written in any other way. The result is written over by the next call.
 */
export function scanMessage(length: number): Readonly<typeof fields> | undefined {
  if (scan(length)) return fields
  if (fields.reportLength === LEAST_DIGITS) return undefined
  // A quote of a later field may stand where the report before had its end.
  fields.reportLength = LEAST_DIGITS
  return scan(length) ? fields : undefined
}

function scan(length: number): boolean {
  at = 0
  end = length
  fields.feedAt = 0
  fields.reportAt = 0
  fields.validFrom = -1
  fields.observed = -1
  if (!skip(OPENING)) return false
  do {
    if (!scanField()) return false
  } while (skipByte(COMMA))
  const isWhole = skipByte(BRACE) && skipByte(BRACE) && at === end
  return isWhole && fields.feedAt !== 0 && fields.reportAt !== 0
}

/** Reads a key and its value; false for an unknown key, or one that came before. */
function scanField(): boolean {
  switch (at + 2 < end && characters.getUint8(at + 2)) {
    case E:
      if (fields.feedAt !== 0 || !skip(FEED_ID)) return false
      fields.feedAt = at
      at += DIGITS
      return skipByte(QUOTE)
    case U:
      if (fields.reportAt !== 0 || !skip(FULL_REPORT)) return false
      fields.reportAt = at
      skipReport()
      return skipByte(QUOTE)
    case A:
      if (fields.validFrom !== -1 || !skip(VALID_FROM)) return false
      fields.validFrom = readTime()
      return true
    case B:
      if (fields.observed !== -1 || !skip(OBSERVED)) return false
      fields.observed = readTime()
      return true
    default:
      return false
  }
}

function skip({ length, words }: Text): boolean {
  if (at + length > end) return false
  const last = words.length - 1
  for (let index = 0; index < last; index++)
    if (characters.getInt32(at + 4 * index, true) !== words[index]) return false
  at += length
  return characters.getInt32(at - 4, true) === words[last]
}

function skipByte(byte: number): boolean {
  if (at >= end || characters.getUint8(at) !== byte) return false
  at++
  return true
}

/** Goes to the quote after the report, which is a whole number of words long: mostly as long as the report before. */
function skipReport(): void {
  const start = at
  at = start + fields.reportLength
  if (at < end && characters.getUint8(at) === QUOTE) return
  at = start + LEAST_DIGITS
  while (at < end && characters.getUint8(at) !== QUOTE) at += DIGITS
  fields.reportLength = at - start
}

function readTime(): number {
  const start = at
  let value = 0
  for (; at < end; at++) {
    const digit = characters.getUint8(at)
    if (digit < ZERO || digit > NINE) break
    value = 10 * value + (digit - ZERO)
  }
  const length = at - start
  const isNumber = length === 1 || (length > 1 && characters.getUint8(start) !== ZERO)
  return isNumber && length <= TIME_DIGITS ? value : Number.NaN
}

function textOf(text: string): Text {
  const { length } = text
  const view = new DataView(Uint8Array.from(text, character => character.charCodeAt(0)).buffer)
  const words = Int32Array.from({ length: Math.ceil(length / 4) }, (_, index) =>
    view.getInt32(Math.min(4 * index, length - 4), true),
  )
  return { length, words }
}
