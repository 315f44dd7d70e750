/**
 * Finds secrets in a text, whole or in part, plain or encoded: escaped as in JSON, URLs and HTML, as hexadecimal digits, as
 * base64 and base64url at any offset. It decodes the text in each of these ways rather than encoding the secrets, and so finds
 * spellings with their own case, padding or line breaks as well.
 */
export type SecretSearch = (text: string) => boolean

/** Longer texts, in bytes, are not searched: they count as holding a secret. */
export const MAX_SEARCHED = 1_048_576

/** So many bytes in a row of a longer secret count as the secret. */
const LONGEST_PART = 16
/** Fewer bytes in a row occur by chance, unless they are the whole secret. */
const SHORTEST_PART = 6
/** A shorter secret, in bytes, counts only as a separate word. */
const SHORTEST_ANYWHERE = 4
/** Each length takes a pass over the text, so there are few. */
const PART_LENGTHS = [16, 12, 8, SHORTEST_PART]

const encoder = new TextEncoder()
const { imul } = Math

/**
 * Prepares the search. It returns true for a text that holds one of the secrets, or a part of one that is long enough; the
 * case of ASCII letters does not matter.
 */
export function createSecretSearch(secrets: Iterable<string>): SecretSearch {
  const all = [...new Set(secrets)].map(secret => lowerCase(encoder.encode(secret)))
  const present = all.filter(secret => secret.length > 0)
  const word = anyWord(present.filter(secret => secret.length < SHORTEST_ANYWHERE))
  const passes = partsByLength(present.filter(secret => secret.length >= SHORTEST_ANYWHERE))

  return function holdsSecret(text) {
    if (present.length === 0) return false
    // A UTF-16 unit is at least one byte.
    if (text.length > MAX_SEARCHED) return true
    const bytes = encoder.encode(text)
    if (bytes.length > MAX_SEARCHED) return true
    // A header that is not all UTF-8 has one character for each byte.
    const raw = isBytewise(text) ? [Buffer.from(text, 'latin1')] : []
    const texts = [...new Set([bytes, ...raw].flatMap(readTwice))]
    return (
      (passes.length > 0 && texts.some(hasPart)) ||
      (word !== undefined && texts.some(each => hasWord(each, word)))
    )
  }

  function hasPart(text: Uint8Array): boolean {
    for (const reading of readingsOf(text)) {
      const bytes = lowerCase(reading)
      if (passes.some(parts => isAnyIn(bytes, parts))) return true
    }
    return false
  }
}

/** The parts of one length. */
interface Parts {
  readonly length: number
  readonly texts: ReadonlySet<string>
  readonly hashes: ReadonlySet<number>
  /** By the lowest bits of a hash: 0 if no part has them, which is the usual case and fast to check. */
  readonly filter: Uint8Array
}

const FILTER_BITS = 13
const FILTER_MASK = (1 << FILTER_BITS) - 1

/** The length of the parts that count: half of a secret, at most 16 bytes and at least 6, or all of a shorter one. */
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

/** The search of Rabin and Karp: one pass for any number of parts. */
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
    const rest = (hash - imul(bytes[start] as number, top)) | 0
    hash = (imul(rest, BASE) + (bytes[next] as number)) | 0
  }
}

/** Random, so that nobody can write a text whose hashes collide. */
const BASE = (Math.floor(Math.random() * 2 ** 30) << 1) | 0x10001

function hashOf(bytes: Uint8Array, from: number, length: number): number {
  let hash = 0
  for (let at = from; at < from + length; at++)
    hash = (imul(hash, BASE) + (bytes[at] as number)) | 0
  return hash
}

/** Matches any of the words in a text of one character per byte. Bytes beyond ASCII count as letters. */
function anyWord(words: readonly Uint8Array[]): RegExp | undefined {
  if (words.length === 0) return undefined
  const any = words.map(word => latin1(word).replace(/[^0-9a-z]/g, hexEscape)).join('|')
  return new RegExp(`(?<![\\w\\x80-\\xff])(?:${any})(?![\\w\\x80-\\xff])`, 'i')
}

function hexEscape(char: string): string {
  return `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`
}

/** True if a text has the word, or base64 or hexadecimal digits that decode to a text with the word. */
function hasWord(bytes: Uint8Array, word: RegExp): boolean {
  const text = latin1(bytes)
  return word.test(text) || decodedWords(text).some(each => word.test(each))
}

/**
 * The bytes a text may stand for: its own, and those that its hexadecimal and its base64 digits decode to from every offset.
 * Other characters are left out, so that line breaks and separators do not matter.
 */
function* readingsOf(text: Uint8Array): Generator<Uint8Array> {
  yield text
  const chars = latin1(text)
  const hexDigits = chars.replace(/[^0-9a-f]+/gi, '')
  for (const skip of [0, 1]) yield Buffer.from(hexDigits.slice(skip), 'hex')
  // Buffer reads the digits of base64 and of base64url alike.
  const base64Digits = chars.replace(/[^0-9a-z+/_-]+/gi, '')
  for (const skip of [0, 1, 2, 3]) {
    const decoded = Buffer.from(base64Digits.slice(skip), 'base64')
    yield decoded
    yield readEscapes(decoded)
  }
}

/** The texts that runs of base64 or hexadecimal digits decode to. */
function decodedWords(text: string): readonly string[] {
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

/** The text with its escapes of JSON, URLs (a plus is a space) and HTML decoded; the same object if it has none. */
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

/** A text as it is, with its escapes decoded, and decoded once more, as for JSON within JSON. */
function readTwice(text: Uint8Array): readonly Uint8Array[] {
  const plain = readEscapes(text)
  return [text, plain, readEscapes(plain)]
}

/** True for a text with one character per byte, not all of them ASCII. */
function isBytewise(text: string): boolean {
  return /[\x80-\xff]/.test(text) && !/[^\0-\xff]/.test(text)
}

/** One character per byte. */
function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

/** The UTF-8 bytes of a text, one character per byte. */
function utf8(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

/** Only ASCII letters, because the search compares bytes. */
function lowerCase(bytes: Uint8Array): Uint8Array {
  const lower = Uint8Array.from(bytes)
  for (let at = 0; at < lower.length; at++) {
    const byte = lower[at] as number
    if (byte >= 0x41 && byte <= 0x5a) lower[at] = byte | 0x20
  }
  return lower
}
