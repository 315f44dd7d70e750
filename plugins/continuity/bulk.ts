import type { StreamScope } from '../../client/contract/scope.js'
import type { Report } from '../../report/report.js'
import { hasTime } from '../../report/seen-times.js'
import type { Feed, Range } from './feed.js'

/** Feeds that wait for a request before others are asked for together; and the most of one request, for its URL. */
const WAITING = 16
const MOST_FEEDS = 100
/** Milliseconds in which feeds gather, at least: others come while the request waits for its turn. */
const GATHERING = 25
/** Seconds of a range that a page covers better: it holds 100 reports, a bulk request one of each feed. */
const MAX_WIDTH = 60

/** Sends a request, within limits. */
type Send = (
  send: (signal: AbortSignal) => Promise<readonly Report[]>,
) => Promise<readonly Report[]>

/** Fetches the predecessors that the reports of many feeds name, with one request for all that are of the same time. */
export interface Bulk {
  /** Whether a feed need not ask alone: many wait, and each report that is missing names the one before it. */
  isWorth(range: Range, second: number, waiting: number): boolean
  /** Resolves when the report at the end of a range has been asked for: true where it was delivered. */
  ask(feed: Feed, range: Range): Promise<boolean>
}

/** A feed that waits for a bulk request. */
interface Member {
  readonly feed: Feed
  readonly settle: (isFound: boolean) => void
}

/** Makes the bulk requests of a stream; `deliver` takes the reports of a feed. */
export function createBulk(
  { client, defer }: StreamScope,
  deliver: (feed: Feed, reports: readonly Report[]) => Promise<void>,
  send: Send,
): Bulk {
  /** By the time that is asked for. */
  const groups = new Map<number, Member[]>()
  const timers = new Set<ReturnType<typeof setTimeout>>()
  defer(() => timers.forEach(clearTimeout))

  async function request(time: number): Promise<void> {
    let members: readonly Member[] = []
    const reports = await send(signal => {
      members = take(time)
      const feedIDs = members.map(({ feed }) => feed.seen.feedID)
      return client.fetchBulk(feedIDs, time, signal)
    }).catch(() => [])
    async function settleMember({ feed, settle }: Member): Promise<void> {
      // The service may mean the report that holds at a time, or the last before it.
      const found = reports.filter(
        ({ feedID, observationsTimestamp }) =>
          feedID === feed.seen.feedID && observationsTimestamp === time,
      )
      if (!feed.isOver) await deliver(feed, found).catch(() => undefined)
      settle(found.length > 0 && hasTime(feed.seen, time))
    }

    // A report that is verified slowly does not delay those of other feeds.
    await Promise.all(members.map(settleMember))
  }

  /** Takes as many feeds as a request holds; those that are left get one of their own. */
  function take(time: number): readonly Member[] {
    const group = groups.get(time) ?? []
    const members = group.splice(0, MOST_FEEDS)
    if (group.length > 0) void request(time)
    else groups.delete(time)
    return members
  }

  return {
    isWorth: ({ digest, from, to }, second, waiting) =>
      waiting >= WAITING && digest !== undefined && to - from < MAX_WIDTH * second,
    ask: (feed, { to }) =>
      new Promise(settle => {
        const members = groups.get(to) ?? []
        if (members.push({ feed, settle }) > 1) return
        groups.set(to, members)
        const timer = setTimeout(() => {
          timers.delete(timer)
          void request(to)
        }, GATHERING)
        timers.add(timer)
      }),
  }
}
