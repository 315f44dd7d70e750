import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startDataEngine } from '@sluice/engine'
import { createClient } from 'sluice'
import { printPrices } from './prices.js'

const feedID = `0x0003${'ab'.repeat(30)}`

test('prints the price of a report', async () => {
  await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  await using client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  const stream = client.createStream(feedID)
  await stream.connect()

  engine.publish(feedID, { price: 3851_420_000_000_000_000_000n })
  const line = await new Promise<string>(resolve => {
    void printPrices(stream, resolve)
  })
  assert.match(line, /^\d{4}-\d\d-\d\dT[\d:.]+Z 3851\.42$/)
})
