import { describe, expect, test } from '@jest/globals'
import {
  type DataEngine,
  type FaultProxy,
  type PublishedReport,
  startDataEngine,
  startFaultProxy,
} from '@sluice/engine'
import { Registry } from 'prom-client'
import { createClient, haPreset, type Stream } from '../../index.js'
import { opentelemetry } from '../../plugins/opentelemetry/index.js'
import { prometheus } from '../../plugins/prometheus.js'
import { closeAfterEach, failOnUnhandled } from '../support/closing.js'
import {
  exportedValues,
  scrape,
  scrapedValues,
  startMeters,
  sumOf,
  type Values,
} from '../support/plugins/telemetry.js'
import { until } from '../support/waiting.js'

/** In milliseconds. */
const [a, b, c] = ['aa', 'bb', 'cc'].map(digits => `0x1003${digits.repeat(30)}`) as [
  string,
  string,
  string,
]
/** Reports that may wait in the stream that nobody reads. */
const QUEUE = 4

const closers = closeAfterEach()
failOnUnhandled()

interface World {
  readonly engine: DataEngine
  readonly proxy: FaultProxy
  /** A stream that is read, and one that is not. */
  readonly read: Stream
  readonly unread: Stream
  /** Both exports of one moment. */
  values(): Promise<readonly [exported: Values, scraped: Values]>
}

/** A client of two origins through a proxy, whose stack has both plugins. */
async function start(): Promise<World> {
  const engine = await startDataEngine({ feeds: [a, b, c], intervalMs: 0, history: 0, origins: 2 })
  closers.push(() => engine.close())
  const proxy = await startFaultProxy({ upstream: engine.endpoint })
  closers.push(() => proxy.close())
  const meters = startMeters()
  closers.push(() => meters.close())
  const register = new Registry()
  const { apiKey, userSecret } = engine
  const client = createClient({
    endpoint: proxy.url,
    wsEndpoint: proxy.wsURL,
    plugins: [
      opentelemetry({ meterProvider: meters.provider }),
      prometheus({ register }),
      ...haPreset({ apiKey, userSecret, retryDelay: 20 }),
    ],
  })
  closers.push(() => client.close())
  const fast = { reconnectInterval: 50 }
  const read = client.createStream([a, b], fast)
  const unread = client.createStream(c, { ...fast, queue: QUEUE, overflow: 'drop-oldest' })
  read.on('report', () => undefined)
  for (const stream of [read, unread]) stream.on('error', () => undefined)
  await Promise.all([read.connect(), unread.connect()])
  await until(() => engine.connections === 4)
  return {
    engine,
    proxy,
    read,
    unread,
    async values() {
      const [page, exported] = await Promise.all([scrape(register), meters.collect()])
      return [exportedValues(exported), scrapedValues(page)]
    },
  }
}

/** Publishes reports of each feed, and waits until they have come. */
async function publish(
  { engine, read, unread }: World,
  count: number,
  options?: Parameters<DataEngine['publish']>[2],
): Promise<void> {
  for (let at = 0; at < count; at++)
    for (const feedID of [a, b, c]) engine.publish(feedID, {}, options)
  const due = deliveriesIn(engine)
  await until(() => receivedBy(read) + receivedBy(unread) === due)
}

function deliveriesIn(engine: DataEngine, origin?: string): number {
  return engine
    .ledger()
    .flatMap(report => engine.deliveries(report))
    .filter(each => origin === undefined || each.origin === origin).length
}

function receivedBy(stream: Stream): number {
  const { accepted, deduplicated, backfilled } = stream.getMetrics()
  return accepted + deduplicated - backfilled
}

/** Faults at moments when nothing is on its way, so that what was sent has come. */
async function runWithFaults(world: World): Promise<void> {
  const { engine, proxy, read, unread } = world
  await publish(world, 20)

  // Connections are reset, and opened again.
  const upgrades = () => engine.requests().filter(({ status }) => status === 101).length
  proxy.reset(({ isWebSocket }) => isWebSocket)
  await until(() => upgrades() === 8 && engine.connections === 4)
  await publish(world, 5)

  // Messages that are no reports.
  engine.send('no report')
  await until(() => read.getMetrics().malformed + unread.getMetrics().malformed === 4)

  // The service is away, publishes, and its pages fail twice.
  engine.fail({ status: 503, path: '/api/v1/reports/page', times: 2 })
  await engine.stop()
  for (let at = 0; at < 5; at++) for (const feedID of [a, b]) engine.publish(feedID)
  await engine.start()
  await until(() => engine.connections === 4)
  await publish(world, 1)
  await until(() => read.getMetrics().backfilled === 10)

  // Reports that the service has lost.
  for (const feedID of [a, b]) engine.publish(feedID, {}, { streamed: false, stored: false })
  await publish(world, 1)
  await until(() => read.getMetrics().gaps === 2)
}

