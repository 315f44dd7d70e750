// Opens the page of examples/react in Chromium, against a gateway and a log: node test/examples/react.mjs. It needs a server of NATS.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '@nats-io/transport-node'
import { startDataEngine } from '@sluice/engine'
import { createRelay } from '@sluice/nats'
import { createGateway } from '@sluice/nats/gateway'
import { build } from 'esbuild'
import { formatPrice } from 'sluice'
import { openBrowser, until } from '../browser/devtools.mjs'
import { root } from '../package/steps.mjs'
import { NoChromium } from '../support/chromium.mjs'
import { startNats } from '../support/nats/server.mjs'

/** The exit code where there is no Chromium. */
const UNAVAILABLE = 69
const token = 'page-token-0123456789abcdef'
const feeds = [1, 2, 3].map(index => `0x0003${index.toString(16).padStart(60, '0')}`)
const [first, second, third] = feeds
const e18 = 10n ** 18n

const { outputFiles } = await build({
  // The page notes its sockets, to see that components share one.
  stdin: {
    contents: `import { mountPrices } from './app.tsx'
      globalThis.sockets = []
      globalThis.WebSocket = class extends WebSocket {
        constructor(...args) { super(...args); sockets.push(this) }
      }
      globalThis.token = new URLSearchParams(location.search).get('token')
      const config = await (await fetch('/config.json')).json()
      globalThis.end = mountPrices(document.getElementById('root'), { ...config, getToken: async () => token })`,
    resolveDir: join(root, 'examples', 'react'),
    loader: 'tsx',
  },
  bundle: true,
  write: false,
  format: 'esm',
  platform: 'browser',
  jsx: 'automatic',
  // The form for development, in which StrictMode mounts each component twice.
  define: { 'process.env.NODE_ENV': '"development"' },
  tsconfigRaw: '{}',
  target: 'es2022',
  logLevel: 'error',
})
const script = outputFiles[0].text

const nats = await startNats()
const connection = await connect({ servers: nats.servers })
const engine = await startDataEngine({
  feeds: feeds.map(feedID => ({ feedID, intervalMs: 0 })),
  history: 0,
})
const { apiKey, userSecret, endpoint, wsEndpoint, network: signers } = engine
const relay = await createRelay({
  config: { apiKey, userSecret, endpoint, wsEndpoint, haMode: false },
  connection,
  feedIDs: feeds,
  create: true,
})

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url, 'http://page')
  if (pathname === '/script.js') response.setHeader('Content-Type', 'text/javascript').end(script)
  else if (pathname === '/config.json')
    response.end(
      JSON.stringify({
        endpoint: gateway.url,
        wsEndpoint: gateway.wsURL,
        feedIDs: feeds,
        signers,
        staleAfter: 2000,
        retryAfter: 300,
      }),
    )
  else
    response
      .setHeader('Content-Type', 'text/html')
      .end(
        '<!doctype html><meta charset="utf-8"><title>Prices</title><link rel="icon" href="data:,"><div id="root"></div><script type="module" src="/script.js"></script>',
      )
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const page = `http://127.0.0.1:${server.address().port}`

const startGateway = port =>
  createGateway({
    connection,
    port,
    tokens: { page: { sha256: createHash('sha256').update(token).digest('hex') } },
    origins: [page],
  })
let gateway = await startGateway(0)
let browser

/** The rows of the page: status and price by feed. */
const rows = () =>
  browser.evaluate(`Object.fromEntries([...document.querySelectorAll('tr')].map(row =>
    [row.dataset.feed, [row.dataset.status, row.cells[1].textContent, row.cells[3].textContent]]))`)
const openSockets = () => browser.evaluate(`sockets.filter(each => each.readyState === 1).length`)
const summary = () => browser.evaluate(`document.querySelector('[role=status]').textContent`)

async function shows(feedID, status, price) {
  let last
  try {
    await until(async () => {
      last = (await rows())[feedID]
      return last?.[0] === status && (price === undefined || last[1] === price)
    }, 'row')
  } catch (error) {
    assert.deepEqual(last, [status, price], error.message)
  }
}

/** Publishes a price of each feed, and returns it as the page should write it. */
let units = 100n
function publish(feedIDs = feeds) {
  units++
  return feedIDs.map(feedID => {
    const price = units * e18 + BigInt(feeds.indexOf(feedID))
    engine.publish(feedID, { price })
    return formatPrice(price, 18)
  })
}

