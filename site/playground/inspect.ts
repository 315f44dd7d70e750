// Reads the bytes of a report word by word, and goes on after a mistake: what can be read is shown,
// and each mistake has its place. The decoder of the library decides whether a report is accepted.
import { allDecoders, decodeReport } from 'sluice/plugins/decoders'
import { feedResolution, feedVersion } from 'sluice/report'
import { type Meaning, meaningOf } from './meanings.js'

/** The bytes of a word, and its hexadecimal digits. */
const WORD = 32
const DIGITS = 64
/** The words before the blob, and the words of the blob's head. */
const BLOB = 8
const HEAD = 6
/** The longest report that the library reads, in bytes, and its most signatures. */
export const MAX_BYTES = 65_536
const MAX_SIGNATURES = 32
/** Mistakes that are listed; a report of noise has one in each word. */
const MAX_PROBLEMS = 20

/** Where a part belongs on the page. */
export type Group = 'fields' | 'context' | 'signatures' | 'layout'

/** A part of a report: a word, or the words that no part takes. */
export interface Part extends Meaning {
  readonly group: Group
  readonly name: string
  /** The type, as Solidity names it. */
  readonly type: string
  /** The number of the part's first byte, from 0. */
  readonly at: number
  /** The number of bytes; 0 if the report ends before the part. */
  readonly length: number
  /** The value as exact text; empty if it can't be read. */
  readonly value: string
  /** What is wrong with the part. */
  readonly problem: string | undefined
}

/** A mistake, and the byte where it is. */
export interface Problem {
  readonly at: number
  readonly text: string
}

/** What the bytes of a report say. */
export interface Inspection {
  /** The report with `0x`, in lower case. */
  readonly fullReport: string
  /** The signed feed id; undefined if the report ends before it. */
  readonly feedID: string | undefined
  readonly version: number | undefined
  /** All parts, in the order of the bytes. */
  readonly parts: readonly Part[]
  readonly problems: readonly Problem[]
  /** The bytes of the blob and of the signatures, if the layout could be followed. */
  readonly blobLength: number
  readonly signatures: number
  /** The error of the library; undefined if it accepts the report. */
  readonly refusal: string | undefined
}

/** Reads a report: `0x` and digits. */
export function inspectReport(given: string): Inspection {
  const fullReport = given.toLowerCase()
  const reader = new Reader(fullReport.slice(2))
  return reader.read(fullReport)
}

/** Whether a word holds a number that the library reads as a small one. */
const isSmall = (value: bigint | undefined, most = 0xffff_ffffn): value is bigint =>
  value !== undefined && value <= most

class Reader {
  /** The digits of the words, whole ones only. */
  readonly #digits: string
  readonly #words: number
  readonly #parts: Part[] = []
  readonly #problems: Problem[] = []

