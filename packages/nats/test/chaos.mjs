// Two relays, four origins, three workers and two of a queue, over a log of three servers; processes and servers are killed at
// random and started again. Every report of the data engine's ledger has to reach every worker.
//
//   node packages/nats/test/chaos.mjs [--seconds 60] [--feeds 200] [--rate 1000] [--seed 1]
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { connect } from '@nats-io/transport-node'
import { startDataEngine } from '@sluice/engine'
import { natsCursors } from '@sluice/nats'
import { startNats } from '@sluice/test-support/nats/server.mjs'
import { keyOf, linesOf, makeFeeds, readLog, supervise, until } from './processes.mjs'

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

/** Mulberry32: random numbers from 0 to 1, the same for the same seed. */
function createRandom(start) {
  let state = start
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let value = Math.imul(state ^ (state >>> 15), 1 | state)
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32
  }
}

const random = createRandom(seed)
const between = (from, to) => from + (to - from) * random()
const oneOf = list => list[Math.floor(random() * list.length)]

async function startAll() {
  const nats = await startNats({ nodes: 3 })
  await sleep(3000)
  const feeds = makeFeeds(feedCount)
  const intervalMs = Math.round((1000 * feedCount) / rate)
  const engine = await startDataEngine({
    feeds,
    origins: 4,
    intervalMs,
    history: 0,
    compression: false,
  })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  engine.pause()
  const common = { servers: nats.servers, feeds, replicas: 3 }
  const start = (program, setting) => name =>
    supervise(program, name, { ...common, ...setting }, nats.folder, () => between(300, 1800))
  const config = { apiKey, userSecret, endpoint, wsEndpoint, haMode: true }
  const relays = ['relay-1', 'relay-2'].map(start('relay', { config }))
  const isOpen = ({ lines }) => lines().flat().includes('open')
  await until(() => relays.every(isOpen), 60_000, 'relays')
  const workers = ['worker-1', 'worker-2', 'worker-3'].map(start('worker', {}))
  const queue = ['queue-1', 'queue-2'].map(start('worker', { queue: 'chaos' }))
  await until(() => [...workers, ...queue].every(isOpen), 60_000, 'workers')
  engine.resume()
  const resumedAt = performance.now()
  // Whoever has no cursor yet begins with now: killing begins when all have one.
  const connection = await connect({ servers: nats.servers, maxReconnectAttempts: -1 })
  for (const { name } of [...relays, ...workers]) {
    const cursors = natsCursors(connection, { key: name })
    while (Object.keys(await cursors.load()).length < feedCount) await sleep(250)
  }
  await connection.close()
  return { nats, engine, relays, workers, queue, resumedAt }
}

/** Kills at random until the time is over. Returns how often a server was killed. */
async function kill(nodes, programs) {
  let kills = 0
  const end = performance.now() + 1000 * seconds
  async function killNode() {
    if (performance.now() > end) return
    const node = oneOf(nodes)
    kills++
    await node.kill()
    await sleep(between(500, 3000))
    await node.start()
    await sleep(4000)
  }
  let task = Promise.resolve()
  while (performance.now() < end) {
    await sleep(between(1000, 4000))
    if (random() < 0.3) task = task.then(killNode)
    else oneOf(programs).kill()
  }
  await task
  return kills
}

const reportsOf = lines => linesOf('report', lines)
const filesOf = readers => readers.flatMap(({ lines }) => lines())

function missingOf(ledger, readers) {
  const got = new Set(filesOf(readers).flatMap(reportsOf))
  return ledger.filter(key => !got.has(key)).length
}

/** Reports that a process got although the cursors that it began with say that they were taken. */
function takenBefore(lines) {
  const [loaded] = linesOf('cursors', lines)
  const cursors = loaded === undefined ? {} : JSON.parse(loaded)
  return reportsOf(lines).filter(key => {
    const [feedID, time] = key.split('@')
    return Number(time) <= (cursors[feedID] ?? -1)
  }).length
}

function rowOf(ledger, readers) {
  const files = filesOf(readers)
  const reports = files.map(reportsOf)
  const all = reports.flat()
  const within = reports.reduce((sum, keys) => sum + keys.length - new Set(keys).size, 0)
  return {
    reader: readers.map(({ name }) => name).join(' and '),
    kills: readers.reduce((sum, { kills }) => sum + kills, 0),
    lost: missingOf(ledger, readers),
    'doubled within a process': within,
    'again after a kill': all.length - new Set(all).size - within,
    'below the cursor': files.reduce((sum, lines) => sum + takenBefore(lines), 0),
    gaps: files.flatMap(lines => linesOf('gap', lines)).length,
  }
}

const { nats, engine, relays, workers, queue, resumedAt } = await startAll()
const nodeKills = await kill(nats.nodes, [...relays, ...workers, ...queue])
engine.pause()
const lasted = (performance.now() - resumedAt) / 1000
await sleep(1000)
const ledger = engine.ledger().map(keyOf)
const groups = [...workers.map(worker => [worker]), queue]
const hasAll = () => groups.every(readers => missingOf(ledger, readers) === 0)
await until(hasAll, 60_000, 'all reports with all workers')
const stored = new Set(await readLog(nats.servers))
console.log(
  `${ledger.length} reports of ${feedCount} feeds in ${lasted.toFixed(0)} s: ${Math.round(ledger.length / lasted)} per second`,
)
console.log(
  `killed: relays ${relays.map(({ kills }) => kills)}, servers ${nodeKills}; the log lacks ${ledger.filter(key => !stored.has(key)).length}`,
)
const rows = groups.map(readers => rowOf(ledger, readers))
console.table(rows)
const errors = new Map()
for (const { name, lines } of [...relays, ...workers, ...queue])
  for (const error of linesOf('error', lines().flat())) {
    const key = `${name.slice(0, 5)}: ${error.replace(/\d+/g, 'N').slice(0, 150)}`
    errors.set(key, (errors.get(key) ?? 0) + 1)
  }
for (const [error, count] of [...errors].sort(([, a], [, b]) => b - a).slice(0, 12))
  console.log(`${count} × ${error}`)
await Promise.all([...relays, ...workers, ...queue].map(each => each.end()))
await engine.close()
await nats.close()
// A worker of a queue may get a report twice: its promise is at least once.
const isGood = rows.every(
  row =>
    row.lost === 0 &&
    (row.reader.startsWith('queue') ||
      row['doubled within a process'] + row['below the cursor'] === 0),
)
process.exitCode = isGood ? 0 : 1
