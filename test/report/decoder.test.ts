import { describe, expect, test } from '@jest/globals'
import { type AbiParameter, encodeAbiParameters } from 'viem'
import { createClient } from '../../client/client.js'
import { isStreamsError, ValidationError } from '../../core/errors.js'
import { MarketStatus, Ripcord } from '../../plugins/decoders/statuses.js'
import { v3 } from '../../plugins/decoders/v3.js'
import { v9 } from '../../plugins/decoders/v9.js'
import { decoders } from '../../plugins/decoders.js'
import { formatReport } from '../../presets/format-report.js'
import { allDecoders, type DecodedReport, decodeReport } from '../../presets/versions.js'
import { type Decoder, defineDecoder, type Fields } from '../../report/decoder.js'
import { createDecodeReport, createDecoderTable } from '../../report/decoder-table.js'
import { toReport } from '../../report/envelope.js'
import { feedResolution, feedVersion, getReportVersion } from '../../report/feed-id.js'
import { publishedReports } from '../support/report/published-reports.js'
import {
  encodeOuter,
  encodeReport,
  envelopeFrom,
  feedIDOf,
  fieldsOf,
  type Hex,
  headFields,
  noSignatures,
  parseFields,
  type Resolution,
} from '../support/report/report-arbitrary.js'

/** Compiles only where two types are the same. */
type Same<One, Other> =
  (<Each>() => Each extends One ? 1 : 2) extends <Each>() => Each extends Other ? 1 : 2
    ? true
    : false
function compiles<_Claim extends true>(): void {}

type DataOf<Each> = Each extends Decoder<infer Data> ? Data : never

const feed = (version: number, resolution: Resolution = 's'): Hex =>
  feedIDOf(version, resolution, 0xfeedn)

const headValues = (feedID: Hex): readonly unknown[] => [feedID, 1, 2, 3n, 4n, 5]

/** A report of version 42 with fields such as `int192 price`. */
function report42(list: string, ...values: unknown[]): Hex {
  const feedID = feed(42)
  return encodeReport(
    [...headFields('s'), ...parseFields(list)],
    [...headValues(feedID), ...values],
    envelopeFrom(42, 3),
  )
}

/** What one word decodes to as a field of some type; throws where it is refused. */
function readWord(type: string, word: bigint): unknown {
  const decode = createDecodeReport([
    defineDecoder({ version: 42, fields: { field: type } as Fields }),
  ])
  const data = decode(report42('uint256 field', BigInt.asUintN(256, word)), feed(42))
  return (data as { field?: unknown }).field
}

/** A blob that ends in words of ours, in a report without signatures. */
function reportOfWords(feedID: Hex, words: readonly (bigint | string)[]): Hex {
  const head = headFields('s') as readonly AbiParameter[]
  const digits = words.map(word =>
    typeof word === 'string' ? word.padEnd(64, '0') : word.toString(16).padStart(64, '0'),
  )
  return encodeOuter(
    `${encodeAbiParameters(head, headValues(feedID))}${digits.join('')}`,
    noSignatures,
  )
}

const decodingError = (message: RegExp | string) =>
  expect.objectContaining({
    name: 'ReportDecodingError',
    code: 'DECODING',
    message: expect.stringMatching(message),
  })

