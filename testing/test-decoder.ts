import { isThenable } from '../core/async.js'
import { isStreamsError } from '../core/errors.js'
import { checkObject, kindOf, readOptions, type Schema } from '../core/options.js'
import type { Decoder } from '../report/decoder.js'
import { feedResolution, feedVersion } from '../report/feed-id.js'
import { type Blob, HEAD_WORDS, openBlob, readSafeUint } from '../report/full-report.js'
import { toJSON } from '../report/json.js'
import { Findings } from './faults.js'
import {
  copyOf,
  describeThrown,
  FUNCTION,
  fieldOf,
  fieldsOf,
  findDifference,
  show,
  startMeasuring,
} from './probe.js'
import { checkSamples } from './samples.js'

/** A report that a decoder must decode. */
export interface DecoderSample {
  /** The feed of the report: `0x` and 64 hexadecimal digits. */
  readonly feedID: string
  /** The signed bytes of the report, `0x` and hexadecimal digits. No signature is checked. */
  readonly fullReport: string
  /**
   * Fields that the decoded report must have, with their values. Other fields are not compared.
   * @default none
   */
  readonly fields?: Readonly<Record<string, unknown>>
}

/** Options of `testDecoder`. */
export interface DecoderTestOptions {
  /** Reports of the decoder's version, at least one. */
  readonly samples: readonly DecoderSample[]
}

/** What `testDecoder` found out about a decoder that broke no rule. */
export interface DecoderTestResult {
  /** How many blobs the decoder was given, the broken ones included. */
  readonly blobs: number
}

/** A sample whose encoding has been checked. Its feed id is in lower case. */
interface Sample extends Required<DecoderSample> {
  /** Names the sample in faults. */
  readonly name: string
  /** The blob. */
  readonly bytes: Uint8Array
}

const schema = {
  samples: (field, value) => checkSamples(field, value, readSample, { fields: true }),
} satisfies Schema<DecoderTestOptions>

function readSample(name: string, feedID: string, fullReport: string, given: unknown): Sample {
  const fields = checkObject(`${name}.fields`, (given ?? {}) as Sample['fields'])
  const { view, length } = openBlob(fullReport, feedID)
  const bytes = new Uint8Array(view.buffer, view.byteOffset, length).slice()
  return { name, feedID, fullReport, bytes, fields }
}

/** Milliseconds that a decoder may take for one blob. Decoders take some microseconds. */
const PATIENCE = 50
/** The bytes behind a blob that a decoder can see, and must not read. */
const TAIL = 512

/** What a decoder is given, and where its bytes are. */
interface Placed {
  readonly blob: Blob
  /** All bytes of the buffer, also those before and behind the blob. */
  readonly bytes: Uint8Array
}

/** Puts a blob into a buffer of its own, `before` bytes from the buffer's beginning. */
function place({ feedID, bytes }: Pick<Sample, 'feedID' | 'bytes'>, before = 0, tail = 0): Placed {
  const all = new Uint8Array(before + bytes.length + TAIL).fill(tail)
  all.set(bytes, before)
  const view = new DataView(all.buffer, before)
  return { blob: { feedID, view, length: bytes.length }, bytes: all }
}

/** How a decoder ended. `copy` is a copy of the decoded report. */
type Decoding =
  | { readonly isDecoded: true; readonly value: object; readonly copy: unknown }
  | { readonly isDecoded: false; readonly error: unknown }

/** A test of one decoder. */
class DecoderTest {
  blobs = 0
  /** True if the decoder was slow. Then it gets no further broken blobs. */
  isSlow = false
  /** True if the decoder returned a promise. */
  #isAsync = false
  readonly #decoder: Decoder
  readonly #findings: Findings

  constructor(decoder: Decoder, findings: Findings) {
    this.#decoder = decoder
    this.#findings = findings
  }

  /**
   * Decodes a blob. A promise or another result that is no object counts as an error. `before` runs
   * before the report is read.
   */
  decode(placed: Placed, before?: () => void): Decoding {
    this.blobs++
    let value: unknown
    try {
      value = this.#decoder.decode(placed.blob)
    } catch (error) {
      return { isDecoded: false, error }
    }
    if (isThenable(value)) {
      value.then(undefined, () => undefined)
      this.#isAsync = true
      this.#findings.add('synchronous', 'decode returned a promise')
      return { isDecoded: false, error: new TypeError('decode returned a promise') }
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      const text = `decode returned ${value === null ? 'null' : kindOf(value)}, and no object`
      return { isDecoded: false, error: new TypeError(text) }
    }
    before?.()
    return { isDecoded: true, value, copy: copyOf(value) }
  }

