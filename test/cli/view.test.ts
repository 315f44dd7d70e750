import { expect, test } from '@jest/globals'
import { createView, describeFeed } from '../../cli/view.js'
import { createClient } from '../../index.js'
import { startDataEngine } from '../../local/index.js'
import { knownFeeds } from '../../presets/feeds.js'

const { feedID } = knownFeeds.testnet['ETH/USD']
const other = `0x0003${'ab'.repeat(30)}`

test('a feed is shown with what the service says of it, or else with what is known', () => {
  expect(describeFeed({ feedID })).toBe(`${feedID}  ETH/USD  18 decimals`)
  expect(describeFeed({ feedID, name: 'Ether', decimals: 8 })).toBe(`${feedID}  Ether  8 decimals`)
  expect(describeFeed({ feedID: other })).toBe(other)
  expect(describeFeed({ feedID: other, name: 'X/USD' })).toBe(`${other}  X/USD`)
})

test('a name cannot control the terminal', () => {
  expect(describeFeed({ feedID: other, name: '\x1b[2Jgone\nETH\u202e' })).toBe(
    `${other}  ?[2Jgone?ETH?`,
  )
})

test('a report is shown in a line, its prices with four digits', async () => {
  await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 0, history: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  engine.publish(feedID, {
    observationsTimestamp: 1_700_000_000,
    price: -3851421250000000000000n,
    bid: 5n * 10n ** 17n,
    ask: 1n,
  })
  await using client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  const report = await client.getLatestReport(feedID)
  const lines: string[] = []
  const out = { isTTY: false, write: (line: string) => lines.push(line) }
  createView(out as never, [feedID]).show(report)
  expect(lines).toEqual([
    '0x00035984…a782  V3   22:13:20      price -3851.4213  bid 0.5000  ask 0.0000\n',
  ])
})