describe('a schema', () => {
  const everything = defineDecoder({
    version: 42,
    fields: {
      small: 'uint8',
      smallSigned: 'int48',
      large: 'uint56',
      largeSigned: 'int192',
      whole: 'uint256',
      time: 'uint64-twin',
      flag: 'bool',
      owner: 'address',
      tag: 'bytes4',
      hash: 'bytes32',
      note: 'string',
      last: 'uint32',
    },
  })
  const fullReport = report42(
    'uint8 small, int48 smallSigned, uint56 large, int192 largeSigned, uint256 whole, uint64 time, bool flag, address owner, bytes4 tag, bytes32 hash, string note, uint32 last',
    255,
    -(2 ** 47),
    2n ** 56n - 1n,
    -(2n ** 191n),
    2n ** 256n - 1n,
    1_700_000_000_123_456_789n,
    true,
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '0xdeadbeef',
    `0x${'ab'.repeat(32)}`,
    'grüß dich 🌊',
    7,
  )

  test('infers the type of every field, and decodes to it', () => {
    const data = createDecodeReport([everything])(fullReport, feed(42))
    const small: number = data.small
    const smallSigned: number = data.smallSigned
    const large: bigint = data.large
    const largeSigned: bigint = data.largeSigned
    const whole: bigint = data.whole
    const time: number = data.time
    const timeRaw: bigint = data.timeRaw
    const flag: boolean = data.flag
    const owner: string = data.owner
    const tag: string = data.tag
    const hash: string = data.hash
    const note: string = data.note
    const last: number = data.last
    const version: 'V42' = data.version
    const nativeFee: bigint = data.nativeFee
    const expiresAt: number = data.expiresAt
    expect(data).toStrictEqual({
      version: 'V42',
      feedID: feed(42),
      validFromTimestamp: 1,
      observationsTimestamp: 2,
      nativeFee: 3n,
      linkFee: 4n,
      expiresAt: 5,
      small: 255,
      smallSigned: -(2 ** 47),
      large: 2n ** 56n - 1n,
      largeSigned: -(2n ** 191n),
      whole: 2n ** 256n - 1n,
      time: 1_700_000_000_123_456_800,
      timeRaw: 1_700_000_000_123_456_789n,
      flag: true,
      owner: '0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed',
      tag: '0xdeadbeef',
      hash: `0x${'ab'.repeat(32)}`,
      note: 'grüß dich 🌊',
      last: 7,
    })
    expect([small, smallSigned, large, largeSigned, whole, time, timeRaw]).toHaveLength(7)
    expect([flag, owner, tag, hash, note, last, version, nativeFee, expiresAt]).toHaveLength(9)
  })

  test('has the inferred types exactly, and nothing else', () => {
    type Data = DataOf<typeof everything>
    compiles<Same<Data['small'], number>>()
    compiles<Same<Data['smallSigned'], number>>()
    compiles<Same<Data['large'], bigint>>()
    compiles<Same<Data['whole'], bigint>>()
    compiles<Same<Data['time'], number>>()
    compiles<Same<Data['timeRaw'], bigint>>()
    compiles<Same<Data['flag'], boolean>>()
    compiles<Same<Data['note'], string>>()
    compiles<Same<Data['version'], 'V42'>>()
    compiles<Same<Data['feedID'], string>>()
    const data = createDecodeReport([everything])(fullReport, feed(42))
    // @ts-expect-error the schema has no such field
    expect(data.price).toBeUndefined()
    // @ts-expect-error only twins have an exact bigint beside them
    expect(data.largeRaw).toBeUndefined()
    // @ts-expect-error a uint56 is a bigint
    const large: number = data.large
    // @ts-expect-error a uint8 is a number
    const small: bigint = data.small
    expect([typeof large, typeof small]).toEqual(['bigint', 'number'])
  })

  test('beside others decodes to one of several types, which the version tells apart', () => {
    const [published] = publishedReports as [(typeof publishedReports)[0]]
    const decode = createDecodeReport([v3, everything])
    const data = decode(published.fullReport, published.feedID)
    compiles<Same<(typeof data)['version'], 'V3' | 'V42'>>()
    if (data.version !== 'V3') throw new Error(`decoded as ${data.version}`)
    const price: bigint = data.price
    expect(price).toBe(BigInt(published.decoded.price ?? ''))
  })

  test('without fields decodes the head alone', () => {
    const bare = defineDecoder({ version: 42, fields: {} })
    const data = createDecodeReport([bare])(reportOfWords(feed(42), []), feed(42))
    expect(data).toMatchObject({ version: 'V42', nativeFee: 3n, linkFee: 4n, expiresAt: 5 })
  })

  test('is frozen into a decoder', () => {
    expect(Object.isFrozen(everything)).toBe(true)
    expect(everything.version).toBe(42)
  })

  test('of every first-party version has the types it documents', () => {
    type Of<Version extends DecodedReport['version']> = Extract<DecodedReport, { version: Version }>
    compiles<Same<Of<'V3'>['price'], bigint>>()
    compiles<Same<Of<'V5'>['duration'], number>>()
    compiles<Same<Of<'V8'>['lastUpdateTimestamp'], number>>()
    compiles<Same<Of<'V8'>['lastUpdateTimestampRaw'], bigint>>()
    compiles<Same<Of<'V9'>['navDate'], number>>()
    compiles<Same<Of<'V11'>['lastSeenTimestampNs'], bigint>>()
    compiles<Same<Of<'V14'>['contractMonth'], number>>()
    compiles<Same<Of<'V14'>['expiryTime'], number>>()
    compiles<Same<Of<'V14'>['expiryTimeRaw'], bigint>>()
    expect(allDecoders.map(decoder => decoder.version)).toEqual([
      2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
    ])
  })
})

