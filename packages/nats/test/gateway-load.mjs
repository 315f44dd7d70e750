// What a gateway does under load: with many users, and with holders of tokens who ask for as much as they may.
//
//   npm run load:gateway -- users [--short]
//   npm run load:gateway -- hostile [--short]
//
// NATS, the gateway and the clients are processes of their own. It ends with 1 if a goal is missed. What else the machine does
// counts: run it where there is little. NATS_SERVER names a server of NATS; 2.12.1 answers one message at a time. GATEWAY_ARGS
// are arguments of Node for the gateway, such as --cpu-prof.
import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { connect as connectSocket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { startDataEngine } from '@sluice/engine'
import { startNats } from '@sluice/test-support/nats/server.mjs'
import { WebSocket } from 'ws'

const [what = 'users'] = process.argv.slice(2)
const isShort = process.argv.includes('--short')
const FEEDS = 20
/** For how many seconds the log is filled. */
const SECONDS = isShort ? 5 : 30
/** How many reports per second the first half of the feeds has, and the second half. */
const RATES = [1, 10]
const rateOf = feedID => RATES[feeds.indexOf(feedID) < FEEDS / 2 ? 0 : 1]
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
const feeds = Array.from(
  { length: FEEDS },
  (_, index) => `0x1003${(index + 1).toString(16).padStart(60, '0')}`,
)
const hashOf = text => createHash('sha256').update(text).digest('hex')
/** A server of NATS whose log has reports of each feed, and gets further ones until it is closed. */
async function startLog() {
  const nats = await startNats()
  const connection = await connect({ servers: nats.servers })
  const manager = await jetstreamManager(connection)
  await manager.streams.add({ name: 'SLUICE', subjects: ['sluice.*.*'], allow_direct: true })
  const frameOf = await createFrames()
  const start = Date.now()
  const timers = RATES.map(rate =>
    setInterval(() => {
      const now = Date.now()
      for (const feedID of feeds.filter(each => rateOf(each) === rate))
        connection.publish(`sluice.3.${feedID}`, frameOf(feedID, now))
    }, 1000 / rate),
  )
  await pause(1000 * SECONDS)
  return {
    servers: nats.servers,
    start,
    async close() {
      timers.forEach(clearInterval)
      await connection.close()
      await nats.close()
    },
  }
}

/** Makes frames of reports with six signatures, as long as those of the service. */
async function createFrames() {
  const engine = await startDataEngine({ feeds: [feeds[0]], intervalMs: 0, history: 0, f: 5 })
  const { fullReport } = engine.publish(feeds[0])
  await engine.close()
  const at = fullReport.indexOf(feeds[0].slice(2))
  const word = value => value.toString(16).padStart(64, '0')
  return function frameOf(feedID, observationsTimestamp) {
    const validFromTimestamp = observationsTimestamp - 1000 / rateOf(feedID) + 1
    const head = `${feedID.slice(2)}${word(validFromTimestamp)}${word(observationsTimestamp)}`
    const full = `${fullReport.slice(0, at)}${head}${fullReport.slice(at + head.length)}`
    const report = { feedID, fullReport: full, validFromTimestamp, observationsTimestamp }
    return JSON.stringify({ report })
  }
}

async function startGateway(options) {
  const path = fileURLToPath(new URL('./programs/measured-gateway.mjs', import.meta.url))
  const child = fork(path, [JSON.stringify(options)], {
    execArgv: process.env.GATEWAY_ARGS?.split(' ') ?? [],
  })
  const [{ url, wsURL }] = await once(child, 'message')
  return {
    url,
    wsURL,
    child,
    /** How it has fared since the last call. */
    async measure() {
      child.send('measure')
      const [measured] = await once(child, 'message')
      return measured
    },
  }
}

/** Sends a request, and resolves with its status, its time in milliseconds and how long to wait for the next one. */
function ask(url, token, agent) {
  return new Promise(resolve => {
    const began = performance.now()
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const sent = request(url, { agent, headers }, response => {
      let bytes = 0
      response.on('data', chunk => {
        bytes += chunk.length
      })
      response.on('end', () =>
        resolve({
          status: response.statusCode,
          ms: performance.now() - began,
          bytes,
          wait: 1000 * Number(response.headers['retry-after'] ?? 0),
        }),
      )
    })
    sent.on('error', () =>
      resolve({ status: 0, ms: performance.now() - began, bytes: 0, wait: 100 }),
    )
    sent.end()
  })
}

function percentile(values, share) {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}
const median = values => percentile(values, 0.5)
const rounded = value => Math.round(10 * value) / 10

/** Sixteen holders ask for as much as they may, and another one asks for little. */
async function measureHostile() {
  const HOSTILE = 16
  const LANES = 16
  const ROUNDS = 5
  const ROUND = isShort ? 3000 : 10_000
  const log = await startLog()
  const nameOf = (round, holder) => `hostile-${round}-${holder}`
  const names = Array.from({ length: ROUNDS }, (_, round) =>
    Array.from({ length: HOSTILE }, (_, holder) => nameOf(round, holder)),
  )
  const tokens = Object.fromEntries(
    ['other', ...names.flat()].map(name => [name, { sha256: hashOf(name) }]),
  )
  const gateway = await startGateway({ servers: log.servers, tokens })
  const { url } = gateway
  const bulk = time => `${url}/api/v1/reports/bulk?feedIDs=${feeds}&timestamp=${time}`
  const page = (feedID, time, limit) =>
    `${url}/api/v1/reports/page?feedID=${feedID}&startTimestamp=${time}&limit=${limit}`
  const latest = feedID => `${url}/api/v1/reports/latest?feedID=${feedID}`
  const pick = () => feeds[Math.floor(Math.random() * FEEDS)]
  const within = () => log.start + Math.floor(Math.random() * (Date.now() - log.start - 5000))
  const attacks = [
    () => bulk(log.start - Math.floor(86_400_000 * Math.random()) - 10_000),
    () => bulk(within()),
    () => page(pick(), 1, 1_000_000),
    () => page(pick(), within(), 1_000_000),
  ]
  const counts = {}
  let bytes = 0

  /** Each holder has sixteen requests open, and waits only as it is told to. Returns how to end it. */
  function attack(round) {
    const agents = names[round].map(() => new Agent({ keepAlive: true, maxSockets: LANES }))
    let isOver = false
    async function run(holder, lane) {
      for (let at = lane; !isOver; at++) {
        const target = attacks[at % attacks.length]()
        const answer = await ask(target, nameOf(round, holder), agents[holder])
        if (isOver) return
        counts[answer.status] = (counts[answer.status] ?? 0) + 1
        bytes += answer.bytes
        await pause(answer.wait)
      }
    }
    for (let holder = 0; holder < HOSTILE; holder++)
      for (let lane = 0; lane < LANES; lane++) void run(holder, lane)
    return () => {
      isOver = true
      for (const agent of agents) agent.destroy()
    }
  }

  const own = new Agent({ keepAlive: true })
  /** Asks fifty times a second for the latest report of a feed, and twice a second for a page. */
  async function measure(kind) {
    const times = { latest: [], page: [] }
    const statuses = {}
    await gateway.measure()
    const began = performance.now()
    for (let at = 0; performance.now() - began < ROUND; at++) {
      const isPage = at % 25 === 24
      const target = isPage ? page(feeds[at % (FEEDS / 2)], within(), 10) : latest(pick())
      const { ms, status } = await ask(target, 'other', own)
      times[isPage ? 'page' : 'latest'].push(ms)
      statuses[status] = (statuses[status] ?? 0) + 1
      await pause(20 - Math.min(19, ms))
    }
    const fared = await gateway.measure()
    return {
      kind,
      'latest p50': rounded(percentile(times.latest, 0.5)),
      'latest p99': rounded(percentile(times.latest, 0.99)),
      'page p50': rounded(percentile(times.page, 0.5)),
      'page p99': rounded(percentile(times.page, 0.99)),
      'both p99': rounded(percentile([...times.latest, ...times.page], 0.99)),
      statuses: JSON.stringify(statuses),
      'loop p99': fared.p99,
      'loop max': fared.max,
      'processor %': Math.round(fared.cpu / (ROUND / 100_000)),
      MB: fared.megabytes,
    }
  }

  await measure('warm')
  const rounds = []
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push(await measure('quiet'))
    const end = attack(round)
    rounds.push(await measure('hostile'))
    end()
    await pause(1000)
  }
  console.table(rounds)
  console.log('answers to the hostile holders', counts, `${Math.round(bytes / 1e6)} MB`)
  const of = (kind, what) =>
    median(rounds.filter(each => each.kind === kind).map(each => each[what]))
  const fields = ['latest p50', 'latest p99', 'page p50', 'page p99', 'both p99', 'loop p99', 'MB']
  console.table(
    Object.fromEntries(
      fields.map(field => [field, { quiet: of('quiet', field), hostile: of('hostile', field) }]),
    ),
  )
  const [quiet, hostile] = ['quiet', 'hostile'].map(kind => of(kind, 'both p99'))
  check('p99 of another holder is below twice the quiet one', hostile < 2 * quiet)
  check('the gateway takes at most 400 MB', Math.max(...rounds.map(({ MB }) => MB)) <= 400)
  check(
    'no request of another holder was rejected',
    rounds.every(each => each.statuses.split(':').length === 2),
  )
  gateway.child.disconnect()
  await once(gateway.child, 'exit')
  await log.close()
}