  /** Runs everything that a sample is good for. */
  run(sample: Sample, others: readonly Sample[]): void {
    const findings = this.#findings
    findings.where = sample.name
    const { version } = this.#decoder
    const wanted = feedVersion(sample.feedID)
    const versions = `the version is ${version}, but that of feed ${sample.feedID} is ${wanted}`
    findings.check(version === wanted, 'version', versions)
    if (version !== wanted) return
    const placed = place(sample)
    const before = placed.bytes.slice()
    const first = this.decode(placed)
    this.#checkBytes(placed, before, sample)
    if (!first.isDecoded) {
      findings.check(this.#isAsync, 'decodes', describeThrown(first.error))
      return
    }
    this.#checkHead(sample, first.value)
    for (const [name, value] of Object.entries(sample.fields)) {
      const difference = findDifference(copyOf(value), fieldOf(first.copy, name), name)
      findings.check(difference === undefined, 'fields', String(difference))
    }
    this.#checkJSON(first.value, first.copy)
    if (!this.#isRepeatable(sample, first)) return
    this.#checkMemory(sample, first)
    for (const other of others) {
      this.decode(place(other))
      this.#compare('independent', first.copy, copyOf(first.value), `after ${other.name}`)
    }
    this.#checkPlace(sample, first.copy)
    this.#checkUnit(sample)
    this.#breakBytes(sample)
    if (!this.isSlow) this.#checkExactness(sample)
  }

  #compare(rule: string, expected: unknown, found: unknown, when: string): void {
    const difference = findDifference(expected, found, '')
    this.#findings.check(difference === undefined, rule, `${when}, ${difference}`)
  }

  #checkBytes({ blob, bytes }: Placed, before: Uint8Array, { feedID, bytes: own }: Sample): void {
    const at = bytes.findIndex((byte, index) => byte !== before[index])
    this.#findings.check(at < 0, 'unchanged', `decode changed byte ${at} of the blob`)
    const isSame =
      blob.feedID === feedID && blob.length === own.length && blob.view.buffer === bytes.buffer
    this.#findings.check(isSame, 'unchanged', 'decode changed the fields of the blob')
  }

  /** Compares the fields that every report has with the bytes of the blob. */
  #checkHead(sample: Sample, value: object): void {
    const report = value as Readonly<Record<string, unknown>>
    for (const [name, expected] of Object.entries(headOf(sample, this.#decoder.version))) {
      let found: unknown
      try {
        found = report[name]
      } catch (thrown) {
        found = thrown
      }
      const text = `${name} is ${show(found)}, not ${show(expected)}`
      this.#findings.check(found === expected, 'head', text)
    }
  }

  /** A report must be written as JSON in the way that `Report` is: through `toJSON`. */
  #checkJSON(value: object, copy: unknown): void {
    let json: Readonly<Record<string, unknown>>
    try {
      json = JSON.parse(JSON.stringify(toJSON(value)))
    } catch (thrown) {
      this.#findings.add('json', `writing the report threw ${describeThrown(thrown)}`)
      return
    }
    for (const name of fieldsOf(copy)) {
      const loss = findLoss(fieldOf(copy, name), json?.[name], name)
      this.#findings.check(loss === undefined, 'json', String(loss))
    }
  }

