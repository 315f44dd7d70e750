import { createClient } from '../../../client/client.js'
import { decoders } from '../../../plugins/decoders/index.js'
import { allDecoders } from '../../../plugins/decoders/versions.js'
import { feedResolution } from '../../../report/feed-id.js'
import { type SampleReport, sampleReport } from '../../../testing/reports.js'
import { createRandom, type Random } from '../random.js'

/** A window of a feed: a report, or a hole for which the network made none that was stored. */
export interface HistoryWindow {
  readonly from: number
  readonly to: number
  readonly price: bigint
  /** Undefined for a hole. */
  readonly report: SampleReport | undefined
  /** When the service has stored the report, in milliseconds. */
  readonly storedAt: number
}

export interface SignedHistory {
  readonly feedID: string
  readonly windows: readonly HistoryWindow[]
  /** The first time of the history, in the feed's unit. */
  readonly start: number
  /** The last time. */
  readonly end: number
  /** One second in the feed's unit. */
  readonly second: number
}

/** A price of 72 to 80 bits, and now and then a negative one. */
function priceOf(random: Random): bigint {
  const bits = BigInt(random.pick(70, 79))
  const noise = BigInt(Math.floor(random.next() * 2 ** 48)) << 20n
  const price = (1n << bits) + noise + BigInt(random.pick(0, 1_000_000))
  return random.chance(0.05) ? -price : price
}

/**
 * A feed whose windows follow each other without a gap, as the network makes them: most are a second
 * wide, some absorbed a gap, and some were never stored. Storage is late, and out of order.
 */
export function createHistory(feedID: string, count: number, seed: number): SignedHistory {
  const random = createRandom(seed)
  const isSeconds = feedResolution(feedID) === 's'
  const second = isSeconds ? 1 : 1000
  const start = 1_700_000_000 * second
  const windows: HistoryWindow[] = []
  let from = start
  while (windows.length < count) {
    const wide = random.chance(0.06) ? random.pick(2, 60) : 1
    const width = isSeconds ? wide : random.pick(200, 1000) * wide
    const to = from + width - 1
    const price = priceOf(random)
    const isStored = !random.chance(0.05)
    const report = isStored
      ? sampleReport({
          feedID,
          validFromTimestamp: from,
          observationsTimestamp: to,
          values: [price, price - 5n, price + 5n],
          signed: true,
        })
      : undefined
    const late = random.chance(0.1) ? random.pick(2000, 8000) : random.pick(300, 1500)
    windows.push({ from, to, price, report, storedAt: (to * 1000) / second + late })
    from = to + 1
  }
  return { feedID, windows, start, end: from - 1, second }
}

const answer = (body: unknown, status = 200): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } })

/** The service's pages of a history, in memory, as they are at a time. */
export function servePages(history: SignedHistory, now: () => number, limit = 100): typeof fetch {
  return async input => {
    const url = new URL(input instanceof Request ? input.url : String(input))
    const from = Number(url.searchParams.get('startTimestamp'))
    const most = Math.min(limit, Number(url.searchParams.get('limit') ?? limit))
    const { windows } = history
    const at = now()
    let low = 0
    let high = windows.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((windows[middle] as HistoryWindow).to < from) low = middle + 1
      else high = middle
    }
    const reports: SampleReport[] = []
    for (let index = low; index < windows.length && reports.length < most; index++) {
      const { report, storedAt, to } = windows[index] as HistoryWindow
      if ((to * 1000) / history.second > at + 60_000) break
      if (report !== undefined && storedAt <= at) reports.push(report)
    }
    return answer({ reports })
  }
}

/** A client of a service that has this history, at a time. */
export function clientOf(
  history: SignedHistory,
  now: number,
  limit?: number,
): ReturnType<typeof createClient> {
  return createClient({
    endpoint: 'http://127.0.0.1:9',
    wsEndpoint: 'ws://127.0.0.1:9',
    plugins: [decoders(...allDecoders)],
    fetch: servePages(history, () => now, limit),
    now: () => now,
  })
}
