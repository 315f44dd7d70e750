import { describe, expect, test } from '@jest/globals'
import { allDecoders } from '../../plugins/decoders/versions.js'
import { createDecoderTable, type Decoder } from '../../report/decoder.js'
import { EnvelopeError, type Report, toReport } from '../../report/report.js'
import { publishedReports } from '../support/report/published-reports.js'
import {
  encodeReport,
  envelopeFrom,
  feedIDOf,
  fieldsOf,
  parseFields,
} from '../support/report/report-arbitrary.js'

const table = createDecoderTable(allDecoders)
const read = (record: unknown): Report => toReport(record, 'wss://one.test', table)

const seconds = feedIDOf(7, 's', 0xabcdefn)
const signedAt = { validFromTimestamp: 1_700_000_000, observationsTimestamp: 1_700_000_001 }
const signed = {
  feedID: seconds,
  fullReport: encodeReport(
    fieldsOf(7, 's'),
    [seconds, 1_700_000_000, 1_700_000_001, 5n, 6n, 1_700_086_400, 42n],
    envelopeFrom(1, 2),
  ),
}

const milliseconds = feedIDOf(7, 'ms', 0xabcdefn)
const inMilliseconds = {
  feedID: milliseconds,
  fullReport: encodeReport(fieldsOf(7, 'ms'), [
    milliseconds,
    1_700_000_000_123n,
    1_700_000_000_456n,
    5n,
    6n,
    1_700_086_400_000n,
    42n,
  ]),
}

const firstVersion = feedIDOf(1, 's', 0xabcdefn)
const blockBased = {
  feedID: firstVersion,
  fullReport: encodeReport(
    parseFields(
      'bytes32 feedID, uint32 observationsTimestamp, int192 benchmarkPrice, int192 bid, int192 ask, uint64 currentBlockNum, bytes32 currentBlockHash, uint64 validFromBlockNum, uint64 currentBlockTimestamp',
    ),
    [firstVersion, 1_700_000_001, 1n, 2n, 3n, 4n, seconds, 5n, 6n],
    envelopeFrom(2, 2),
  ),
}

