// A store that is away for minutes, by the wall: memory is bounded, and nothing is lost.
// `SINK_AWAY=600 npm run test:sinks -- packages/sinks/test/away` has it away for ten minutes.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { startCommand } from '@sluice/test-support/command.js'
import { until } from '@sluice/test-support/waiting.js'
import { killedFeeds } from './support/kills.js'
import { usePostgres } from './support/postgres.js'

/** Seconds. */
const away = Number(process.env.SINK_AWAY ?? 60)

const world = usePostgres()

/** The memory of a process that is its own, in megabytes. */
function memoryOf(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024)
}

test(`Postgres is away for ${away} s while 500 reports a second come`, async () => {
  const database = await world.create()
  const url = new URL(database.url)
  const PGPASSWORD = decodeURIComponent(url.password)
  url.password = ''
  const engine = await startDataEngine({ feeds: killedFeeds, intervalMs: 100, history: 0 })
  const args = ['sink', killedFeeds.join(','), '--to', url.href, '--ha', '--backfill', '1h']
  const sink = startCommand(args, {
    env: {
      API_KEY: engine.apiKey,
      USER_SECRET: engine.userSecret,
      REST_URL: engine.endpoint,
      WS_URL: engine.wsEndpoint,
      PGPASSWORD,
    },
  })
  try {
    await until(() => /is connected/.test(sink.output.err) || sink.child.exitCode !== null)
    await sleep(10_000)
    const before = memoryOf(sink.child.pid)
    await world.server.stop('SIGKILL')
    const end = performance.now() + away * 1000
    let most = 0
    while (performance.now() < end) {
      await sleep(1000)
      most = Math.max(most, memoryOf(sink.child.pid))
    }
    await world.server.start()
    const back = performance.now()
    engine.pause()
    const published = engine.ledger()
    let after = 0
    const stored = async (): Promise<number> => {
      after = Math.max(after, memoryOf(sink.child.pid))
      return database.count('reports_v3').catch(() => 0)
    }
    let count = 0
    let last = -1
    for (let same = 0; same < 20; same = count === last ? same + 1 : 0) {
      await sleep(1000)
      last = count
      count = await stored()
    }
    const caughtUp = Math.round((performance.now() - back) / 1000) - 20
    const figures = { before, most, after, caughtUp, published: published.length, count }
    process.stderr.write(`${JSON.stringify(figures)}\n`)
    const rows = await database.run<{ feed_id: string; time: string }>(
      'SELECT feed_id, observations_timestamp AS time FROM reports_v3',
    )
    const seen = new Set(rows.map(({ feed_id, time }) => `${feed_id}:${time}`))
    expect(seen.size).toBe(rows.length)
    // Each feed has all reports from its first stored one on.
    const firsts = new Map<string, number>()
    for (const { feed_id: id, time } of rows)
      firsts.set(id, Math.min(Number(time), firsts.get(id) ?? Number(time)))
    const missing = published.filter(
      ({ feedID, observationsTimestamp: time }) =>
        time >= (firsts.get(feedID) ?? 0) && !seen.has(`${feedID}:${time}`),
    )
    expect(firsts.size).toBe(killedFeeds.length)
    expect(missing).toEqual([])
    // 32,768 reports wait, and a batch of 5,000.
    expect(most).toBeLessThan(before + 400)
  } finally {
    sink.child.kill('SIGKILL')
    await sink.ended
    await engine.close()
  }
}, 3_600_000)
