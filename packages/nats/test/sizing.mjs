// What a report takes of a server of NATS: bytes, memory of the duplicate window, and processor time to store and to deliver it.
//
//   node packages/nats/test/sizing.mjs [COUNT [SYNC_INTERVAL]]      on Linux, since it reads /proc
//   node packages/nats/test/sizing.mjs 20000 always                 with each report synced to the disk
//   node packages/nats/test/sizing.mjs relay         what a relay takes that verifies, with each curve library
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { startDataEngine } from '@sluice/engine'
import { startNats } from '@sluice/test-support/nats/server.mjs'
import { WebSocket } from 'ws'

const COUNT = Number(process.argv[2] ?? 100_000)
/** The setting of the servers, whose default is two minutes. */
const SYNC = process.argv[3] ?? '2m'
/** Messages that may be on their way. */
const AHEAD = 1024
const READERS = 4
const PAGES = 20
const FEEDS = 500
/** Reports that each relay is given. */
const RELAYED = 4000
const MINUTE = 60e9
const TICKS_PER_SECOND = 100

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
const feedOf = index => `0x0003${(index % FEEDS).toString(16).padStart(60, '0')}`

/** A report of version 3 with six signatures, as the service has them, in its frame. */
async function makeFrame() {
  const engine = await startDataEngine({ feeds: [feedOf(1)], intervalMs: 0, history: 0, f: 5 })
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = engine.publish(
    feedOf(1),
  )
  await engine.close()
  const report = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
  return new TextEncoder().encode(JSON.stringify({ report }))
}

/** Seconds of processor time that processes have had. */
function cpuOf(nodes) {
  return nodes.reduce((sum, { pid }) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
    return sum + (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
  }, 0)
}

function memoryOf({ pid }) {
  const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return 1024 * Number(kilobytes)
}

function bytesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(folder, entry.name)
    return sum + (entry.isDirectory() ? bytesBelow(path) : statSync(path).size)
  }, 0)
}

/** Publishes so many messages, many at a time, with ids or without. */
async function publish(connection, frame, idOf) {
  const client = jetstream(connection, { timeout: 60_000 })
  let sent = 0
  async function run() {
    while (sent < COUNT) {
      const index = sent++
      const subject = `sluice.3.${feedOf(index)}`
      await client.publish(subject, frame, idOf === undefined ? {} : { msgID: idOf(index) })
    }
  }
  await Promise.all(Array.from({ length: AHEAD }, run))
}

async function read(connection) {
  const consumer = await jetstream(connection).consumers.get('SLUICE')
  const messages = await consumer.consume({ max_messages: 1000 })
  let received = 0
  for await (const _ of messages) if (++received === COUNT) break
}

/** Measures a log with copies on so many servers. */
async function measure(replicas, hasIds) {
  const frame = await makeFrame()
  const nats = await startNats({ nodes: replicas, jetstream: `sync_interval: ${SYNC}` })
  const connection = await connect({ servers: nats.servers })
  const manager = await jetstreamManager(connection, { timeout: 5000, checkAPI: false })
  const settings = { name: 'SLUICE', subjects: ['sluice.*.*'], num_replicas: replicas }
  for (;;) {
    try {
      await manager.streams.add({ ...settings, allow_direct: true, duplicate_window: 10 * MINUTE })
      break
    } catch {
      // The cluster elects its leader.
      await pause(200)
    }
  }
  const [node] = nats.nodes
  const idOf = index => `${feedOf(index)}-${1_700_000_000_000 + index}-${'a'.repeat(32)}`
  const before = cpuOf(nats.nodes)
  const start = performance.now()
  await publish(connection, frame, hasIds ? idOf : undefined)
  const seconds = (performance.now() - start) / 1000
  await pause(500)
  const stored = cpuOf(nats.nodes)
  const memory = memoryOf(node)
  const { state } = await manager.streams.info('SLUICE')
  const disk = bytesBelow(join(nats.folder, node.name)) / COUNT
  const readers = await Promise.all(
    Array.from({ length: READERS }, () => connect({ servers: nats.servers })),
  )
  const beforeReading = cpuOf(nats.nodes)
  await Promise.all(readers.map(read))
  const reading = cpuOf(nats.nodes) - beforeReading
  await Promise.all([connection, ...readers].map(each => each.close()))
  await nats.close()
  return {
    frame: frame.length,
    stored: Math.round(state.bytes / state.messages),
    disk: Math.round(disk),
    publish: Math.round(COUNT / seconds),
    'µs to store, all servers': Math.round(((stored - before) / COUNT) * 1e6),
    'µs to deliver, per reader': Math.round((reading / COUNT / READERS) * 1e6),
    memory,
  }
}

