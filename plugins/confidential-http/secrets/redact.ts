import { type HeaderLines, ownBytes, withBytes } from '../call.js'
import type { Log, LogFunction } from '../../../core/log.js'
import { EnclaveError } from '../errors.js'

/**
 * Replaces a whole text that holds a secret, because the rest of the text often gives hints about
 * it.
 */
export const REDACTED = '[redacted]'

const MAX_DEPTH = 6

/**
 * Properties of every error. Their names are not searched: a secret that is such a word would
 * redact every error.
 */
const USUAL_NAMES: readonly PropertyKey[] = ['message', 'stack', 'cause', 'code', 'errors']
const STACK_FRAME = /^ {4}at .*(?::\d+:\d+|<anonymous>|native|index \d+)\)?$/gm

/** Removes secrets from errors, log lines and headers that leave the enclave. */
export class Redactor {
  readonly #search: SecretSearch

  constructor(secrets: Iterable<string>) {
    this.#search = new SecretSearch(secrets)
  }

  /** Returns the thrown value or, if that holds a secret, an error that says only so. */
  error(thrown: unknown): unknown {
    return this.#isAnywhereIn(thrown)
      ? new EnclaveError('the request failed inside the enclave, and the reason repeats a secret')
      : thrown
  }

  /**
   * Returns a log that writes `[redacted]` in place of a line whose text or facts hold a secret.
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
   * Returns the headers with `[redacted]` in place of each value that holds a secret, and without
   * names that do.
   */
  headers(given: HeaderLines): HeaderLines {
    const holdsSecret = (text: string): boolean => this.#search.isIn(text)
    // Usually there is nothing to find, and one search shows it.
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

  /** Zeroes the secrets; every later line of the log is redacted. */
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
   * Characters left to collect. With more, the search gives up and treats the value as one that
   * holds a secret.
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

/** Longer texts, in bytes, are not searched: they count as holding a secret. */
const MAX_SEARCHED = 1_048_576

/** A shorter secret, in bytes, counts only as a separate word. */
const SHORTEST_ANYWHERE = 4

/**
 * Finds whole secrets in a text, plain or encoded: escaped as in JSON, URLs and HTML, as
 * hexadecimal digits, as base64 and base64url at any offset. It decodes the text in each of these
 * ways rather than encoding the secrets, and so finds spellings with their own case, padding or
 * line breaks as well.
 *
 * Never a part of one: a caller may send guesses to an API that repeats them, and would see which
 * are redacted. With parts it would find a secret piece by piece; so a hit takes the whole secret,
 * which who has it knows.
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
   * True for a text that holds all of one of the secrets, but for spaces around it, which headers
   * lose; the case of ASCII letters does not matter. True for every text once the search was wiped.
   */
  isIn(text: string): boolean {
    if (this.#isEmpty) return false
    // A UTF-16 unit is at least one byte.
    if (this.#isWiped || text.length > MAX_SEARCHED) return true
    return withBytes(text, bytes => {
      if (bytes.length > MAX_SEARCHED) return true
      // A header that is not all UTF-8 has one character for each byte.
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
 * Matches any of the words in a text of one character per byte. Bytes beyond ASCII count as
 * letters.
 */
function anyWord(words: readonly Uint8Array[]): RegExp | undefined {
  if (words.length === 0) return undefined
  const any = words.map(word => latin1(word).replace(/[^0-9a-z]/g, escapeChar)).join('|')
  return new RegExp(`(?<![\\w\\x80-\\xff])(?:${any})(?![\\w\\x80-\\xff])`, 'i')
}

function escapeChar(char: string): string {
  return char === ' ' ? '[ +]' : `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`
}

/**
 * True if a text has the word, or base64 or hexadecimal digits that decode to a text with the word.
 */
function hasWord(bytes: Uint8Array, word: RegExp): boolean {
  const text = latin1(bytes)
  return word.test(text) || decodedWords(text).some(each => word.test(each))
}

/**
 * The bytes a text may stand for: its own, and those that its hexadecimal and its base64 digits
 * decode to from every offset. Other characters are left out, so that line breaks and separators do
 * not matter.
 */
function* readingsOf(text: Uint8Array): Generator<Uint8Array> {
  yield text
  const chars = latin1(text)
  const hexDigits = chars.replace(/[^0-9a-f]+/gi, '')
  for (const skip of [0, 1]) yield Buffer.from(hexDigits.slice(skip), 'hex')
  // Buffer reads the digits of base64 and of base64url alike.
  const base64Digits = chars.replace(/[^0-9a-z+/_-]+/gi, '')
  for (const skip of [0, 1, 2, 3]) {
    yield* readTwice(Buffer.from(base64Digits.slice(skip), 'base64'))
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
/** `%`, the backslash and `&`. */
const ESCAPING: readonly number[] = [0x25, 0x5c, 0x26]
const NAMED: Readonly<Record<string, string>> = {
  ...{ quot: '"', apos: "'", amp: '&', lt: '<', gt: '>' },
  ...{ b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' },
}

/** The text with its escapes of JSON, URLs and HTML decoded; the same object if it has none. */
function readEscapes(text: Uint8Array): Uint8Array {
  // Without one of these nothing is escaped, and no string of the text is made.
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

/** A text as it is, with its escapes decoded, and decoded once more, as for JSON within JSON. */
function readTwice(text: Uint8Array): ReadonlySet<Uint8Array> {
  const plain = readEscapes(text)
  return new Set([text, plain, readEscapes(plain)])
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

/**
 * What a reading may have of a secret: what the secret itself holds of escapes is decoded in some
 * of them.
 */
function spellingsOf(secret: string): readonly Buffer[] {
  if (secret === '') return []
  return withBytes(secret, bytes => {
    const spellings = [...readTwice(bytes)].map(comparable).filter(({ length }) => length > 0)
    return spellings.filter((one, at) => spellings.findIndex(other => one.equals(other)) === at)
  })
}

/**
 * In lower case, only ASCII letters because the search compares bytes; and with a space for a plus,
 * as in forms.
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