  /** True if the decoder keeps no state between two reports. */
  #isRepeatable(sample: Sample, first: Decoding & { readonly isDecoded: true }): boolean {
    const { copy: expected } = first
    const again = this.decode(place(sample))
    const text = again.isDecoded
      ? findDifference(expected, again.copy, '')
      : `decode threw ${describeThrown(again.error)}`
    if (text !== undefined) {
      this.#findings.add('stateless', `when the same blob was decoded again, ${text}`)
      return false
    }
    const isOwn = !again.isDecoded || again.value !== first.value
    this.#findings.check(isOwn, 'independent', 'two reports are one object')
    const next = this.decode(place(withFee(sample)))
    if (!next.isDecoded) {
      this.#findings.add('decodes', `with another nativeFee, ${describeThrown(next.error)}`)
      return false
    }
    const fee = fieldOf(copyOf(next.value), 'nativeFee')
    const isRead = fee !== fieldOf(expected, 'nativeFee')
    this.#findings.check(
      isRead,
      'stateless',
      `of a blob with another nativeFee it gave the old one`,
    )
    return isRead
  }

  /** Two reports share nothing, and no report needs its bytes any more. */
  #checkMemory(sample: Sample, first: Decoding & { readonly isDecoded: true }): void {
    const placed = place(sample)
    const kept = this.decode(placed, () => placed.bytes.fill(0xa5))
    if (kept.isDecoded)
      this.#compare('reference', first.copy, kept.copy, 'after the bytes were overwritten')

    this.decode(place(withFee(sample)))
    this.#compare('independent', first.copy, copyOf(first.value), 'after another report')
    const other = this.decode(place(sample))
    if (!other.isDecoded) return
    spoil(other.value)
    this.#compare('independent', first.copy, copyOf(first.value), 'after another was written to')
    const last = this.decode(place(sample))
    if (last.isDecoded)
      this.#compare('independent', first.copy, last.copy, 'after an earlier one was written to')
  }

  /** The blob may be anywhere in its buffer, and other bytes may follow it. */
  #checkPlace(sample: Sample, expected: unknown): void {
    const moved = this.decode(place(sample, 256))
    const text = moved.isDecoded
      ? findDifference(expected, moved.copy, '')
      : `decode threw ${describeThrown(moved.error)}`
    const when = 'of a blob that begins at byte 256 of its buffer'
    this.#findings.check(text === undefined, 'offset', `${when}, ${text}`)
    this.#compareTails(sample, 'of the whole blob')
  }

  /** The bytes behind the blob must not count. */
  #compareTails(sample: Sample, when: string): void {
    const [one, other] = [this.decode(place(sample, 0, 0)), this.decode(place(sample, 0, 0xff))]
    const difference =
      one.isDecoded && other.isDecoded
        ? findDifference(one.copy, other.copy, '')
        : one.isDecoded !== other.isDecoded && 'they decide whether it is decoded'
    const text = `${when}, the bytes behind it count: ${difference}`
    this.#findings.check(!difference, 'end', text)
  }

  /** The same version has feeds in seconds and feeds in milliseconds. */
  #checkUnit(sample: Sample): void {
    const other = inOtherUnit(sample)
    if (!isReadable(other)) return
    this.#findings.where = other.name
    const decoding = this.decode(place(other))
    if (decoding.isDecoded) this.#checkHead(other, decoding.value)
    else this.#findings.add('head', `decode threw ${describeThrown(decoding.error)}`)
    this.#findings.where = sample.name
  }

  /** Two values that differ must not become one number. */
  #checkExactness(sample: Sample): void {
    const decodeWith = (word: number, value: bigint): unknown => {
      const decoding = this.decode(place(withWord(sample, word, value)))
      return decoding.isDecoded ? decoding.copy : undefined
    }
    for (let word = HEAD_WORDS; word < sample.bytes.length / 32; word++) {
      const [one, two] = [decodeWith(word, 1n), decodeWith(word, 2n)]
      const names = fieldsOf(one).filter(name => differ(fieldOf(one, name), fieldOf(two, name)))
      for (const bits of [53, 60, 80, 127, 180]) {
        const value = 1n << BigInt(bits)
        const [copy, next] = [decodeWith(word, value), decodeWith(word, value + 1n)]
        if (copy === undefined || next === undefined || differ(copy, next)) continue
        const inexact = names.find(name => typeof fieldOf(copy, name) === 'number')
        const text = `${inexact} is ${show(fieldOf(copy, inexact ?? ''))} for 2^${bits} and for 2^${bits} + 1`
        this.#findings.check(inexact === undefined, 'exact', text)
      }
    }
  }

  /** Gives the decoder blobs whose bytes are wrong. */
  #breakBytes(sample: Sample): void {
    const words = sample.bytes.length / 32
    for (let count = HEAD_WORDS; count < words; count++) {
      const short = { ...sample, bytes: sample.bytes.slice(0, 32 * count) }
      this.#expectError(short, `cut off after ${count} of ${words} words`)
      this.#compareTails(short, `of a blob that is cut off after ${count} of ${words} words`)
    }
    for (const byte of [0, 0xff]) {
      const long = new Uint8Array(sample.bytes.length + 32).fill(byte)
      long.set(sample.bytes)
      this.#expectError({ ...sample, bytes: long }, `with 32 bytes more, each ${byte}`)
    }
    for (let word = HEAD_WORDS; word < words; word++)
      for (const value of hostileWords(words))
        this.#expectError(
          withWord(sample, word, value),
          `with 0x${BigInt.asUintN(256, value).toString(16)} in word ${word}`,
        )
    for (let bit = 256; bit < 256 * words; bit++) {
      const bytes = sample.bytes.slice()
      bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7))
      this.#expectError({ ...sample, bytes }, `with a flipped bit in byte ${bit >> 3}`)
    }
    const random = createRandom()
    for (let round = 0; round < 300; round++) {
      const length = HEAD_WORDS + Math.floor(random() * (words + 4))
      const bytes = Uint8Array.from({ length: 32 * length }, () => random() * 256)
      bytes.set(sample.bytes.subarray(0, 32 * (HEAD_WORDS - 1)))
      // In half of them most words are small, as lengths and offsets are.
      if (round % 2 === 0)
        for (let word = HEAD_WORDS; word < length; word++)
          bytes.fill(0, 32 * word, 32 * word + (random() < 0.5 ? 30 : 31))
      this.#expectError({ ...sample, bytes }, `of random bytes, number ${round}`)
    }
  }

  /** Gives the decoder a blob that it may decode or reject, but must not fail at. */
  #expectError(sample: Sample, what: string): void {
    if (this.isSlow || !isReadable(sample)) return
    const start = performance.now()
    const decoding = this.decode(place(sample))
    let took = performance.now() - start
    // Another process may have had the core, so the time is taken again.
    for (let count = 0; count < 2 && took > PATIENCE; count++) {
      const measure = startMeasuring()
      this.decode(place(sample))
      took = Math.min(took, measure())
    }
    if (took > PATIENCE) {
      this.isSlow = true
      this.#findings.add('time', `a blob ${what} took ${Math.round(took)} ms`)
    }
    if (decoding.isDecoded || isStreamsError(decoding.error, 'DECODING')) return
    this.#findings.add('errors', `of a blob ${what}: ${describeThrown(decoding.error)}`)
  }
}

