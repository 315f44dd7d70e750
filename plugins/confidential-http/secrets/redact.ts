import type { Log, LogFunction } from '../../../core/log.js'
import { type HeaderLines, ownBytes, withBytes } from '../call.js'
import { EnclaveError } from '../errors.js'

/**
 * The replacement for a text that contains a secret. The whole text is replaced, because the rest
 * often gives hints about the secret.
 */
export const REDACTED = '[redacted]'

const MAX_DEPTH = 6

/**
 * The names of properties that errors usually have. These names are not searched. Otherwise a
 * secret that equals such a word would redact every error.
 */
const USUAL_NAMES: readonly PropertyKey[] = ['message', 'stack', 'cause', 'code', 'errors']
const STACK_FRAME = /^ {4}at .*(?::\d+:\d+|<anonymous>|native|index \d+)\)?$/gm

/** Removes secrets from errors, log lines and headers that leave the enclave. */
export class Redactor {
  readonly #search: SecretSearch

  constructor(secrets: Iterable<string>) {
    this.#search = new SecretSearch(secrets)
  }

  /**
   * Returns the thrown value. If the value contains a secret, returns an error instead, which says
   * only that.
   */
  error(thrown: unknown): unknown {
    return this.#isAnywhereIn(thrown)
      ? new EnclaveError('the request failed inside the enclave, and the reason repeats a secret')
      : thrown
  }

  /**
   * Returns a log that writes `[redacted]` in place of a line whose text or facts contain a secret.
   */
  log(given: Log): Log {
    const entries = Object.entries(given) as [keyof Log, LogFunction | undefined][]
    return Object.fromEntries(
      entries.map(([level, write]) => {
        const redacted: LogFunction = (message, facts) => {
          if (this.#isAnywhereIn([message, facts])) write?.(REDACTED)
          else write?.(message, facts)
        }
        return [level, write && redacted]
      }),
    )
  }

  /**
   * Returns the headers with `[redacted]` in place of each value that contains a secret. Drops
   * headers whose name contains a secret.
   */
  headers(given: HeaderLines): HeaderLines {
    const holdsSecret = (text: string): boolean => this.#search.isIn(text)
    // Usually no header contains a secret, and one search of all headers shows that.
    if (!holdsSecret([...given].flatMap(([name, values]) => [name, ...values]).join('\n')))
      return given
    const kept = [...given].filter(([name]) => !holdsSecret(name))
    return new Map(
      kept.map(([name, values]) => [
        name,
        values.map(value => (holdsSecret(value) ? REDACTED : value)),
      ]),
    )
  }

  /** Zeroes the secrets. Every later line of the log is redacted. */
  wipe(): void {
    this.#search.wipe()
  }

  #isAnywhereIn(value: unknown): boolean {
    const texts: string[] = []
    collectTexts(value, { texts, seen: new Set(), left: MAX_SEARCHED + 1 }, 0)
    return this.#search.isIn(texts.join('\n'))
  }
}

interface Collected {
  readonly texts: string[]
  readonly seen: Set<unknown>
  /**
   * How many more characters may be collected. If the value has more, the search gives up and
   * treats the value as if it contained a secret.
   */
  left: number
}

/** Collects every text in a value, at any depth up to MAX_DEPTH. */
function collectTexts(value: unknown, collected: Collected, depth: number): void {
  const { texts, seen } = collected
  if (collected.left < 0) return
  if (typeof value === 'string') {
    collected.left -= value.length + 1
    texts.push(value)
    return
  }
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function'
  if (!isObject || depth > MAX_DEPTH || seen.has(value)) return
  seen.add(value)
  if (ArrayBuffer.isView(value)) {
    collectTexts(new TextDecoder().decode(value as Uint8Array), collected, depth)
    return
  }
  if (value instanceof Map || value instanceof Set) {
    for (const each of value) collectTexts(each, collected, depth + 1)
    return
  }
  for (const name of Reflect.ownKeys(value)) {
    if (!USUAL_NAMES.includes(name)) collectTexts(String(name), collected, depth + 1)
    const held = read(value, name)
    const isStack = name === 'stack' && typeof held === 'string'
    collectTexts(isStack ? held.replace(STACK_FRAME, '') : held, collected, depth + 1)
  }
}

