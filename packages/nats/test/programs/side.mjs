// One side of a comparison, in a process of its own.
import { spawn } from 'node:child_process'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { startDataEngine } from '@sluice/engine'
import { createRelay, natsWire, workerPreset } from '@sluice/nats'
import { createClient } from 'sluice'

const {
  side,
  servers,
  count,
  round = 0,
  feeds: feedCount = 100,
  begin,
} = JSON.parse(process.argv[2])
const connection = await connect({ servers })
const feeds = Array.from(
  { length: feedCount },
  (_, index) => `0x1003${index.toString(16).padStart(60, '0')}`,
)
const prefix = 'sluice'
const subjectOf = feedID => `${prefix}.3.${feedID}`
/** Messages that may be on their way. */
const AHEAD = 1024

/** A signed report, to be varied: nobody verifies it here. */
async function sample() {
  const engine = await startDataEngine({ feeds: [feeds[0]], intervalMs: 0, history: 0, f: 5 })
  const { fullReport } = engine.publish(feeds[0])
  await engine.close()
  return fullReport
}

/** A report of a feed and a time that follows on the one before it. */
function createMaker(fullReport) {
  const word = value => value.toString(16).padStart(64, '0')
  const at = 2 + 64 * 8
  return (feedID, from, to) => {
    const head = `${feedID.slice(2)}${word(from)}${word(to)}`
    const bytes = `${fullReport.slice(0, at)}${head}${fullReport.slice(at + 3 * 64)}`
    return {
      feedID,
      fullReport: bytes,
      validFromTimestamp: from,
      observationsTimestamp: to,
    }
  }
}

async function createStream() {
  const manager = await jetstreamManager(connection)
  await manager.streams.add({
    name: 'SLUICE',
    subjects: [`${prefix}.*.*`],
    allow_direct: true,
    duplicate_window: 600e9,
  })
}

const cpuOf = start => {
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1e6
}

/** The reports of a comparison, as JSON text. */
async function makeReports() {
  const make = createMaker(await sample())
  const begin =
    Date.now() -
    count +
    (side.endsWith('publish') ? 1_000_000 * round : 0) +
    (side.startsWith('relay') ? 500_000 : 0)
  return Array.from({ length: count }, (_, index) => {
    const time = begin + Math.floor(index / feedCount)
    return make(feeds[index % feedCount], time, time)
  })
}

async function publishAll(frames) {
  const client = jetstream(connection, { timeout: 60_000 })
  let pending = 0
  let sent = 0
  const { promise, resolve } = Promise.withResolvers?.() ?? withResolvers()
  function next() {
    while (pending < AHEAD && sent < frames.length) {
      const { subject, data, msgID } = frames[sent++]
      pending++
      void client.publish(subject, data, msgID === undefined ? {} : { msgID }).then(() => {
        pending--
        if (sent === frames.length && pending === 0) resolve()
        else next()
      })
    }
  }
  next()
  await promise
}

function withResolvers() {
  let resolve
  const promise = new Promise(settle => {
    resolve = settle
  })
  return { promise, resolve }
}

const encoder = new TextEncoder()
const messageOf = report => ({
  subject: subjectOf(report.feedID),
  data: encoder.encode(JSON.stringify({ report })),
  msgID: `${report.feedID}-${report.observationsTimestamp}-${'a'.repeat(32)}`,
})