const differ = (one: unknown, other: unknown): boolean =>
  findDifference(one, other, '') !== undefined

/** The word at an index as an unsigned integer. */
function wordOf(bytes: Uint8Array, index: number): bigint {
  let value = 0n
  for (const byte of bytes.subarray(32 * index, 32 * (index + 1)))
    value = 256n * value + BigInt(byte)
  return value
}

/** A sample with another word. */
function withWord<Given extends Sample>(sample: Given, index: number, value: bigint): Given {
  const bytes = sample.bytes.slice()
  let left = BigInt.asUintN(256, value)
  for (let at = 32 * index + 31; at >= 32 * index; at--) {
    bytes[at] = Number(left & 0xffn)
    left >>= 8n
  }
  return { ...sample, bytes }
}

/** The index of the word that has the native fee. */
const NATIVE_FEE = 3

/** A sample with another native fee, which every decoder can decode. */
function withFee(sample: Sample): Sample {
  return withWord(sample, NATIVE_FEE, wordOf(sample.bytes, NATIVE_FEE) ^ 1n)
}

/** The fields that every decoded report of a blob has. */
function headOf({ feedID, bytes }: Sample, version: number): Readonly<Record<string, unknown>> {
  return {
    version: `V${version}`,
    feedID,
    validFromTimestamp: Number(wordOf(bytes, 1)),
    observationsTimestamp: Number(wordOf(bytes, 2)),
    nativeFee: wordOf(bytes, NATIVE_FEE),
    linkFee: wordOf(bytes, 4),
    expiresAt: Number(wordOf(bytes, 5)),
  }
}

/** The same report of a feed in the other unit. Milliseconds take more than 32 bits. */
function inOtherUnit(sample: Sample): Sample {
  const isSeconds = feedResolution(sample.feedID) === 's'
  const feedID = `0x${isSeconds ? 1 : 0}${sample.feedID.slice(3)}`
  let other = withWord({ ...sample, feedID }, 0, BigInt(feedID))
  for (const word of [1, 2, 5]) {
    const time = wordOf(sample.bytes, word)
    other = withWord(other, word, isSeconds ? 1000n * time : time / 1000n)
  }
  return { ...other, name: `${sample.name} as a feed in ${isSeconds ? 'milliseconds' : 'seconds'}` }
}

