// Two relays, four origins, three workers and two of a queue, over a log of three servers; processes and servers are killed at
// random and started again. Every report of the data engine's ledger has to reach every worker.
//
//   node test/nats/chaos.mjs [--seconds 60] [--feeds 200] [--rate 1000] [--seed 1]
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { startDataEngine } from 'sluice/local'
import { natsCursors } from 'sluice/nats'
import { startNats } from '../support/nats/server.mjs'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    feeds: { type: 'string', default: '200' },
    rate: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '1' },
  },
})
const [seconds, feedCount, rate, seed] = [
  values.seconds,
  values.feeds,
  values.rate,
  values.seed,
].map(Number)

/** Random numbers from 0 to 1, the same for the same seed. */
function createRandom(start) {
  let state = start
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

const random = createRandom(seed)
const between = (from, to) => from + (to - from) * random()
const feeds = Array.from(
  { length: feedCount },
  (_, index) => `0x1003${index.toString(16).padStart(60, '0')}`,
)

/** A program that is started again whenever it ends, with a file for each time. */
function supervise(program, name, setting, folder) {
  const files = []
  let child
  let isWanted = true
  let kills = 0

  function start() {
    const file = join(folder, `${name}-${files.length}.txt`)
    files.push(file)
    const path = fileURLToPath(new URL(`./programs/${program}.mjs`, import.meta.url))
    child = spawn(process.execPath, [path, JSON.stringify({ ...setting, name, file })], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let stderr = ''
    child.stderr.on('data', data => {
      stderr = (stderr + data).slice(-2000)
    })
    child.on('exit', (code, signal) => {
      if (signal === null && code !== 0)
        console.log(`${name} ended with ${code}: ${/\w*Error: .*/.exec(stderr)?.[0]}`)
      if (isWanted) setTimeout(start, 300 + 1500 * random())
    })
  }

  start()
  return {
    name,
    get kills() {
      return kills
    },
    /** The lines that each of its processes has written. */
    lines: () =>
      files.map(file =>
        existsSync(file)
          ? readFileSync(file, 'utf8')
              .split('\n')
              .filter(line => line !== '')
          : [],
      ),
    kill() {
      kills++
      child.kill('SIGKILL')
    },
    async end() {
      isWanted = false
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

const reportsOf = lines =>
  lines.filter(line => line.startsWith('report ')).map(line => line.slice(7))
const keyOf = ({ feedID, observationsTimestamp }) => `${feedID}@${observationsTimestamp}`

async function until(isTrue, ms, what) {
  const end = performance.now() + ms
  while (!isTrue()) {
    if (performance.now() > end) return console.log(`not within ${ms} ms: ${what}`)
    await sleep(250)
  }
}

const nats = await startNats({ nodes: 3 })
await sleep(3000)
const engine = await startDataEngine({
  feeds,
  origins: 4,
  intervalMs: Math.round((1000 * feedCount) / rate),
  history: 0,
  compression: false,
})
const { apiKey, userSecret, endpoint, wsEndpoint } = engine
const common = { servers: nats.servers, feeds, replicas: 3 }
const config = { apiKey, userSecret, endpoint, wsEndpoint, haMode: true }
engine.pause()
const relays = ['relay-1', 'relay-2'].map(name =>
  supervise('relay', name, { ...common, config }, nats.folder),
)
await until(() => relays.every(({ lines }) => lines().flat().length > 0), 60_000, 'relays')
const workers = ['worker-1', 'worker-2', 'worker-3'].map(name =>
  supervise('worker', name, common, nats.folder),
)
const queue = ['queue-1', 'queue-2'].map(name =>
  supervise('worker', name, { ...common, queue: 'chaos' }, nats.folder),
)
const readers = [...workers, ...queue]
await until(() => readers.every(({ lines }) => lines().flat().includes('open')), 60_000, 'workers')
engine.resume()
// Whoever has no cursor yet begins with now: killing begins when all have one.
const connection = await connect({ servers: nats.servers, maxReconnectAttempts: -1 })
const keyed = [...relays, ...workers].map(({ name }) => natsCursors(connection, { key: name }))
for (const cursors of keyed)
  while (Object.keys(await cursors.load()).length < feedCount) await sleep(250)
await connection.close()
console.log(`${feedCount} feeds, ${rate} reports/s, ${seconds} s`)

let nodeKills = 0
const end = performance.now() + 1000 * seconds
let nodeTask = Promise.resolve()
while (performance.now() < end) {
  await sleep(between(1000, 4000))
  if (random() < 0.25) {
    nodeTask = nodeTask.then(async () => {
      if (performance.now() > end) return
      const node = nats.nodes[Math.floor(random() * nats.nodes.length)]
      nodeKills++
      console.log(`${new Date().toISOString()} kills ${node.name}`)
      await node.kill()
      await sleep(between(500, 3000))
      await node.start()
      console.log(`${new Date().toISOString()} started ${node.name}`)
      await sleep(4000)
    })
  } else {
    const all = [...relays, ...readers]
    all[Math.floor(random() * all.length)].kill()
  }
}
await nodeTask
engine.pause()
await sleep(1000)
const ledger = engine.ledger().map(keyOf)
const missing = readings => {
  const got = new Set(readings.flatMap(({ lines }) => lines().flatMap(reportsOf)))
  return ledger.filter(key => !got.has(key)).length
}
await until(
  () => workers.every(worker => missing([worker]) === 0) && missing(queue) === 0,
  60_000,
  'all reports with all workers',
)
/** What the log itself holds, by a consumer that reads all of it. */
async function readLog() {
  const reader = await connect({ servers: nats.servers })
  const consumer = await jetstream(reader, { timeout: 10_000 }).consumers.get('SLUICE')
  const { num_pending: count } = await consumer.info()
  const times = []
  if (count > 0)
    for await (const { data, info } of await consumer.consume({ max_messages: 5000 })) {
      const { report } = JSON.parse(new TextDecoder().decode(data))
      times.push([keyOf(report), info.timestamp])
      if (info.pending === 0) break
    }
  await reader.close()
  return times
}

console.log(nats.folder)
const stored = await readLog().catch(e => {
  console.log('log unreadable', e.message)
  return []
})
const storedKeys = new Set(stored.map(([key]) => key))
console.log(
  `the log holds ${stored.length}: lost ${ledger.filter(key => !storedKeys.has(key)).length}, doubled ${stored.length - storedKeys.size}`,
)
const rows = [...workers.map(worker => [worker]), queue].map(readings => {
  const files = readings.flatMap(({ lines }) => lines().map(reportsOf))
  const within = files.reduce((sum, keys) => sum + keys.length - new Set(keys).size, 0)
  const all = files.flat()
  return {
    reader: readings.map(({ name }) => name).join(' and '),
    kills: readings.reduce((sum, { kills }) => sum + kills, 0),
    lost: missing(readings),
    'doubled within a process': within,
    'again after a kill': all.length - new Set(all).size - within,
    gaps: readings.flatMap(({ lines }) => lines().flat()).filter(line => line.startsWith('gap '))
      .length,
  }
})
for (const worker of readers) {
  const got = new Set(worker.lines().flatMap(reportsOf))
  const times = engine.ledger().flatMap(each => (got.has(keyOf(each)) ? [] : [each.publishedAt]))
  if (times.length === 0 || missing(workers.includes(worker) ? [worker] : queue) === 0) continue
  console.log(`${worker.name} lacks ${times.length}, published ${times[0]} to ${times.at(-1)}`)
  for (const lines of worker.lines())
    console.log(
      `  ${lines
        .filter(line => !line.startsWith('report '))
        .slice(0, 12)
        .join(' | ')}`,
    )
}
console.log(
  `${ledger.length} reports; killed: relays ${relays.map(({ kills }) => kills)}, nodes ${nodeKills}`,
)
console.table(rows)
const errors = [...relays, ...readers].flatMap(({ name, lines }) =>
  lines()
    .flat()
    .filter(line => line.startsWith('error '))
    .map(line => `${name.slice(0, 5)}: ${line.slice(6).replace(/\d+/g, 'N').slice(0, 150)}`),
)
const counts = new Map()
for (const error of errors) counts.set(error, (counts.get(error) ?? 0) + 1)
for (const [error, count] of [...counts].sort(([, a], [, b]) => b - a).slice(0, 12))
  console.log(`${count} × ${error}`)
const isGood = rows.every(
  row =>
    row.lost === 0 && (row.reader.startsWith('queue') || row['doubled within a process'] === 0),
)
if (!isGood)
  for (const { name, output } of nats.nodes)
    console.log(
      `${name}:\n${output
        .split('\n')
        .filter(line => !line.includes('route'))
        .slice(-25)
        .join('\n')}`,
    )
await Promise.all([...relays, ...readers].map(each => each.end()))
await engine.close()
if (process.env.KEEP) {
  console.log(nats.folder)
  await sleep(+process.env.KEEP)
}
await nats.close()
process.exitCode = isGood ? 0 : 1
