// A vault of five nodes, each a process, which are killed, stopped and made to lie at random, while an enclave asks three of
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
const NODES = 5
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
  'vault/process/node-files',
  'vault/process/node-server',
]
await compile(paths, 'es', sources, here)
const load = path => import(pathToFileURL(join(sources, `${path}.js`)).href)
const { createVault, openVault, startVaultNode } = await load('vault/index')
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
const writer = await createVault(join(work, 'vault'), { nodes: NODES, threshold: THRESHOLD })
await writer.put({ key: 'apiKey' }, 'the value', { policy: 'anywhere' })

/** Starts the process of a node, and resolves when it listens. */
async function start(node) {
  const child = spawn(
    process.execPath,
    [join(here, 'test/support/vault/chaos-node.mjs'), sources, node.directory, String(node.port)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  node.child = child
  children.add(child)
  await new Promise(resolve => {
    createInterface({ input: child.stdout }).on('line', line => {
      const said = JSON.parse(line)
      if (said.lied !== undefined) node.lies[said.lied]++
      if (said.url !== undefined) resolve()
    })
  })
}

// Each node makes its directory and its key as a command would; its port is the one it got first.
const nodes = await Promise.all(
  Array.from({ length: NODES }, async (_, index) => {
    const directory = join(work, `node-${index}`)
    const trust = { writer: writer.writerKey, callers: [caller.publicKey] }
    const first = await startVaultNode({ directory, trust })
    await first.close()
    const { url, publicKey: key } = first
    const port = new URL(url).port
    return { index, directory, url, key, port, lies: { release: 0, deal: 0 }, faults: [] }
  }),
)
for (const { directory } of nodes) {
  const file = join(directory, 'node.json')
  const peers = nodes.map(({ key }) => key)
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), peers }))
}
await Promise.all(nodes.map(start))
await writer.reshare({
  addresses: nodes.map(({ url, key }) => ({ url, key })),
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
  plugins: confidentialPreset({ vault, network, limits: { maxTimeout: 10_000 } }),
})
const named = new Map()
enclave.listen({
  warn(text) {
    const [, index, why] =
      /^node (\d) at \S+ gave no share of secret apiKey: (.*)$/.exec(text) ?? []
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

/** One node goes wrong for a while, and is well again. */
async function fail(node) {
  const kind = pick(calm ? ['lie'] : ['kill', 'stop', 'lie'])
  counts[kind]++
  const ms = 300 + Math.random() * 1500
  if (kind === 'lie') {
    writeFileSync(join(node.directory, 'lie'), '')
    await sleep(ms)
    rmSync(join(node.directory, 'lie'))
    // What it was asked before is still answered with a lie.
    await sleep(100)
  } else if (kind === 'stop') {
    node.child.kill('SIGSTOP')
    await sleep(ms)
    node.child.kill('SIGCONT')
  } else {
    node.child.kill('SIGKILL')
    children.delete(node.child)
    await sleep(ms / 2)
    await start(node)
  }
}

const failing = new Map()
/** So many go wrong at once that the others are just enough. */
async function makeFaults() {
  while (!over) {
    await sleep(50 + Math.random() * 300)
    if (failing.size >= NODES - THRESHOLD || over) continue
    const node = pick(nodes.filter(each => !failing.has(each)))
    failing.set(
      node,
      fail(node).finally(() => failing.delete(node)),
    )
  }
  await Promise.all(failing.values())
}

const reshared = { done: 0, failed: 0, named: 0 }
/** Reshares in the midst of it: half the time with liars alone, when every new node gets its share. */
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

/** More are not begun: of a machine that is this busy the clocks would be tested. */
const MAX_OUTSTANDING = 64
let outstanding = 0
const failures = []
const latencies = []
async function ask(id) {
  const request = {
    url: `${base}/${id}`,
    method: 'POST',
    bodyString: '{{.apiKey}}',
    timeout: '10s',
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
    lies: nodes.map(({ lies }) => lies.release),
    liesInDealing: nodes.reduce((sum, { lies }) => sum + lies.deal, 0),
    named: nodes.map(({ index }) => named.get(`${index} lie`) ?? 0),
    reshared,
    generation: vault.generation,
    medianMs: Math.round(latencies[latencies.length >> 1] ?? 0),
    slowestMs: Math.round(latencies.at(-1) ?? 0),
  })}\n`,
)
process.exit(0)
