import { describe, expect, test } from '@jest/globals'
import { feed, reportOfWords } from '@sluice/test-support/report/decoding.js'
import { publishedReports } from '@sluice/test-support/report/published-reports.js'
import { schemas } from '@sluice/test-support/report/report-schemas.js'
import { decodeReport } from 'sluice/plugins/decoders'
import { fieldsOf, printFields, shortPrice } from '../../output/prices.js'

const HEAD = 6
const feedOf = (version: number): string =>
  `0x${version.toString(16).padStart(4, '0')}${'ab'.repeat(30)}`

test.each(schemas.map(({ version, fields }) => [version, fields] as const))(
  'the fields of V%i are those of the documentation, prices are its int192 but for volumes',
  (version, fields) => {
    const tail = fields.slice(HEAD)
    const { names, prices, integers } = fieldsOf(feedOf(version))
    expect(names).toEqual(tail.map(({ name }) => name))
    expect([...prices]).toEqual(
      tail.flatMap(({ name, type }) => (type === 'int192' && !/volume/i.test(name) ? [name] : [])),
    )
    expect([...integers]).toEqual(
      tail.flatMap(({ name, type }) => (/^uint/.test(type) ? [name] : [])),
    )
  },
)

describe('a published report', () => {
  test.each(publishedReports.map(report => [report.version, report] as const))(
    'of %s is printed as others decode it',
    (_version, { feedID, fullReport, decoded }) => {
      const fields = printFields(decodeReport(fullReport, feedID), undefined)
      for (const [name, value] of Object.entries(fields)) expect(value).toBe(decoded[name])
    },
  )
})

test.each([
  [8, 'lastUpdateTimestamp', [1_753_900_000_123_456_789n, 7n, 2n]],
  [12, 'navDate', [1n, 2n, 1_753_900_000_123_456_789n, 0n]],
  [13, 'bidVolume', [9n, 8n, 7n, 1_753_900_000_123_456_789n, 5n]],
])('a field of 64 bits of V%i is printed exactly: %s', (version, name, words) => {
  const fields = printFields(decodeReport(reportOfWords(feed(version), words), feed(version)), 18)
  expect(fields[name]).toBe('1753900000123456789')
})

test.each([
  [3_851_421_250_000_000_000_000n, 18, '3851.4213'],
  [-1_000_000n, 6, '-1.0000'],
  [12_345n, 8, '0.00012345'],
  [7n, 2, '0.07'],
  [42n, 0, '42'],
])('%i with %i decimals is %s in a column', (value, decimals, expected) => {
  expect(shortPrice(value, decimals)).toBe(expected)
})