describe('a run with faults, to the ledger of the engine', () => {
  test('both exports agree with it, and with each other', async () => {
    const world = await start()
    const { engine, read } = world
    await runWithFaults(world)
    const [exported, scraped] = await world.values()

    // With each other: all counts, and the round trips of origins.
    const isSame = (key: string): boolean => !key.includes('_seconds_sum')
    const comparable = (values: Values) =>
      [...values].filter(([key]) => isSame(key)).sort(([one], [other]) => (one < other ? -1 : 1))
    expect(comparable(exported)).toEqual(comparable(scraped))

    // With the ledger.
    const total = (name: string, ...labels: string[]): number => sumOf(scraped, name, ...labels)
    const ledger = engine.ledger()
    const isDelivered = (report: PublishedReport): boolean => engine.deliveries(report).length > 0
    const live = ledger.filter(isDelivered).length
    const missed = ledger.filter(report => report.stored && !isDelivered(report)).length
    const lost = ledger.filter(report => !report.stored)
    expect(lost).toHaveLength(2)
    for (const { id } of engine.origins)
      expect(total('sluice_reports_received_total', `#${id}"`)).toBe(deliveriesIn(engine, id))
    expect(total('sluice_reports_received_total')).toBe(deliveriesIn(engine))
    expect(total('sluice_reports_accepted_total', 'source="live"')).toBe(live)
    expect(total('sluice_reports_accepted_total', 'source="backfill"')).toBe(missed)
    expect(total('sluice_reports_deduplicated_total')).toBe(deliveriesIn(engine) - live)
    expect(total('sluice_report_age_seconds_count')).toBe(live + missed)
    expect(total('sluice_messages_malformed_total')).toBe(4)

    const ofUnread = ledger.filter(({ feedID, stored }) => feedID === c && stored).length
    expect(total('sluice_queue_depth')).toBe(QUEUE)
    expect(total('sluice_reports_dropped_total')).toBe(ofUnread - QUEUE)
    expect(total('sluice_gaps_announced_total', 'cause="upstream"')).toBe(lost.length)
    expect(total('sluice_gaps_announced_total')).toBe(
      [read, world.unread].reduce((sum, stream) => sum + stream.getMetrics().gaps, 0),
    )

    const requests = engine.requests()
    const upgrades = requests.filter(({ status }) => status === 101)
    const pages = requests.filter(({ path }) => path.startsWith('/api/v1/reports/page'))
    expect(total('sluice_connections_open')).toBe(engine.connections)
    expect(total('sluice_reconnects_total')).toBe(upgrades.length - 4)
    // Two pages were asked for twice.
    expect(pages.filter(({ status }) => status === 503)).toHaveLength(2)
    expect(total('sluice_backfill_pages_total')).toBe(pages.length - 2)
    const attempts = 'http_client_request_duration_seconds_count'
    for (const status of [101, 200, 503])
      expect(total(attempts, `status_code="${status}"`)).toBe(
        requests.filter(each => each.status === status).length,
      )
    expect(total('sluice_streams_open')).toBe(2)
  }, 60_000)

  test('counts stay when streams and clients end', async () => {
    const world = await start()
    await publish(world, 3)
    await world.unread.close()
    const sums = ([exported, scraped]: readonly [Values, Values]) =>
      ['sluice_reports_received_total', 'sluice_reports_accepted_total'].map(name => [
        sumOf(exported, name),
        sumOf(scraped, name),
      ])
    const all = [
      [18, 18],
      [9, 9],
    ]
    expect(sums(await world.values())).toEqual(all)
    await closers.pop()?.()
    const values = await world.values()
    expect(sums(values)).toEqual(all)
    for (const name of ['sluice_streams_open', 'sluice_connections_open', 'sluice_queue_depth'])
      expect(sumOf(values[1], name)).toBe(0)
  })
})
