import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { until } from '@sluice/test-support/waiting.js'
import { knownFeeds } from 'sluice'
import { runHere, start } from './support/cli.js'

// Names of feeds in the commands that ask no service. A name stands for the feeds of both networks.

test.each(['mainnet', 'testnet'] as const)(
  'verify and decode take the name of a feed of the %s',
  async network => {
    const { feedID } = knownFeeds[network]['ETH/USD']
    await using engine = await startDataEngine({ feeds: [feedID] })
    const env = {
      API_KEY: engine.apiKey,
      USER_SECRET: engine.userSecret,
      REST_URL: engine.endpoint,
      WS_URL: engine.wsEndpoint,
    }
    const { out: report } = await runHere(['latest', feedID, '--json'], { env })
    const { f, signers } = engine.network
    const rule = ['verify', '-', '--signers', signers.join(), '--f', `${f}`]
    const given = { input: report }
    expect(await runHere([...rule, '--feed', 'eth-usd'], given)).toMatchObject({ code: 0 })
    expect(await runHere(['decode', '-', 'ETH/USD'], given)).toMatchObject({ code: 0 })
    expect(await runHere([...rule, '--feed', 'BTC/USD'], given)).toMatchObject({ code: 1 })
    expect(await runHere(['decode', '-', 'BTC/USD'], given)).toMatchObject({ code: 5 })
  },
)

test('serve takes names and ids of feeds', async () => {
  const other = `0x1003${'5a'.repeat(30)}`
  const running = start(['serve', '--port', '0', '--feeds', `ETH/USD, ${other}`])
  await until(() => running.output.err.includes('every report is signed'))
  running.stop()
  const { err } = await running.ended
  const { feedID } = knownFeeds.testnet['ETH/USD']
  expect(err).toContain(`2 feeds:\n  ${feedID}\n  ${other}\n`)
})
