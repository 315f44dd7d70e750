// Cursors that two streams want, and stores of cursors that do not answer.
import { mkdirSync, rmdirSync } from 'node:fs'
import { eachTick, feedsOf } from '../harness/feed.mjs'

const publishFor = (seconds, feeds) =>
  eachTick(seconds, 1000, () => feeds.map(feed => feed.publish()))

const storeErrors = client =>
  client.of('error').filter(({ value }) => value.code === 'CURSOR_STORE')

/** The next process starts while the one before still runs; that one closes 3 s later. */
async function deployRolling(world) {
  const cursors = `${world.folder()}/cursors.json`
  const feeds = feedsOf(world, 0)
  const before = await world.create({ cursors })
  await world.connect()
  await publishFor(3, feeds)
  world.begin()
  const next = await world.create({ cursors })
  const connecting = world.connect()
  await publishFor(3, feeds)
  await before.ask('close')
  await before.kill()
  await connecting
  world.end()
  await publishFor(3, feeds)
  world.measured.isNamed = storeErrors(next).some(({ value }) =>
    value.message.includes(`process ${before.pid} `),
  )
}

/** A second stream of the process takes the cursors of the first; later the process is killed, and another goes on. */
async function shareByMistake(world) {
  const cursors = `${world.folder()}/cursors.json`
  const feeds = feedsOf(world, 0)
  const before = await world.create({ cursors })
  await world.connect()
  await publishFor(3, feeds)
  world.begin()
  const start = performance.now()
  const error = await before.ask('another', { feeds: world.feeds, cursors })
  world.measured.rejected = performance.now() - start
  world.measured.isNamed = error?.message.includes(`this process ${before.pid} `) === true
  await publishFor(3, feeds)
  await before.kill()
  await publishFor(1, feeds)
  await world.create({ cursors })
  await world.connect()
  world.end()
  await publishFor(3, feeds)
}

/** Milliseconds until the client says that the store does not answer; undefined where it does not. */
function reportedAfter({ client, began }) {
  const [first] = storeErrors(client)
  return first && first.at - began
}

/** No save is ever answered. */
async function hangOnSave(world) {
  const feeds = feedsOf(world, 0)
  await world.create({ cursors: `${world.folder()}/cursors.json`, hangs: { method: 'save' } })
  await world.connect()
  world.begin()
  await publishFor(14, feeds)
  world.measured.reported = reportedAfter(world)
}

/** A process saves cursors, and closes. */
async function closeWithCursors(world) {
  const cursors = `${world.folder()}/cursors.json`
  const feeds = feedsOf(world, 0)
  const before = await world.create({ cursors })
  await world.connect()
  await publishFor(3, feeds)
  await before.ask('close')
  await before.kill()
  return { cursors, feeds }
}

/** A process has saved cursors and closed; the next one waits for them, `ms` or until it gives them up. */
const hangOnLoad = (ms, seconds) =>
  async function hang(world) {
    const { cursors, feeds } = await closeWithCursors(world)
    const client = await world.create({ cursors, hangs: { method: 'load', ms } })
    world.begin()
    const start = performance.now()
    let connectedAt
    const connecting = client.ask('connect', undefined, 90_000).then(() => {
      world.measured.connect = performance.now() - start
      connectedAt = Date.now()
    })
    await publishFor(seconds, feeds)
    await connecting
    // Without cursors the stream begins with now.
    if (ms === undefined)
      world.ignore = ({ publishedAt: at }) => at >= world.began && at <= connectedAt
    world.end()
    await publishFor(3, feeds)
    world.measured.reported = reportedAfter(world)
  }

/** The lock of the file can't be taken for some seconds; later the process is killed, and another goes on. */
async function withoutLock(world) {
  const { cursors, feeds } = await closeWithCursors(world)
  mkdirSync(`${cursors}.lock`)
  world.begin()
  await publishFor(3, feeds)
  const next = await world.create({ cursors })
  await world.connect()
  await publishFor(3, feeds)
  rmdirSync(`${cursors}.lock`)
  await publishFor(5, feeds)
  await next.kill()
  await publishFor(2, feeds)
  await world.create({ cursors })
  await world.connect()
  world.end()
  await publishFor(3, feeds)
  world.measured.isNamed = storeErrors(next).some(({ value }) => value.message.includes('lock'))
}

const common = { feeds: 3, connect: false, engine: { intervalMs: 0 } }

export default [
  {
    ...common,
    row: '44c',
    fault:
      'in a rolling deploy, the new process starts with the cursors of the old process while the old process still runs for 3 s',
    bound: { errors: 1, isNamed: true },
    seconds: 12,
    short: true,
    run: deployRolling,
  },
  {
    ...common,
    row: '44d',
    fault:
      'by mistake, a second stream uses the cursors of the first stream; later the process is killed, and restarted after 1 s',
    official: false,
    bound: { rejected: 5000, isNamed: true, doubled: undefined },
    seconds: 13,
    run: shareByMistake,
  },
  {
    ...common,
    row: '44e',
    fault: 'the cursor store never answers a save',
    official: false,
    bound: { reported: [9000, 12_000], errors: 1 },
    seconds: 16,
    run: hangOnSave,
  },
  {
    ...common,
    row: '44f',
    fault: 'the cursor store takes 15 s to load',
    official: false,
    bound: { reported: [9000, 12_000], errors: 1, connect: 18_000, recover: 2000 },
    seconds: 24,
    run: hangOnLoad(15_000, 15),
  },
  {
    ...common,
    row: '44g',
    fault: 'the cursor store never answers a load, so the stream starts at the present after 70 s',
    official: false,
    bound: { reported: [9000, 12_000], errors: 4, connect: 72_000, recover: 2000 },
    seconds: 82,
    run: hangOnLoad(undefined, 72),
  },
  {
    ...common,
    row: '44h',
    fault:
      'for 6 s, the lock of the file with the cursors can’t be taken; 5 s later the process is killed, and restarted after 2 s',
    official: false,
    bound: { errors: 12, isNamed: true },
    seconds: 26,
    run: withoutLock,
  },
]
