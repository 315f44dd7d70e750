import { stripVTControlCharacters } from 'node:util'
import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { hasTerminals, runInTerminal } from '@sluice/test-support/terminal.js'
import { knownFeeds } from 'sluice'

const { feedID } = knownFeeds.testnet['ETH/USD']
const testWidth = hasTerminals ? test.each : test.skip.each

testWidth([
  [40, /price +bid +age$/],
  [80, /age +time +reports$/],
  [160, /date +time +reports$/],
])(
  'the table of stream has no number that is cut, on a terminal of %i columns',
  async (columns, head) => {
    await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 1000 })
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const { code, out } = await runInTerminal(['stream', 'ETH/USD'], {
      columns,
      env: { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint },
      until: /ETH\/USD +\d+\.\d{4}/,
    })
    const lines = stripVTControlCharacters(out)
      .split(/\r?\n/)
      .filter(line => /^(feed|ETH)/.test(line))
    expect(lines.findLast(line => line.startsWith('feed'))).toMatch(head)
    for (const line of lines) expect(line.length).toBeLessThan(columns)
    if (columns > 40) expect(lines.at(-1)).toMatch(/ \d\d:\d\d:\d\dZ /)
    expect(code).toBe(0)
  },
  30_000,
)
