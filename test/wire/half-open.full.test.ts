import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { createClient } from '../../index.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'

test('with default options a half-open connection is noticed, and not at the first missing pong', async () => {
  const engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  const stream = client.createStream(ethUsd)
  await stream.connect()
  const lost = new Promise<void>(resolve => stream.once('disconnected', resolve))
  engine.blackhole(true)
  const started = performance.now()
  await lost
  const noticed = performance.now() - started
  await client.close()
  await engine.close()
  // A peer that is merely slow must not be taken for dead at the first missing pong.
  expect(noticed).toBeGreaterThan(4000)
})
