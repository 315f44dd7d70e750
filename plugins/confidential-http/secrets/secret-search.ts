import { TextEncoder } from '../../../core/platform.js'

/**
 * Finds secrets in a text, whole or in part, as they are and as texts carry them: with escapes of JSON, URLs and HTML, in
 * hexadecimal digits, in base64 and base64url at whatever offset. Rather than writing the secrets in each of these ways it
 * reads the text in each of them, so that a spelling with its own case, padding or line breaks is found as well.
 */
export type SecretSearch = (text: string) => boolean

/** Texts of more bytes are not looked at: they count as holding a secret. */
export const MAX_SEARCHED = 1_048_576

/** Of a secret that has more bytes, so many in a row are enough. */
const LONGEST_PART = 16
/** Fewer bytes in a row stand in many a text by chance, if they are not the secret itself. */
const SHORTEST_PART = 6
/** A secret of fewer bytes counts only where it stands alone, as a word does. */
const SHORTEST_ANYWHERE = 4
/** To look for parts of a length takes one pass, so there are few lengths. */
const PART_LENGTHS = [16, 12, 8, SHORTEST_PART]

const encoder = new TextEncoder()
const { imul } = Math

/**
 * Prepares the search, which is true for a text that holds one of the secrets, or so much of one that it counts. The case of
 * ASCII letters does not matter.
 */
export function createSecretSearch(secrets: Iterable<string>): SecretSearch {
  const all = [...new Set(secrets)].map(secret => lowerCase(encoder.encode(secret)))
  const present = all.filter(secret => secret.length > 0)
  const word = anyWord(present.filter(secret => secret.length < SHORTEST_ANYWHERE))
  const passes = partsByLength(present.filter(secret => secret.length >= SHORTEST_ANYWHERE))

  function isIn(text: string): boolean {
    if (present.length === 0) return false
    // A unit is a byte at least.
    if (text.length > MAX_SEARCHED) return true
    const bytes = encoder.encode(text)
    if (bytes.length > MAX_SEARCHED) return true
    // Of a header that is not all UTF-8 each byte is a character.
    const raw = isBytewise(text) ? [Buffer.from(text, 'latin1')] : []
    const texts = [...new Set([bytes, ...raw].flatMap(readTwice))]
    return (
      (passes.length > 0 && texts.flatMap(readingsOf).some(hasPart)) ||
      (word !== undefined && texts.some(each => hasWord(each, word)))
    )
  }

  function hasPart(read: () => Uint8Array): boolean {
    const bytes = lowerCase(read())
    return passes.some(parts => isAnyIn(bytes, parts))
  }

  return isIn
}

/** The parts that count, each of one length. */
interface Parts {
  readonly length: number
  readonly texts: ReadonlySet<string>
  readonly hashes: ReadonlySet<number>
  /** By the lowest bits of a hash: 0 where there is none, which is the usual answer and a quick one. */
  readonly filter: Uint8Array
}

const FILTER_BITS = 13
const FILTER_MASK = (1 << FILTER_BITS) - 1

/** Half of a secret is a part that counts, of long ones 16 bytes; of short ones 6, or all. */
function partLength(secret: Uint8Array): number {
  const half = Math.min(LONGEST_PART, Math.ceil(secret.length / 2))
  return PART_LENGTHS.find(length => length <= half) ?? Math.min(SHORTEST_PART, secret.length)
}

function partsByLength(secrets: readonly Uint8Array[]): readonly Parts[] {
  const lengths = new Set(secrets.map(partLength))
  return [...lengths].map(function collect(length) {
    const parts = secrets
      .filter(secret => partLength(secret) === length)
      .flatMap(secret =>
        Array.from({ length: secret.length - length + 1 }, (_, at) =>
          secret.subarray(at, at + length),
        ),
      )
    const hashes = new Set(parts.map(part => hashOf(part, 0, length)))
    const filter = new Uint8Array(FILTER_MASK + 1)
    for (const hash of hashes) filter[hash & FILTER_MASK] = 1
    return { length, hashes, filter, texts: new Set(parts.map(part => latin1(part))) }
  })
}

