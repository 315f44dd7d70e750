import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startDataEngine } from '@sluice/engine'
import { createClient, defaultPreset } from 'sluice'
import { testPlugin } from 'sluice/testing'
import { dropOld } from './index.js'

test('keeps the rules of a plugin', async () => {
  await testPlugin(() => dropOld(60_000), { may: ['drop'] })
})

test('drops a report that is older than the limit', async () => {
  const feedID = `0x0003${'ab'.repeat(30)}`
  await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const plugins = [dropOld(10_000), ...defaultPreset({ apiKey, userSecret })]
  await using client = createClient({ endpoint, wsEndpoint, plugins })
  const stream = client.createStream(feedID)
  await stream.connect()

  const now = Math.floor(Date.now() / 1000)
  engine.publish(feedID, { observationsTimestamp: now - 60 })
  engine.publish(feedID, { observationsTimestamp: now })
  for await (const { observationsTimestamp } of stream) {
    assert.equal(observationsTimestamp, now)
    break
  }
})
