// Reports that could vanish without a word: wrong clocks, cursors that are late, answers that never come.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eachTick, feedsOf } from '../harness/feed.mjs'
import { putGatewayInFront } from '../harness/gateway.mjs'

const pages = '/api/v1/reports/page'

/** Feeds that report once a second, of which every third report is only stored: for so many seconds. */
async function loseEveryThird(world, feeds, seconds) {
  for (let second = 0; second < seconds; second++) {
    for (const feed of feeds) feed.publish({ streamed: second % 3 !== 1 })
    await world.pause(1000)
  }
}

/** The machine's clock is wrong by `before` at first, and by `after` from the fifth second on. */
const steps = (before, after) =>
  async function step(world) {
    await world.create()
    await world.client.ask('skew', { ms: before })
    await world.connect()
    const feeds = feedsOf(world, 0)
    await eachTick(5, 1000, () => feeds.map(feed => feed.publish()))
    world.begin()
    await world.client.ask('skew', { ms: after })
    await loseEveryThird(world, feeds, 12)
    await world.pause(4000)
  }

/** A client that signs nothing, behind a gateway, with a clock that is a minute behind; every third report is lost. */
async function streamUnsigned(world) {
  const cursors = join(world.folder(), 'cursors.json')
  await world.create({ cursors, clock: -60_000 })
  await world.connect()
  const feeds = feedsOf(world, 0)
  await eachTick(5, 1000, () => feeds.map(feed => feed.publish()))
  world.begin()
  await loseEveryThird(world, feeds, 12)
  await world.pause(6000)
  if (!world.isOurs) return
  const saved = JSON.parse(readFileSync(cursors, 'utf8'))
  world.measured.cursorsBehind = Math.max(...feeds.map(({ feedID, last }) => last - saved[feedID]))
}

/** Killed half a second after the first report, with cursors that are saved every 30 s; another goes on. */
async function killEarly(world) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-faults-'))
  world.defer(() => rmSync(folder, { recursive: true, force: true }))
  const cursors = join(folder, 'cursors.json')
  const feeds = feedsOf(world, 0)
  await world.create({ cursors })
  await world.connect()
  for (let kill = 0; kill < 3; kill++) {
    for (const feed of feeds) feed.publish()
    await world.until(() => world.client.reports.length >= feeds.length, 5000)
    await world.pause(500)
    if (kill === 0) world.begin()
    await world.client.kill()
    for (const feed of feeds) feed.publish()
    await world.pause(1000)
    await world.create({ cursors })
    await world.connect()
    await world.pause(3000)
  }
  world.end()
}

/** The cursors of all feeds are an hour ahead, as a wrong clock saved them; the process is killed, and another goes on. */
async function resumeAhead(world) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-faults-'))
  world.defer(() => rmSync(folder, { recursive: true, force: true }))
  const cursors = join(folder, 'cursors.json')
  const hourAhead = Math.floor(Date.now() / 1000) + 3600
  writeFileSync(cursors, JSON.stringify(Object.fromEntries(world.feeds.map(id => [id, hourAhead]))))
  const feeds = feedsOf(world, 0)
  await world.create({ cursors })
  await world.connect()
  await eachTick(3, 1000, () => feeds.map(feed => feed.publish()))
  world.begin()
  await world.client.kill()
  await eachTick(3, 1000, () => feeds.map(feed => feed.publish()))
  await world.create({ cursors })
  await world.connect()
  await eachTick(3, 1000, () => feeds.map(feed => feed.publish()))
  world.end()
  await world.pause(3000)
}

/** Answers of REST that are no answers, for a minute. */
const answerBadly = (failure, seconds) =>
  async function answer(world) {
    const { engine } = world
    const feeds = feedsOf(world, 0)
    await world.create()
    await world.connect()
    await eachTick(5, 1000, () => feeds.map(feed => feed.publish()))
    world.begin()
    const stop = engine.fail({ path: pages, times: Number.POSITIVE_INFINITY, ...failure })
    await loseEveryThird(world, feeds, 3)
    for (let second = 0; second < seconds; second++) {
      for (const feed of feeds) feed.publish()
      await world.pause(1000)
    }
    stop()
    world.end()
    await world.pause(3000)
  }

const common = {
  feeds: 3,
  connect: false,
  engine: { intervalMs: 0 },
}

export default [
  {
    ...common,
    row: '43a',
    fault:
      "the client's clock is an hour ahead, and is set right while the stream omits every third report",
    bound: {},
    seconds: 22,
    run: steps(3_600_000, 0),
  },
  {
    ...common,
    row: '43b',
    fault: "the client's clock steps back by a minute while the stream omits every third report",
    bound: {},
    seconds: 22,
    run: steps(0, -60_000),
  },
  {
    ...common,
    row: '43c',
    fault:
      'a gateway signs for the client, whose clock is a minute behind; the stream omits every third report',
    prepare: world => putGatewayInFront(world),
    bound: { cursorsBehind: 5 },
    seconds: 26,
    run: streamUnsigned,
  },
  {
    ...common,
    row: '43d',
    fault: 'as row 43c, but no answer has a `Date`',
    prepare: world => putGatewayInFront(world, { hasDate: false }),
    bound: { cursorsBehind: 5 },
    seconds: 26,
    run: streamUnsigned,
  },
  {
    ...common,
    row: '44',
    fault:
      'three times, the process is killed half a second after its first report, and restarted; option `saveInterval: 30000`',
    options: { saveInterval: 30_000 },
    official: { options: {} },
    bound: {},
    seconds: 16,
    run: killEarly,
  },
  {
    ...common,
    row: '44b',
    fault:
      'the saved cursors are an hour ahead of the clock; the process is killed, and restarted after 3 s',
    official: { options: {} },
    // Nobody knows how far the reports were taken: those of the last `maxBackfill` come again.
    bound: { doubled: 27 },
    seconds: 16,
    run: resumeAhead,
  },
  {
    ...common,
    row: '45a',
    fault:
      'the service never answers page requests, and the stream omits every third report for 3 s',
    bound: { gaps: 3 },
    seconds: 90,
    run: answerBadly({ status: 200, delayMs: 600_000 }, 76),
  },
  {
    ...common,
    row: '45b',
    feeds: 60,
    fault:
      'as row 45a, with 60 feeds; the service answers the first page request with 429 and `Retry-After: 30`, and later requests with pages',
    bound: { pages: 70 },
    seconds: 50,
    run: answerBadly({ status: 429, retryAfter: 30, times: 1 }, 36),
  },
  {
    ...common,
    row: '45c',
    fault:
      'for 10 s, page requests get 206 and no report; the stream omits every third report for 3 s',
    bound: { gaps: 0 },
    seconds: 24,
    run: answerBadly({ status: 206, body: '{"reports":[]}' }, 10),
  },
]