/** Rabin and Karp's search: one pass, whatever the number of parts. */
function isAnyIn(bytes: Uint8Array, { length, texts, hashes, filter }: Parts): boolean {
  if (bytes.length < length) return false
  let top = 1
  for (let power = 1; power < length; power++) top = imul(top, BASE)
  let hash = hashOf(bytes, 0, length)
  for (let start = 0; ; start++) {
    const isLikely = filter[hash & FILTER_MASK] === 1 && hashes.has(hash)
    if (isLikely && texts.has(latin1(bytes.subarray(start, start + length)))) return true
    const next = start + length
    if (next >= bytes.length) return false
    const kept = (hash - imul(bytes[start] as number, top)) | 0
    hash = (imul(kept, BASE) + (bytes[next] as number)) | 0
  }
}

/** Random, so that nobody can write a text whose hashes are all alike. */
const BASE = (Math.floor(Math.random() * 2 ** 30) << 1) | 0x10001

function hashOf(bytes: Uint8Array, from: number, length: number): number {
  let hash = 0
  for (let at = from; at < from + length; at++)
    hash = (imul(hash, BASE) + (bytes[at] as number)) | 0
  return hash
}

/** Any of these as a word, in a text of one character for each byte; of what is beyond ASCII all counts as a letter. */
function anyWord(words: readonly Uint8Array[]): RegExp | undefined {
  if (words.length === 0) return undefined
  const any = words.map(word => latin1(word).replace(/[^0-9a-z]/g, hexEscape)).join('|')
  return new RegExp(`(?<![\\w\\x80-\\xff])(?:${any})(?![\\w\\x80-\\xff])`, 'i')
}

function hexEscape(char: string): string {
  return `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`
}

/** True where a text has the word, or base64 or hexadecimal digits of it that come to a text which has it. */
function hasWord(bytes: Uint8Array, word: RegExp): boolean {
  const text = latin1(bytes)
  return word.test(text) || encodedWords(text).some(each => word.test(each))
}

/**
 * The bytes a text may stand for: its own, those of its hexadecimal digits and those of its base64 digits. What is none of
 * these digits is left out, so that line breaks and separators do not matter; the digits may begin at any place.
 */
function readingsOf(text: Uint8Array): readonly (() => Uint8Array)[] {
  const hexDigits = once(() => digitsOf(text, HEX_DIGITS))
  const base64Digits = once(() => digitsOf(text, BASE64_DIGITS))
  return [
    () => text,
    ...[0, 1].map(skip => () => pack(hexDigits(), skip, 4)),
    ...[0, 1, 2, 3].flatMap(skip => {
      const packed = once(() => pack(base64Digits(), skip, 6))
      return [packed, () => readEscapes(packed())]
    }),
  ]
}

const NO_DIGIT = 255