describe('a refused schema', () => {
  const refusal = (message: string) =>
    expect.objectContaining({
      code: 'VALIDATION',
      message: expect.stringContaining(message),
    })

  const badTypes = ['float', '', 'uint', 'int7', 'uint0', 'uint264', 'uint08', 'int1e1', 'uint-8']
  test.each([...badTypes, 'bytes', 'bytes0', 'bytes33', 'int64-twin', 'int192[]', ' bool', null])(
    'names the field whose type is %p, and what types there are',
    type => {
      const define = () => defineDecoder({ version: 42, fields: { price: type } as Fields })
      expect(define).toThrow(ValidationError)
      expect(define).toThrow(refusal(`fields.price must be a type such as int192`))
      expect(define).toThrow(refusal(`not ${type}`))
    },
  )

  test('is one that does not compile', () => {
    // @ts-expect-error there is no such type
    expect(() => defineDecoder({ version: 42, fields: { price: 'float' } })).toThrow()
    // @ts-expect-error the version is a number
    expect(() => defineDecoder({ version: '42', fields: {} })).toThrow(/version/)
  })

  const taken = ['version', 'feedID', ...headFields('s').map(field => field.name)]
  test.each([...new Set(taken)])('names the field %s, which every report has already', name => {
    const define = () => defineDecoder({ version: 42, fields: { [name]: 'uint32' } })
    expect(define).toThrow(refusal(`fields.${name} is decoded already`))
  })

  test('names a field that another one is the twin of', () => {
    expect(() =>
      defineDecoder({ version: 42, fields: { time: 'uint64-twin', timeRaw: 'uint64' } }),
    ).toThrow(refusal('fields.timeRaw is decoded already'))
    expect(() =>
      defineDecoder({ version: 42, fields: { timeRaw: 'uint64', time: 'uint64-twin' } }),
    ).toThrow(refusal('fields.timeRaw is decoded already'))
  })

  // An object lists its numeric names first, so the fields would be read in another order than they were written.
  test.each(['0', '7', '1st', '', '__proto__', '-x'])(
    'names the field %p, which does not begin with a letter',
    name => {
      const fields: Fields = Object.fromEntries([
        ['price', 'int192'],
        [name, 'uint32'],
      ])
      expect(() => defineDecoder({ version: 42, fields })).toThrow(
        refusal(`fields.${name} must have a name that`),
      )
    },
  )

  test.each([1, 0, -1, 4096, 2.5, Number.NaN, Number.POSITIVE_INFINITY])(
    'names the version %p, which no feed id can announce',
    version => {
      expect(() => defineDecoder({ version, fields: {} })).toThrow(
        refusal(`version must be a whole number from 2 to 4095, not ${version}`),
      )
    },
  )

  test('and a thing that is no decoder have no place in a table', () => {
    for (const thing of [undefined, null, {}, { version: 3 }, { version: '3', decode() {} }])
      expect(() => createDecoderTable([thing as Decoder])).toThrow(ValidationError)
  })
})

describe('a field', () => {
  const widths = Array.from({ length: 32 }, (_, index) => 8 * (index + 1))

  test.each(widths)('of type uint%i takes its range, and nothing outside', width => {
    const type = `uint${width}`
    const max = 2n ** BigInt(width) - 1n
    const shape = (value: bigint) => (width <= 48 ? Number(value) : value)
    for (const value of [0n, 1n, max >> 1n, max - 1n, max])
      expect(readWord(type, value)).toBe(shape(value))
    for (const value of [max + 1n, 2n ** 255n, -1n, -max]) {
      if (BigInt.asUintN(256, value) <= max) continue
      expect(() => readWord(type, value)).toThrow(decodingError(`field is no uint${width}`))
    }
  })

  test.each(widths)('of type int%i takes its range, and nothing outside', width => {
    const type = `int${width}`
    const max = 2n ** BigInt(width - 1) - 1n
    const shape = (value: bigint) => (width <= 48 ? Number(value) : value)
    for (const value of [-max - 1n, -max, -1n, 0n, 1n, max - 1n, max])
      expect(readWord(type, value)).toBe(shape(value))
    if (width === 256) return
    for (const value of [max + 1n, -max - 2n, 2n ** 255n, 2n ** 255n - 1n, -(2n ** 254n) - 1n]) {
      if (value >= -max - 1n && value <= max) continue
      expect(() => readWord(type, value)).toThrow(decodingError(`field is no int${width}`))
    }
    // what a writer leaves behind that forgets to extend the sign
    const unextended = BigInt.asUintN(width, -1n)
    expect(() => readWord(type, unextended)).toThrow(decodingError(`field is no int${width}`))
  })

  test('of type bool is 0 or 1', () => {
    expect(readWord('bool', 0n)).toBe(false)
    expect(readWord('bool', 1n)).toBe(true)
    for (const value of [2n, 256n, 2n ** 53n, 2n ** 255n, -1n])
      expect(() => readWord('bool', value)).toThrow(decodingError('field is no bool'))
  })

  test('of type address has its 20 bytes on the right', () => {
    expect(readWord('address', 0n)).toBe(`0x${'0'.repeat(40)}`)
    expect(readWord('address', 2n ** 160n - 1n)).toBe(`0x${'f'.repeat(40)}`)
    for (const value of [2n ** 160n, 2n ** 255n, -1n])
      expect(() => readWord('address', value)).toThrow(decodingError('field is no value of 20'))
  })

  test('of type bytes1 to bytes32 has its bytes on the left', () => {
    for (let size = 1; size <= 32; size++) {
      const padding = BigInt(256 - 8 * size)
      const most = 2n ** BigInt(8 * size) - 1n
      expect(readWord(`bytes${size}`, most << padding)).toBe(`0x${'ff'.repeat(size)}`)
      expect(readWord(`bytes${size}`, 1n << padding)).toBe(`0x${'1'.padStart(2 * size, '0')}`)
      if (size === 32) continue
      for (const value of [1n, 1n << (padding - 1n)])
        expect(() => readWord(`bytes${size}`, value)).toThrow(decodingError('field is no value'))
    }
  })

  test('of type uint64-twin is a number, and exact beside it', () => {
    const twins = defineDecoder({ version: 42, fields: { time: 'uint64-twin', price: 'int192' } })
    const decode = createDecodeReport([twins])
    for (const value of [0n, 1n, 2n ** 53n - 1n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n]) {
      const data = decode(report42('uint64 time, int192 price', value, -9n), feed(42))
      expect(data).toMatchObject({ time: Number(value), timeRaw: value, price: -9n })
    }
    expect(() => decode(report42('uint256 time, int192 price', 2n ** 64n, 1n), feed(42))).toThrow(
      decodingError('time is no uint64'),
    )
  })
})