/** How many reports a relay stores in a second of processor time, with a curve library or none. */
async function measureRelay(curveLibrary) {
  const nats = await startNats()
  const feedIDs = Array.from({ length: 50 }, (_, index) => feedOf(index))
  const engine = await startDataEngine({ feeds: feedIDs, intervalMs: 0, history: 0, f: 1 })
  const { endpoint, wsEndpoint, apiKey, userSecret, network } = engine
  const { signers, f } = network
  const setting = JSON.stringify({
    ...{ servers: nats.servers, feedIDs },
    config: { endpoint, wsEndpoint, apiKey, userSecret },
    ...(curveLibrary && { verify: { signers: { signers, f }, curveLibrary } }),
  })
  const path = fileURLToPath(new URL('./programs/verifying-relay.mjs', import.meta.url))
  const child = spawn(process.execPath, [path, setting], { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.on('data', data => {
    said = (said + data).slice(-4000)
  })
  while (!said.includes('open')) await pause(50)
  const latest = () => JSON.parse(said.trimEnd().split('\n').at(-1).replace('open', '{}'))
  const publishAll = async count => {
    for (let at = 0; at < count; at++) {
      engine.publish(feedIDs[at % feedIDs.length])
      if (at % 50 === 49) await pause(20)
    }
  }
  const storedUntil = async count => {
    while ((latest().stored ?? 0) < count) await pause(100)
  }
  // What loads the library and compiles the code is not measured.
  await publishAll(RELAYED / 4)
  await storedUntil(RELAYED / 4)
  const before = cpuOf([child])
  await publishAll(RELAYED)
  await storedUntil(RELAYED / 4 + RELAYED)
  const seconds = cpuOf([child]) - before
  const { library } = latest()
  child.kill()
  await engine.close()
  await nats.close()
  return { library, 'reports per second of processor time': Math.round(RELAYED / seconds) }
}

/** Microseconds of processor time with which a gateway sends a report to a page. */
async function measureGateway() {
  const frame = await makeFrame()
  const nats = await startNats()
  const connection = await connect({ servers: nats.servers })
  const manager = await jetstreamManager(connection)
  await manager.streams.add({ name: 'SLUICE', subjects: ['sluice.*.*'], allow_direct: true })
  const feedIDs = Array.from({ length: 100 }, (_, index) => feedOf(index))
  for (const feedID of feedIDs) connection.publish(`sluice.3.${feedID}`, frame)
  await connection.flush()
  const token = 'token'
  const path = fileURLToPath(new URL('./programs/gateway.mjs', import.meta.url))
  const sha256 = createHash('sha256').update(token).digest('hex')
  const setting = JSON.stringify({ servers: nats.servers, sha256 })
  const child = spawn(process.execPath, [path, setting], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [url] = await once(child.stdout, 'data')
  let received = 0
  const headers = { authorization: `Bearer ${token}` }
  for (let page = 0; page < PAGES; page++) {
    const socket = new WebSocket(`${url}/api/v1/ws?feedIDs=${feedIDs}`, { headers })
    socket.on('message', () => {
      received++
    })
    await once(socket, 'open')
  }
  const count = Math.round(COUNT / PAGES)
  const before = cpuOf([child])
  for (let index = 0; index < count; index++) {
    connection.publish(`sluice.3.${feedOf(index % feedIDs.length)}`, frame)
    while (index - received / PAGES > 200) await pause(1)
  }
  while (received < count * PAGES) await pause(5)
  const cpu = cpuOf([child]) - before
  child.kill()
  await connection.close()
  await nats.close()
  return ((cpu / received) * 1e6).toFixed(1)
}

/** Measures relays that verify, one after the other. */
async function measureRelays() {
  const relays = {}
  for (const each of [undefined, 'secp256k1', 'wasm', 'noble'])
    relays[each ?? 'none'] = await measureRelay(each)
  console.table(relays)
}

if (process.argv[2] === 'relay') {
  await measureRelays()
  process.exit(0)
}
const rows = {}
const bare = await measure(1, false)
rows['one server'] = await measure(1, true)
rows['one server']['bytes of memory per id'] = Math.round(
  (rows['one server'].memory - bare.memory) / COUNT,
)
rows['three servers'] = await measure(3, true)
for (const row of Object.values(rows)) delete row.memory
console.table(rows)
console.log(
  `a gateway takes ${await measureGateway()} µs to send a report to one of ${PAGES} pages`,
)
await measureRelays()
process.exit(0)
