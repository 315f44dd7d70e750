// Reports that are missing, and the fetching of them.
import { eachTick, feedsOf, follow } from '../harness/feed.mjs'
import { textOf } from '../harness/tap.mjs'

const pages = '/api/v1/reports/page'
const notSent = { streamed: false }

/** Publishes a report of each of these feeds. */
const publish = (feeds, given) => feeds.map(feed => feed.publish(given))

/** One page of each feed holds, beside what is missing, a report that is older, of another feed, or repeated. */
async function answerBadly(world) {
  const { engine } = world
  const feeds = feedsOf(world, 60)
  await follow(world, feeds)
  await eachTick(5, 100, () => publish(feeds))
  world.begin()
  const missing = [1, 2, 3].map(() => publish(feeds, notSent))
  const [first, second, third] = missing
  const next = publish(feeds)
  const bad = [engine.ledger()[0], third[0], second[2]]
  for (const [index, { feedID }] of feeds.entries()) {
    const start = index === 0 ? [bad[0], first[0]] : [first[index]]
    const rest = [...start, second[index], ...(index === 0 ? [] : [bad[index]]), third[index]]
    const reports = [...rest, next[index]].map(report => JSON.parse(textOf(report)).report)
    const body = JSON.stringify({ reports })
    engine.fail({ status: 200, path: `${pages}?feedID=${feedID}`, body })
  }
  await eachTick(10, 200, () => publish(feeds))
  await world.pause(2000)
}

/** A report that is only stored, and another one of the same observation. */
async function answerTwice(world) {
  const feeds = feedsOf(world, 60)
  const [feed] = feeds
  await follow(world, feeds)
  await eachTick(5, 100, () => feed.publish())
  world.begin()
  const { observationsTimestamp: at, validFromTimestamp: from } = feed.publish(notSent)
  feed.publish({ ...notSent, at, from, price: 10n ** 21n })
  await eachTick(10, 200, () => feed.publish())
  await world.pause(2000)
}

/** Away for 220 reports of each feed, of a network that is ten minutes behind and catches up: 40 a second. */
async function outlast(world) {
  const { engine } = world
  const feeds = feedsOf(world, 600)
  await follow(world, feeds)
  await eachTick(20, 25, () => publish(feeds))
  world.begin()
  await engine.stop()
  await eachTick(220, 25, () => publish(feeds))
  await engine.start()
  world.end()
  await eachTick(280, 25, () => publish(feeds))
}

/** REST has each report 3 s after the stream has it or should have it. */
async function storeLate(world) {
  const feeds = feedsOf(world, 60)
  await follow(world, feeds)
  world.begin()
  await eachTick(12, 300, tick =>
    publish(feeds, { storedAfterMs: 3000, streamed: ![3, 4, 9].includes(tick) }),
  )
  await world.until(() => world.lost().length === 0, 8000)
  await world.pause(1000)
}

/** REST has each report 15 s after the stream, and the stream omits some. */
async function lag(world) {
  const feeds = feedsOf(world, 120)
  await follow(world, feeds)
  world.begin()
  await eachTick(30, 1000, tick =>
    publish(feeds, { storedAfterMs: 15_000, streamed: ![3, 4, 9].includes(tick) }),
  )
  await world.until(() => world.lost().length === 0, 20_000)
  await world.pause(1000)
}

/** The program asks for 300 pages at once, which wait in the client, while the stream omits reports. */
async function starve(world) {
  const feeds = feedsOf(world, 120)
  await follow(world, feeds)
  world.begin()
  const args = [feeds[0].feedID, feeds[0].last, 1]
  const asked = Promise.all(
    Array.from({ length: 300 }, () =>
      world.client.ask('call', { method: 'getReportsPage', args }, 60_000),
    ),
  )
  await eachTick(20, 1000, tick => publish(feeds, { streamed: ![3, 4, 9].includes(tick) }))
  await world.until(() => world.lost().length === 0, 10_000)
  await asked
}