describe('a string', () => {
  const texts = defineDecoder({
    version: 42,
    fields: { first: 'string', count: 'uint32', second: 'string' },
  })
  const decode = createDecodeReport([texts])
  const read = (...words: (bigint | string)[]) => decode(reportOfWords(feed(42), words), feed(42))
  const hex = (text: string): string => Buffer.from(text).toString('hex')

  test('may stand beside others, be empty, fill its words, and hold any text', () => {
    for (const first of [
      '',
      'F',
      'x'.repeat(31),
      'x'.repeat(32),
      '\0\0',
      '\ufeffé',
      '\u{10ffff}',
    ]) {
      for (const second of ['', 'Z', 'ü'.repeat(16), 'ü'.repeat(120)]) {
        const fullReport = report42('string first, uint32 count, string second', first, 7, second)
        expect(decode(fullReport, feed(42))).toMatchObject({ first, count: 7, second })
      }
    }
  })

  test('is found where the one before it ends, and nowhere else', () => {
    const good = [288n, 7n, 352n, 1n, hex('F'), 1n, hex('Z')]
    expect(read(...good)).toMatchObject({ first: 'F', count: 7, second: 'Z' })
    for (const offset of [0n, 32n, 256n, 287n, 289n, 320n, 352n, 416n, 2n ** 53n, 2n ** 256n - 32n])
      expect(() => read(offset, ...good.slice(1))).toThrow(decodingError('first is no string'))
    for (const offset of [0n, 288n, 320n, 384n, 2n ** 64n + 352n])
      expect(() => read(288n, 7n, offset, ...good.slice(3))).toThrow(
        decodingError('second is no string'),
      )
  })

  test('is as long as it says, within the blob', () => {
    for (const length of [2n ** 256n - 1n, 2n ** 53n, 2n ** 32n + 1n, 65n, 129n])
      expect(() => read(288n, 7n, 352n, 1n, hex('F'), length, hex('Z'))).toThrow(
        decodingError('second is no string'),
      )
    expect(() => read(288n, 7n, 352n, 1n, hex('F'), 0n, 0n)).toThrow(
      decodingError('32 bytes too many'),
    )
    expect(() => read(288n, 7n, 352n, 1n, hex('F'), 1n)).toThrow(decodingError('second is no'))
    expect(() => read(288n, 7n, 352n, 1n, hex('F'))).toThrow(decodingError('second is no'))
  })

  test('is padded with zeros', () => {
    const padded = `${hex('F')}01`
    expect(() => read(288n, 7n, 352n, 1n, padded, 1n, hex('Z'))).toThrow(
      decodingError('first is no string: its padding is not zero'),
    )
    const atTheEnd = hex('Z').padEnd(63, '0')
    expect(() => read(288n, 7n, 352n, 1n, hex('F'), 1n, `${atTheEnd}1`)).toThrow(
      decodingError('second is no string: its padding is not zero'),
    )
  })

  test.each(['80', 'ff', 'c080', 'eda080', 'f4908080', 'e282', 'f0808080'])(
    'of the bytes %s is no UTF-8 and refused',
    bytes => {
      const length = BigInt(bytes.length / 2)
      expect(() => read(288n, 7n, 352n, length, bytes, 1n, hex('Z'))).toThrow(
        decodingError('first is no string: it is not valid UTF-8'),
      )
    },
  )
})