const sides = {
  async 'bare publish'() {
    if (round === 0) await createStream()
    const messages = (await makeReports()).map(messageOf)
    const start = process.cpuUsage()
    await publishAll(messages)
    return { perSecond: count / cpuOf(start) }
  },
  async 'relay publish'() {
    // A client without a wire: what is measured is what the relay does with reports.
    const reports = await makeReports()
    const messages = reports.map(report => encoder.encode(JSON.stringify({ report })))
    let deliver
    const client = createClient({
      endpoint: 'https://nowhere.invalid',
      wsEndpoint: 'wss://nowhere.invalid',
      plugins: [],
      async connect(_upgrade, events) {
        setImmediate(() => events.opened())
        deliver = events.message
        let isPaused = false
        let at = 0
        function send() {
          while (!isPaused && at < messages.length) events.message(messages[at++])
        }
        setTimeout(() => {
          start = process.cpuUsage()
          send()
        }, 100)
        return {
          pause() {
            isPaused = true
          },
          resume() {
            isPaused = false
            setImmediate(send)
          },
          close: () => events.ended(1000),
          terminate: () => events.ended(1006),
        }
      },
    })
    let start
    const cursors = { load: async () => ({}), save: async () => undefined }
    const relay = await createRelay({ client, connection, feedIDs: feeds, cursors })
    while (relay.getMetrics().stored < count) await new Promise(done => setTimeout(done, 20))
    const perSecond = count / cpuOf(start)
    await relay.close()
    await client.close()
    return { perSecond, deliver: deliver !== undefined }
  },
  create: createStream,
  async fill() {
    await publishAll(
      (await makeReports()).map(({ ...report }) => ({ ...messageOf(report), msgID: undefined })),
    )
    return {}
  },
  'bare consume': () => consumeBare(() => undefined),
  'bare consume and JSON.parse': () => {
    const decoder = new TextDecoder()
    return consumeBare(data => JSON.parse(decoder.decode(data)))
  },
  async worker() {
    const client = createClient({ ...natsWire(connection), plugins: workerPreset() })
    const stream = client.createStream(feeds, { queue: 0 })
    let received = 0
    const { promise, resolve } = withResolvers()
    stream.on('report', () => {
      if (++received === count) resolve()
    })
    await stream.connect()
    fillElsewhere()
    const start = process.cpuUsage()
    await promise
    const perSecond = count / cpuOf(start)
    await client.close()
    return { perSecond }
  },
  async 'fill hour'() {
    await createStream()
    const make = createMaker(await sample())
    const now = Date.now()
    const step = 2000
    for (let index = 0; index < count / feedCount; index++) {
      const to = now - 3_600_000 + step * (index + 1)
      const messages = feeds.map(feedID => ({
        ...messageOf(make(feedID, to - step + 1, to)),
        msgID: undefined,
      }))
      await publishAll(messages)
    }
    return { begin: now - 3_600_000 }
  },
  async 'catch up'() {
    const cursors = {
      load: async () => Object.fromEntries(feeds.map(feedID => [feedID, begin])),
      save: async () => undefined,
    }
    const wire = natsWire(connection)
    let pages = 0
    const client = createClient({
      ...wire,
      fetch(...request) {
        pages++
        return wire.fetch(...request)
      },
      plugins: workerPreset(),
    })
    const stream = client.createStream(feeds, { cursors })
    let received = 0
    const { promise, resolve } = withResolvers()
    stream.on('report', () => {
      if (++received === 360_000) resolve()
    })
    stream.on('error', error => console.error(error.message))
    stream.once('gap', gap => console.error('gap', gap))
    const start = process.cpuUsage()
    const started = performance.now()
    await stream.connect()
    const timer = setTimeout(resolve, 180_000)
    await promise
    clearTimeout(timer)
    const seconds = (performance.now() - started) / 1000
    const cpu = cpuOf(start)
    await client.close()
    return { reports: received, seconds, cpu, pages }
  },
}

/** Has another process publish the reports, so that what is measured here is reading them. */
function fillElsewhere() {
  const setting = JSON.stringify({ servers, count, round, feeds: feedCount, side: 'fill' })
  spawn(process.execPath, [process.argv[1], setting], { stdio: ['ignore', 'ignore', 'inherit'] })
}

async function consumeBare(look) {
  const client = jetstream(connection)
  const consumer = await client.consumers.get('SLUICE', {
    filter_subjects: feeds.map(subjectOf),
    deliver_policy: 'new',
  })
  const messages = await consumer.consume({ max_messages: 1000 })
  fillElsewhere()
  const start = process.cpuUsage()
  let received = 0
  for await (const { data } of messages) {
    look(data)
    if (++received === count) break
  }
  return { perSecond: count / cpuOf(start) }
}

const figures = (await sides[side]()) ?? {}
console.log(JSON.stringify(figures))
await connection.close()
process.exit(0)
