// Makes each service fail, and holds what a real Prometheus, /ready and the log say of it: npm run operations
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { findServer } from '../support/nats/find-server.mjs'
import { recordRows } from '../support/results.mjs'
import { gatewayLane, relayLane, sinkLane, workerLane } from './log-lanes.mjs'
import { findPrometheus, startPrometheus } from './prometheus.mjs'
import { until } from './service.mjs'
import { enclaveLane, holderLane } from './vault-lanes.mjs'

const all = {
  relay: relayLane,
  gateway: gatewayLane,
  worker: workerLane,
  sink: sinkLane,
  enclave: enclaveLane,
  holder: holderLane,
}
const order = Object.keys(all)
const names = process.argv.slice(2).filter(each => !each.startsWith('-'))
const wanted = names.length > 0 ? names : order

/** Ports and folders are others each time. */
const withoutPlaces = text =>
  text.replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:PORT').replace(/\/\S+\/(?=[\w-]+)/g, '…/')

/** Makes one service fail in one way after the other. */
async function runLane({ service, faults, close }, prometheus) {
  const { name, running } = service
  const rows = []
  const problem = cause =>
    `sluice_problem{job="${name}",sluice_service="${name}",sluice_cause="${cause}"}`
  const read = async expression => (await prometheus.query(expression))[0]?.value
  for (const { fault, cause, begin, end, endsWithin = 60_000, isForGood = false } of faults) {
    const from = running.output.err.length
    const begunAt = performance.now()
    await begin()
    await until(
      `${name}: ${fault}: the metric of ${cause}`,
      async () => (await read(problem(cause))) === 1,
    )
    const seconds = (performance.now() - begunAt) / 1000
    const { status, body } = await service.ready()
    const [, severity, words] =
      new RegExp(`${name}: (\\w+): ${cause} since \\S+: (.*)`).exec(body) ?? []
    if (severity === undefined)
      throw new Error(`${name}: ${fault}: /ready has no ${cause}: ${body}`)
    if (severity !== 'warning' && status !== 503)
      throw new Error(`${name}: ${fault}: /ready answers ${status}`)
    await until(`${name}: ${fault}: sluice_ready`, async () => {
      const value = await read(`sluice_ready{job="${name}"}`)
      return severity === 'warning' || value === 0
    })
    const lines = running.output.err.slice(from).split('\n')
    const line = lines.find(each => each.includes(`${name}: ${cause}: `))
    // A problem that was there before the lane began has its line at the start.
    if (line === undefined && !running.output.err.includes(`${name}: ${cause}: `))
      throw new Error(`${name}: ${fault}: no line of the log names ${cause}:\n${lines.join('\n')}`)
    rows.push({
      service: name,
      fault,
      cause,
      severity,
      seconds: seconds.toFixed(1),
      words: withoutPlaces(words),
    })
    const row = rows.at(-1)
    console.log(`${name}: ${fault}: ${cause}, after ${row.seconds} s: ${row.words}`)
    await end()
    if (isForGood) continue
    await until(
      `${name}: ${fault} is over: ${cause}`,
      async () => (await read(problem(cause))) === 0,
      endsWithin,
    )
    await until(
      `${name}: ready after ${fault}`,
      async () => (await service.ready()).status === 200,
      endsWithin,
    )
  }
  await close()
  return rows
}

/** Throws unless the page has exactly the causes and the metrics that the services have. */
async function checkPage(prometheus) {
  const page = readFileSync(new URL('../../docs/operate/operations.md', import.meta.url), 'utf8')
  const [text, metrics = ''] = page.split('## Metrics')
  const documented = Array.from(
    text.matchAll(/^\| `([a-z-]+)` \| (?:warning|unready|dead)/gm),
    found => found[1],
  )
  const series = await prometheus.query('sluice_problem')
  const causes = new Set(series.map(each => each.sluice_cause))
  const names = Array.from(
    metrics.matchAll(/^\| `(sluice\.[\w.]+)` \| (\w+) \| `(\S+)`/gm),
    ([, name, kind, unit]) =>
      name.replaceAll('.', '_') +
      (unit === 's' ? '_seconds' : '') +
      (kind === 'counter' ? '_total' : ''),
  )
  const shown = await prometheus.query(
    '{__name__=~"sluice_(ready|problems?_?|relay_|gateway_|worker_|queue_pending|queue_unacknowledged|enclave_|holder_|sink_).*"}',
  )
  const found = new Set(shown.map(each => each.__name__))
  const differ = (what, one, other) => {
    const wrong = [...one].filter(each => !other.has(each))
    if (wrong.length > 0)
      throw new Error(`docs/operate/operations.md: ${what}: ${wrong.join(', ')}`)
  }
  differ('no service has the cause', documented, causes)
  differ('a cause is missing', causes, new Set(documented))
  differ('a metric is missing', found, new Set(names))
}

if (findServer() === undefined || findPrometheus() === undefined) {
  console.log(
    'operations: skipped: there is no Prometheus or no nats-server, and none could be had',
  )
  process.exit(69)
}
const begunAt = performance.now()
const lanes = await Promise.all(wanted.map(name => all[name]()))
const targets = Object.fromEntries(lanes.map(({ service }) => [service.name, service.target]))
const prometheus = await startPrometheus(targets)
const isScraped = async () => (await prometheus.query('sluice_ready')).length === lanes.length
await until('every service is scraped', isScraped)
if (wanted.length === order.length) await checkPage(prometheus)
const rows = (await Promise.all(lanes.map(lane => runLane(lane, prometheus)))).flat()
await prometheus.close()
const seconds = Math.round((performance.now() - begunAt) / 1000)
console.log(
  `${rows.length} faults in ${seconds} s: each was named in Prometheus, in /ready and in the log`,
)
if (process.argv.includes('--record')) {
  const [{ model }] = cpus()
  recordRows('operations', {
    run: `${cpus().length} × ${model}, ${process.platform}, Node ${process.version}`,
    rows,
    keyOf: ({ service, fault }) => `${service}: ${fault}`,
    order: (a, b) => order.indexOf(a.service) - order.indexOf(b.service),
    replaces: ({ service }) => wanted.includes(service),
  })
  console.log('recorded: npm run tables writes the page')
}
process.exit()