describe('a table of decoders', () => {
  const signed = (version: number): { feedID: Hex; fullReport: Hex } => {
    const feedID = feed(version)
    return { feedID, fullReport: reportOfWords(feedID, [1n]) }
  }
  const counting = (version: number) => {
    const calls: string[] = []
    const decoder: Decoder<number> = {
      version,
      decode: ({ feedID }) => calls.push(feedID),
    }
    return { calls, decoder }
  }

  test('refuses a version it has no decoder for, naming feed and version', () => {
    const { feedID, fullReport } = signed(0xabc)
    expect(() => decodeReport(fullReport, feedID)).toThrow(
      decodingError(`report of feed ${feedID} is of version V2748`),
    )
    expect(() => createDecodeReport([])(fullReport, feedID)).toThrow(decodingError('V2748'))
  })

  test('lets the record of such a version flow, and refuses to decode it each time', () => {
    const record = toReport(signed(15), 'origin', createDecoderTable(allDecoders))
    expect(record).toMatchObject({ validFromTimestamp: 1, observationsTimestamp: 2 })
    expect(() => record.decoded).toThrow(decodingError('V15'))
    expect(() => record.decoded).toThrow(decodingError('V15'))
  })

  test('lets it flow through a client as well', async () => {
    const record = signed(15)
    const client = createClient({
      endpoint: 'https://rest.test',
      wsEndpoint: 'wss://ws.test',
      plugins: [decoders(v3)],
      fetch: async () => Response.json({ report: record }),
    })
    try {
      const report = await client.getLatestReport(record.feedID)
      expect(report).toMatchObject({ ...record, observationsTimestamp: 2 })
      expect(() => report.decoded).toThrow(decodingError('V15'))
    } finally {
      await client.close()
    }
  })

  test('takes the first decoder of a version', () => {
    const { feedID, fullReport } = signed(7)
    const first: Decoder<string> = { version: 7, decode: () => 'first' }
    const second: Decoder<string> = { version: 7, decode: () => 'second' }
    const table = createDecoderTable([first, second, ...allDecoders])
    expect(table.decode(fullReport, feedID)).toBe('first')
    expect(table.versions).toEqual([7, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14])
    expect(createDecodeReport([second, first])(fullReport, feedID)).toBe('second')
  })

  test('decodes a report when it is read, and once', () => {
    const { calls, decoder } = counting(7)
    const record = toReport(signed(7), 'origin', createDecoderTable([decoder]))
    expect(calls).toEqual([])
    expect(record.decoded).toBe(1)
    expect(record.decoded).toBe(1)
    expect(calls).toEqual([feed(7)])
  })

  test('keeps the decoded fields of each report apart', () => {
    const table = createDecoderTable(allDecoders)
    const records = publishedReports.map(report => toReport(report, 'origin', table))
    const all = records.map(record => record.decoded)
    expect(all).toStrictEqual(
      publishedReports.map(({ fullReport, feedID }) => decodeReport(fullReport, feedID)),
    )
  })

  test.each([
    new Error('boom'),
    new RangeError('Offset is outside the bounds of the DataView'),
    new ValidationError('feedID must be something else'),
    'a string',
    0,
    null,
  ])('turns what a decoder throws, %p, into a ReportDecodingError with the cause', cause => {
    const { feedID, fullReport } = signed(7)
    const decoder: Decoder = {
      version: 7,
      decode() {
        throw cause
      },
    }
    expect.assertions(5)
    try {
      createDecodeReport([decoder])(fullReport, feedID)
    } catch (error) {
      expect(isStreamsError(error, 'DECODING')).toBe(true)
      expect(error).toMatchObject({ name: 'ReportDecodingError' })
      expect((error as Error).message).toContain(feedID)
      expect((error as Error).cause).toBe(cause)
    }
    const record = toReport({ feedID, fullReport }, 'origin', createDecoderTable([decoder]))
    expect(() => record.decoded).toThrow(decodingError(feedID))
  })

  test('passes on the ReportDecodingError of a decoder as it is', () => {
    const { feedID, fullReport } = signed(7)
    const picky: Decoder = {
      version: 7,
      decode: blob => v9.decode(blob),
    }
    expect(() => createDecodeReport([picky])(fullReport, feedID)).toThrow(
      decodingError('a blob of V9 has 320 bytes, this one 224'),
    )
  })

  test('hands a decoder the blob, from its first byte', () => {
    const { feedID, fullReport } = signed(7)
    const raw: Decoder<unknown> = {
      version: 7,
      decode: ({ view, length, feedID: id }) => [
        id,
        length,
        view.getUint16(0),
        view.getUint32(60),
        view.getUint8(length - 1),
      ],
    }
    expect(createDecodeReport([raw])(fullReport, feedID)).toEqual([feedID, 224, 7, 1, 1])
  })

  test('tells its log what it decodes and what it can’t', () => {
    const lines: unknown[] = []
    const table = createDecoderTable(allDecoders, {
      debug: (message, facts) => lines.push(['debug', message, facts]),
      error: (message, facts) => lines.push(['error', message, facts]),
    })
    const { feedID, fullReport } = signed(7)
    table.decode(fullReport, feedID)
    expect(() => table.decode(fullReport.slice(0, -64), feedID)).toThrow()
    expect(lines).toEqual([
      ['debug', `report of feed ${feedID} decoded`, undefined],
      ['error', expect.stringMatching(/^report decoding failed: .*words/), { feedID }],
    ])
  })
})

