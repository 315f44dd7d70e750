// A request and a stream through a proxy, in either format; or, with the argument `missing`, what an absent undici leads to.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { startDataEngine } from '@sluice/engine'

const require = createRequire(import.meta.url)
const isMissing = process.argv[2] === 'missing'
const engine = await startDataEngine({ intervalMs: 50 })
const { endpoint, wsEndpoint, apiKey, userSecret } = engine
let tunnels = 0
const proxy = createServer().on('connect', ({ url }, client) => {
  tunnels++
  const service = connect(Number(new URL(`http://${url}`).port), '127.0.0.1')
  client.write('HTTP/1.1 200 OK\r\n\r\n')
  client.pipe(service).pipe(client)
  client.on('error', () => service.destroy()).on('close', () => service.destroy())
  service.on('error', () => client.destroy()).on('close', () => client.destroy())
})
await new Promise(resolve => proxy.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${proxy.address().port}`

for (const load of [name => import(name), async name => require(name)]) {
  const { createClient } = await load('sluice')
  const client = createClient({ endpoint, wsEndpoint, apiKey, userSecret, proxy: url })
  const stream = client.createStream(engine.feeds[0])
  if (isMissing) {
    const told = { code: 'VALIDATION', message: /npm install undici/ }
    await assert.rejects(client.listFeeds(), told)
    await assert.rejects(stream.connect(), told)
  } else {
    assert.ok((await client.listFeeds()).length > 0)
    const before = tunnels
    await stream.read()
    assert.ok(tunnels > before, 'the stream does not go through the proxy')
  }
  await client.close()
}
await engine.close()
proxy.close()