/** Many users at once, each with a token of its own: in the file, or known to the callback. */
async function measureUsers() {
  const USERS = isShort ? 3000 : 100_000
  const TOKENS = isShort ? 1000 : 10_000
  const STREAMS = isShort ? 200 : 1000
  const IDLE = isShort ? 500 : 2000
  const AT_ONCE = 16
  const PER_SECOND = 400
  const log = await startLog()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-users-'))
  const file = join(folder, 'tokens.json')
  const tokens = Object.fromEntries(
    Array.from({ length: TOKENS }, (_, index) => [
      `file-${index}`,
      { sha256: hashOf(`f${index}`) },
    ]),
  )
  const writeTokens = () => writeFileSync(file, JSON.stringify(tokens))
  writeTokens()
  const gateway = await startGateway({ servers: log.servers, tokens: file, users: true })
  const { url, wsURL } = gateway
  await pause(2000)
  await gateway.measure()
  await pause(isShort ? 3000 : 10_000)
  const idle = await gateway.measure()

  let slowest = 0
  let answered = 0
  let unanswered = 0
  const health = setInterval(async () => {
    // A new connection each time, as the probe of a load balancer has it.
    const { status, ms } = await ask(`${url}/health`, undefined, new Agent())
    if (status === 200) answered++
    else unanswered++
    slowest = Math.max(slowest, ms)
  }, 100)

  const sockets = Array.from({ length: IDLE }, () => {
    const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
    return socket.on('error', () => undefined)
  })
  let received = 0
  const streams = []
  for (let index = 0; index < STREAMS; index++) {
    const headers = { authorization: `Bearer ${index % 2 ? `f${index}` : `user-${index}`}` }
    const stream = new WebSocket(`${wsURL}/api/v1/ws?feedIDs=${feeds[index % FEEDS]}`, { headers })
    stream.on('message', () => {
      received++
    })
    await once(stream, 'open')
    streams.push(stream)
  }
  const statuses = {}
  const times = []
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  const began = performance.now()
  let next = 0
  async function run() {
    while (next < USERS) {
      const user = next++
      await pause(began + (1000 * user) / PER_SECOND - performance.now())
      const token = user % 10 === 0 ? `f${(user / 10) % TOKENS}` : `user-${user}`
      // The file is read again meanwhile.
      if (user === Math.floor(USERS / 2)) writeTokens()
      const path = `/api/v1/reports/latest?feedID=${feeds[user % FEEDS]}`
      const { status, ms } = await ask(url + path, token, agent)
      statuses[status] = (statuses[status] ?? 0) + 1
      times.push(ms)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, run))
  const seconds = (performance.now() - began) / 1000
  const busy = await gateway.measure()
  clearInterval(health)
  await pause(500)
  console.table({
    idle: { 'loop p99': idle.p99, 'loop max': idle.max, MB: idle.megabytes },
    busy: { 'loop p99': busy.p99, 'loop max': busy.max, MB: busy.megabytes },
  })
  console.log(
    `${USERS} users and ${TOKENS} tokens of a file: ${JSON.stringify(statuses)}, ${Math.round(USERS / seconds)} per second, p99 ${rounded(percentile(times, 0.99))} ms`,
  )
  const open = streams.filter(({ readyState }) => readyState === WebSocket.OPEN).length
  console.log(
    `${open} of ${STREAMS} streams open, ${received} reports received; ${IDLE} idle sockets, of which the gateway closed ${sockets.filter(({ destroyed }) => destroyed).length}`,
  )
  console.log(
    `/health: ${answered} answered, ${unanswered} not, the slowest in ${rounded(slowest)} ms`,
  )
  check('every user got an answer', statuses[200] === USERS)
  check('/health answered throughout', unanswered === 0 && answered > 10)
  check('no stream was closed', open === STREAMS && received > 0)
  check('p99 of the event loop is below five times the idle one', busy.p99 < 5 * idle.p99)
  for (const stream of streams) stream.terminate()
  for (const socket of sockets) socket.destroy()
  rmSync(folder, { recursive: true })
  gateway.child.disconnect()
  await once(gateway.child, 'exit')
  await log.close()
}

/** A goal that is missed ends the program with 1. */
function check(goal, isMet) {
  console.log(`${isMet ? 'met' : 'MISSED'}: ${goal}`)
  if (!isMet) process.exitCode = 1
}

if (what === 'hostile') await measureHostile()
else await measureUsers()
process.exit()
