// Holds the monitor against Prometheus: node test/browser/monitor-prometheus.mjs. Needs a build, and `prometheus` in the PATH or in
// PROMETHEUS. One run of `sluice monitor --metrics` over two origins, one of them behind a fault proxy, is read from its page's
// events and scraped by Prometheus. What both say must agree: see `tolerances`.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { startDataEngine, startFaultProxy } from '@sluice/engine'
import { until } from './devtools.mjs'
import { envOf, startMonitor } from './monitor-world.mjs'

const UNAVAILABLE = 69
const program = process.env.PROMETHEUS ?? 'prometheus'
const SCRAPE = 1
const WINDOW = 30

/**
 * How far a figure of the monitor may be from Prometheus's. Counts and connections are the same. A rate is taken over other spans:
 * Prometheus has samples of a second. Prometheus reads an age from the buckets of a histogram, so the true one lies in the bucket.
 */
const tolerances = { rate: 0.05, count: 0, ageBucket: 1 }

async function freePort() {
  const server = createServer()
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise(resolve => server.close(resolve))
  return port
}

/** Reads the events of the monitor, and keeps the latest rows. */
function follow(url) {
  const latest = {}
  const rates = []
  const asked = get(`${url}events`, response => {
    let rest = ''
    response.setEncoding('utf8')
    response.on('data', chunk => {
      const events = (rest + chunk).split('\n\n')
      rest = events.pop()
      for (const event of events) {
        const message = JSON.parse(event.slice('data: '.length))
        for (const { at, rate } of message.samples ?? []) rates.push({ at, rate })
        for (const row of message.origins ?? [])
          latest.origins = { ...latest.origins, [`${row.name} ${row.host}`]: row }
        for (const part of ['totals', 'latency', 'verdict'])
          latest[part] = message[part]?.[0] ?? latest[part]
      }
    })
  })
  asked.on('error', () => undefined)
  return { latest, rates, stop: () => asked.destroy() }
}

async function startPrometheus(target) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-prometheus-'))
  const config = join(folder, 'prometheus.json')
  const job = {
    job_name: 'sluice',
    scrape_interval: `${SCRAPE}s`,
    static_configs: [{ targets: [`127.0.0.1:${target}`] }],
  }
  // JSON is YAML.
  writeFileSync(config, JSON.stringify({ scrape_configs: [job] }))
  const port = await freePort()
  const child = spawn(
    program,
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  )
  const ended = new Promise(resolve => child.once('exit', resolve))
  /** The values of a query, by the label `by`, or all of them as `all`. */
  async function ask(query, by = 'all') {
    const url = `http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(query)}`
    const { data } = await (await fetch(url)).json()
    return Object.fromEntries(
      data.result.map(({ metric, value }) => [metric[by] ?? 'all', Number(value[1])]),
    )
  }
  await until(
    () =>
      ask('up').then(
        ({ all }) => all === 1,
        () => false,
      ),
    'the first scrape',
    60_000,
  )
  return {
    ask,
    async stop() {
      child.kill('SIGTERM')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const closers = []
async function run() {
  const fine = `0x1003${'5'.repeat(60)}`
  const feeds = Array.from({ length: 20 }, (_, index) => `0x1003${String(index).padStart(60, '0')}`)
  const engine = await startDataEngine({
    feeds: [...feeds.map(feedID => ({ feedID, intervalMs: 200 })), { feedID: fine, intervalMs: 0 }],
    history: 1,
  })
  closers.push(() => engine.close())
  const proxy = await startFaultProxy({ upstream: engine.wsEndpoint })
  closers.push(() => proxy.close())
  const port = await freePort()
  const viaProxy = engine.wsEndpoint.replace(/:\d+/, `:${proxy.port}`)
  const env = { ...envOf(engine), WS_URL: `${engine.wsEndpoint},${viaProxy}` }
  const monitor = await startMonitor(['--ha', '--metrics', String(port)], env)
  closers.push(() => monitor.kill())
  const { latest, rates, stop } = follow(monitor.url)
  closers.push(stop)
  await until(() => latest.totals?.rate > 0, 'reports', 60_000)
  const prometheus = await startPrometheus(port)
  closers.push(prometheus.stop)

  // A connection is cut and comes back, and reports are lost.
  await pause(3000)
  proxy.reset()
  for (let lost = 0; lost < 2; lost++) {
    for (let round = 0; round < 3; round++) {
      engine.publish(fine)
      await pause(500)
    }
    engine.publish(fine, {}, { streamed: false, stored: false })
    await pause(50)
    engine.publish(fine)
    await pause(500)
  }
  const hasFaults = () => latest.totals.gaps > 0 && latest.totals.reconnects > 0
  await until(hasFaults, 'a gap and a reconnection', 60_000).catch(error => {
    throw new Error(`${error.message}: ${JSON.stringify(latest)}`)
  })
  await pause(WINDOW * 1000)

  const { ask } = prometheus
  const rate = (await ask(`sum(rate(sluice_reports_accepted_total[${WINDOW}s]))`)).all
  const last = rates.filter(({ at }) => at > Date.now() - WINDOW * 1000)
  const ours = last.reduce((sum, sample) => sum + sample.rate, 0) / last.length
  const rows = [['reports a second', ours, rate, Math.abs(ours - rate) <= tolerances.rate * rate]]
  const same = (what, one, other) =>
    rows.push([what, one, other, Math.abs(one - other) <= tolerances.count])
  // Both are read while nothing of the kind happens.
  same('gaps', latest.totals.gaps, (await ask('sum(sluice_gaps_announced_total)')).all)
  same('reconnects', latest.totals.reconnects, (await ask('sum(sluice_reconnects_total)')).all)
  const open = Object.values(latest.origins).reduce((sum, row) => sum + row.open, 0)
  const wanted = Object.values(latest.origins).reduce((sum, row) => sum + row.connections, 0)
  same('open connections', open, (await ask('sum(sluice_connections_open)')).all)
  same('connections', wanted, (await ask('sum(sluice_connections_configured)')).all)

  const bucket = 'sluice_report_age_seconds_bucket{sluice_report_source="live"}'
  const quantile = `histogram_quantile(0.95, sum by (le) (rate(${bucket}[60s])))`
  const age = (await ask(quantile)).all * 1000
  const bounds = Object.keys(await ask(`sum by (le) (${bucket})`, 'le'))
    .map(bound => Number(bound.replace('+Inf', 'Infinity')) * 1000)
    .sort((one, other) => one - other)
  const placeOf = ms => bounds.findIndex(bound => ms <= bound)
  const { p95 } = latest.latency
  rows.push([
    'age, p95, ms',
    p95,
    age,
    Math.abs(placeOf(p95) - placeOf(age)) <= tolerances.ageBucket,
  ])
  for (const [what, one, other, agrees] of rows)
    console.log(
      `  ${agrees ? 'ok   ' : 'FAIL '} ${what.padEnd(18)} monitor ${one.toFixed(1).padStart(8)}   Prometheus ${other.toFixed(1).padStart(8)}`,
    )
  assert.ok(
    rows.every(([, , , agrees]) => agrees),
    'the monitor and Prometheus differ',
  )
}

if (spawnSync(program, ['--version']).error) {
  console.log(`there is no ${program}: set PROMETHEUS to its path`)
  process.exitCode = UNAVAILABLE
} else
  try {
    await run()
  } catch (error) {
    console.log(`monitor against Prometheus: FAILED\n${error.stack}`)
    process.exitCode = 1
  } finally {
    for (const close of closers.reverse()) await close()
  }
