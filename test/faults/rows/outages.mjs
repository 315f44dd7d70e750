// A service, or one origin of it, that is away for a while.
import { eachTick, feedsOf, follow } from '../harness/feed.mjs'

const away = seconds =>
  async function beAway({ engine, begin, end, pause }, after = 10_000) {
    begin()
    await engine.stop()
    await pause(seconds * 1000)
    await engine.start()
    end()
    await pause(after)
  }

/** Ten minutes after the report before, by its date. */
const slowly = ({ last }, index) => {
  const at = last + 600
  return { at, from: [last + 1, at - 299, at][index] }
}

async function missOne(world) {
  const { engine, begin, end, pause } = world
  const feeds = feedsOf(world, 1800)
  await follow(world, feeds)
  await eachTick(2, 300, () =>
    feeds.forEach((feed, index) => void feed.publish(slowly(feed, index))),
  )
  begin()
  engine.origins[0].refuse(503)
  engine.disconnect()
  await pause(1500)
  feeds.forEach((feed, index) => void feed.publish(slowly(feed, index)))
  await pause(1500)
  engine.origins[0].refuse(undefined)
  end()
  await pause(10_000)
}

export default [
  {
    row: '4a',
    fault: 'the service is down for 4 s',
    bound: { recover: 8000, backfill: 2500, attempts: 4 },
    seconds: 14,
    run: world => away(4)(world),
  },
  {
    row: '4b',
    fault:
      'the service is down for 60 s (stands for outages of 10 min and 6 h); option `maxReconnectAttempts: Infinity`',
    feeds: 20,
    engine: { rateLimit: 10 },
    options: { maxReconnectAttempts: Number.POSITIVE_INFINITY },
    bound: { recover: 11_000, backfill: 10_000, attempts: 16 },
    seconds: 80,
    run: world => away(60)(world, 20_000),
  },
  {
    row: '4c',
    fault:
      'the service is down for 5 s, and after that accepts only 10 requests/s; 200 feeds over two connections',
    feeds: 200,
    engine: { rateLimit: 10 },
    bound: { recover: 8000, backfill: 60_000, attempts: 8 },
    seconds: 45,
    short: true,
    async run(world) {
      // The attempt that succeeds may come 8 s after the service is back.
      await away(5)(world, 9000)
      world.engine.pause()
      // At ten requests a second 200 feeds take their time.
      await world.until(() => world.lost().length === 0, world.isOurs ? 60_000 : 2000)
    },
  },
  {
    row: '4d',
    fault: 'the service goes down and does not come back; option `reconnectInterval: 200`',
    options: { reconnectInterval: 200 },
    bound: { attempts: 5, errors: [1, 1], outages: [1, 1], lost: undefined },
    seconds: 9,
    short: true,
    async run({ engine, client, measured, begin, pause }) {
      begin()
      await engine.stop()
      await pause(9000)
      measured.outages = client.of('disconnected').length
    },
  },
  {
    row: '4e',
    fault:
      'three feeds with three kinds of range have a report every ten minutes; each feed misses one report in an outage of 3 s',
    engine: { intervalMs: 0 },
    connect: false,
    bound: { gaps: 0, pages: 24 },
    seconds: 15,
    run: missOne,
  },
  {
    row: '4f',
    fault: 'the service is down for 6 s while the client streams 300 feeds',
    feeds: 300,
    bound: { recover: 8000, backfill: 18_000, requests: 250 },
    seconds: 35,
    async run(world) {
      await away(6)(world, 20_000)
    },
  },
  {
    row: '5a',
    fault: 'one of two origins is down for 30 s, and a load balancer answers 502 for this origin',
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { attempts: 8, pages: 0 },
    seconds: 30,
    short: true,
    run: deadFor(30),
  },
  {
    row: '5b',
    fault: 'one of two origins is down for 10 min, and its port refuses connections',
    feeds: 3,
    engine: { origins: 2 },
    config: { haMode: true },
    prepare({ config, engine }) {
      config.wsEndpoint = engine.origins.map(({ wsEndpoint }) => wsEndpoint).join(',')
    },
    bound: { attempts: 60, pages: 0 },
    seconds: 600,
    run: deadFor(600),
  },
]

function deadFor(seconds) {
  return async function beDead({ engine, begin, pause }) {
    begin()
    await engine.origins[1].kill()
    await pause(seconds * 1000)
  }
}
