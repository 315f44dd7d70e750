// A stream with continuity on a service that loses, delays and doubles, and the ledger of what it published.

import {
  type Client,
  type ContinuityOptions,
  continuity,
  createClient,
  dedup,
  haDiscovery,
  isStreamsError,
  rateLimit,
  retry,
  type Stream,
} from '../../index.js'
import type { Gap } from '../../report/gaps.js'
import { startVirtualTime, type VirtualTime } from '../../testing/virtual-time.js'
import { frameOf, makeRecord, type SignedRecord } from './signed-report.js'
import { createUpstream, LATENCY, type Upstream } from './upstream.js'

/** How a continuum begins. */
export interface ContinuumOptions {
  readonly origins: number
  readonly continuity: ContinuityOptions
  /** For jitter, delays and choices. */
  readonly random: () => number
}

/** What becomes of reports on their way. */
export interface Fate {
  /** Sent over the connections that are open. */
  readonly isStreamed: boolean
  /** To be had over REST. */
  readonly isStored: boolean
  readonly copies: number
  /** Milliseconds that they may be late, each by chance. */
  readonly lateBy: number
}

/** What becomes of a page request. */
export type PageFault =
  | { readonly status: number; readonly retryAfter?: number }
  /** Every other report of the page, which is said to be a part. */
  | 'partial'
  /** Half of the page, as the service may do. */
  | 'short'
  | 'slow'
  | 'reset'

/** A stream and its service. */
export interface Continuum {
  readonly time: VirtualTime
  readonly upstream: Upstream
  /** Publishes a report of a feed, now. */
  publish(feed: number, fate: Fate): void
  /** Sends reports that nobody published, so many seconds from the feed's newest. */
  outlier(feed: number, seconds: number, count: number): void
  /** The next page requests fail like this. */
  fail(faults: readonly PageFault[]): void
  /** Gaps announced so far. */
  readonly gaps: number
  /** Reports delivered so far. */
  readonly delivered: number
  /** Throws where a rule is broken. */
  check(): void
  /** Mends everything, publishes some more, waits, and holds all against the ledger. */
  finish(): Promise<void>
}

interface Entry {
  readonly from: number
  readonly to: number
  readonly isStored: boolean
  readonly storedAt: number
  readonly publishedAt: number
}

interface Feed {
  readonly feedID: string
  /** How much of its unit is in a second. */
  readonly second: number
  readonly ledger: Entry[]
  readonly published: Set<number>
  /** The times of reports that nobody published. */
  readonly outliers: Set<number>
  /** What has come over a connection, by time. */
  readonly received: Set<number>
  /** What came first: with it begins what is promised. */
  first: number | undefined
  readonly delivered: Set<number>
  newest: number
  readonly gaps: Gap[]
  /** Reports that came after their gap, without a word. */
  readonly unfilled: Set<number>
}

const REQUESTS = 10
const PER = 1000
const PAGE = 100
/** A range as long as this is looked up, but its break is no gap. */
const WIDE = 300
const SLOW = 20_000
/** After so many named predecessors that nobody has, a feed is known not to link. */
const UNFOUNDED = 3
const STORING = 1000
/** After this nothing is on its way any more, and nothing is tried again: the longest wait, and the longest hold. */
const SETTLED = 400_000

