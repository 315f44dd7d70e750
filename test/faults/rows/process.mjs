// Processes that are suspended, busy, or killed.
import { through } from '../harness/proxy.mjs'

/** How long before its end a process had what came again in the next, at most; in ms. */
function reachOf(clients) {
  const had = new Map()
  let reach = 0
  for (const { reports, exit } of clients) {
    for (const { feedID, time, at } of reports) {
      const before = had.get(`${feedID}:${time}`)
      if (before !== undefined) reach = Math.max(reach, before.end - before.at)
      had.set(`${feedID}:${time}`, { at, end: exit?.at })
    }
  }
  return reach
}

export default [
  {
    row: '34a',
    fault: 'the process is suspended for 6 s (SIGSTOP)',
    bound: { attempts: 1, recover: 1500 },
    seconds: 11,
    async run({ client, begin, end, pause }) {
      begin()
      client.signal('SIGSTOP')
      await pause(6000)
      client.signal('SIGCONT')
      end()
      await pause(4000)
    },
  },
  {
    row: '34c',
    fault: 'the process is suspended for 8 s, and the connection dies unnoticed meanwhile',
    bound: { recover: 2500, backfill: 2500, attempts: 1 },
    seconds: 14,
    prepare: through(),
    async run({ client, proxy, begin, end, pause }) {
      begin()
      client.signal('SIGSTOP')
      proxy.blackhole(proxy.connections.at(-1).number)
      await pause(8000)
      client.signal('SIGCONT')
      end()
      await pause(6000)
    },
  },
  {
    row: '34b',
    fault: 'the event loop is blocked for 12 s',
    bound: { attempts: 0 },
    seconds: 16,
    async run({ client, begin, end, pause }) {
      begin()
      await client.ask('block', { ms: 12_000 })
      end()
      await pause(4000)
    },
  },
  {
    row: '40',
    fault: 'three times, the process is killed (SIGKILL), and restarted 1 s later',
    // No cursor passes the present, so no report may be dated later.
    feeds: 3,
    connect: false,
    bound: { doubled: undefined, repeated: 2000 },
    seconds: 20,
    async run(world) {
      const { engine, create, pause, until } = world
      const cursors = `${world.folder()}/cursors.json`
      for (let life = 0; life < 4; life++) {
        const client = await create({ cursors })
        await world.connect()
        engine.resume()
        await until(() => client.reports.length > 0)
        if (life < 3) {
          await pause(2000 + world.random() * 1500)
          await client.kill()
          await pause(1000)
        }
      }
      await pause(3000)
      world.measured.repeated = reachOf(world.clients)
    },
  },
]
