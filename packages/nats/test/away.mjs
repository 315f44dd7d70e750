// The log goes away while reports come, and is back later: the relay must not fill its memory, and lose nothing.
//
//   node packages/nats/test/away.mjs [--seconds 60] [--feeds 200] [--rate 1000]
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startDataEngine } from '@sluice/engine'
import { startNats } from '@sluice/test-support/nats/server.mjs'
import { keyOf, linesOf, makeFeeds, readLog, supervise, until } from './processes.mjs'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    feeds: { type: 'string', default: '200' },
    rate: { type: 'string', default: '1000' },
  },
})
const [seconds, feedCount, rate] = [values.seconds, values.feeds, values.rate].map(Number)
const MB = 2 ** 20
const MOST_MB = 50
/** What may still come while the connections are paused: it had been read. */
const MOST_HELD = 100
/** Seconds in which the relay's memory settles. */
const WARM_UP = 10
/** Seconds after which everything has paused. */
const SETTLED = 5

const nats = await startNats()
const feeds = makeFeeds(feedCount)
const engine = await startDataEngine({
  feeds,
  origins: 2,
  intervalMs: Math.round((1000 * feedCount) / rate),
  history: 0,
  compression: false,
})
const { apiKey, userSecret, endpoint, wsEndpoint } = engine
const config = { apiKey, userSecret, endpoint, wsEndpoint, haMode: true }
engine.pause()
const common = { servers: nats.servers, feeds, replicas: 1 }
const relay = supervise('relay', 'relay', { ...common, config }, nats.folder)
const isOpen = ({ lines }) => lines().flat().includes('open')
await until(() => isOpen(relay), 30_000, 'the relay')
const worker = supervise('worker', 'worker', common, nats.folder)
await until(() => isOpen(worker), 30_000, 'the worker')
engine.resume()

const metrics = () => linesOf('metrics', relay.lines().flat()).map(line => JSON.parse(line))
const most = (list, name) => Math.max(...list.map(each => each[name]))
const [node] = nats.nodes

await sleep(1000 * WARM_UP)
const before = metrics().slice(-5)
const seconds0 = metrics().length
await node.kill()
await sleep(1000 * seconds)
const during = metrics().slice(seconds0)
await node.start()
const sentMeanwhile = engine.ledger().length
await sleep(3000)
engine.pause()
const ledger = engine.ledger().map(keyOf)
const lacking = keys => {
  const all = new Set(keys)
  return ledger.filter(key => !all.has(key)).length
}
const received = () => linesOf('report', worker.lines().flat())
await until(() => lacking(received()) === 0, 180_000, 'all reports with the worker')

const settled = during.slice(SETTLED)
const growth = (most(during, 'rss') - most(before, 'rss')) / MB
const figures = {
  'the log is away, seconds': seconds,
  'reports sent by the service': ledger.length,
  'of them until the log was back': sentMeanwhile,
  'the relay grows by, MB': Number(growth.toFixed(1)),
  'and when the log is back, MB': Number(
    ((most(metrics(), 'rss') - most(before, 'rss')) / MB).toFixed(1),
  ),
  'published and not acknowledged, at most': most(during, 'unacknowledged'),
  'taken from the service while paused': settled.at(-1).received - settled[0].received,
  'the log lacks': lacking(await readLog(nats.servers)),
  'the worker lacks': lacking(received()),
  'gaps of the relay': linesOf('gap', relay.lines().flat()).length,
}
console.table(figures)
await Promise.all([relay.end(), worker.end()])
await engine.close()
await nats.close()
const isGood =
  growth < MOST_MB &&
  figures['taken from the service while paused'] < MOST_HELD &&
  figures['the log lacks'] === 0 &&
  figures['the worker lacks'] === 0
process.exitCode = isGood ? 0 : 1
