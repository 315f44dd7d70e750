// Runs a page in Chromium that reads through a gateway: node packages/nats/test/gateway/page/run.mjs. It needs a server of NATS, too.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { connect } from '@nats-io/transport-node'
import { startDataEngine } from '@sluice/engine'
import { createRelay } from '@sluice/nats'
import { createGateway } from '@sluice/nats/gateway'
import { bundleForPage, NoChromium, openChromium } from '@sluice/test-support/chromium.mjs'
import { startNats } from '@sluice/test-support/nats/server.mjs'

const PATIENCE = 60_000
/** The exit code where there is no Chromium. */
const UNAVAILABLE = 69
const AWAY = 500
const token = 'page-token-0123456789abcdef'
const feeds = [1, 2].map(index => `0x1003${index.toString(16).padStart(60, '0')}`)
const pages = ['page', 'another page']

const nats = await startNats()
const connection = await connect({ servers: nats.servers })
const engine = await startDataEngine({ feeds, intervalMs: 50, history: 0 })
const { apiKey, userSecret, network } = engine
const relay = await createRelay({
  config: {
    apiKey,
    userSecret,
    endpoint: engine.endpoint,
    wsEndpoint: engine.wsEndpoint,
    haMode: false,
  },
  connection,
  feedIDs: feeds,
  create: true,
})
while (relay.getMetrics().stored < 10) await new Promise(resolve => setTimeout(resolve, 20))

const script = await bundleForPage(fileURLToPath(new URL('./checks.js', import.meta.url)))
const results = []
let finish
const isFinished = new Promise(resolve => {
  finish = resolve
})

async function readBody(request) {
  let body = ''
  for await (const chunk of request) body += chunk
  return body
}

async function serve(request, response) {
  if (request.url === '/')
    response.setHeader('Content-Type', 'text/html').end(`<!doctype html><meta charset="utf-8">
<script type="module" src="/checks.js"></script>
${request.headers.host.startsWith('localhost') ? '' : `<iframe src="http://localhost:${port}/"></iframe>`}`)
  else if (request.url === '/checks.js')
    response.setHeader('Content-Type', 'text/javascript').end(script)
  else if (request.url === '/facts')
    response.end(
      JSON.stringify({ endpoint: gateway.url, wsEndpoint: gateway.wsURL, feeds, network, token }),
    )
  else if (request.url === '/restart') {
    const { port: own } = new URL(gateway.url)
    await gateway.close()
    await new Promise(resolve => setTimeout(resolve, AWAY))
    gateway = await startGateway(Number(own))
    response.end()
  } else if (request.url === '/results') {
    results.push(JSON.parse(await readBody(request)))
    response.end()
    if (results.length === pages.length) finish()
  } else response.writeHead(404).end()
}

const startGateway = where =>
  createGateway({
    connection,
    port: where,
    tokens: { page: { sha256: createHash('sha256').update(token).digest('hex') } },
    origins: [`http://127.0.0.1:${port}`],
  })

const server = createServer(serve).listen(0)
await once(server, 'listening')
const { port } = server.address()
let gateway = await startGateway(0)
const timer = setTimeout(() => finish(), PATIENCE)
let chromium
try {
  chromium = openChromium(`http://127.0.0.1:${port}/`)
  void chromium.ended.then(finish)
  await isFinished
  for (const { name, error } of results.flat()) {
    console.log(`${error === undefined ? 'ok  ' : 'FAIL'}  a page ${name}`)
    if (error === undefined) continue
    console.log(error)
    process.exitCode = 1
  }
  if (results.length < pages.length) {
    console.log(`FAIL  a page has not answered\n${chromium.said}`)
    process.exitCode = 1
  }
} catch (error) {
  console.log(error.message)
  process.exitCode = error instanceof NoChromium ? UNAVAILABLE : 1
} finally {
  clearTimeout(timer)
  await chromium?.close()
  server.closeAllConnections()
  server.close()
  await gateway.close()
  await relay.close()
  await engine.close()
  await connection.close()
  await nats.close()
}
