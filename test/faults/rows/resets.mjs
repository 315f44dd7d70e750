// Connections that are reset while reports flow.
export default [
  {
    row: '1',
    fault: 'one of two origins resets its connection',
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { attempts: 2, pages: 0 },
    seconds: 4,
    async run({ engine, begin, end, pause }) {
      begin()
      engine.origins[0].disconnect()
      end()
      await pause(4000)
    },
  },
  {
    row: '2a',
    fault: 'the only connection is reset; option `reconnectInterval: 200`',
    feeds: 30,
    options: { reconnectInterval: 200 },
    bound: { recover: 500, backfill: 2000, attempts: 1 },
    seconds: 4,
    short: true,
    async run({ engine, begin, end, pause }) {
      begin()
      engine.disconnect()
      end()
      await pause(4000)
    },
  },
  {
    row: '3a',
    fault: 'both origins reset their connections, one 300 ms after the other',
    feeds: 30,
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { recover: 400, backfill: 2000, attempts: 4 },
    seconds: 5,
    short: true,
    async run({ engine, begin, end, pause }) {
      begin()
      engine.origins[0].disconnect()
      await pause(300)
      engine.origins[1].disconnect()
      end()
      await pause(5000)
    },
  },
  {
    row: '3b',
    fault:
      'for 30 s, four origins are killed and restarted at random, but never all at once; 120 feeds',
    feeds: 120,
    engine: { origins: 4 },
    config: { haMode: true },
    options: { reconnectInterval: 200, maxReconnectAttempts: Number.POSITIVE_INFINITY },
    bound: {},
    seconds: 34,
    short: true,
    async run({ engine, client, random, begin, end, pause }) {
      begin()
      const dead = new Set()
      const isUp = ({ id, connections }) => connections > 0 && !dead.has(id)
      for (const last = performance.now() + 30_000; performance.now() < last; ) {
        await pause(100 + random() * 400)
        const origin = engine.origins[Math.floor(random() * 4)]
        if (dead.has(origin.id)) {
          await origin.restart()
          dead.delete(origin.id)
        } else if (engine.origins.some(other => other !== origin && isUp(other))) {
          dead.add(origin.id)
          await origin.kill()
        }
        if (!client.isAlive()) break
      }
      for (const origin of engine.origins) if (dead.has(origin.id)) await origin.restart()
      end()
      await pause(2000)
    },
  },
]
