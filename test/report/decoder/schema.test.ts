import { describe, expect, test } from '@jest/globals'
import { ValidationError } from '../../../core/errors.js'
import { v3 } from '../../../plugins/decoders/v3.js'
import { allDecoders, type DecodedReport } from '../../../plugins/decoders/versions.js'
import {
  createDecodeReport,
  createDecoderTable,
  type Decoder,
  defineDecoder,
  type Fields,
} from '../../../report/decoder.js'
import { compiles, feed, report42, reportOfWords } from '../../support/report/decoding.js'
import { publishedReports } from '../../support/report/published-reports.js'
import { headFields } from '../../support/report/report-arbitrary.js'

/** Compiles only where two types are the same. */
type Same<One, Other> =
  (<Each>() => Each extends One ? 1 : 2) extends <Each>() => Each extends Other ? 1 : 2
    ? true
    : false
type DataOf<Each> = Each extends Decoder<infer Data> ? Data : never

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

  const taken = ['version', 'feedID', 'toJSON', ...headFields('s').map(field => field.name)]
  test.each([...new Set(taken)])('names the field %s, which every report has already', name => {
    const define = () => defineDecoder({ version: 42, fields: { [name]: 'uint32' } })
    expect(define).toThrow(refusal(`fields.${name} is taken already`))
  })

  test('names a field that another one is the twin of', () => {
    expect(() =>
      defineDecoder({ version: 42, fields: { time: 'uint64-twin', timeRaw: 'uint64' } }),
    ).toThrow(refusal('fields.timeRaw is taken already'))
    expect(() =>
      defineDecoder({ version: 42, fields: { timeRaw: 'uint64', time: 'uint64-twin' } }),
    ).toThrow(refusal('fields.timeRaw is taken already'))
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
