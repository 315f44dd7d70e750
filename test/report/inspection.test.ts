import { inspect } from 'node:util'
import { expect, test } from '@jest/globals'
import { allDecoders } from '../../plugins/decoders/index.js'
import { createDecoderTable } from '../../report/decoder.js'
import { markNewest, markVerified, Report } from '../../report/report.js'
import { sampleReport } from '../../testing/index.js'

const feedID = `0x0003${'ab'.repeat(30)}`
const values = [3851_421250000000000000n, 3851n, -3852n]
const { fullReport } = sampleReport({ feedID, observationsTimestamp: 1_700_000_000, values })

const reportWith = (decoders: typeof allDecoders): Report =>
  new Report(
    ...([feedID, fullReport, 1_699_999_999, 1_700_000_000, 'wss://host#001'] as const),
    'live',
    createDecoderTable(decoders),
  )

test('an inspected report leads with the price, and shows the beginning of its bytes', () => {
  const report = reportWith(allDecoders)
  markNewest(report, true)
  markVerified(report)
  const bytes = (fullReport.length - 2) / 2
  expect(inspect(report)).toBe(`Report {
  decoded: {
    version: 'V3',
    price: 3851421250000000000000n,
    bid: 3851n,
    ask: -3852n
  },
  feedID: '${feedID}',
  observationsTimestamp: 1700000000,
  validFromTimestamp: 1699999999,
  source: 'live',
  origin: 'wss://host#001',
  verified: true,
  isNewest: true,
  fullReport: '${fullReport.slice(0, 18)}… (${bytes} bytes)'
}`)
  expect(inspect([[[report]]])).toContain('[Report]')
  expect(inspect([report])).not.toContain(fullReport.slice(0, 40))
})

test('a report that can not be decoded is inspected all the same', () => {
  const report = reportWith([])
  expect(inspect(report)).toMatch(/decoded: 'not decoded: .*V3.*'/)
  expect(inspect(report)).toContain('verified: false')
})

test('the inspection is no property that a user or JSON sees', () => {
  const report = reportWith(allDecoders)
  expect(Reflect.ownKeys(report)).not.toContain(Symbol.for('nodejs.util.inspect.custom'))
  expect(JSON.stringify(report)).not.toContain('verified')
})
