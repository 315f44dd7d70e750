import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { until } from '@sluice/test-support/waiting.js'
import { createClient, type Stream } from 'sluice'
import type { Client } from 'sluice/client'
import { killOrigin, type Outage } from '../../demo/kill-origin.js'

const feedID = `0x1003${'5a'.repeat(30)}`

let engine: DataEngine
let client: Client
let stream: Stream
beforeEach(async () => {
  engine = await startDataEngine({ feeds: [feedID], origins: 2, intervalMs: 20, history: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, haMode: true })
  stream = client.createStream(feedID, { reconnectInterval: 100 })
  stream.on('error', () => {})
  stream.on('report', () => {})
  await stream.connect()
  await until(() => stream.getMetrics().activeConnections === 2)
})
afterEach(async () => {
  await client.close()
  await engine.close()
})

function outageOf(changes: Partial<Outage> = {}): { outage: Outage; said: string[] } {
  const said: string[] = []
  const outage: Outage = {
    engine,
    stream,
    afterMs: 50,
    awayMs: 200,
    withinMs: 10_000,
    signal: new AbortController().signal,
    say: text => said.push(text),
    ...changes,
  }
  return { outage, said }
}

test('a killed origin is back when a new connection to it is open and brings reports', async () => {
  const { outage, said } = outageOf()
  await killOrigin(outage)
  expect(said.at(-1)).toMatch(/origin 001 is back and delivers/)
  expect(stream.getMetrics().activeConnections).toBe(2)
  const delivered = engine.ledger().flatMap(report => engine.deliveries(report))
  const streams = delivered.filter(({ origin }) => origin === '001').map(({ stream }) => stream)
  expect(new Set(streams).size).toBe(2)
})

test('an origin that does not come back is waited for so long, and it is said', async () => {
  engine.origins[0]?.refuse(503)
  const { outage, said } = outageOf({ withinMs: 300 })
  await killOrigin(outage)
  expect(said.at(-1)).toMatch(/origin 001 is not back after 0.3 seconds/)
})

test('an abort ends the wait, and nothing more is said', async () => {
  engine.origins[0]?.refuse(503)
  const seen = new AbortController()
  const said: string[] = []
  const { outage } = outageOf({
    signal: seen.signal,
    say(text) {
      said.push(text)
      if (text.includes('started again')) setTimeout(() => seen.abort(), 100)
    },
  })
  await killOrigin(outage)
  expect(said).toHaveLength(2)
})
