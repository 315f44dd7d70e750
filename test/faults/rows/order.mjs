// Reports that come twice, late, or in another order.
import { countDisordered } from '../harness/figures.mjs'

const beLate =
  seconds =>
  async ({ engine, begin, end, pause }) => {
    const [lossy, late] = engine.origins
    begin()
    lossy.drop(0.4)
    late.delay(1500)
    late.reorder(6)
    await pause(seconds * 1000)
    lossy.drop(0)
    late.delay(0)
    late.reorder(0)
    end()
    await pause(2000)
  }

/** The service is away for 3 s, so that older reports are fetched after a newer one has come. */
async function comeBack(world) {
  const { engine, client, clients, isOurs, measured, begin, end, pause } = world
  begin()
  engine.origins[0].refuse(503)
  engine.disconnect()
  await pause(3000)
  engine.origins[0].refuse(undefined)
  end()
  await pause(8000)
  if (!isOurs) return
  const { outOfOrder } = await client.ask('metrics')
  measured.miscounted = Math.abs(outOfOrder - countDisordered(clients))
}

const recovering = {
  feeds: 6,
  options: { reconnectInterval: 200, maxReconnectAttempts: Number.POSITIVE_INFINITY },
  seconds: 13,
  run: comeBack,
}

export default [
  {
    row: '20a',
    fault: 'each of two origins sends every report twice',
    feeds: 30,
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { pages: 0 },
    seconds: 4,
    async run({ engine, pause }) {
      for (const origin of engine.origins) origin.duplicate(1)
      await pause(4000)
    },
  },
  {
    row: '20b',
    fault: 'two reports of one observation arrive with different prices',
    bound: { conflicts: [1, 1], gaps: 0 },
    seconds: 3,
    async run({ engine, feeds, pause }) {
      engine.pause()
      const [feed] = feeds
      const { observationsTimestamp } = engine.publish(feed, { price: 10n ** 20n })
      engine.publish(feed, { observationsTimestamp, price: 10n ** 21n }, { stored: false })
      await pause(500)
      engine.resume()
      await pause(2000)
    },
  },
  {
    row: '21a',
    fault:
      'one of two origins drops 40 % of the reports; the other origin delays reports by 1.5 s and reorders them',
    feeds: 30,
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { disordered: undefined },
    seconds: 10,
    short: true,
    run: beLate(8),
  },
  {
    row: '21b',
    fault: "as row 21a, with 6 feeds and `order: 'sorted'`",
    feeds: 6,
    // What is dated later than the present waits in sorted order.
    engine: { origins: 2 },
    config: { haMode: true, continuity: { order: 'sorted' } },
    official: { config: { haMode: true } },
    bound: { disordered: 0 },
    seconds: 22,
    run: beLate(20),
  },
  {
    ...recovering,
    row: '21f',
    fault: 'the service is down for 3 s, and the missed reports arrive after newer reports',
    bound: { disordered: [1, 100], miscounted: 0 },
  },
  {
    ...recovering,
    row: '21g',
    fault: "as row 21f, with `order: 'newest'`",
    config: { continuity: { order: 'newest' } },
    official: { config: {} },
    bound: { disordered: 0, lost: undefined, miscounted: 0, recover: 2500 },
  },
]
