import { expect, test } from '@jest/globals'
import { decodeReport } from 'sluice/plugins/decoders'
import { sampleReport } from 'sluice/testing'
import { priceFacts } from '../price-facts.js'

const verification = { signers: ['0x1', '0x2'], f: 1 }

/** The facts of a report of a version that was observed some seconds ago. */
function factsOf(version: number, ago = 0, values?: readonly bigint[], isPast = false) {
  const feedID = `0x${version.toString(16).padStart(4, '0')}${'7'.repeat(60)}`
  const observed = Math.floor(Date.now() / 1000) - ago
  const options = { feedID, observationsTimestamp: observed }
  const { fullReport } = sampleReport(values === undefined ? options : { ...options, values })
  const decoded = decodeReport(fullReport, feedID)
  const { validFromTimestamp, observationsTimestamp } = decoded
  const report = { decoded, validFromTimestamp, observationsTimestamp }
  const found = { feedID, name: 'A/B', decimals: 18, isAssumed: false }
  return priceFacts({ report, verification } as never, found, isPast)
}

test('a price is exact text, and the number of its signers is told', () => {
  const e18 = 10n ** 18n
  expect(factsOf(3, 0, [3n * e18 + 1n, 3n * e18, 4n * e18])).toMatchObject({
    ...{ price: '3.000000000000000001', bid: '3', ask: '4', warnings: [] },
    ...{ signersCount: 2, signersNeeded: 2 },
  })
})

test('an old price is told with a warning, unless it was asked for', () => {
  expect(factsOf(3, 3600).warnings).toEqual([
    expect.stringMatching(/^stale: the report is 360\d s/),
  ])
  expect(factsOf(3, 3600, undefined, true).warnings).toEqual([])
})

test('no value is told of a report whose ripcord is pulled', () => {
  const e18 = 10n ** 18n
  expect(factsOf(9, 0, [e18, 0n, e18, 0n]).price).toBe('1')
  expect(() => factsOf(9, 0, [e18, 0n, e18, 1n])).toThrow('its ripcord is pulled')
})
