// What the service of a world stores, and its pages.
import { APIError } from '../../../client/contract/call.js'
import { type DecoderTable, Report, type ReportSource } from '../../../report/report.js'
import type { VirtualTime } from '../../../testing/virtual-time.js'
import { createRandom } from '../../support/random.js'
import type { Observation, World } from './world.js'

/** One request for a page, and what became of it. */
export interface PageRequest {
  readonly feed: number
  readonly from: number
  readonly startedAt: number
  /** When the service looked into its store. */
  readonly lookedAt: number
  /** The page shows all that was stored from `from` to this time; nothing where it failed. */
  readonly shownTo: number | undefined
  readonly reports: number
}

/** The REST interface of a world. */
export interface Service {
  isAway: boolean
  readonly requests: readonly PageRequest[]
  fetchPage(
    feedID: string,
    from: number,
    limit: number,
    signal: AbortSignal,
  ): Promise<readonly Report[]>
}

/** Milliseconds to the service, and back. */
export const LATENCY = 20

const table: DecoderTable = {
  versions: [],
  decode: () => undefined,
  verify: () => Promise.resolve(),
}

/** A report as it comes from an origin or on a page. */
export function reportOf(
  feedID: string,
  { fullReport, from, to }: Observation,
  origin: string,
  source: ReportSource,
): Report {
  return new Report(feedID, fullReport, from, to, origin, source, table)
}

/** Makes the service; `onRequest` is called with each request once it has been answered. */
export function createService(
  world: World,
  time: VirtualTime,
  onRequest: (request: PageRequest) => void,
): Service {
  const { feeds, faults } = world
  const random = createRandom(world.seed ^ 0x5bd1e995)
  const requests: PageRequest[] = []
  const stores = feeds.map(({ observations }) =>
    observations
      .filter(({ storedAt }) => storedAt !== undefined)
      .sort((one, other) => one.to - other.to),
  )

  function firstFrom(store: readonly Observation[], from: number): number {
    let low = 0
    let high = store.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((store[middle] as Observation).to < from) low = middle + 1
      else high = middle
    }
    return low
  }

  function find(feed: number, from: number, limit: number): Observation[] {
    const store = stores[feed] ?? []
    const found: Observation[] = []
    for (let at = firstFrom(store, from); at < store.length && found.length < limit; at++) {
      const each = store[at] as Observation
      if ((each.storedAt ?? 0) <= time.now) found.push(each)
    }
    return found
  }

  const service: Service = {
    isAway: false,
    requests,
    fetchPage: (feedID, from, limit, signal) =>
      new Promise((resolve, reject) => {
        const startedAt = time.now
        const feed = feeds.findIndex(each => each.feedID === feedID)
        if (signal.aborted) {
          reject(signal.reason)
          return
        }
        const onAbort = (): void => reject(signal.reason)
        signal.addEventListener('abort', onAbort)

        function done(shownTo: number | undefined, reports: number, lookedAt: number): void {
          signal.removeEventListener('abort', onAbort)
          const request = { feed, from, startedAt, lookedAt, shownTo, reports }
          requests.push(request)
          onRequest(request)
        }

        function answer(): void {
          const lookedAt = time.now
          if (service.isAway || random.chance(faults.fails)) {
            const isStatus = random.chance(0.5)
            const error = isStatus
              ? new APIError('the service answered 503', { statusCode: 503 })
              : new APIError('fetch failed', { code: 'API_NETWORK' })
            done(undefined, 0, lookedAt)
            reject(error)
            return
          }
          const found = find(feed, from, limit)
          if (random.chance(faults.isBad)) {
            // A bad report takes the place of a good one, and the client leaves it out; a page of nothing else is refused.
            if (found.length === 0) {
              done(undefined, 0, lookedAt)
              reject(new APIError('a report is older than the page', { statusCode: 200 }))
              return
            }
            if (found.length === limit) found.length--
          }
          const isShort = found.length > 1 && random.chance(faults.isShort)
          if (isShort) found.length = Math.ceil(found.length / 2)
          const isWhole = !isShort && found.length < limit - 1
          const shownTo = isWhole ? Number.POSITIVE_INFINITY : (found.at(-1)?.to ?? from)
          const sent = world.changePage?.(found) ?? found
          const page = sent.map(each => reportOf(feedID, each, 'rest', 'backfill'))
          const slow =
            faults.isSlow > 0 && random.chance(faults.isSlow) ? random.pick(1000, 20_000) : 0
          time.outside(LATENCY + slow, () => {
            if (signal.aborted) return
            done(shownTo, found.length, lookedAt)
            resolve(page)
          })
        }

        time.outside(LATENCY, answer)
      }),
  }
  return service
}