/** True for a blob that the client hands to a decoder: it has checked the times before. */
function isReadable({ feedID, bytes }: Sample): boolean {
  const most = feedResolution(feedID) === 's' ? 0xffff_ffff : Number.MAX_SAFE_INTEGER
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  return [32, 64].every(at => readSafeUint(view, at) <= most)
}

/**
 * Words that overflow as values, and point elsewhere as offsets and lengths. The lengths grow, so
 * that a loop over a length is noticed before it takes forever.
 */
function hostileWords(words: number): readonly bigint[] {
  const offsets = [0n, 1n, 2n, 31n, 32n, 33n, 64n, 192n, 32n * BigInt(words), 65_536n]
  const near = [-32n, -1n, 1n, 32n].map(step => 32n * BigInt(words) + step)
  const lengths = [20, 22, 24, 25, 26, 27, 28, 29, 30, 31, 32, 40, 52, 53, 63, 64, 128, 191, 255]
  const powers = lengths.flatMap(bits => [(1n << BigInt(bits)) - 1n, 1n << BigInt(bits)])
  return [...offsets, ...near, ...powers, -1n, -32n, -(1n << 191n) - 1n]
}

/** Makes the same numbers in every run, from 0 to below 1. */
function createRandom(): () => number {
  let state = 0x9e37_79b9
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

/** Writes to every field of a report, and of the objects in it. */
function spoil(value: object, seen: Set<object> = new Set()): void {
  if (seen.has(value)) return
  seen.add(value)
  if (ArrayBuffer.isView(value)) return
  for (const name of Reflect.ownKeys(value)) {
    const field: unknown = Object.getOwnPropertyDescriptor(value, name)?.value
    if (typeof field === 'object' && field !== null) spoil(field, seen)
    if (Object.getOwnPropertyDescriptor(value, name)?.writable) Reflect.set(value, name, 'spoiled')
  }
}

/** Says what of a copied value is not in its JSON. Undefined if all of it is. */
function findLoss(copy: unknown, json: unknown, path: string): string | undefined {
  if (copy === undefined || copy === FUNCTION) return undefined
  const fields = fieldsOf(copy)
  if (fields.length > 0 && typeof json === 'object' && json !== null) {
    const parts = json as Readonly<Record<string, unknown>>
    for (const name of fields) {
      const loss = findLoss(fieldOf(copy, name), parts[name], `${path}.${name}`)
      if (loss !== undefined) return loss
    }
    return undefined
  }
  // Of an object with a `toJSON` method, such as a Date, any text will do.
  if (fields.length > 0 && typeof json === 'string') return undefined
  if (typeof copy === 'object' && copy !== null && fields.length === 0 && typeof json === 'object')
    return undefined
  const expected = typeof copy === 'bigint' ? String(copy) : copy
  return json === expected ? undefined : `${path} is ${show(copy)}, and ${show(json)} in JSON`
}

/** Checks what the client checks of a decoder, and that its version is one of a decoder. */
function hasShape(decoder: unknown, findings: Findings): boolean {
  const { version, decode } = (decoder ?? {}) as Partial<Decoder>
  const isVersion = Number.isInteger(version) && Number(version) >= 2 && Number(version) <= 0xfff
  findings.check(
    isVersion,
    'shape',
    `version must be a whole number from 2 to 4095, not ${show(version)}`,
  )
  if (isVersion) findings.check(typeof decode === 'function', 'shape', 'decode must be a function')
  return isVersion && typeof decode === 'function'
}

/**
 * Checks the rules of a decoder with your samples, with broken forms of them, and with random
 * bytes.
 *
 * Rejects with a ConformanceError that names each broken rule. Works under every test runner.
 *
 * @example
 * ```ts
 * test('my decoder keeps the rules', () => testDecoder(v42, { samples: [{ feedID, fullReport }] }))
 * ```
 */
export async function testDecoder(
  decoder: Decoder,
  options: DecoderTestOptions,
): Promise<DecoderTestResult> {
  const { samples } = readOptions('testDecoder', options, schema)
  const findings = new Findings(`decoder V${(decoder as Decoder | undefined)?.version}`)
  findings.where = 'the decoder'
  if (!hasShape(decoder, findings)) findings.finish()
  const test = new DecoderTest(decoder, findings)
  for (const sample of samples)
    test.run(
      sample,
      samples.filter(each => each !== sample && feedVersion(each.feedID) === decoder.version),
    )
  findings.finish()
  return { blobs: test.blobs }
}
