import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import type { Stream } from 'sluice/client'
import { factsOf } from '../input/feeds.js'
import { type IO, say as print } from '../io.js'
import { type MeasuredClient, measurePreset } from '../monitor/measured-client.js'
import { monitorOf } from '../monitor/monitor.js'
import { bold } from '../output/colours.js'
import { feedName, keyOf } from '../output/feeds.js'
import { createFormat } from '../output/format.js'
import { createView } from '../output/table.js'
import { configOf, type Service } from '../service/service.js'
import { noteEvents } from '../stream/events.js'
import { killOrigin } from './kill-origin.js'

/** Options of `demo`. */
export interface DemoOptions {
  readonly seconds: number
  /**
   * The service. If its credentials are missing, the demonstration runs a local data engine
   * instead.
   */
  readonly service: Service
  readonly io: IO
}

const STREAMED_FEEDS = 8
/** A killed origin must be back within this many milliseconds after its restart. */
const BACK_WITHIN = 15_000
const MAX_TIMER = 2_147_483_647

/**
 * Lists feeds, decodes a report, streams some feeds, and compares the delivered reports with the
 * published ones.
 */
export async function demo(options: DemoOptions): Promise<number> {
  const { seconds, service, io } = options
  const { signal } = io
  const say = (text = ''): void => print(io, text)
  const engine =
    service.credentials === undefined
      ? await startDataEngine({ origins: 2, keepAlive: true })
      : undefined
  const config = engine ?? configOf(service)
  const { apiKey, userSecret, endpoint, wsEndpoint } = config
  const haMode = engine !== undefined || service.network === 'mainnet' || wsEndpoint.includes(',')
  const measured = measurePreset({
    ...{ apiKey, userSecret, endpoint, wsEndpoint, haMode },
    ...(engine === undefined ? service.egress : {}),
  })
  const { client } = measured
  try {
    say(
      bold(
        engine ? `A local data engine signs reports at ${endpoint}` : `The service at ${endpoint}`,
      ),
    )
    say(String(client.stack))

    const feeds = await client.listFeeds({ signal })
    say(bold(`\n${feeds.length} feeds`))
    if (feeds.length === 0) return 0
    const chosen = pickFeeds(feeds.map(feed => feed.feedID))
    const report = await client.getLatestReport(chosen[0] as string, { signal })
    const { feedID, fullReport } = report
    const bytes = fullReport.length / 2 - 1
    say(bold(`\nThe latest report of ${feedName(factsOf(feedID))}, ${bytes} signed bytes`))
    say(createFormat({}).block(report))

    const time =
      seconds === Number.POSITIVE_INFINITY ? '; Ctrl-C ends it' : ` for ${seconds} seconds`
    say(bold(`\nStreaming ${chosen.length} feeds${time}`))
    // Reports that are published before the stream is open would count as lost.
    engine?.pause()
    const before = engine?.ledger().length ?? 0
    const { delivered, metrics } = await streamFeeds(
      measured,
      chosen,
      haMode ? 2 : 1,
      engine,
      options,
    )

    say()
    if (engine === undefined) {
      say(
        `delivered ${delivered.length}, rejected ${metrics.malformed + metrics.verificationFailed}, reconnections ${metrics.fullReconnects}`,
      )
      return 0
    }
    for (const [origin, { originID, received, first, outOfOrder }] of Object.entries(
      metrics.origins,
    ))
      say(
        `origin ${originID ?? origin}: received ${received}, first with ${first}, out of order with ${outOfOrder}`,
      )
    const published = engine
      .ledger()
      .slice(before)
      .filter(report => chosen.includes(report.feedID))
      .map(keyOf)
    const exitCode = compare(published, delivered, say)
    return signal.aborted && delivered.length === 0 ? 0 : exitCode
  } finally {
    await client.close()
    await engine?.close()
  }
}

/**
 * Streams the feeds and shows their reports. With a local data engine, the demonstration also kills
 * one origin and restarts it.
 */
async function streamFeeds(
  measured: MeasuredClient,
  chosen: readonly string[],
  connections: number,
  engine: DataEngine | undefined,
  { seconds, io, service }: DemoOptions,
): Promise<{
  readonly delivered: readonly string[]
  readonly metrics: ReturnType<Stream['getMetrics']>
}> {
  const stream = measured.client.createStream(chosen)
  const feeds = chosen.map(factsOf)
  const { endpoint, wsEndpoint } = engine ?? service
  const name = new URL(endpoint).host
  const monitor = await monitorOf({ ...measured, feeds, name, wire: wsEndpoint }, stream)
  print(io, `the monitor is at ${monitor.url}`)
  const view = createView({ stdout: io.stdout }, feeds, createFormat({}))
  const { signal } = io
  try {
    const delivered: string[] = []
    stream.on('report', report => {
      delivered.push(keyOf(report))
      view.show(report)
    })
    noteEvents(stream, chosen.map(factsOf), 'normal', view.note)
    const stopped = signal.aborted ? Promise.resolve() : once(signal, 'abort')
    await Promise.race([connectAll(stream, connections), stopped])
    engine?.resume()
    const ms = Math.min(seconds * 1000, MAX_TIMER)
    const time = wait(ms, undefined, { signal }).catch(() => undefined)
    const half = (Math.min(seconds, 10) * 1000) / 2
    const times = { afterMs: half, awayMs: half / 2, withinMs: BACK_WITHIN }
    const outage = engine && killOrigin({ engine, stream, ...times, signal, say: view.note })
    await Promise.race([time, stream.closed])
    await outage
    engine?.pause()
    await wait(200)
    const metrics = stream.getMetrics()
    await stream.close()
    return { delivered, metrics }
  } finally {
    view.end()
    await monitor.close()
  }
}

/** Waits for the first connection, and up to two seconds for the other connections. */
async function connectAll(stream: Stream, connections: number): Promise<void> {
  await stream.connect()
  const end = performance.now() + 2000
  while (stream.getMetrics().activeConnections < connections && performance.now() < end)
    await wait(50)
}

function compare(
  published: readonly string[],
  delivered: readonly string[],
  say: (text: string) => void,
): number {
  const distinct = new Set(delivered)
  const lost = published.filter(key => !distinct.has(key)).length
  const duplicated = delivered.length - distinct.size
  say(bold('\nDelivered, against the engine’s ledger'))
  say(`published   ${published.length}`)
  say(`delivered   ${distinct.size}`)
  say(`lost        ${lost}`)
  say(`duplicated  ${duplicated}`)
  return lost === 0 && duplicated === 0 && published.length > 0 ? 0 : 1
}

/** Picks one feed of each version first, so that the table shows many kinds of reports. */
function pickFeeds(feedIDs: readonly string[]): readonly string[] {
  const versions = feedIDs.map(feedID => feedID.slice(0, 6))
  const firsts = feedIDs.filter((_, index) => versions.indexOf(versions[index] as string) === index)
  return [...new Set([...firsts, ...feedIDs])].slice(0, STREAMED_FEEDS)
}