describe('a report', () => {
  const build = (version: number, resolution: Resolution, ...values: unknown[]) => {
    const feedID = feed(version, resolution)
    return {
      feedID,
      fullReport: encodeReport(
        fieldsOf(version, resolution),
        [feedID, ...values],
        envelopeFrom(9, 2),
      ),
    }
  }

  test('of a fund whose values are paused is data', () => {
    const { feedID, fullReport } = build(9, 's', 1, 2, 3n, 4n, 5, 6n, 7n, 8n, Ripcord.PAUSED)
    expect(decodeReport(fullReport, feedID)).toMatchObject({ version: 'V9', ripcord: 1, aum: 8n })
  })

  test('with a ripcord or a market status that has no name yet is data', () => {
    for (const value of [3, 6, 255, 256, 2 ** 32 - 1]) {
      const fund = build(9, 's', 1, 2, 3n, 4n, 5, 6n, 7n, 8n, value)
      expect(decodeReport(fund.fullReport, fund.feedID)).toMatchObject({ ripcord: value })
      const asset = build(4, 's', 1, 2, 3n, 4n, 5, 6n, value)
      expect(decodeReport(asset.fullReport, asset.feedID)).toMatchObject({ marketStatus: value })
      const other = build(8, 's', 1, 2, 3n, 4n, 5, 6n, 7n, value)
      expect(decodeReport(other.fullReport, other.feedID)).toMatchObject({ marketStatus: value })
    }
    expect(MarketStatus).toEqual({ UNKNOWN: 0, CLOSED: 1, OPEN: 2 })
  })

  test('of a millisecond feed has times of 64 bits', () => {
    const from = 1_700_000_000_123n
    const { feedID, fullReport } = build(
      3,
      'ms',
      from,
      from + 1n,
      3n,
      4n,
      2n ** 53n - 1n,
      6n,
      7n,
      8n,
    )
    expect(feedID.slice(0, 6)).toBe('0x1003')
    expect(decodeReport(fullReport, feedID)).toStrictEqual({
      version: 'V3',
      feedID,
      validFromTimestamp: 1_700_000_000_123,
      observationsTimestamp: 1_700_000_000_124,
      nativeFee: 3n,
      linkFee: 4n,
      expiresAt: Number.MAX_SAFE_INTEGER,
      price: 6n,
      bid: 7n,
      ask: 8n,
    })
  })

  const timesAt = [
    ['validFromTimestamp', 0],
    ['observationsTimestamp', 1],
    ['expiresAt', 4],
  ] as const

  test.each(timesAt)('of a millisecond feed is refused when %s is over 2^53 - 1', (field, at) => {
    const values: unknown[] = [1n, 2n, 3n, 4n, 5n, 6n]
    for (const time of [2n ** 53n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n]) {
      values[at] = time
      const { feedID, fullReport } = build(7, 'ms', ...values)
      expect(() => decodeReport(fullReport, feedID)).toThrow(decodingError(`${field} is no time`))
    }
  })

  test.each(timesAt)('of a seconds feed is refused when %s has more than 32 bits', (field, at) => {
    const feedID = feed(7)
    for (const time of [2n ** 32n, 1_700_000_000_000n, 2n ** 53n, 2n ** 64n - 1n]) {
      const values: unknown[] = [feedID, 1n, 2n, 3n, 4n, 5n, 6n]
      values[at + 1] = time
      const fullReport = encodeReport(fieldsOf(7, 'ms'), values)
      expect(() => decodeReport(fullReport, feedID)).toThrow(decodingError(`${field} is `))
    }
    const values: unknown[] = [1, 2, 3n, 4n, 5, 6n]
    values[at] = 2 ** 32 - 1
    const largest = build(7, 's', ...values)
    expect(decodeReport(largest.fullReport, feedID)).toMatchObject({ [field]: 2 ** 32 - 1 })
  })

  test('that is signed for another feed is refused', () => {
    const { feedID, fullReport } = build(7, 's', 1, 2, 3n, 4n, 5, 6n)
    const others = [feedIDOf(7, 's', 0xfeeen), feed(7, 'ms'), feed(2), feed(3)]
    for (const other of others) {
      expect(() => decodeReport(fullReport, other)).toThrow(
        decodingError(`report of feed|fullReport of feed ${other} .* signed for feed ${feedID}`),
      )
    }
  })

  test('reads the same in capitals, feed id and bytes', () => {
    const shout = (hex: string): string => `0x${hex.slice(2).toUpperCase()}`
    for (const { feedID, fullReport } of publishedReports) {
      const data = decodeReport(fullReport, feedID)
      expect(data.feedID).toBe(feedID)
      expect(decodeReport(shout(fullReport), feedID)).toStrictEqual(data)
      expect(decodeReport(fullReport, shout(feedID))).toStrictEqual(data)
      expect(decodeReport(shout(fullReport), shout(feedID))).toStrictEqual(data)
    }
  })

  test('with characters whose low byte is a digit is refused', () => {
    const { feedID, fullReport } = build(7, 's', 1, 2, 3n, 4n, 5, 6n)
    const places = [2, 100, 2 + 64 * 11 + 63, 2 + 64 * 14 + 63, fullReport.length - 1]
    for (const at of places) {
      for (const stranger of ['\u0131', '\u0261', '\uff11', '\ud831', '\u0130', 'g', ' ', '\xb1']) {
        const mutant = fullReport.slice(0, at) + stranger + fullReport.slice(at + 1)
        expect(() => decodeReport(mutant, feedID)).toThrow(decodingError('fullReport of feed'))
      }
    }
  })

  test('has to be a string', () => {
    const { feedID } = build(7, 's', 1, 2, 3n, 4n, 5, 6n)
    for (const thing of [undefined, null, 7, {}, [], new Uint8Array(640)]) {
      expect(() => decodeReport(thing as string, feedID)).toThrow(decodingError('must be a string'))
    }
  })

  test('has to be asked for by a feed id', () => {
    const { fullReport } = build(7, 's', 1, 2, 3n, 4n, 5, 6n)
    for (const thing of [undefined, null, 7, {}, '', '0x0003', '\0'.repeat(10_000_000)]) {
      const decode = () => decodeReport(fullReport, thing as string)
      expect(decode).toThrow(ValidationError)
      expect(decode).toThrow(
        expect.objectContaining({ message: expect.stringMatching(/^feedID must be .{1,600}$/) }),
      )
    }
  })

  test('has up to 32 signatures', () => {
    const feedID = feed(7)
    const values = [feedID, 1, 2, 3n, 4n, 5, 6n]
    for (const signatures of [0, 1, 31, 32]) {
      const fullReport = encodeReport(fieldsOf(7, 's'), values, envelopeFrom(1, signatures))
      expect(decodeReport(fullReport, feedID)).toMatchObject({ exchangeRate: 6n })
    }
    const tooMany = { ...envelopeFrom(1, 33), vs: feedID }
    expect(() => decodeReport(encodeReport(fieldsOf(7, 's'), values, tooMany), feedID)).toThrow(
      decodingError('more than 32 signatures'),
    )
    const envelope = envelopeFrom(1, 3)
    const uneven = { ...envelope, ss: envelope.ss.slice(1) }
    expect(() => decodeReport(encodeReport(fieldsOf(7, 's'), values, uneven), feedID)).toThrow(
      decodingError('fullReport of feed'),
    )
  })
})

