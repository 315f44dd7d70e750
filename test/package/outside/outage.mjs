// Puts the copied plugin into a stack of the installed package, and takes the service away for a while.
import assert from 'node:assert/strict'
import { startDataEngine } from '@sluice/engine'
import { createClient } from 'sluice/client'
import { defaultPreset } from 'sluice/presets/default'
import { continuity } from './plugins/continuity/index.js'

const feedID = `0x1003${'0'.repeat(60)}`
const engine = await startDataEngine({ feeds: [feedID], intervalMs: 0, history: 0 })
const { endpoint, wsEndpoint, apiKey, userSecret } = engine
const builtIn = defaultPreset({ apiKey, userSecret, retryDelay: 50 })
const plugins = builtIn.map(plugin => (plugin.name === 'continuity' ? continuity() : plugin))
assert.equal(plugins.filter((plugin, at) => plugin !== builtIn[at]).length, 1)
const client = createClient({ endpoint, wsEndpoint, plugins })
const stream = client.createStream(feedID, { reconnectInterval: 50 })
const delivered = []
const gaps = []
stream.on('report', report => delivered.push(report))
stream.on('gap', gap => gaps.push(gap))

async function until(isTrue) {
  for (const end = Date.now() + 20_000; !isTrue(); ) {
    assert.ok(Date.now() < end, `after ${delivered.length} reports it waited in vain`)
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}
function publish(count) {
  return Array.from({ length: count }, () => engine.publish(feedID).observationsTimestamp)
}

await stream.connect()
const before = publish(3)
await until(() => delivered.length === 3)
await engine.stop()
await until(() => engine.connections === 0)
const missed = publish(20)
await engine.start()
await until(() => engine.connections === 1)
const after = publish(1)
await until(() => delivered.length >= 24)
await client.close()
await engine.close()

const timesOf = source =>
  delivered.flatMap(report => (report.source === source ? report.observationsTimestamp : []))
assert.deepEqual(timesOf('live'), [...before, ...after])
assert.deepEqual(timesOf('backfill'), missed)
assert.deepEqual(gaps, [])
console.log(`${missed.length} of ${delivered.length} reports came as backfill`)
