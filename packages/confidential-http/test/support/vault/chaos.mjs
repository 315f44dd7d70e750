// A vault of five holders, each a process, which are killed, stopped and made to lie at random, while an enclave asks three of
// them for each of many requests, and the key is reshared. Prints what came of it as JSON.
//
//   node packages/confidential-http/test/support/vault/chaos.mjs SECONDS REQUESTS_PER_SECOND
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'

const [seconds, rate] = process.argv.slice(2).map(Number)
const HOLDERS = 5
const THRESHOLD = 3
const here = fileURLToPath(new URL('../../..', import.meta.url))
const root = join(here, '../..')
const { compile } = await import(pathToFileURL(join(root, 'build/compile.mjs')).href)
const sources = join(root, 'node_modules', '.cache', `sluice-chaos-${process.pid}`)
const work = mkdtempSync(join(tmpdir(), 'sluice-chaos-'))
const paths = [
  'audit/audit-log',
  'index',
  'key-file',
  'vault/files',
  'vault/index',
  'vault/process/holder',
  'vault/process/holder-files',
  'vault/process/start-holder',
]
await compile(paths, 'es', sources, here)
const load = path => import(pathToFileURL(join(sources, `${path}.js`)).href)
const { createVault, openVault, startVaultHolder } = await load('vault/index')
const { createEnclave, confidentialPreset } = await load('index')
const { createKeys } = await import('sluice/internal')
const pick = list => list[Math.floor(Math.random() * list.length)]
const children = new Set()
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(sources, { recursive: true, force: true })
  rmSync(work, { recursive: true, force: true })
})

const caller = createKeys()
const writer = await createVault(join(work, 'vault'), { holders: HOLDERS, threshold: THRESHOLD })
await writer.put({ key: 'apiKey' }, 'the value', { policy: 'anywhere' })

/** Starts the process of a holder, and resolves when it listens. */
async function start(holder) {
  const child = spawn(
    process.execPath,
    [
      join(here, 'test/support/vault/chaos-holder.mjs'),
      sources,
      holder.directory,
      holder.host,
      holder.port,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  )
  holder.child = child
  children.add(child)
  let complaints = ''
  child.stderr.on('data', chunk => {
    complaints += chunk
    process.stderr.write(chunk)
  })
  await new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) =>
      reject(new Error(`holder ${holder.index} ended with ${code ?? signal}: ${complaints}`)),
    )
    createInterface({ input: child.stdout }).on('line', line => {
      const said = JSON.parse(line)
      if (said.lied !== undefined) holder.lies[said.lied]++
      if (said.url !== undefined) resolve()
    })
  })
}

/**
 * The address of a holder. Its own on Linux: while the holder is away, another process could get its port at an address
 * that many use.
 */
const hostOf = index =>
  process.platform === 'linux'
    ? `127.${1 + (process.pid % 250)}.${1 + ((process.pid >> 8) % 250)}.${index + 1}`
    : '127.0.0.1'

// Each holder makes its directory and its key as a command would; its port is the one it got first.
const holders = await Promise.all(
  Array.from({ length: HOLDERS }, async (_, index) => {
    const directory = join(work, `holder-${index}`)
    const trust = { writer: writer.writerKey, callers: [caller.publicKey] }
    const first = await startVaultHolder({ directory, trust, host: hostOf(index) })
    await first.close()
    const { url, publicKey: key } = first
    const { hostname: host, port } = new URL(url)
    return { index, directory, url, key, host, port, lies: { release: 0, deal: 0 }, faults: [] }
  }),
)
for (const { directory } of holders) {
  const file = join(directory, 'holder.json')
  const peers = holders.map(({ key }) => key)
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), peers }))
}
await Promise.all(holders.map(start))
await writer.reshare({
  addresses: holders.map(({ url, key }) => ({ url, key })),
  threshold: THRESHOLD,
})

const received = new Map()
const upstream = createServer((request, response) => {
  received.set(request.url, (received.get(request.url) ?? 0) + 1)
  response.end('{}')
})
await new Promise(resolve => upstream.listen(0, '127.0.0.1', resolve))
const base = `http://127.0.0.1:${upstream.address().port}`

