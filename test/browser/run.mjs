// Runs the package in a real browser: npm run browser. A page and a worker of it decode, verify, sign, and read through a relay.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { generateAuthHeaders } from '../../dist/esm/index.js'
import { root } from '../package/steps.mjs'
import { findChromium, NoChromium } from './chromium.mjs'
import { startRelay } from './relay.mjs'

const PATIENCE = 45_000
/** The exit code where there is no Chromium. */
const UNAVAILABLE = 69
const places = ['page', 'worker']

const page = `<!doctype html><meta charset="utf-8"><title>sluice</title>
<script type="module" src="/checks.js"></script>
<script>new Worker('/checks.js', { type: 'module' })</script>`

/** The checks and the package, as a bundler makes them for a browser. */
async function bundle() {
  const { outputFiles } = await build({
    entryPoints: [join(root, 'test', 'browser', 'checks.js')],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    // The package as its users find it, and not its sources.
    tsconfigRaw: '{}',
    target: 'es2022',
    logLevel: 'error',
  })
  return outputFiles[0].text
}

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
    example: { args, headers: await generateAuthHeaders(...args) },
  }
}

async function readBody(request) {
  let body = ''
  for await (const chunk of request) body += chunk
  return JSON.parse(body)
}

const script = await bundle()
const profile = mkdtempSync(join(tmpdir(), 'sluice-browser-'))
const results = new Map()
let finish
const isFinished = new Promise(resolve => {
  finish = resolve
})
let facts

const relay = await startRelay(async function answer(request, response) {
  if (request.url === '/') response.setHeader('Content-Type', 'text/html').end(page)
  else if (request.url === '/checks.js')
    response.setHeader('Content-Type', 'text/javascript').end(script)
  else if (request.url === '/facts') response.end(JSON.stringify(facts))
  else if (request.url === '/results') {
    const { place, results: found } = await readBody(request)
    results.set(place, found)
    response.end()
    if (results.size === places.length) finish()
  } else response.writeHead(404).end()
})

function startChromium() {
  const flags = ['--headless=new', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run']
  // As root Chromium does not start with its sandbox, and the page is ours.
  if (process.getuid?.() === 0) flags.push('--no-sandbox')
  const url = `${relay.facts.endpoint}/`
  const chromium = spawn(findChromium(), [...flags, `--user-data-dir=${profile}`, url], {
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  })
  chromium.stderr.on('data', chunk => {
    said += chunk
  })
  chromium.once('exit', finish)
  return chromium
}

/** Ends it with its helpers, which would write to the profile for a while. */
function stop({ pid }) {
  try {
    process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL')
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

let said = ''
let failure
const timer = setTimeout(() => finish(), PATIENCE)
let chromium
try {
  facts = await makeFacts(relay.facts)
  chromium = startChromium()
  await isFinished
} catch (error) {
  failure = error
} finally {
  clearTimeout(timer)
  if (chromium !== undefined) stop(chromium)
  await relay.close()
  await rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
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
  console.log(`browser: FAILED\n${results.size === places.length ? '' : said}`)
else console.log(`browser: all checks passed, in a page and in a worker`)
