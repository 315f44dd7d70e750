// Origins that are behind, and origins that send again what they have sent.
import { eachTick, feedsOf, follow } from '../harness/feed.mjs'
import { textOf } from '../harness/tap.mjs'

/** The last of several origins is so many reports behind; they are dated a second apart. */
const behind = (reports, origins) => ({
  feeds: 2,
  engine: { intervalMs: 0, origins },
  config: { haMode: true },
  connect: false,
  async run(world) {
    const { engine } = world
    const feeds = feedsOf(world, 2 * reports + 1500)
    engine.origins.at(-1).lag(reports)
    for (let count = 0; count < reports + 10; count++) for (const feed of feeds) feed.publish()
    await follow(world, feeds)
    world.begin()
    await eachTick((reports + 800) / 4, 20, () => {
      for (let count = 0; count < 4; count++) for (const feed of feeds) feed.publish()
    })
    world.end()
    await world.pause(2000)
  },
})

/** A reset, after which the service sends the latest reports again. */
const replayed = reports => ({
  feeds: 2,
  engine: { intervalMs: 0 },
  connect: false,
  async run(world) {
    const { engine, until, pause } = world
    const feeds = feedsOf(world, reports + 200)
    await follow(world, feeds)
    await eachTick((reports + 100) / 4, 12, () => {
      for (let count = 0; count < 4; count++) for (const feed of feeds) feed.publish()
    })
    world.begin()
    engine.disconnect()
    await until(() => engine.connections === 0)
    await until(() => engine.connections === 1)
    world.end()
    for (const report of engine.ledger().slice(-feeds.length * reports))
      engine.send(textOf(report), report.feedID)
    await eachTick(10, 100, () => {
      for (const feed of feeds) feed.publish()
    })
    await pause(1000)
  },
})

export default [
  {
    row: '20c',
    fault:
      'the connection is reset; after that, the service sends the latest 600 reports of each feed again',
    ...replayed(600),
    bound: { doubled: 0, pages: 4 },
    seconds: 8,
    short: true,
  },
  {
    row: '20d',
    fault:
      'the connection is reset; after that, the service sends the latest 1200 reports of each feed again',
    ...replayed(1200),
    bound: { doubled: 0, pages: 4 },
    seconds: 10,
  },
  {
    row: '21c',
    fault: 'one of three origins is 300 reports behind the others',
    ...behind(300, 3),
    // Eight a feed: three pages of what its first report seems to miss, and what comes after the newest.
    bound: { doubled: 0, pages: 16 },
    seconds: 12,
    short: true,
  },
  {
    row: '21d',
    fault:
      'one of two origins is 400 reports behind the other; `continuity` looks back over fewer than 400 reports',
    ...behind(400, 2),
    // What the slow origin is about to send may be announced, where its first report is the first of all.
    bound: { doubled: 0, gaps: 2, falseGaps: undefined, pages: 16 },
    seconds: 12,
  },
  {
    row: '21e',
    fault: 'one of two origins is 1200 reports (20 min) behind the other',
    ...behind(1200, 2),
    // What the slow origin is about to send may be announced, where its first report is the first of all.
    bound: { doubled: 0, gaps: 2, falseGaps: undefined, pages: 16 },
    seconds: 16,
  },
]