  constructor(digits: string) {
    const most = 2 * MAX_BYTES
    this.#words = Math.floor(Math.min(digits.length, most) / DIGITS)
    this.#digits = digits.slice(0, this.#words * DIGITS)
    const rest = digits.length % DIGITS
    if (digits.length > most) this.#note(MAX_BYTES, `it is longer than ${MAX_BYTES} bytes`)
    else if (rest > 0)
      this.#note(
        this.#words * WORD,
        `the last word has ${rest} of ${DIGITS} hexadecimal digits, so the report is cut short`,
      )
    for (let index = 0; index < this.#words; index++) {
      const text = this.#text(index)
      const place = text.search(/[^0-9a-f]/)
      if (place < 0) continue
      const at = index * WORD + Math.floor(place / 2)
      this.#note(at, `${JSON.stringify(text.charAt(place))} is no hexadecimal digit`)
    }
  }

  read(fullReport: string): Inspection {
    this.#context()
    const feedID = this.#hex(BLOB)
    const version = feedID === undefined ? undefined : feedVersion(feedID)
    const decoder = allDecoders.find(each => each.version === version)
    const fields = Object.entries(decoder?.fields ?? {})
    const schemaWords = HEAD + fields.length

    const blobWords = this.#blobWords(schemaWords)
    const rs = BLOB + blobWords
    const given = this.#uint(rs)
    const room = Math.max(0, Math.floor((this.#words - rs - 2) / 2))
    const count = isSmall(given, BigInt(MAX_SIGNATURES)) ? Number(given) : room
    const signatures = Math.min(count, MAX_SIGNATURES)
    const ss = rs + 1 + signatures
    this.#layout(blobWords, rs, ss)
    this.#head(feedID, version, decoder === undefined)
    fields.forEach(([name, type], index) => {
      this.#field('fields', name, type.replace('-twin', ''), BLOB + HEAD + index, version, feedID)
    })
    const missing = schemaWords - blobWords
    if (decoder !== undefined && missing > 0)
      this.#note(
        WORD * rs,
        `the blob has ${blobWords * WORD} bytes, and a blob of version ${version} has ${schemaWords * WORD}`,
      )
    if (decoder !== undefined && missing < 0)
      this.#unread(BLOB + schemaWords, rs, `the blob has ${-missing * WORD} bytes too many`)
    if (decoder === undefined && blobWords > HEAD) this.#unread(BLOB + HEAD, rs, undefined)
    this.#signatures(rs, ss, signatures, given)
    const end = ss + 1 + signatures
    if (this.#words > end)
      this.#unread(end, this.#words, `${(this.#words - end) * WORD} bytes are too many`)
    else if (this.#words < end)
      this.#note(
        this.#words * WORD,
        `the report ends here, and ${(end - this.#words) * WORD} bytes are missing`,
      )
    return {
      fullReport,
      feedID,
      version,
      parts: this.#parts.sort((one, other) => one.at - other.at),
      problems: this.#problems.sort((one, other) => one.at - other.at).slice(0, MAX_PROBLEMS),
      blobLength: blobWords * WORD,
      signatures,
      refusal: refusalOf(fullReport, feedID),
    }
  }

  /** The words of the blob: by its length, or else by the offset of rawRs or by the version. */
  #blobWords(schemaWords: number): number {
    const at = (BLOB - 1) * WORD
    const length = this.#uint(BLOB - 1)
    const fits = (bytes: bigint | undefined): bytes is bigint =>
      isSmall(bytes) && bytes % 32n === 0n && BLOB + Number(bytes) / WORD < this.#words
    if (fits(length)) return Number(length) / WORD
    if (length !== undefined)
      this.#note(
        at,
        length % 32n === 0n
          ? `the length of the blob is ${length}, which goes past the end`
          : `the length of the blob is ${length}, which is not whole words of ${WORD} bytes`,
      )
    // A report that was cut short in the blob has a length that is right.
    if (isSmall(length) && Number(length) === schemaWords * WORD) return schemaWords
    const offset = this.#uint(4)
    if (isSmall(offset) && offset >= 256n && fits(offset - 256n))
      return Number(offset) / WORD - BLOB
    return schemaWords
  }

  #context(): void {
    this.#word('context', 'configDigest', 'bytes32', 0, this.#hex(0))
    const position = this.#hex(1)?.slice(-10)
    const epoch = position === undefined ? '' : BigInt(`0x${position.slice(0, 8)}`).toString()
    const round = position === undefined ? '' : BigInt(`0x${position.slice(8)}`).toString()
    this.#word('context', 'epochAndRound', 'uint32, uint8', 1, position && `${epoch}, ${round}`)
    this.#word('context', 'extraHash', 'bytes32', 2, this.#hex(2))
  }

  #layout(blobWords: number, rs: number, ss: number): void {
    const expect = (name: string, index: number, expected: number): void => {
      const value = this.#uint(index)
      const isWrong = value !== undefined && value !== BigInt(expected)
      const problem = isWrong ? `it must be ${expected}, where its part begins` : undefined
      this.#word('layout', name, 'uint256', index, value?.toString(), problem)
    }
    expect('offset of the blob', 3, (BLOB - 1) * WORD)
    expect('offset of rawRs', 4, rs * WORD)
    expect('offset of rawSs', 5, ss * WORD)
    this.#word('signatures', 'rawVs', 'bytes32', 6, this.#hex(6))
    const length = this.#uint(BLOB - 1)
    this.#word('layout', 'length of the blob', 'uint256', BLOB - 1, length?.toString())
    if (blobWords < HEAD && this.#words > BLOB)
      this.#note((BLOB - 1) * WORD, `the blob is shorter than the ${HEAD * WORD} bytes of its head`)
  }

  #head(feedID: string | undefined, version: number | undefined, isUnknown: boolean): void {
    const problem =
      isUnknown && version !== undefined ? `there is no decoder for version ${version}` : undefined
    this.#word('fields', 'feedID', 'bytes32', BLOB, feedID, problem)
    const time = feedID === undefined || feedResolution(feedID) === 's' ? 'uint32' : 'uint64'
    const types = [time, time, 'uint192', 'uint192', time]
    const names = [
      'validFromTimestamp',
      'observationsTimestamp',
      'nativeFee',
      'linkFee',
      'expiresAt',
    ]
    names.forEach((name, index) => {
      this.#field('fields', name, types[index] as string, BLOB + 1 + index, version, feedID)
    })
  }

  #signatures(rs: number, ss: number, count: number, given: bigint | undefined): void {
    const problem =
      given !== undefined && given > BigInt(MAX_SIGNATURES)
        ? `it is more than ${MAX_SIGNATURES} signatures`
        : undefined
    this.#word('layout', 'number of rawRs', 'uint256', rs, given?.toString(), problem)
    for (let index = 0; index < count; index++) {
      this.#word('signatures', `r of signature ${index}`, 'bytes32', rs + 1 + index)
      this.#word('signatures', `s of signature ${index}`, 'bytes32', ss + 1 + index)
    }
    const other = this.#uint(ss)
    const differ = other !== undefined && given !== undefined && other !== given
    this.#word(
      'layout',
      'number of rawSs',
      'uint256',
      ss,
      other?.toString(),
      differ ? `it must be ${given}, the number of rawRs` : undefined,
    )
  }

  /** Adds a field of the blob, whose value must fit its type. */
  #field(
    group: Group,
    name: string,
    type: string,
    index: number,
    version: number | undefined,
    feedID: string | undefined,
  ): void {
    const raw = this.#uint(index)
    if (raw === undefined) {
      this.#word(group, name, type, index, undefined, undefined, version)
      return
    }
    const isSigned = type.startsWith('int')
    const bits = Number(type.replace(/\D/g, ''))
    const value = isSigned ? BigInt.asIntN(256, raw) : raw
    const wrapped = isSigned ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value)
    const isTime = meaningOf(name, version).unit === 'time' && feedID !== undefined
    const isTooLate = isTime && type === 'uint64' && value > BigInt(Number.MAX_SAFE_INTEGER)
    const problem =
      value !== wrapped
        ? `it does not fit ${type}`
        : isTooLate
          ? 'it is over 2^53 - 1, which is no time'
          : undefined
    this.#word(group, name, type, index, value.toString(), problem, version)
  }

  /** Adds a part of one word. */
  #word(
    group: Group,
    name: string,
    type: string,
    index: number,
    value: string | undefined = this.#hex(index),
    problem?: string,
    version?: number,
  ): void {
    const at = index * WORD
    const isThere = index < this.#words
    const isHex = this.#hex(index) !== undefined
    const broken = isHex ? problem : 'a character is no hexadecimal digit'
    const wrong = isThere ? broken : 'the report ends before it'
    if (isThere && problem !== undefined) this.#note(at, `${name}: ${problem}`)
    this.#parts.push({
      ...meaningOf(name, version),
      ...{ group, name, type, at, length: isThere ? WORD : 0 },
      ...{ value: value ?? '', problem: wrong },
    })
  }

  /** Adds the words from one to another that no part takes. */
  #unread(from: number, to: number, problem: string | undefined): void {
    const end = Math.min(to, this.#words)
    if (end <= from) return
    const at = from * WORD
    if (problem !== undefined) this.#note(at, problem)
    const text = this.#digits.slice(from * DIGITS, end * DIGITS)
    const value = text.length > 256 ? `${text.slice(0, 256)}…` : text
    this.#parts.push({
      ...{ group: 'layout', name: 'other bytes', type: 'bytes', at, length: (end - from) * WORD },
      ...{ unit: 'none', meaning: 'No part of the report takes these bytes.' },
      ...{ value: `0x${value}`, problem },
    })
  }

  #note(at: number, text: string): void {
    this.#problems.push({ at, text })
  }

  #text(index: number): string {
    return this.#digits.slice(index * DIGITS, (index + 1) * DIGITS)
  }

  /** The word as `0x` and digits; undefined if it is not there or not hexadecimal. */
  #hex(index: number): string | undefined {
    const text = this.#text(index)
    return /^[0-9a-f]{64}$/.test(text) ? `0x${text}` : undefined
  }

  #uint(index: number): bigint | undefined {
    const hex = this.#hex(index)
    return hex === undefined ? undefined : BigInt(hex)
  }
}

/** What the library says of a report that it refuses. */
function refusalOf(fullReport: string, feedID: string | undefined): string | undefined {
  try {
    decodeReport(fullReport, feedID ?? `0x0003${'0'.repeat(60)}`)
    return undefined
  } catch (error) {
    const { message } = error as Error
    return feedID === undefined
      ? message.replace(/^fullReport of feed 0x\w+/, 'fullReport')
      : message
  }
}
