import { type PluginClient, retirementKey, type StreamScope } from '../../client/contract/scope.js'

/** A feed of a stream that the service is going to retire. */
export interface RetiringFeed {
  /** In lower case. */
  readonly feedID: string
  /** The name in the catalogue, if it has one. */
  readonly name: string | undefined
  /** When the feed is going to retire. */
  readonly at: Date
  /** The days until then, rounded up. 0 or less if the date is past. */
  readonly daysLeft: number
}

/** The events of `retirement`. */
export interface RetirementEvents {
  /** The service is going to retire a feed of the stream. It is told once for each date. */
  readonly retiring: RetiringFeed
}

type Catalogue = Awaited<ReturnType<PluginClient['discover']>>

const DAY = 86_400_000

/** The request of a client that is under way. Its streams share the answer. */
const asking = new WeakMap<object, Promise<Catalogue>>()

/** Asks now and then whether the service is going to retire feeds of a stream, until it ends. */
export function watch(scope: StreamScope, every: number): void {
  const { client, defer, events, log, signal } = scope
  /** When feeds retire, in milliseconds. */
  const dates = new Map<string, number>()
  const all = client.find(retirementKey)
  if (signal.aborted) return
  all?.add(dates)
  let cancel: (() => void) | undefined
  defer(() => {
    cancel?.()
    all?.delete(dates)
  })

  function ask(): Promise<Catalogue> {
    const key = all ?? scope
    const known = asking.get(key)
    if (known !== undefined) return known
    // The ends of a filter do not belong to it, and feeds may retire today.
    const yesterday = new Date(client.now() - DAY)
    const answer = client
      .discover({ expectedDecommissionAfter: yesterday, hidden: true })
      .finally(() => asking.delete(key))
    asking.set(key, answer)
    return answer
  }

  function warn(catalogue: Catalogue): void {
    const found = new Map(catalogue.map(feed => [feed.feedID, feed]))
    for (const feedID of dates.keys()) if (!found.has(feedID)) dates.delete(feedID)
    for (const feedID of scope.feedIDs) {
      const { name, expectedDecommissionAt: at } = found.get(feedID) ?? {}
      if (at === undefined || dates.get(feedID) === at.getTime()) continue
      dates.set(feedID, at.getTime())
      const daysLeft = Math.ceil((at.getTime() - client.now()) / DAY) + 0
      const day = at.toISOString().slice(0, 10)
      log.warn?.(
        `the service is going to retire feed ${name ?? feedID} on ${day}, in ${daysLeft} days`,
        { feedID },
      )
      events.emit<RetirementEvents>('retiring', { feedID, name, at, daysLeft })
    }
  }

  async function look(): Promise<void> {
    try {
      const catalogue = await ask()
      if (!signal.aborted) warn(catalogue)
    } catch {
      if (!signal.aborted) log.debug?.('the catalogue does not say which feeds are going to retire')
    }
    if (signal.aborted) return
    cancel = client.timing.after(every, () => void look())
  }
  void look()
}