const vault = await openVault(join(work, 'vault'), { callerSecretKey: caller.secretKey })
const network = { loopback: true, http: true, ports: [upstream.address().port] }
const enclave = createEnclave({
  plugins: confidentialPreset({ vault, network, limits: { maxTimeout: 60_000 } }),
})
const named = new Map()
enclave.listen({
  warn(text) {
    const [, index, why] =
      /^holder (\d) at \S+ gave no share of secret apiKey: (.*)$/.exec(text) ?? []
    if (index === undefined) return
    const why_ =
      /share|proof|E_i|rejected/.test(why) && !/generation|reached|time/.test(why) ? 'lie' : 'other'
    const key = `${index} ${why_}`
    named.set(key, (named.get(key) ?? 0) + 1)
  },
})

const counts = { kill: 0, stop: 0, lie: 0 }
let calm = false
let over = false

/** One holder goes wrong for a while, and is well again. */
async function fail(holder) {
  const kind = pick(calm ? ['lie'] : ['kill', 'stop', 'lie'])
  counts[kind]++
  const ms = 300 + Math.random() * 1500
  if (kind === 'lie') {
    writeFileSync(join(holder.directory, 'lie'), '')
    await sleep(ms)
    rmSync(join(holder.directory, 'lie'))
    // What it was asked before is still answered with a lie.
    await sleep(100)
  } else if (kind === 'stop') {
    holder.child.kill('SIGSTOP')
    await sleep(ms)
    holder.child.kill('SIGCONT')
  } else {
    holder.child.kill('SIGKILL')
    children.delete(holder.child)
    await sleep(ms / 2)
    await start(holder)
  }
}

const failing = new Map()
/** So many go wrong at once that the others are just enough. */
async function makeFaults() {
  while (!over) {
    await sleep(50 + Math.random() * 300)
    if (failing.size >= HOLDERS - THRESHOLD || over) continue
    const holder = pick(holders.filter(each => !failing.has(each)))
    failing.set(
      holder,
      fail(holder).finally(() => failing.delete(holder)),
    )
  }
  await Promise.all(failing.values())
}

const reshared = { done: 0, failed: 0, named: 0 }
/** Reshares in the midst of it: half the time with liars alone, when every new holder gets its share. */
async function reshareNow() {
  while (!over) {
    await sleep((seconds * 1000) / 8)
    if (over) return
    calm = Math.random() < 0.6 || reshared.done === 0
    if (calm) await Promise.all(failing.values())
    try {
      const { leftOut } = await writer.reshare()
      reshared.done++
      reshared.named += leftOut.filter(each => /dealing/.test(each)).length
    } catch {
      reshared.failed++
    }
    calm = false
  }
}

/** More are not begun: on a busy machine they would wait for each other, and not for the holders. */
const MAX_OUTSTANDING = 8
let outstanding = 0
const failures = []
const latencies = []
async function ask(id) {
  const request = {
    url: `${base}/${id}`,
    method: 'POST',
    bodyString: '{{.apiKey}}',
    timeout: '60s',
  }
  const began = performance.now()
  outstanding++
  try {
    const { statusCode } = await enclave.send(
      { request, vaultDonSecrets: [{ key: 'apiKey' }] },
      { owner: vault.owner },
    )
    if (statusCode !== 200) failures.push(`${id}: ${statusCode}`)
    latencies.push(performance.now() - began)
  } catch (error) {
    failures.push(`${id}: ${error.message}`)
  } finally {
    outstanding--
  }
}

const faults = makeFaults()
const resharing = reshareNow()
const asked = []
const began = performance.now()
for (let tick = 0; tick < seconds * rate; tick++) {
  // By the clock, so that requests that take long are not made fewer.
  await sleep(Math.max(0, began + (tick * 1000) / rate - performance.now()))
  if (outstanding < MAX_OUTSTANDING) asked.push(ask(asked.length))
}
await Promise.all(asked)
over = true
await Promise.all([faults, resharing])
latencies.sort((one, other) => one - other)
const twice = [...received].filter(([, times]) => times > 1).map(([path]) => path)
process.stdout.write(
  `${JSON.stringify({
    requests: asked.length,
    served: latencies.length,
    received: received.size,
    twice,
    failures,
    faults: counts,
    lies: holders.map(({ lies }) => lies.release),
    liesInDealing: holders.reduce((sum, { lies }) => sum + lies.deal, 0),
    named: holders.map(({ index }) => named.get(`${index} lie`) ?? 0),
    reshared,
    generation: vault.generation,
    medianMs: Math.round(latencies[latencies.length >> 1] ?? 0),
    slowestMs: Math.round(latencies.at(-1) ?? 0),
  })}\n`,
)
process.exit(0)
