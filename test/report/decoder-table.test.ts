import { describe, expect, test } from '@jest/globals'
import { createClient } from '../../client/client.js'
import { isStreamsError, ValidationError } from '../../core/errors.js'
import { decoders } from '../../plugins/decoders/index.js'
import { v3 } from '../../plugins/decoders/v3.js'
import { v9 } from '../../plugins/decoders/v9.js'
import { allDecoders, decodeReport } from '../../plugins/decoders/versions.js'
import { createDecodeReport, createDecoderTable, type Decoder } from '../../report/decoder.js'
import { toReport } from '../../report/report.js'
import { decodingError, feed, reportOfWords } from '../support/report/decoding.js'
import { publishedReports } from '../support/report/published-reports.js'
import type { Hex } from '../support/report/report-arbitrary.js'

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