describe('times', () => {
  test('an envelope that agrees with the signed blob makes a report', () => {
    const report = read({ ...signed, ...signedAt })
    expect(report).toMatchObject({ ...signed, ...signedAt, origin: 'wss://one.test' })
    expect(report.decoded).toMatchObject({ ...signedAt, version: 'V7', exchangeRate: 42n })
  })

  test('times that the envelope lacks are the blob’s', () => {
    expect(read(signed)).toMatchObject(signedAt)
    expect(read({ ...signed, validFromTimestamp: 1_700_000_000 })).toMatchObject(signedAt)
    expect(read({ ...signed, observationsTimestamp: 1_700_000_001 })).toMatchObject(signedAt)
    expect(read({ ...signed, validFromTimestamp: undefined })).toMatchObject(signedAt)
  })

  test('times of millisecond feeds are passed on in milliseconds', () => {
    const times = {
      validFromTimestamp: 1_700_000_000_123,
      observationsTimestamp: 1_700_000_000_456,
    }
    expect(read(inMilliseconds)).toMatchObject(times)
    expect(read({ ...inMilliseconds, ...times })).toMatchObject(times)
    expect(() => read({ ...inMilliseconds, ...signedAt })).toThrow(/envelope/)
  })

  test.each(['validFromTimestamp', 'observationsTimestamp'] as const)(
    'an envelope whose %s differs from the signed one is refused, and both are named',
    field => {
      const other = signedAt[field] + 1
      expect(() => read({ ...signed, ...signedAt, [field]: other })).toThrow(
        expect.objectContaining({
          name: 'ReportDecodingError',
          code: 'DECODING',
          message: expect.stringMatching(
            new RegExp(`envelope’s ${field} is ${other}, the signed one ${signedAt[field]}`),
          ),
        }),
      )
    },
  )

  const word = (value: bigint): string => value.toString(16).padStart(64, '0')
  const setWord = (fullReport: string, at: number, digits: string): string =>
    fullReport.slice(0, 2 + 64 * at) + digits + fullReport.slice(2 + 64 * (at + 1))

  test.each([
    ['validFromTimestamp', 9],
    ['observationsTimestamp', 10],
  ] as const)('a signed %s that is no time of the feed’s unit is refused', (field, at) => {
    for (const time of [2n ** 32n, 1_700_000_000_000n, 2n ** 53n, 2n ** 64n, 2n ** 255n]) {
      const fullReport = setWord(signed.fullReport, at, word(time))
      expect(() => read({ ...signed, fullReport })).toThrow(
        expect.objectContaining({ code: 'DECODING', message: expect.stringContaining(field) }),
      )
    }
    for (const time of [2n ** 53n, 2n ** 56n - 1n, 2n ** 64n, 2n ** 255n]) {
      const fullReport = setWord(inMilliseconds.fullReport, at, word(time))
      expect(() => read({ ...inMilliseconds, fullReport })).toThrow(`${field} is no time`)
    }
    const last = setWord(inMilliseconds.fullReport, at, word(2n ** 53n - 1n))
    expect(read({ ...inMilliseconds, fullReport: last })[field]).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('a signed time with a character that is no digit is refused', () => {
    for (const stranger of ['g', ' ', '+', '\xb1', '\u0131', '\u00b1', '\uff11', '\u0661']) {
      for (const digits of [word(1n), word(2n ** 40n)]) {
        for (const record of [signed, inMilliseconds]) {
          const fullReport = setWord(record.fullReport, 10, digits.slice(0, -1) + stranger)
          expect(() => read({ ...record, fullReport })).toThrow(/no hexadecimal digit/)
        }
      }
    }
  })

  const noTimes = [null, '1700000000', 1.5, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]
  test.each([...noTimes, true, {}, [1_700_000_000], 1_700_000_000n])(
    'a time must be a whole number from 0 on, not %p',
    value => {
      for (const field of ['validFromTimestamp', 'observationsTimestamp']) {
        const reading = () => read({ ...signed, ...signedAt, [field]: value })
        expect(reading).toThrow(EnvelopeError)
        expect(reading).toThrow(`report.${field} must be a whole number from 0 on`)
      }
    },
  )
})

describe('shape', () => {
  test.each([undefined, null, 'report', 7, true])('a record that is %p is refused', value => {
    expect(() => read(value)).toThrow(EnvelopeError)
  })

  test.each([
    undefined,
    null,
    3,
    '',
    '0x',
    seconds.slice(2),
    seconds.slice(0, -1),
    `${seconds}0`,
    `${seconds}\n`,
    ` ${seconds}`,
    seconds.replace('f', 'g'),
    [seconds],
  ])('a record whose feedID is %p is refused', feedID => {
    expect(() => read({ ...signed, feedID })).toThrow(EnvelopeError)
    expect(() => read({ ...signed, feedID })).toThrow(/report\.feedID/)
  })

  test.each([undefined, null, 7, true, {}, ['0x'], Buffer.from('0x')])(
    'a record whose fullReport is %p is refused',
    fullReport => {
      expect(() => read({ ...signed, fullReport })).toThrow(EnvelopeError)
      expect(() => read({ ...signed, fullReport })).toThrow(/report\.fullReport must be a string/)
    },
  )

  test.each(['', '0x', 'report', `${signed.fullReport}00`, signed.fullReport.slice(0, -64)])(
    'a fullReport that is no report is refused',
    fullReport => {
      expect(() => read({ ...signed, fullReport })).toThrow(
        expect.objectContaining({ code: 'DECODING' }),
      )
    },
  )

  test('fields that nobody knows are ignored', () => {
    expect(read({ ...signed, seqNr: 7, validFrom: 'never' })).toMatchObject(signedAt)
  })
})

describe('feed', () => {
  test('a report that is signed for another feed is refused', () => {
    expect(() => read({ ...signed, feedID: feedIDOf(7, 's', 0xabcdeen) })).toThrow(
      expect.objectContaining({
        code: 'DECODING',
        message: expect.stringMatching(`signed for feed ${seconds}`),
      }),
    )
  })

  test('a report under the id of the same feed in the other unit is refused', () => {
    expect(() => read({ ...signed, feedID: milliseconds })).toThrow(/signed for feed/)
    expect(() => read({ ...inMilliseconds, feedID: seconds })).toThrow(/signed for feed/)
  })

  test('capitals in the feed id and in the bytes are no difference', () => {
    const shout = (hex: string): string => `0x${hex.slice(2).toUpperCase()}`
    const fullReport = shout(signed.fullReport)
    const report = read({ feedID: shout(seconds), fullReport, ...signedAt })
    expect(report).toMatchObject({ feedID: seconds, fullReport, ...signedAt })
    expect(report.decoded).toStrictEqual(read(signed).decoded)
  })

  test('published reports pass under their own feed id and under no other', () => {
    for (const { feedID, fullReport } of publishedReports) {
      expect(read({ feedID, fullReport }).feedID).toBe(feedID)
      for (const other of publishedReports) {
        if (other.feedID === feedID) continue
        expect(() => read({ feedID: other.feedID, fullReport })).toThrow(/signed for feed/)
      }
    }
  })
})

describe('reports of version 1', () => {
  test('they flow with the time of their observations', () => {
    const report = read(blockBased)
    expect(report).toMatchObject({
      feedID: firstVersion,
      validFromTimestamp: 1_700_000_001,
      observationsTimestamp: 1_700_000_001,
    })
    expect(() => report.decoded).toThrow(
      expect.objectContaining({ code: 'DECODING', message: expect.stringMatching(/version V1/) }),
    )
  })

  test('they count blocks, so the envelope alone says from when they are valid', () => {
    expect(read({ ...blockBased, validFromTimestamp: 1_600_000_000 })).toMatchObject({
      validFromTimestamp: 1_600_000_000,
      observationsTimestamp: 1_700_000_001,
    })
  })

  test('the time of their observations is held against the envelope', () => {
    expect(() => read({ ...blockBased, observationsTimestamp: 1_700_000_002 })).toThrow(
      /envelope’s observationsTimestamp/,
    )
  })

  test('a decoder of theirs is used like any other', () => {
    const v1: Decoder<bigint> = {
      version: 1,
      decode: ({ view }) => view.getBigUint64(2 * 32 + 24),
    }
    expect(toReport(blockBased, 'origin', createDecoderTable([v1])).decoded).toBe(1n)
  })
})
