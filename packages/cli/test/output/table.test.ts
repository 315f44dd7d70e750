import { stripVTControlCharacters } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { createClient, knownFeeds } from 'sluice'
import type { Feed } from 'sluice/client'
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
  createView({ stdout: out } as never, [], createFormat({})).show(known)
  createView({ stdout: out } as never, [], createFormat({ decimals: 6 })).show(known)
  createView({ stdout: out } as never, [], createFormat({ raw: true })).show(known)
  createView({ stdout: out } as never, [], createFormat({ decimals: 6 })).show(unknown)
  createView(
    { stdout: out } as never,
    [{ feedID: other, name: 'X', decimals: 20 }],
    createFormat({}, [{ feedID: other, name: 'X', decimals: 20 }]),
  ).show(unknown)
  const scaled = 'price -3851.4213  bid 0.50000000  ask 0.00000100'
  expect(lines).toEqual([
    `ETH/USD          V3   2023-11-14 22:13:20Z  ${scaled}\n`,
    `ETH/USD          V3   2023-11-14 22:13:20Z  ${scaled}\n`,
    'ETH/USD          V3   2023-11-14 22:13:20Z  price -3851421250000000000000  bid 500000000000000000  ask 1000000000000\n',
    '0x0003abab…abab  V3   2023-11-14 22:13:20Z  price -3851421250000000.0000  bid 500000000000.0000  ask 1000000.0000\n',
    'X                V3   2023-11-14 22:13:20Z  price -38.5142  bid 0.00500000  ask 0.00000001\n',
  ])
})

describe('the table of a stream', () => {
  const feeds: readonly Feed[] = [
    { feedID, name: 'ETH/USD', decimals: 18 },
    { feedID: other, name: 'A-FEED-WITH-A-LONG-NAME/USD', decimals: 18 },
  ]

  /** The lines of the table after a report of the first feed, on a terminal of this size. */
  async function drawn(columns: number, rows: number, price: bigint, shown = feeds) {
    await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 0, history: 0 })
    const bid = price - 3n * 10n ** 17n
    engine.publish(feedID, { price, bid, ask: price + 2n * 10n ** 17n })
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    await using client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
    let written = ''
    const write = (text: string): void => {
      written = text
    }
    const listeners = { on: () => out, off: () => out }
    const out = { isTTY: true, columns, rows, write, ...listeners }
    const view = createView({ stdout: out } as never, shown, createFormat({}, shown))
    view.show(await client.getLatestReport(feedID))
    view.end()
    return stripVTControlCharacters(written).split('\n').slice(0, -1)
  }
  const price = -3851_421250000000000000n

  test('has all columns where they fit, numbers at the right', async () => {
    const [head = '', row = '', second = ''] = await drawn(160, 24, price)
    expect(head).toMatch(/^feed +price +bid +ask +age +date +time +reports$/)
    expect(row).toMatch(
      /^ETH\/USD +-3851\.4213 {2}-3851\.7213 {2}-3851\.2213 +\d s {2}\d{4}-\d\d-\d\d {2}\d\d:\d\d:\d\dZ +1$/,
    )
    expect(second).toMatch(/^A-FEED-WITH-A-LONG-NAME\/USD +waiting +0$/)
    expect(row).toHaveLength(head.length)
    expect(second).toHaveLength(head.length)
  })

  test.each([
    [80, /^feed +price +bid +ask +age +time$/],
    [60, /^feed +price +bid +age$/],
    [40, /^feed +price$/],
    [30, /^feed +price$/],
  ])('leaves out columns at %i, and cuts no number', async (columns, titles) => {
    const lines = await drawn(columns, 24, price)
    expect(lines[0]).toMatch(titles)
    expect(lines[1]).toContain('-3851.4213')
    for (const line of lines) expect(line.length).toBeLessThan(columns)
  })

  test('shortens a name with a mark, and puts # in place of a number that is too long', async () => {
    const [, row = '', second = ''] = await drawn(20, 24, price * 10n ** 20n)
    expect(row).toMatch(/^ETH\/U… {2}#+$|^ETH\/USD? {2}#+$/)
    expect(second).toMatch(/^A-FEE… +waiting$/)
    expect(row.length).toBeLessThan(20)
  })

  test('says which rows are shown where not all have room', async () => {
    const many = Array.from({ length: 30 }, (_, at) => ({
      feedID: `0x0003${String(at).padStart(60, '0')}`,
    }))
    const lines = await drawn(80, 12, price, [feeds[0] as Feed, ...many])
    expect(lines).toHaveLength(10)
    expect(lines.at(-1)).toBe('rows 1–8 of 31')
  })
})

test('escapes in JSON what controls a terminal, or the direction of text', () => {
  const name = 'ETH\u009b2J\u202e\u2028é'
  const escaped = escapeControls(JSON.stringify({ name }))
  expect(escaped).toBe('{"name":"ETH\\u009b2J\\u202e\\u2028é"}')
  expect(JSON.parse(escaped)).toEqual({ name })
})