export default [
  {
    row: '23',
    fault: 'for 3 s, the stream omits every report',
    bound: { backfill: 2000, attempts: 0 },
    seconds: 7,
    short: true,
    async run({ engine, begin, end, pause }) {
      begin()
      engine.origins[0].drop(1)
      await pause(3000)
      engine.origins[0].drop(0)
      end()
      await pause(4000)
    },
  },
  {
    row: '24',
    fault: 'the stream omits one report, and REST does not have that report',
    // A gap is announced once the present has passed it, and where reports wider than a second have shown what they name.
    feeds: 3,
    engine: { intervalMs: 2000 },
    bound: { gaps: [1, 1], pages: 4 },
    seconds: 14,
    short: true,
    async run({ engine, feeds, begin, pause }) {
      begin()
      engine.publish(feeds[0], {}, { streamed: false, stored: false })
      await pause(13_000)
    },
  },
  {
    row: '25a',
    fault:
      'the connection is reset, and the first requests for missed reports fail: four with 500, two with 429',
    bound: { recover: 1500, backfill: 15_000 },
    seconds: 16,
    async run({ engine, begin, end, pause }) {
      engine.fail({ status: 500, path: pages, times: 4 })
      engine.fail({ status: 429, path: pages, times: 2, retryAfter: 1 })
      begin()
      engine.disconnect()
      end()
      await pause(15_000)
    },
  },
  {
    row: '25b',
    fault:
      'in an outage, each feed misses more than two pages of reports; live reports arrive while the client fetches these pages',
    engine: { intervalMs: 0 },
    // 40 s of the network pass in each.
    config: { continuity: { maxBackfill: 600_000 } },
    official: { config: {} },
    connect: false,
    bound: { backfill: 5000 },
    seconds: 14,
    run: outlast,
  },
  {
    row: '25c',
    fault:
      "one page of each feed also has an older report, another feed's report, or a repeated report",
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pages: 3 },
    seconds: 6,
    short: true,
    run: answerBadly,
  },
  {
    row: '25d',
    fault: 'a page has two reports of one observation, with different prices',
    feeds: 1,
    engine: { intervalMs: 0 },
    connect: false,
    bound: { conflicts: [1, 1], gaps: 0, pages: 1 },
    seconds: 5,
    run: answerTwice,
  },
  {
    row: '25e',
    fault:
      'REST gets each report 3 s after its publication, and the stream omits three reports of each feed',
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pages: 24 },
    seconds: 10,
    short: true,
    run: storeLate,
  },
  {
    row: '25f',
    fault:
      'REST gets each report 15 s after its publication, and the stream omits three reports of each feed',
    feeds: 3,
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pages: 60 },
    seconds: 55,
    run: lag,
  },
  {
    row: '25g',
    fault:
      'the program asks for 300 pages at once, at most 10 a second, and the stream omits three reports of each feed',
    feeds: 3,
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pages: undefined },
    seconds: 45,
    run: starve,
  },
  {
    row: '25h',
    fault:
      'the network leaves out every fifth report of each feed, and signs and sends this report 7 s later',
    feeds: 3,
    engine: { historyBackfill: { every: 5, afterMs: 7000 } },
    bound: { gaps: 0, attempts: 0 },
    seconds: 25,
    async run({ begin, pause }) {
      begin()
      await pause(24_000)
    },
  },
  {
    row: '26',
    fault:
      'the connection is reset three times, each time while the client fetches missed reports; 60 feeds, at most 10 requests/s',
    feeds: 60,
    engine: { rateLimit: 10 },
    bound: {},
    seconds: 26,
    async run({ engine, begin, end, pause }) {
      begin()
      for (let times = 0; times < 3; times++) {
        engine.disconnect()
        engine.blackhole(true)
        await pause(2500)
        engine.blackhole(false)
        await pause(3000)
      }
      end()
      await pause(10_000)
    },
  },
]
