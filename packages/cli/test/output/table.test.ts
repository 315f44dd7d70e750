import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { createClient, knownFeeds } from 'sluice'
import { describeFeed, escapeControls } from '../../output/feeds.js'
import { createFormat } from '../../output/format.js'
import { createView } from '../../output/table.js'

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

test('a report is shown in a line, its prices with their decimals', async () => {
  await using engine = await startDataEngine({ feeds: [feedID, other], intervalMs: 0, history: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  for (const id of [feedID, other])
    engine.publish(id, {
      observationsTimestamp: 1_700_000_000,
      price: -3851421250000000000000n,
      bid: 5n * 10n ** 17n,
      ask: 10n ** 12n,
    })
  await using client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  const lines: string[] = []
  const out = { isTTY: false, write: (line: string) => lines.push(line) }
  const known = await client.getLatestReport(feedID)
  const unknown = await client.getLatestReport(other)
  createView(out as never, [], createFormat({})).show(known)
  createView(out as never, [], createFormat({ decimals: 6 })).show(known)
  createView(out as never, [], createFormat({ raw: true })).show(known)
  createView(out as never, [], createFormat({ decimals: 6 })).show(unknown)
  createView(
    out as never,
    [{ feedID: other, name: 'X', decimals: 20 }],
    createFormat({}, [{ feedID: other, name: 'X', decimals: 20 }]),
  ).show(unknown)
  const scaled = 'price -3851.4213  bid 0.50000000  ask 0.00000100'
  expect(lines).toEqual([
    `ETH/USD          V3   22:13:20      ${scaled}\n`,
    `ETH/USD          V3   22:13:20      ${scaled}\n`,
    'ETH/USD          V3   22:13:20      price -3851421250000000000000  bid 500000000000000000  ask 1000000000000\n',
    '0x0003abab…abab  V3   22:13:20      price -3851421250000000.0000  bid 500000000000.0000  ask 1000000.0000\n',
    'X                V3   22:13:20      price -38.5142  bid 0.00500000  ask 0.00000001\n',
  ])
})

test('escapes in JSON what controls a terminal, or the direction of text', () => {
  const name = 'ETH\u009b2J\u202e\u2028é'
  const escaped = escapeControls(JSON.stringify({ name }))
  expect(escaped).toBe('{"name":"ETH\\u009b2J\\u202e\\u2028é"}')
  expect(JSON.parse(escaped)).toEqual({ name })
})