/** Starts a stream of two feeds, one in seconds and one in milliseconds, and connects it. */
export function startContinuum(options: ContinuumOptions): Continuum {
  const { random } = options
  const { reorderBuffer = 1000, maxBackfill: oldest = 300_000 } = options.continuity
  const time = startVirtualTime()
  const broken: string[] = []
  const hosts = Array.from({ length: options.origins }, (_, at) => `o${at + 1}.example`)
  const nothing = (): void => undefined
  const upstream = createUpstream(time, hosts, {
    started: nothing,
    opened() {
      if (upstream.open().length === 1) recoveredAt = time.now
    },
    left: nothing,
    ended: nothing,
  })
  const feeds: readonly Feed[] = [
    feedOf(`0x0003${'aa'.repeat(30)}`, 1),
    feedOf(`0x1003${'bb'.repeat(30)}`, 1000),
  ]
  const faults: PageFault[] = []
  /** When the stream was up again the last time. */
  let recoveredAt = 0
  const arrivals: number[] = []
  /** Reports delivered that nobody published. */
  let passed = 0

  function breaks(rule: string): void {
    broken.push(`${rule}, at ${Math.round(time.now)} ms`)
  }

  function find(feedID: string): Feed {
    const feed = feeds.find(each => each.feedID === feedID)
    if (feed === undefined) throw new Error(`there is no feed ${feedID}`)
    return feed
  }

  function pageOf(url: URL): readonly SignedRecord[] {
    const start = Number(url.searchParams.get('startTimestamp'))
    const limit = Math.min(PAGE, Number(url.searchParams.get('limit') ?? PAGE))
    const { feedID, ledger } = find(url.searchParams.get('feedID') ?? '')
    return ledger
      .filter(({ to, isStored, storedAt }) => to >= start && isStored && storedAt <= time.now)
      .slice(0, limit)
      .map(({ from, to }) => makeRecord(feedID, from, to))
  }

  function answer(url: URL, fault: PageFault | undefined): Response {
    if (typeof fault === 'object') {
      const { status, retryAfter } = fault
      const headers = retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }
      return new Response('{}', { status, headers })
    }
    const page = pageOf(url)
    const reports = page.filter((_, at) => fault !== 'partial' || at % 2 === 1)
    if (fault === 'short') reports.length = Math.ceil(reports.length / 2)
    return Response.json({ reports }, { status: fault === 'partial' ? 206 : 200 })
  }

  function counted(): void {
    arrivals.push(time.now)
    const [earliest] = arrivals.slice(-REQUESTS - 1)
    if (arrivals.length > REQUESTS && time.now - (earliest ?? 0) < PER)
      breaks(`more than ${REQUESTS} requests in a second`)
    if (arrivals.length > 2 * REQUESTS) arrivals.shift()
  }

  const fetch: typeof globalThis.fetch = (input, init) =>
    new Promise((resolve, reject) => {
      const { method, url, signal } = new Request(input, init)
      signal.addEventListener('abort', () => reject(signal.reason))
      time.outside(LATENCY, () => {
        // It is asked for the time, and has none.
        if (method === 'HEAD') return resolve(new Response(null, { status: 404 }))
        counted()
        const fault = faults.shift()
        const isAway = upstream.origins.every(({ manner }) => manner === 'refuse')
        if (isAway) hasFailed = true
        if (isAway || fault === 'reset') return reject(new TypeError('fetch failed'))
        time.outside(fault === 'slow' ? SLOW : LATENCY, () => resolve(answer(new URL(url), fault)))
      })
    })

  const client: Client = createClient({
    endpoint: 'https://api.example',
    wsEndpoint: hosts.map(host => `wss://${host}`).join(','),
    connect: upstream.connect,
    fetch,
    plugins: [
      continuity(options.continuity),
      dedup(),
      ...(hosts.length === 1 ? [] : [haDiscovery()]),
      retry({ random }),
      rateLimit(),
    ],
  })
  /** Pages could not be had, or fewer reports are held than may come before what they wait for. */
  let hasFailed = reorderBuffer < 100
  const stream: Stream = client.createStream(
    feeds.map(({ feedID }) => feedID),
    { maxReconnectAttempts: Number.POSITIVE_INFINITY, staleAfter: 0 },
  )
  const isSorted = options.continuity.order === 'sorted'
  stream.on('report', ({ feedID, observationsTimestamp: at }) => {
    const feed = find(feedID)
    if (feed.outliers.has(at)) {
      passed++
      return
    }
    if (feed.delivered.has(at)) breaks(`the report of ${at} came twice`)
    // What could not be fetched in time comes late, and so does what comes before the first report, and what a feed is
    // missing that names predecessors which nobody has: it seems not to link.
    const unfounded = feed.ledger.filter(({ isStored }) => !isStored).length
    const mayBeLate = hasFailed || at < (feed.first ?? 0) || unfounded >= UNFOUNDED
    if (isSorted && !mayBeLate && at <= feed.newest)
      breaks(`the report of ${at} came after that of ${feed.newest}`)
    if (isIn(feed, at)) feed.unfilled.add(at)
    if (!feed.published.has(at)) breaks(`nobody sent ${at}`)
    feed.delivered.add(at)
    feed.newest = Math.max(feed.newest, at)
  })
  stream.on('gap-filled', ({ gap, report: { observationsTimestamp: at } }) => {
    if (at < gap.from || at > gap.to) breaks(`${at} fills a gap that it is not in`)
    const feed = find(gap.feedID)
    if (!feed.unfilled.delete(at) && !feed.outliers.has(at)) breaks(`${at} fills no gap`)
  })
  stream.on('gap', gap => {
    const feed = find(gap.feedID)
    if (gap.from > gap.to) breaks(`a gap from ${gap.from} to ${gap.to}`)
    for (const other of feed.gaps)
      if (gap.from <= other.to && gap.to >= other.from)
        breaks(
          `a ${gap.cause} gap from ${gap.from} to ${gap.to} beside a ${other.cause} one from ${other.from} to ${other.to}`,
        )
    for (const at of feed.delivered)
      if (at >= gap.from && at <= gap.to) breaks(`a ${gap.cause} gap over the report of ${at}`)
    if (!isJust(feed, gap)) breaks(`a ${gap.cause} gap over what could be had, from ${gap.from}`)
    feed.gaps.push(gap)
  })

  /** What is stored is given up only where it is too old, or where it was made hard to get. */
  function isJust({ second, ledger, published }: Feed, { from, to, cause }: Gap): boolean {
    const stored = ledger.filter(each => each.isStored && each.to >= from && each.to <= to)
    if (stored.length === 0) return true
    if (cause === 'upstream') return false
    if (hasFailed) return true
    const newest = Math.max(...published)
    return (
      cause === 'backfill-limit' &&
      stored.every(each => newest - each.to >= (oldest / 1000) * second)
    )
  }

  stream.on('error', error => {
    // That a connection of several is lost is news, and nothing to do with reports.
    const isThin =
      isStreamsError(error, 'CONNECTIONS_PARTIAL') || isStreamsError(error, 'NO_REDUNDANCY')
    if (!isThin) breaks(`an error: ${String(error)}`)
  })
  void stream.connect()

  function send(feed: Feed, entry: Entry, { copies, lateBy }: Fate): void {
    const { from, to: at } = entry
    const text = frameOf(makeRecord(feed.feedID, from, at))
    for (const line of upstream.open()) {
      for (let copy = 0; copy < copies; copy++) {
        const ms = LATENCY + Math.floor(random() * lateBy)
        time.outside(ms - 0.5, () => {
          if (line.endedAt !== undefined || line.stalledAt !== undefined) return
          // What has not been announced as lost by then is to be delivered.
          feed.first ??= at
          if (!feed.outliers.has(at)) feed.received.add(at)
        })
        upstream.send(line, text, ms)
      }
    }
  }

  function publish(index: number, fate: Fate): void {
    const feed = feeds[index % feeds.length] as Feed
    const last = feed.ledger.at(-1)?.to
    const now = Math.floor((time.wall / 1000) * feed.second)
    const at = last === undefined ? now : Math.max(now, last + 1)
    const from = last === undefined ? at : last + 1
    const storedAt = time.now + Math.floor(random() * STORING)
    const entry: Entry = {
      from,
      to: at,
      isStored: fate.isStored,
      storedAt,
      publishedAt: time.now,
    }
    feed.ledger.push(entry)
    feed.published.add(at)
    // What nobody could fetch comes in time: else it would come after it was given up.
    const lateBy = fate.isStored ? fate.lateBy : Math.min(200, fate.lateBy)
    if (fate.isStreamed) send(feed, entry, { ...fate, lateBy })
  }

  function outlier(index: number, seconds: number, count: number): void {
    const feed = feeds[index % feeds.length] as Feed
    const { ledger, second, published, outliers } = feed
    const last = ledger.at(-1)?.to
    if (last === undefined || feed.first === undefined || faults.length > 0) return
    const first = last + seconds * second
    const times = Array.from({ length: count }, (_, at) => first + at)
    const end = first + count + WIDE * second
    // What is behind is known for old by what the service has between it and the front.
    const isAnnounced =
      seconds > 0 ||
      ledger.some(
        ({ to, isStored, storedAt }) =>
          isStored && storedAt <= time.now && to > end && to < feed.newest,
      )
    if (!isAnnounced || times.some(at => at < 0 || published.has(at) || outliers.has(at))) return
    for (const at of times) {
      outliers.add(at)
      send(
        feed,
        { from: at, to: at, isStored: false, storedAt: 0, publishedAt: time.now },
        {
          isStreamed: true,
          isStored: false,
          copies: 1,
          lateBy: 0,
        },
      )
    }
  }

  function checkHeld(feed: Feed): void {
    let held = 0
    for (const at of feed.received)
      if (at > (feed.first ?? 0) && !feed.delivered.has(at) && !isIn(feed, at)) held++
    if (held > (isSorted ? reorderBuffer + 2 : 1)) breaks(`${held} reports are delayed`)
  }

  /** What was published while the stream was down has been asked for, though the feed has said nothing since. */
  function checkOutage({ first = Number.POSITIVE_INFINITY, ...feed }: Feed): void {
    for (const { to: at, isStored, publishedAt } of feed.ledger) {
      if (!isStored || at <= first || publishedAt > recoveredAt) continue
      if (!feed.delivered.has(at) && !isIn(feed, at))
        breaks(`the report of ${at} was not asked for`)
    }
  }

  function checkLedger(feed: Feed): void {
    const { first, ledger, delivered } = feed
    if (first === undefined) {
      breaks('a feed has nothing')
      return
    }
    const isWide = ledger.some(({ from, to }) => to - from + 1 >= WIDE * feed.second)
    for (const { to: at, isStored } of ledger) {
      if (at <= first) continue
      const isMissing = !delivered.has(at) && !isIn(feed, at)
      if (isMissing && isStored) breaks(`the stored report of ${at} is lost`)
      if (isMissing && feed.received.has(at)) breaks(`the received report of ${at} is lost`)
      // Nobody has it; what goes missing beside a pause of the network's own is no gap.
      if (isMissing && !isWide) breaks(`nobody heard that ${at} is missing`)
    }
  }

  const total = (count: (feed: Feed) => number): number =>
    feeds.reduce((sum, feed) => sum + count(feed), 0)

  const continuum: Continuum = {
    time,
    upstream,
    get gaps() {
      return total(feed => feed.gaps.length)
    },
    get delivered() {
      return total(feed => feed.delivered.size)
    },
    publish,
    outlier,
    fail(given) {
      hasFailed = true
      faults.push(...given)
    },
    check() {
      for (const feed of feeds) {
        checkHeld(feed)
        for (const at of feed.unfilled) breaks(`the report of ${at} came after its gap`)
      }
      if (broken.length > 0) throw new Error([...new Set(broken)].slice(0, 5).join('\n'))
    },
    async finish() {
      faults.length = 0
      for (const origin of upstream.origins) origin.manner = 'accept'
      await time.pass(SETTLED)
      if (!hasFailed) feeds.forEach(checkOutage)
      // Two that come together are believed, wherever the feed has been; the third says that they were all.
      for (let more = 0; more < 3; more++) {
        for (const index of feeds.keys())
          publish(index, { isStreamed: true, isStored: true, copies: 1, lateBy: 0 })
        await time.pass(1000)
      }
      await time.pass(SETTLED)
      for (const feed of feeds) checkLedger(feed)
      continuum.check()
      const { gaps, accepted } = stream.getMetrics()
      if (gaps !== continuum.gaps) breaks('gaps are counted wrong')
      if (accepted !== continuum.delivered + passed) breaks('reports are counted wrong')
      const closing = client.close()
      await time.pass(1000)
      await closing
      if (time.timers > 0) breaks(`${time.timers} timers are left`)
      continuum.check()
    },
  }
  return continuum
}

function feedOf(feedID: string, second: number): Feed {
  return {
    feedID,
    second,
    ledger: [],
    published: new Set(),
    outliers: new Set(),
    received: new Set(),
    first: undefined,
    delivered: new Set(),
    newest: Number.NEGATIVE_INFINITY,
    gaps: [],
    unfilled: new Set(),
  }
}

function isIn({ gaps }: Pick<Feed, 'gaps'>, at: number): boolean {
  return gaps.some(({ from, to }) => at >= from && at <= to)
}