function digitTable(...alphabets: readonly string[]): Uint8Array {
  const table = new Uint8Array(256).fill(NO_DIGIT)
  for (const alphabet of alphabets)
    for (const [value, digit] of [...alphabet].entries()) table[digit.charCodeAt(0)] = value
  return table
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const DIGITS = '0123456789'
const ALPHANUMERIC = LETTERS + LETTERS.toLowerCase() + DIGITS
const HEX_DIGITS = digitTable(`${DIGITS}ABCDEF`, `${DIGITS}abcdef`)
const BASE64_DIGITS = digitTable(`${ALPHANUMERIC}+/`, `${ALPHANUMERIC}-_`)

function digitsOf(text: Uint8Array, table: Uint8Array): Uint8Array {
  const digits = new Uint8Array(text.length)
  let length = 0
  for (let at = 0; at < text.length; at++) {
    const digit = table[text[at] as number] as number
    if (digit !== NO_DIGIT) digits[length++] = digit
  }
  return digits.subarray(0, length)
}

/** The whole bytes that digits of so many bits come to, the first ones skipped. */
function pack(digits: Uint8Array, skip: number, bits: number): Uint8Array {
  const bytes = new Uint8Array(Math.max(0, Math.floor(((digits.length - skip) * bits) / 8)))
  let held = 0
  let heldBits = 0
  let length = 0
  for (let at = skip; at < digits.length; at++) {
    held = ((held << bits) | (digits[at] as number)) & 0xffff
    heldBits += bits
    if (heldBits < 8) continue
    heldBits -= 8
    bytes[length++] = held >> heldBits
  }
  return bytes.subarray(0, length)
}

/** What runs of base64 or hexadecimal digits come to, as far as that is text. */
function encodedWords(text: string): readonly string[] {
  const runs = text.match(/[\w+/-]+/g) ?? []
  return runs
    .flatMap(run => [
      Buffer.from(run, 'base64').toString('latin1'),
      ...(/^(?:[0-9a-f]{2})+$/i.test(run) ? [Buffer.from(run, 'hex').toString('latin1')] : []),
    ])
    .filter(decoded => /^[\x20-\x7e\x80-\xff]+$/.test(decoded))
}

const ESCAPE =
  /%([0-9a-f]{2})|\\x([0-9a-f]{2})|((?:\\u[0-9a-f]{4})+)|&#x([0-9a-f]{1,6});|&#([0-9]{1,7});|&(quot|apos|amp|lt|gt);|\\(["'\\/bfnrt])/gi
const NAMED: Readonly<Record<string, string>> = {
  ...{ quot: '"', apos: "'", amp: '&', lt: '<', gt: '>' },
  ...{ b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' },
}

/** The text with the escapes of JSON, of URLs (where a plus is a space) and of HTML read; itself where it has none. */
function readEscapes(text: Uint8Array): Uint8Array {
  const chars = latin1(text)
  const read = chars
    .replaceAll('+', ' ')
    .replace(ESCAPE, (whole, ...groups: (string | undefined)[]) => {
      const [percent, byte, units, hexEntity, entity, named, simple] = groups
      const digits = percent ?? byte
      if (digits !== undefined) return String.fromCharCode(Number.parseInt(digits, 16))
      if (units !== undefined) return utf8(JSON.parse(`"${units.toLowerCase()}"`))
      const point = hexEntity === undefined ? Number(entity) : Number.parseInt(hexEntity, 16)
      if (point <= 0x10ffff) return utf8(String.fromCodePoint(point))
      const name = (named ?? simple)?.toLowerCase()
      return name === undefined ? whole : (NAMED[name] ?? name)
    })
  return read === chars ? text : Buffer.from(read, 'latin1')
}

/** A text, with its escapes read, and with the escapes within those read: as JSON within JSON has them. */
function readTwice(text: Uint8Array): readonly Uint8Array[] {
  const plain = readEscapes(text)
  return [text, plain, readEscapes(plain)]
}

/** True for a text that may have a character for each byte, and not only of ASCII. */
function isBytewise(text: string): boolean {
  return /[\x80-\xff]/.test(text) && !/[^\0-\xff]/.test(text)
}

/** One character for each byte. */
function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

/** The bytes of a text in UTF-8, one character for each. */
function utf8(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

/** Only ASCII letters, since bytes are what is compared. */
function lowerCase(bytes: Uint8Array): Uint8Array {
  const lower = Uint8Array.from(bytes)
  for (let at = 0; at < lower.length; at++) {
    const byte = lower[at] as number
    if (byte >= 0x41 && byte <= 0x5a) lower[at] = byte | 0x20
  }
  return lower
}

function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined
  return function get() {
    made ??= { value: make() }
    return made.value
  }
}