describe('an encoding', () => {
  const feedID = feed(7)
  const text = encodeReport(fieldsOf(7, 's'), [feedID, 1, 2, 3n, 4n, 5, 6n], envelopeFrom(1, 2))
  const setWord = (at: number, value: bigint): string => {
    const digits = value.toString(16).padStart(64, '0')
    return text.slice(0, 2 + 64 * at) + digits + text.slice(2 + 64 * (at + 1))
  }
  const cutWord = (at: number): string => text.slice(0, 2 + 64 * at) + text.slice(2 + 64 * (at + 1))
  const table = createDecoderTable(allDecoders)
  const refused = (fullReport: string, rule: string): void => {
    const message = decodingError(`fullReport of feed ${feedID} is refused: .*${rule}`)
    expect(() => decodeReport(fullReport, feedID)).toThrow(message)
    expect(() => toReport({ feedID, fullReport }, 'origin', table)).toThrow(message)
  }

  // With a blob of 7 words and 2 signatures: word 7 has the blob's length, 15 and 18 have the counts, 21 would be next.
  const places = [
    ['the blob', 3, 224n],
    ['rawRs', 4, 480n],
    ['rawSs', 5, 576n],
  ] as const

  test.each(places)('has the offset of %s as it must be', (_, at, offset) => {
    expect(setWord(at, offset)).toBe(text)
    for (const other of [0n, 31n, 32n, offset - 32n, offset + 1n, offset + 32n, offset + 2n ** 64n])
      refused(setWord(at, other), 'an offset does not point where its part begins')
    for (const other of [2n ** 53n, 2n ** 255n, 2n ** 256n - 1n])
      refused(setWord(at, other), 'an offset does not point where its part begins')
  })

  test('has a blob of whole words', () => {
    for (const length of [1n, 31n, 33n, 223n, 225n, 2n ** 53n, 2n ** 256n - 1n])
      refused(setWord(7, length), 'the length of its blob is not whole words')
  })

  test('has a blob that ends before the signatures', () => {
    for (const length of [448n, 2n ** 32n, 2n ** 53n - 32n])
      refused(setWord(7, length), 'the length of its blob goes past the end')
  })

  test('has a blob of at least a head', () => {
    const short = encodeOuter(feedID, noSignatures)
    expect(() => decodeReport(short, feedID)).toThrow(decodingError('shorter than a report’s head'))
  })

  test('has a blob of exactly its version’s length', () => {
    for (const words of [[], [1n, 2n]]) {
      expect(() => decodeReport(reportOfWords(feedID, words), feedID)).toThrow(
        decodingError(`a blob of V7 has 224 bytes, this one ${192 + 32 * words.length}`),
      )
    }
  })

  test('has as many rs as ss', () => {
    for (const count of [0n, 1n, 3n, 32n]) {
      refused(setWord(15, count), '')
      refused(setWord(18, count), 'rawRs and rawSs differ in length')
    }
    refused(setWord(18, 2n ** 256n - 1n), 'rawRs and rawSs differ in length')
  })

  test('has no count that is too large to be one', () => {
    for (const count of [33n, 2n ** 32n, 2n ** 53n, 2n ** 256n - 1n])
      refused(setWord(15, count), 'it has more than 32 signatures')
  })

  test('has no word too many and none too few', () => {
    refused(`${text}${'0'.repeat(64)}`, 'its parts take 21 words, but there are 22')
    refused(text.slice(0, -64), 'its parts take 21 words, but there are 20')
    for (const at of [0, 3, 6, 9, 15, 16, 18, 20]) refused(cutWord(at), '')
    refused(text.slice(0, 2 + 64 * 9), 'it is cut short')
    refused('0x', 'it is cut short')
  })

  test('has whole words', () => {
    for (const fullReport of [`${text}0`, `${text}00`, text.slice(0, -1), text.slice(0, -32)])
      refused(fullReport, 'are not whole words of 32 bytes')
  })

  test('begins with 0x', () => {
    for (const prefix of ['', '0X', 'x', ' 0x', '00', '0\u0445'])
      refused(prefix + text.slice(2), 'does not start with 0x')
  })

  test('is not longer than 65536 bytes', () => {
    refused('0x'.padEnd(2 + 2 * 65_536 + 64, '0'), 'it is longer than 65536 bytes')
    refused('0x'.padEnd(2 + 2 * 65_536, '0'), '')
  })
})