// A gateway knows the feeds that the log has.
publish()
await until(() => relay.getMetrics().stored >= feeds.length, 'stored reports')

const checks = {
  async 'shows what the network has signed, over one connection for all components'() {
    await browser.open(`${page}/?token=${token}`)
    await browser.until(`document.querySelectorAll('tr').length === 3`)
    await until(async () => (await openSockets()) === 1, 'a socket')
    await pause(500)
    for (let round = 0; round < 5; round++) {
      const texts = publish()
      for (const [index, feedID] of feeds.entries()) await shows(feedID, 'live', texts[index])
      await pause(1000)
    }
    assert.equal(await summary(), '3 of 3 feeds are live')
    // StrictMode has mounted each component twice.
    assert.equal(await browser.evaluate('sockets.length'), 1)
  },
  async 'goes on after the gateway was away, and keeps the last price meanwhile'() {
    const { port } = new URL(gateway.url)
    const [before] = publish()
    await shows(first, 'live', before)
    await gateway.close()
    await shows(first, 'disconnected', before)
    const [missed] = publish()
    gateway = await startGateway(Number(port))
    await shows(first, 'live', missed)
    const [after] = publish()
    await shows(first, 'live', after)
    browser.complaints.splice(0)
  },
  async 'says that a feed is stale, and live again'() {
    const publishing = setInterval(() => publish([first, third]), 500)
    try {
      await shows(second, 'stale')
      assert.equal((await rows())[first][0], 'live')
      assert.equal(await summary(), '2 of 3 feeds are live')
      const [text] = publish([second])
      await shows(second, 'live', text)
    } finally {
      clearInterval(publishing)
    }
  },
  async 'leaves a feed that no component shows, and takes it up again'() {
    const press = () => browser.evaluate(`document.querySelector('button').click()`)
    const subscribed = () =>
      browser.evaluate(`sockets.filter(each => each.readyState < 2).map(each =>
        new URL(each.url).searchParams.get('feedIDs').split(',').length).join()`)
    await press()
    await until(async () => (await subscribed()) === '2', 'two feeds')
    await press()
    await until(async () => (await subscribed()) === '3', 'three feeds')
    const [, , text] = publish()
    await shows(third, 'live', text)
    // Switching at once opens nothing.
    const before = await browser.evaluate('sockets.length')
    await press()
    await pause(50)
    await press()
    await pause(1500)
    assert.equal(await browser.evaluate('sockets.length'), before)
  },
  async 'ends its connection when it is unmounted'() {
    await browser.evaluate('end()')
    assert.equal(await browser.evaluate(`document.getElementById('root').childNodes.length`), 0)
    await until(async () => (await openSockets()) === 0, 'no socket')
  },
  async 'says why the gateway refuses it, and tries again with another token'() {
    await browser.open(`${page}/?token=wrong-token-0123456789`)
    await browser.until(`document.querySelectorAll('tr').length === 3`)
    await shows(first, 'disconnected')
    assert.match((await rows())[first][2], /^disconnected: ./)
    await browser.evaluate(`token = ${JSON.stringify(token)}`)
    await until(async () => (await openSockets()) === 1, 'a socket')
    await pause(500)
    const [text] = publish()
    await shows(first, 'live', text)
    browser.complaints.splice(0)
  },
}

try {
  browser = await openBrowser()
  for (const [name, run] of Object.entries(checks)) {
    try {
      await run()
      // The gateway answers no HEAD request, by which the client asks for the time of a service.
      const complaints = browser.complaints.splice(0).filter(text => !text.includes('405'))
      assert.deepEqual(complaints, [])
      console.log(`ok    a page of React ${name}`)
    } catch (error) {
      process.exitCode = 1
      console.log(`FAIL  a page of React ${name}\n${error.message}`)
    }
  }
} catch (error) {
  console.log(error.message)
  process.exitCode = error instanceof NoChromium ? UNAVAILABLE : 1
} finally {
  await browser?.close()
  server.closeAllConnections()
  server.close()
  await gateway.close()
  await relay.close()
  await engine.close()
  await connection.close()
  await nats.close()
}
