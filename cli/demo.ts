import { setTimeout as wait } from 'node:timers/promises'
import type { ConnectionFacts } from '../client/status.js'
import type { Stream } from '../client/stream/stream-api.js'
import { type DataEngine, startDataEngine } from '../local/index.js'
import { createClient } from '../presets/create-client.js'
import { formatReport } from '../presets/report.js'
import type { Credentials } from './credentials.js'
import { killOrigin } from './kill-origin.js'
import { bold, createView, green, red, shortID, type View, yellow } from './view.js'

/** How long and where the demonstration runs. */
export interface DemoOptions {
  readonly seconds: number
  /** Aborted when the user has seen enough. */
  readonly signal: AbortSignal
  /** The real service; without it, a local data engine. */
  readonly credentials: Credentials | undefined
  readonly out: NodeJS.WriteStream
}

const STREAMED_FEEDS = 8
/** Milliseconds that a killed origin has to come back. */
const BACK_WITHIN = 15_000

/** Lists feeds, decodes a report, streams some feeds, and holds what came against what was published. */
export async function demo({ seconds, signal, credentials, out }: DemoOptions): Promise<number> {
  const say = (text = ''): void => void out.write(`${text}\n`)
  const engine = credentials === undefined ? await startDataEngine({ origins: 2 }) : undefined
  const { apiKey, userSecret, endpoint, wsEndpoint } = (credentials ?? engine) as Credentials
  const isMainnet = wsEndpoint.includes('//ws.dataengine.')
  const haMode = engine !== undefined || isMainnet || wsEndpoint.includes(',')
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, haMode })
  let view: View | undefined
  try {
    say(
      bold(
        engine ? `A local data engine signs reports at ${endpoint}` : `The service at ${endpoint}`,
      ),
    )
    say(String(client.stack))

    const feeds = await client.listFeeds({ signal })
    say()
    say(bold(`${feeds.length} feeds`))
    if (feeds.length === 0) return 0
    const chosen = pickFeeds(feeds.map(feed => feed.feedID))
    const latest = await client.getLatestReport(chosen[0] as string, { signal })
    say()
    say(
      bold(
        `The latest report of ${shortID(latest.feedID)}, ${latest.fullReport.length / 2 - 1} signed bytes`,
      ),
    )
    say(formatReport(latest.decoded))

    say()
    say(
      bold(
        `Streaming ${chosen.length} feeds${seconds === Number.POSITIVE_INFINITY ? '; Ctrl-C ends it' : ` for ${seconds} seconds`}`,
      ),
    )
    engine?.pause()
    const stream = client.createStream(chosen)
    view = createView(out, chosen)
    const delivered: string[] = []
    stream.on('report', report => {
      delivered.push(`${report.feedID}:${report.observationsTimestamp}`)
      view?.show(report)
    })
    const note = (text: string): void => view?.note(text)
    stream.on('error', error => note(red(error.message)))
    stream.on('status', status => {
      if (status.type === 'connected') note(green(`${nameOf(status)} is connected`))
      if (status.type === 'disconnected' && status.wasOpen)
        note(yellow(`${nameOf(status)} is lost: ${status.error.message}`))
      if (status.type === 'degraded')
        note(yellow(`${nameOf(status)} goes on refusing: ${status.error.message}`))
    })
    const enough = new Promise<void>(resolve =>
      signal.addEventListener('abort', () => resolve(), { once: true }),
    )
    await Promise.race([connectAll(stream, haMode ? 2 : 1), enough])
    const before = engine?.ledger().length ?? 0
    engine?.resume()
    const time = wait(Math.min(seconds * 1000, 2_147_483_647), undefined, { signal }).catch(
      () => undefined,
    )
    const half = (Math.min(seconds, 10) * 1000) / 2
    const outage =
      engine &&
      killOrigin({
        engine,
        stream,
        afterMs: half,
        awayMs: half / 2,
        withinMs: BACK_WITHIN,
        signal,
        say: note,
      })
    await Promise.race([time, enough, stream.closed])
    await outage
    engine?.pause()
    await wait(200)
    const metrics = stream.getMetrics()
    await stream.close()
    view.end()
    view = undefined

    say()
    if (engine === undefined) {
      say(
        `delivered ${delivered.length}, rejected ${metrics.rejected}, reconnections ${metrics.fullReconnects}`,
      )
      return 0
    }
    for (const [origin, { originID, received, first, late }] of Object.entries(metrics.origins)) {
      say(
        `origin ${originID ?? origin}: received ${received}, first with ${first}, late with ${late}`,
      )
    }
    say()
    const verdict = summarize(engine, before, chosen, delivered, say)
    return signal.aborted && delivered.length === 0 ? 0 : verdict
  } finally {
    view?.end()
    await client.close()
    await engine?.close()
  }
}

/** Waits for the first connection, and a moment for the others. */
async function connectAll(stream: Stream, connections: number): Promise<void> {
  await stream.connect()
  for (
    let waited = 0;
    stream.getMetrics().activeConnections < connections && waited < 2000;
    waited += 50
  )
    await wait(50)
}

/** The short id where there is one: a URL is much to read. */
function nameOf({ origin, originID }: ConnectionFacts): string {
  return originID ?? origin
}

function summarize(
  engine: DataEngine,
  before: number,
  chosen: readonly string[],
  delivered: readonly string[],
  say: (text: string) => void,
): number {
  const published = engine
    .ledger()
    .slice(before)
    .filter(({ feedID }) => chosen.includes(feedID))
    .map(({ feedID, observationsTimestamp }) => `${feedID}:${observationsTimestamp}`)
  const distinct = new Set(delivered)
  const lost = published.filter(key => !distinct.has(key)).length
  const duplicated = delivered.length - distinct.size
  say(bold('Delivered, against the engine’s ledger'))
  say(`published   ${published.length}`)
  say(`delivered   ${distinct.size}`)
  say(`lost        ${lost}`)
  say(`duplicated  ${duplicated}`)
  return lost === 0 && duplicated === 0 && published.length > 0 ? 0 : 1
}

/** One feed of each version first, so that the table shows many kinds of reports. */
function pickFeeds(feedIDs: readonly string[]): readonly string[] {
  const versions = feedIDs.map(feedID => feedID.slice(0, 6))
  const firsts = feedIDs.filter((_, index) => versions.indexOf(versions[index] as string) === index)
  return [...new Set([...firsts, ...feedIDs])].slice(0, STREAMED_FEEDS)
}
