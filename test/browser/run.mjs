// Runs the package in a real browser: npm run browser. A page and a worker of it decode, verify, sign, and read through a relay,
// and so do two pages whose policies forbid and allow WebAssembly.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateAuthHeadersAsync } from 'sluice'
import { root } from '../package/steps.mjs'
import { bundleForPage, NoChromium, openChromium } from '../support/chromium.mjs'
import { startRelay } from './relay.mjs'

const PATIENCE = 45_000
/** The exit code where there is no Chromium. */
const UNAVAILABLE = 69
/** Pages in frames of the first page, and their policies for scripts. The title of a page is its name. */
const framed = {
  'page without WebAssembly': "script-src 'self'",
  'page with wasm-unsafe-eval': "script-src 'self' 'wasm-unsafe-eval'",
}
const places = ['page', 'worker', ...Object.keys(framed)]

const script = `<script type="module" src="/checks.js"></script>`
const titled = title => `<!doctype html><meta charset="utf-8"><title>${title}</title>${script}`
const page = `${titled('page')}
<script>new Worker('/checks.js', { type: 'module' })</script>
${Object.keys(framed).map(name => `<iframe src="/framed/${encodeURIComponent(name)}"></iframe>`)}`

async function makeFacts(relay) {
  const { reports: published } = JSON.parse(
    readFileSync(join(root, 'test', 'vectors', 'published-reports.json'), 'utf8'),
  )
  const addresses = [...new Set(published.flatMap(({ signers }) => signers))]
  const credentials = { apiKey: '5f0c2a1e-9d3b-4c77-8a46-1b2e3d4c5f60', userSecret: 'a-secret' }
  const { apiKey, userSecret } = credentials
  const args = [apiKey, userSecret, 'POST', 'https://api.example/a?b=c', 'body', 1_700_000_000_000]
  return {
    published,
    signers: { f: 1, signers: addresses },
    relay,
    credentials,
    example: { args, headers: await generateAuthHeadersAsync(...args) },
  }
}

async function readBody(request) {
  let body = ''
  for await (const chunk of request) body += chunk
  return JSON.parse(body)
}

const checks = await bundleForPage(join(root, 'test', 'browser', 'checks.js'))
const results = new Map()
let finish
const isFinished = new Promise(resolve => {
  finish = resolve
})
let facts

const relay = await startRelay(async function answer(request, response) {
  if (request.url === '/') response.setHeader('Content-Type', 'text/html').end(page)
  else if (request.url.startsWith('/framed/')) {
    const name = decodeURIComponent(request.url.slice('/framed/'.length))
    response.setHeader('Content-Security-Policy', framed[name])
    response.setHeader('Content-Type', 'text/html').end(titled(name))
  } else if (request.url === '/checks.js')
    response.setHeader('Content-Type', 'text/javascript').end(checks)
  else if (request.url === '/facts') response.end(JSON.stringify(facts))
  else if (request.url === '/results') {
    const { place, results: found } = await readBody(request)
    results.set(place, found)
    response.end()
    if (results.size === places.length) finish()
  } else response.writeHead(404).end()
})

let failure
const timer = setTimeout(() => finish(), PATIENCE)
let chromium
try {
  facts = await makeFacts(relay.facts)
  chromium = openChromium(`${relay.facts.endpoint}/`)
  void chromium.ended.then(finish)
  await isFinished
} catch (error) {
  failure = error
} finally {
  clearTimeout(timer)
  await chromium?.close()
  await relay.close()
}

for (const place of places) {
  const found = results.get(place)
  if (found === undefined) {
    console.log(`  FAIL  the ${place} has not answered`)
    process.exitCode = 1
  }
  for (const { name, ms, error } of found ?? []) {
    console.log(`  ${error === undefined ? 'ok  ' : 'FAIL'}  ${place}: ${name}  (${ms} ms)`)
    if (error === undefined) continue
    console.log(error.replace(/^/gm, '        '))
    process.exitCode = 1
  }
}
if (failure !== undefined) {
  console.log(`browser: FAILED\n${failure.message}`)
  process.exitCode = failure instanceof NoChromium ? UNAVAILABLE : 1
} else if (process.exitCode === 1)
  console.log(`browser: FAILED\n${results.size === places.length ? '' : chromium?.said}`)
else console.log(`browser: all checks passed, in ${places.length} places`)
