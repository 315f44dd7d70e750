import { expect, test } from '@jest/globals'
import { allDecoders, decodeReport } from '../../../plugins/decoders/versions.js'
import { createDecoderTable } from '../../../report/decoder.js'
import { toReport } from '../../../report/report.js'
import { publishedReports } from '../../support/report/published-reports.js'

type Parse = (decimal: string) => unknown

// What the fields of the published versions are in JavaScript.
const head: Record<string, Parse> = {
  feedID: String,
  validFromTimestamp: Number,
  observationsTimestamp: Number,
  nativeFee: BigInt,
  linkFee: BigInt,
  expiresAt: Number,
}
const tails: Record<string, Record<string, Parse>> = {
  V3: { price: BigInt, bid: BigInt, ask: BigInt },
  V4: { price: BigInt, marketStatus: Number },
}

const named = publishedReports.map(
  (report, index) => [`${report.version} report ${index}`, report] as const,
)

test('there are published reports of two versions', () => {
  expect(new Set(publishedReports.map(report => report.version))).toEqual(new Set(['V3', 'V4']))
})

test.each(named)(
  'published %s decodes to the fields it is known for, and to no others',
  (_, report) => {
    const parsers = { ...head, ...tails[report.version] }
    const fields = Object.entries(parsers).map(([name, parse]) => [
      name,
      parse(report.decoded[name] as string),
    ])
    expect(Object.keys(report.decoded).sort()).toEqual(Object.keys(parsers).sort())
    expect(decodeReport(report.fullReport, report.feedID)).toStrictEqual({
      version: report.version,
      ...Object.fromEntries(fields),
    })
  },
)

test.each(named)('published %s is a record whose times are those of its bytes', (_, report) => {
  const { feedID, fullReport, decoded } = report
  const table = createDecoderTable(allDecoders)
  const record = toReport({ feedID, fullReport }, 'origin', table)
  expect(record.validFromTimestamp).toBe(Number(decoded.validFromTimestamp))
  expect(record.observationsTimestamp).toBe(Number(decoded.observationsTimestamp))
  expect(record.decoded).toStrictEqual(decodeReport(fullReport, feedID))
})
