// A network whose clock is wrong for a report, for some, or for good.
import { eachTick, feedsOf, follow, presentOf } from '../harness/feed.mjs'

/** So many reports in a row are so many seconds ahead. */
const runs = [3600, 360, 240, 10].flatMap(ahead => [1, 2, 3].map(reports => ({ ahead, reports })))
/** Of so many reports ahead, this one is only stored. */
const onlyStored = { 1: undefined, 2: 1, 3: 1 }

/** A second a tick: each feed runs ahead from the fifth report on, and comes back. What is around that is only stored. */
async function runAhead(world, settled) {
  const feeds = feedsOf(world, 0)
  const wrong = feeds.map(() => [])
  await follow(world, feeds)
  world.begin()
  // What is only stored, and dated minutes ahead, is asked for once the present reaches it.
  const last = presentOf(feeds[0].feedID) + 60
  world.ignore = ({ streamed, observationsTimestamp }) => !streamed && observationsTimestamp > last
  const start = presentOf(feeds[0].feedID)
  await eachTick(19, 1000, tick => {
    const at = start + tick + 1
    for (const [index, feed] of feeds.entries()) {
      const { ahead, reports } = runs[index]
      const step = tick - 4
      if (step >= 0 && step < reports) {
        const streamed = step !== onlyStored[reports]
        const from = (wrong[index].at(-1) ?? feed.last) + 1
        wrong[index].push(at + ahead)
        feed.publishWrong({ at: at + ahead, from, streamed })
        continue
      }
      // No observation is made twice.
      if (wrong[index].includes(at)) continue
      const isAround = tick === 3 || step === reports || tick === 10
      feed.publish({ at, streamed: !isAround })
    }
  })
  await world.pause(settled)
}

/** The first reports are an hour ahead; of those that are right some are only stored. */
async function beginAhead(world, settled) {
  const feeds = feedsOf(world, -3600)
  await follow(world, feeds)
  world.begin()
  const start = presentOf(feeds[0].feedID)
  await eachTick(10, 1000, tick => {
    for (const [index, feed] of feeds.entries()) {
      const at = start + tick + 1
      if (tick === 0 && index === 1) feed.publish()
      else if (at < feed.last) feed.publish({ at, from: at })
      else feed.publish({ at, streamed: tick !== 4 && tick !== 5 })
    }
  })
  await world.pause(settled)
}

const inOrder = { config: { continuity: { order: 'sorted' } }, official: { config: {} } }

export default [
  {
    row: '42a',
    fault:
      '12 feeds have one to three reports dated 1 h, 6 min, 4 min or 10 s ahead; the stream omits reports beside these reports',
    feeds: runs.length,
    engine: { intervalMs: 0 },
    connect: false,
    // Ten a feed.
    bound: { gaps: 0, pages: 120 },
    seconds: 33,
    run: world => runAhead(world, 12_000),
  },
  {
    row: '42b',
    fault: "as row 42a, with `order: 'sorted'`",
    feeds: runs.length,
    engine: { intervalMs: 0 },
    ...inOrder,
    connect: false,
    // A clock is granted 5 s: of three feeds so much comes after a report that is 10 s ahead. Twelve requests a feed.
    bound: { gaps: 0, disordered: 15, pages: 144 },
    seconds: 55,
    run: world => runAhead(world, 34_000),
  },
  {
    row: '42c',
    fault:
      'the first report of one feed, and the first two reports of a second feed, are dated 1 h ahead; the stream omits later reports',
    feeds: 2,
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pages: 10 },
    seconds: 24,
    run: world => beginAhead(world, 12_000),
  },
  {
    row: '42d',
    fault: "as row 42c, with `order: 'sorted'`",
    feeds: 2,
    engine: { intervalMs: 0 },
    ...inOrder,
    connect: false,
    bound: { gaps: 0, disordered: 0, pages: 10 },
    seconds: 42,
    run: world => beginAhead(world, 12_000),
  },
  {
    row: '42e',
    fault: "the network's clock goes back by an hour for good, and the stream omits some reports",
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pages: 15 },
    seconds: 24,
    async run(world) {
      const feeds = feedsOf(world, 60)
      await follow(world, feeds)
      world.begin()
      await eachTick(20, 500, tick => {
        for (const feed of feeds) {
          if (tick === 5) feed.last -= 3600
          const from = tick === 5 ? feed.last : feed.last + 1
          feed.publish({ from, streamed: ![3, 9, 10].includes(tick) })
        }
      })
      await world.pause(12_000)
    },
  },
  {
    row: '42f',
    fault:
      'one or two reports of each feed, possibly its last reports, are dated 1 h ahead; then the process is killed and restarted',
    engine: { intervalMs: 0 },
    connect: false,
    // The reports that are ahead may come again: the cursors stand before them.
    bound: { gaps: 0, doubled: 4 },
    seconds: 12,
    async run(world) {
      const { pause } = world
      const cursors = `${world.folder()}/cursors.json`
      const feeds = feedsOf(world, 20)
      await follow(world, feeds, { cursors })
      const publish = given => feeds.forEach(feed => void feed.publish(given))
      await eachTick(3, 200, () => publish())
      const ahead = feeds.map(feed => feed.publishWrong({ at: feed.last + 3600 }))
      const [first, , third] = feeds
      await eachTick(2, 200, () => first.publish())
      const { observationsTimestamp } = ahead[2]
      third.publishWrong({ at: observationsTimestamp + 1, from: observationsTimestamp + 1 })
      // The cursors are saved once a second.
      await pause(2000)
      await world.client.kill()
      world.begin()
      await eachTick(4, 500, () => publish())
      await world.create({ cursors })
      await world.connect()
      await eachTick(4, 500, () => publish())
      await pause(5000)
    },
  },
]