function read(holder: object, name: PropertyKey): unknown {
  try {
    return Reflect.get(holder, name)
  } catch {
    return undefined
  }
}

/** The longest text that is searched, in bytes. A longer text counts as containing a secret. */
const MAX_SEARCHED = 1_048_576

/**
 * The length in bytes from which a secret is found anywhere in a text. A shorter secret is found
 * only as a separate word.
 */
const SHORTEST_ANYWHERE = 4

/**
 * Finds whole secrets in a text. The secrets may be plain, escaped as in JSON, URLs or HTML, or
 * encoded as hexadecimal digits, base64 or base64url at any offset. The search decodes the text
 * instead of encoding the secrets. So it also finds encodings with unusual case, padding or line
 * breaks.
 *
 * The search never reports a part of a secret. A caller could send guesses to an API that repeats
 * them, and see which guesses are redacted. If parts were redacted, the caller could find a secret
 * piece by piece. As only the whole secret is redacted, a redaction tells a caller nothing unless
 * the caller has guessed the whole secret.
 */
export class SecretSearch {
  readonly #longer: readonly Buffer[]
  #word: RegExp | undefined
  readonly #isEmpty: boolean
  #isWiped = false

  constructor(secrets: Iterable<string>) {
    const present = [...secrets].flatMap(secret => spellingsOf(secret.trim()))
    this.#isEmpty = present.length === 0
    this.#longer = present.filter(secret => secret.length >= SHORTEST_ANYWHERE)
    this.#word = anyWord(present.filter(secret => secret.length < SHORTEST_ANYWHERE))
  }

