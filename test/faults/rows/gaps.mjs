// Reports that are missing, and the fetching of them.
const pages = '/api/v1/reports/page'

export default [
  {
    row: '23',
    fault: 'the stream leaves out every report for 1 s',
    engine: { intervalMs: 100 },
    bound: { backfill: 2000, attempts: 0 },
    seconds: 5,
    short: true,
    async run({ engine, begin, end, pause }) {
      begin()
      engine.origins[0].drop(1)
      await pause(1000)
      engine.origins[0].drop(0)
      end()
      await pause(4000)
    },
  },
  {
    row: '24',
    fault: 'a report that neither the stream nor REST has',
    bound: { gaps: [1, 1], pages: 3 },
    seconds: 5,
    short: true,
    async run({ engine, feeds, begin, pause }) {
      begin()
      engine.publish(feeds[0], {}, { streamed: false, stored: false })
      await pause(5000)
    },
  },
  {
    row: '25a',
    fault: 'a reset, and the first requests for what is missing fail: 500 four times, 429 twice',
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
    fault: 'an outage of more than two pages of each feed, while live reports come',
    engine: { intervalMs: 25 },
    // Times run ahead of the clock forty times as fast.
    config: { continuity: { maxBackfill: 3_600_000 } },
    official: { config: {} },
    bound: { backfill: 5000 },
    seconds: 13,
    async run({ engine, begin, end, pause }) {
      begin()
      await engine.stop()
      await pause(5500)
      await engine.start()
      end()
      await pause(7000)
    },
  },
  {
    row: '26',
    fault: 'three resets while what the one before cost is being fetched; 60 feeds, 10 requests/s',
    feeds: 60,
    engine: { intervalMs: 1000, rateLimit: 10 },
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