describe('beside decoding', () => {
  test('getReportVersion tells the version that a feed id announces', () => {
    expect(getReportVersion(feed(3))).toBe('V3')
    expect(getReportVersion(feed(10, 'ms'))).toBe('V10')
    expect(getReportVersion(feed(4095))).toBe('V4095')
    expect(getReportVersion(`0X000A${'F'.repeat(60)}`)).toBe('V10')
    for (const thing of ['', '0x0003', undefined, 3])
      expect(() => getReportVersion(thing as string)).toThrow(ValidationError)
  })

  test('feedVersion and feedResolution read the first two bytes', () => {
    expect(feedVersion(feed(14))).toBe(14)
    expect(feedVersion(feed(14, 'ms'))).toBe(14)
    expect(feedResolution(feed(14))).toBe('s')
    expect(feedResolution(feed(14, 'ms'))).toBe('ms')
  })

  test('formatReport writes every field, a line each, values as they are', () => {
    const [{ feedID, fullReport }] = publishedReports as [(typeof publishedReports)[0]]
    const data = decodeReport(fullReport, feedID)
    const lines = formatReport(data).split('\n')
    const written = lines.map(line => line.split(/ {2,}/))
    expect(written).toEqual(Object.entries(data).map(([name, value]) => [name, String(value)]))
    expect(new Set(lines.map(line => line.search(/(?<= {2})\S/))).size).toBe(1)
  })
})
