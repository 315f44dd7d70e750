// Both copies of the package in one process, each knowing the other's errors.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { startDataEngine } from '@sluice/engine'
import * as esm from 'sluice'
import work from './work.cjs'

const require = createRequire(import.meta.url)
const cjs = require('sluice')

for (const entry of work.entries) {
  const imported = Object.keys(await import(entry)).sort()
  const required = Object.keys(require(entry)).sort()
  assert.deepEqual(imported.filter(isOurs), required.filter(isOurs), entry)
}

/** Node names the whole of a CommonJS module for those who import it. */
function isOurs(name) {
  return name !== 'default' && name !== 'module.exports' && name !== '__esModule'
}

function errorOf({ decodeReport }) {
  try {
    decodeReport('0x', 'not a feed id')
  } catch (error) {
    return error
  }
}

assert.notEqual(esm.DataStreamsError, cjs.DataStreamsError)
for (const [one, other] of [
  [esm, cjs],
  [cjs, esm],
]) {
  const error = errorOf(one)
  assert.ok(error instanceof one.ValidationError)
  assert.ok(error instanceof other.ValidationError)
  assert.ok(!(error instanceof other.APIError))
  assert.ok(other.isStreamsError(error))
  assert.ok(other.isStreamsError(error, 'VALIDATION'))
  assert.ok(!other.isStreamsError(error, 'DECODING'))
  assert.ok(!other.isStreamsError(new Error('somebody else')))
}

// Loggers tell an error by its class.
for (const [name, value] of [...Object.entries(esm), ...Object.entries(cjs)])
  if (typeof value === 'function' && /^[A-Z]/.test(name)) assert.equal(value.name, name)

// A plugin of one copy in a stack of the other.
const engine = await startDataEngine({ intervalMs: 0 })
const { endpoint, wsEndpoint, apiKey, userSecret } = engine
for (const [one, other] of [
  [esm, cjs],
  [cjs, esm],
]) {
  const plugins = [other.decoders(other.v3), one.retry(), other.hmacAuth({ apiKey, userSecret })]
  const client = one.createClient({ endpoint, wsEndpoint, plugins })
  const [feedID] = engine.feeds
  assert.equal((await client.getLatestReport(feedID)).decoded.version, 'V3')
  await client.close()
}
await engine.close()
