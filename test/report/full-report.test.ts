import { describe, expect, test } from '@jest/globals'
import { ValidationError } from '../../core/errors.js'
import { MarketStatus, Ripcord } from '../../plugins/decoders/statuses.js'
import { allDecoders, decodeReport } from '../../plugins/decoders/versions.js'
import { createDecoderTable } from '../../report/decoder.js'
import { toReport } from '../../report/report.js'
import { decodingError, feed, reportOfWords } from '../support/report/decoding.js'
import { publishedReports } from '../support/report/published-reports.js'
import {
  encodeOuter,
  encodeReport,
  envelopeFrom,
  feedIDOf,
  fieldsOf,
  noSignatures,
  type Resolution,
} from '../support/report/report-arbitrary.js'

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

  test('is more than its blob, which a contract returns', () => {
    const start = 2 + 64 * 8
    const [short, long] = [7, 13].map(words => `0x${text.slice(start, start + 64 * words)}`)
    for (const blob of [short, long, `0x${short?.slice(2).toUpperCase()}`])
      refused(blob as string, 'it is a blob alone, as the verifier contract returns it')
    expect(() => decodeReport(short as string, `0x${'0'.repeat(60)}beef`)).toThrow(
      /cut short|no dec/,
    )
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
