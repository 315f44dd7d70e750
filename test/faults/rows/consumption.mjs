// Consumers that are slow, that throw, or that leave.
import { feedsOf } from '../harness/feed.mjs'

const slow = (ms, seconds) =>
  async function beSlow(world) {
    const { engine, pause } = world
    await world.create()
    await world.client.ask('slow', { ms })
    await world.client.ask('iterate', {})
    engine.resume()
    await world.until(() => world.client.reports.length > 0, 10_000)
    world.before = await world.client.ask('sample')
    world.begin()
    await pause(seconds * 1000)
    await world.client.ask('slow', { ms: 0 })
    await pause(3000)
  }

/** A feed reports ten times and never again; the queue drops these reports while its reader works on one for 9 s. */
async function dropAndFallQuiet(world) {
  const { engine, pause, until, measured } = world
  const client = await world.create()
  const [quiet, busy] = feedsOf(world, 120)
  await client.ask('slow', { ms: 9000 })
  await client.ask('iterate', {})
  await until(() => engine.connections > 0)
  busy.publish()
  await until(() => client.reports.length > 0)
  world.begin()
  for (let count = 0; count < 10; count++) quiet.publish()
  for (let count = 0; count < 80; count++) busy.publish()
  await pause(8000)
  const last = client.of('gap').findLast(({ value }) => value.feedID === quiet.feedID)
  measured.reported = last && last.at - world.began
  await client.ask('slow', { ms: 0 })
  await pause(3000)
}

export default [
  {
    row: '32a',
    fault:
      "for 12 s, 100 reports/s arrive, and the program takes 100 ms for each (stands for 1 s each, for 60 s); option `overflow: 'block'`",
    feeds: 100,
    connect: false,
    options: { queue: 256 },
    official: { options: {} },
    bound: { attempts: 0 },
    seconds: 16,
    run: slow(100, 12),
  },
  {
    row: '32b',
    fault: "as row 32a, with `overflow: 'drop-oldest'` and `queue: 64`",
    feeds: 100,
    connect: false,
    options: { queue: 64, overflow: 'drop-oldest' },
    official: false,
    bound: { gaps: [1, 1000], attempts: 0 },
    seconds: 16,
    run: slow(100, 12),
  },
  {
    row: '32c',
    fault: "as row 32a, with `overflow: 'latest-per-feed'` and `queue: 64`",
    feeds: 100,
    connect: false,
    options: { queue: 64, overflow: 'latest-per-feed' },
    official: false,
    bound: { gaps: [1, 1000], attempts: 0 },
    seconds: 16,
    run: slow(100, 12),
  },
  {
    row: '32d',
    fault:
      "while the program takes 9 s for one report, 10 reports of one feed and then 80 of another feed arrive; options `overflow: 'drop-oldest'`, `queue: 64`",
    feeds: 2,
    connect: false,
    engine: { intervalMs: 0 },
    options: { queue: 64, overflow: 'drop-oldest' },
    official: false,
    bound: { reported: [3000, 6000], gaps: [2, 20], attempts: 0 },
    seconds: 13,
    short: true,
    run: dropAndFallQuiet,
  },
  {
    row: '33a',
    fault: 'the `report` handler throws',
    client: { throwing: 'report' },
    bound: { errors: [1, 1000], isNamed: true },
    seconds: 2,
    short: true,
    async run({ client, measured, pause }) {
      await pause(2000)
      measured.isNamed = client.of('error').every(({ value }) => value.message === 'mine')
    },
  },
  {
    row: '33b',
    fault: 'the `report` handler returns a promise that rejects',
    client: { throwing: 'promise' },
    bound: { errors: [1, 1000] },
    seconds: 2,
    run: ({ pause }) => pause(2000),
  },
  {
    row: '33c',
    fault: 'a `connectionStatusCallback` throws',
    client: { throwing: 'status' },
    bound: {},
    seconds: 2,
    short: true,
    run: ({ pause }) => pause(2000),
  },
  {
    row: '33d',
    fault: 'the program leaves its loop over the reports, and never closes the stream',
    connect: false,
    official: false,
    bound: { connections: 0, lost: undefined },
    seconds: 4,
    async run({ create, engine, measured, client, pause, ...world }) {
      const made = await create()
      await made.ask('iterate', { atMost: 5 })
      engine.resume()
      await world.until(() => made.of('left').length > 0)
      await pause(1500)
      measured.connections = engine.connections
    },
  },
]
