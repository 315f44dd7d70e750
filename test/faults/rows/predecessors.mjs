// Reports that name another predecessor than the one before them, or none that can be known.
import { eachTick, feedsOf, follow } from '../harness/feed.mjs'

/** Ten seconds in which a look may be repeated, and a gap announced, and some more; in ms. */
const SETTLED = 12_000
const notSent = { streamed: false }

/** Seven reports a feed, two of which are only stored, and then what `next` publishes. */
const afterTwoOnlyStored = next =>
  async function publishThem(world) {
    const feeds = feedsOf(world, 60)
    await follow(world, feeds)
    world.begin()
    await eachTick(20, 200, tick => {
      if (tick === 6) next.before?.(world)
      for (const [index, feed] of feeds.entries())
        if (tick === 6) feed.publish(next.fields(feed, index))
        else feed.publish(tick === 4 || tick === 5 ? notSent : {})
    })
    await world.pause(SETTLED)
  }

export default [
  {
    row: '41a',
    fault:
      'the stream omits two reports, and the range of the next report begins before the omitted reports',
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pages: 9 },
    seconds: 17,
    run: afterTwoOnlyStored({ fields: ({ last }) => ({ from: last - 3 }) }),
  },
  {
    row: '41b',
    fault:
      "after two omitted reports, another network takes over; its first report's range begins before the omitted reports, at its `observationsTimestamp`, or 300 s before",
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pages: 9 },
    seconds: 17,
    run: afterTwoOnlyStored({
      before: ({ engine }) => engine.rotate(),
      fields: ({ last }, index) => ({ from: [last - 3, last + 1, last - 298][index] }),
    }),
  },
  {
    row: '41c',
    fault:
      'two networks send reports in turn; each report names the previous report of its own network; the stream omits every 7th report',
    feeds: 2,
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pagesInTenSeconds: 1 },
    seconds: 28,
    async run(world) {
      const { engine } = world
      const feeds = feedsOf(world, 80)
      await follow(world, feeds)
      const networks = [engine.network, engine.rotate()]
      world.begin()
      await eachTick(60, 200, tick => {
        for (const feed of feeds) {
          const from = tick === 0 ? feed.last + 1 : feed.last
          feed.publish({ from, network: networks[tick % 2], streamed: tick % 7 !== 5 })
        }
      })
      await world.pause(SETTLED)
    },
  },
  {
    row: '41d',
    fault:
      'three feeds with 300 s ranges (the maximum) have reports at intervals of 1, 300 and 1000 s; the stream omits reports of the first two',
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pagesInTenSeconds: 1 },
    seconds: 20,
    async run(world) {
      const feeds = feedsOf(world, [30, 20 * 300, 20 * 1000])
      await follow(world, feeds)
      world.begin()
      await eachTick(15, 400, tick => {
        const [everySecond, every300s, every1000s] = feeds
        const valid = at => ({ at, from: at - 299 })
        everySecond.publish({ ...valid(everySecond.last + 1), streamed: tick % 5 !== 3 })
        every300s.publish({ ...valid(every300s.last + 300), streamed: tick !== 8 })
        every1000s.publish(valid(every1000s.last + 1000))
      })
      await world.pause(SETTLED)
    },
  },
  {
    row: '41e',
    fault:
      'one feed has a report every 2 s, the range of each report covers only its `observationsTimestamp`, and the stream omits every 5th report',
    feeds: 1,
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pagesInTenSeconds: 1 },
    seconds: 50,
    async run(world) {
      const feeds = feedsOf(world, 160)
      const [feed] = feeds
      await follow(world, feeds)
      await eachTick(70, 500, tick => {
        // The first ranges are asked for as named ones, until it shows that the reports name nothing.
        if (tick === 40) world.begin()
        const at = feed.last + 2
        feed.publish({ at, from: at, streamed: tick % 5 !== 3 })
      })
      await world.pause(SETTLED)
    },
  },
]
