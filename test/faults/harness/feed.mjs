// Feeds whose every report a row publishes itself, dated as it likes.
import { pause, until } from './waiting.mjs'

/** The present, in the unit of a feed. */
export const presentOf = feedID => Math.floor(Date.now() / (feedID.startsWith('0x1') ? 1 : 1000))

/** A feed whose next report comes after the time `last`. */
function feedFrom({ engine }, feedID, last) {
  const feed = {
    feedID,
    /** The time of the newest report, from which the next one is valid. */
    last,
    /** Publishes a report; options that say nothing else make the next one, a unit later. */
    publish({ at = feed.last + 1, from = feed.last + 1, price, ...options } = {}) {
      const times = { validFromTimestamp: from, observationsTimestamp: at }
      feed.last = at
      return engine.publish(feedID, price === undefined ? times : { ...times, price }, options)
    },
    /** Publishes a report of a clock that is wrong, and goes on as if it had not been. */
    publishWrong(given) {
      const { last } = feed
      const report = feed.publish(given)
      feed.last = last
      return report
    },
  }
  return feed
}

/** The feeds of a world, none of which has a report yet; the first is dated `ago` units before now. */
export const feedsOf = (world, ago) =>
  world.feeds.map((feedID, index) => {
    const units = typeof ago === 'number' ? ago : ago[index]
    return feedFrom(world, feedID, presentOf(feedID) - units - 1)
  })

/** Starts and connects a client, publishes a report of each feed, and waits until it has them. */
export async function follow(world, feeds, given) {
  const client = await world.create(given)
  await world.connect()
  await until(() => world.engine.connections >= world.engine.origins.length, 5000)
  world.followed ??= world.engine.ledger().length
  for (const feed of feeds) feed.publish()
  const received = () => new Set(client.reports.map(({ feedID }) => feedID)).size
  await until(() => received() >= feeds.length, 8000)
  world.before = await client.ask('sample')
}

/** Does something so many times, `ms` apart however long it takes. */
export async function eachTick(times, ms, act) {
  const start = performance.now()
  for (let tick = 0; tick < times; tick++) {
    await act(tick)
    await pause(Math.max(0, start + (tick + 1) * ms - performance.now()))
  }
}