  /**
   * Tells whether a text contains a whole secret. Ignores the case of ASCII letters. Ignores spaces
   * at the ends of the secret, because headers lose them. Returns true for every text after `wipe`.
   */
  isIn(text: string): boolean {
    if (this.#isEmpty) return false
    // Each UTF-16 unit takes at least one byte in UTF-8, so a longer text is also longer in bytes.
    if (this.#isWiped || text.length > MAX_SEARCHED) return true
    return withBytes(text, bytes => {
      if (bytes.length > MAX_SEARCHED) return true
      // A header that is not valid UTF-8 arrives with one character for each byte.
      const raw = isBytewise(text) ? [ownBytes(text, 'latin1')] : []
      return [bytes, ...raw].some(each => this.#isInBytes(each))
    })
  }

  /** Zeroes the secrets. */
  wipe(): void {
    this.#isWiped = true
    this.#word = undefined
    for (const secret of this.#longer) secret.fill(0)
  }

  #isInBytes(bytes: Uint8Array): boolean {
    const word = this.#word
    for (const text of readTwice(bytes)) {
      if (this.#longer.length > 0 && this.#holdsLonger(text)) return true
      if (word !== undefined && hasWord(text, word)) return true
    }
    return false
  }

  #holdsLonger(text: Uint8Array): boolean {
    for (const reading of readingsOf(text)) {
      const bytes = comparable(reading)
      const isHit = this.#longer.some(secret => bytes.includes(secret))
      bytes.fill(0)
      if (reading !== text) reading.fill(0)
      if (isHit) return true
    }
    return false
  }
}

/**
 * Makes a pattern that matches any of the words in a text with one character per byte. Bytes beyond
 * ASCII count as letters.
 */
function anyWord(words: readonly Uint8Array[]): RegExp | undefined {
  if (words.length === 0) return undefined
  const any = words.map(word => latin1(word).replace(/[^0-9a-z]/g, escapeChar)).join('|')
  return new RegExp(`(?<![\\w\\x80-\\xff])(?:${any})(?![\\w\\x80-\\xff])`, 'i')
}

function escapeChar(char: string): string {
  return char === ' ' ? '[ +]' : `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`
}

/** Tells whether a text contains the word, plain or in base64 or hexadecimal digits. */
function hasWord(bytes: Uint8Array, word: RegExp): boolean {
  const text = latin1(bytes)
  return word.test(text) || decodedWords(text).some(each => word.test(each))
}

/**
 * Yields all readings of a text. These are its own bytes, and the bytes that its hexadecimal or
 * base64 digits decode to from every offset. Other characters are removed before decoding, so that
 * line breaks and separators do not matter.
 */
function* readingsOf(text: Uint8Array): Generator<Uint8Array> {
  yield text
  const chars = latin1(text)
  const hexDigits = chars.replace(/[^0-9a-f]+/gi, '')
  for (const skip of [0, 1]) yield Buffer.from(hexDigits.slice(skip), 'hex')
  // Buffer decodes both base64 and base64url.
  const base64Digits = chars.replace(/[^0-9a-z+/_-]+/gi, '')
  for (const skip of [0, 1, 2, 3]) {
    yield* readTwice(Buffer.from(base64Digits.slice(skip), 'base64'))
  }
}

/** Decodes each run of base64 or hexadecimal digits to a text. */
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
/** The bytes that start an escape: `%`, the backslash and `&`. */
const ESCAPING: readonly number[] = [0x25, 0x5c, 0x26]
const NAMED: Readonly<Record<string, string>> = {
  ...{ quot: '"', apos: "'", amp: '&', lt: '<', gt: '>' },
  ...{ b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' },
}

/**
 * Decodes the escapes of JSON, URLs and HTML in a text. Returns the same object if the text has no
 * escapes.
 */
function readEscapes(text: Uint8Array): Uint8Array {
  // A text without any of these bytes has no escapes. Returning early avoids a string copy of the
  // text.
  if (!ESCAPING.some(byte => text.includes(byte))) return text
  const chars = latin1(text)
  const read = chars.replace(ESCAPE, (whole, ...groups: (string | undefined)[]) => {
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

/**
 * Returns a text as it is, with its escapes decoded once, and with its escapes decoded twice. JSON
 * within JSON needs the second decoding.
 */
function readTwice(text: Uint8Array): ReadonlySet<Uint8Array> {
  const plain = readEscapes(text)
  return new Set([text, plain, readEscapes(plain)])
}

/** Tells whether every character of a text stands for one byte, and at least one is not ASCII. */
function isBytewise(text: string): boolean {
  return /[\x80-\xff]/.test(text) && !/[^\0-\xff]/.test(text)
}

/** Converts bytes to a text with one character per byte. */
function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

/** Converts a text to its UTF-8 bytes, as a text with one character per byte. */
function utf8(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

/**
 * Returns the forms in which a reading may contain a secret. If the secret itself contains escapes,
 * some readings have them decoded.
 */
function spellingsOf(secret: string): readonly Buffer[] {
  if (secret === '') return []
  return withBytes(secret, bytes => {
    const spellings = [...readTwice(bytes)].map(comparable).filter(({ length }) => length > 0)
    return spellings.filter((one, at) => spellings.findIndex(other => one.equals(other)) === at)
  })
}

/**
 * Copies bytes into a form for comparison. Changes ASCII letters to lower case. Changes each plus
 * to a space, as in forms. Other letters stay, because the search compares bytes.
 */
function comparable(bytes: Uint8Array): Buffer {
  const made = Buffer.allocUnsafeSlow(bytes.length)
  made.set(bytes)
  for (let at = 0; at < made.length; at++) {
    const byte = made[at] as number
    if (byte >= 0x41 && byte <= 0x5a) made[at] = byte | 0x20
    else if (byte === 0x2b) made[at] = 0x20
  }
  return made
}
