// The values of the data engine's reports, of the sizes that reports of the service have. ethers reads them.
import { expect, test } from '@jest/globals'
import { inForm } from '@sluice/test-support/tier.js'
import { AbiCoder } from 'ethers'
import { reportSchema } from '../encode.js'
import { startDataEngine } from '../index.js'

const versions = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
const feeds = versions.flatMap(version =>
  ['11', '5a', 'f0'].map(
    byte => `0x${version.toString(16).padStart(4, '0')}${byte.repeat(30)}` as const,
  ),
)
/** Prices that are drawn; the other fields of these types begin at a value of their own. */
const price = /price|mid|bid$|ask$|Ask$|Bid$/i
const bits = (value: bigint): number => (value < 0n ? -value : value).toString(2).length

test('prices have 72 to 80 bits, fees are between 1e14 and 1e16, and rates are below zero', async () => {
  await using engine = await startDataEngine({
    feeds: feeds.map(feedID => ({ feedID })),
    history: inForm(5, 20),
    intervalMs: 0,
  })
  const coder = AbiCoder.defaultAbiCoder()
  let prices = 0
  for (const { feedID, fullReport } of engine.ledger()) {
    const version = Number.parseInt(feedID.slice(3, 6), 16)
    const fields = reportSchema(version, 's') ?? []
    const [, blob] = coder.decode(
      ['bytes32[3]', 'bytes', 'bytes32[]', 'bytes32[]', 'bytes32'],
      fullReport,
    )
    const values = coder.decode(
      fields.map(({ type }) => type),
      blob,
    )
    for (const [index, { name, type }] of fields.entries()) {
      const value = values[index] as bigint
      if (type === 'uint192') {
        expect(value).toBeGreaterThanOrEqual(10n ** 14n)
        expect(value).toBeLessThanOrEqual(10n ** 16n)
      } else if (type === 'int192' && price.test(name)) {
        prices++
        expect(bits(value)).toBeGreaterThanOrEqual(72)
        expect(bits(value)).toBeLessThanOrEqual(80)
      } else if (name === 'rate') expect(value).toBeLessThan(0n)
    }
  }
  expect(prices).toBeGreaterThan(inForm(250, 1000))
})

test('a default feed has prices below zero, its bid below them and its ask above', async () => {
  await using engine = await startDataEngine({ intervalMs: 0, history: 3 })
  const reports = engine.ledger().filter(({ feedID }) => feedID.startsWith('0x000e'))
  expect(reports).toHaveLength(3)
  const types = (reportSchema(14, 's') ?? []).map(({ type }) => type)
  for (const { fullReport } of reports) {
    const values = AbiCoder.defaultAbiCoder().decode(types, `0x${fullReport.slice(2 + 64 * 8)}`)
    const [mid, bid, ask] = values.toArray().slice(6, 9) as [bigint, bigint, bigint]
    expect(mid).toBeLessThan(0n)
    expect(bid).toBeLessThan(mid)
    expect(mid).toBeLessThan(ask)
  }
})
