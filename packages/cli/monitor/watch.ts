import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Client, Feed, Status, Stream } from 'sluice/client'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { marketReasons } from 'sluice/plugins/market-guard'
import { given } from '../command.js'
import { joinOrigins, reasonOf, tellEvents } from '../stream/events.js'
import { type Board, Journal } from './board.js'
import { FeedTable } from './feed-table.js'
import type { Ages, PluginCounts, WatchedEvents } from './measured-client.js'
import type { FeedDetails, FeedState, Load, OriginRow, RateDetails } from './messages.js'
import { Readers } from './readers.js'
import { type RangeName, Series } from './series.js'
import { isUp, RECENT, type RecentEvents, verdictOf } from './verdict.js'

/** Milliseconds from one sample to the next. */
const SAMPLE_INTERVAL = 2000
/** How many samples a new reader gets: three minutes of them. */
const SAMPLES = 90

/** A stream of a measured client. */
export interface Watched {
  readonly client: Pick<Client, 'stack'>
  readonly stream: Stream<DecodedReport, WatchedEvents>
  readonly counts: ReadonlyMap<string, PluginCounts>
  readonly ages: Ages
  readonly feeds: readonly Feed[]
  /** The names of the client's plugins. Only a plugin of the stack declares its event. */
  readonly names: ReadonlySet<string>
}

/** The state of a feed, by the status that begins the state. */
const states: Readonly<Partial<Record<Status['type'], FeedState>>> = {
  stale: 'stale',
  fresh: 'live',
  subscribed: 'waiting',
  unsubscribed: 'refused',
}
/** The kinds of events that repeat while a connection is lost. The journal leaves them out. */
const repeated: ReadonlySet<string> = new Set(['attempt', 'unreachable'])

/**
 * Watches a stream from before its start to its end, and writes its state on a board for the
 * readers of the page.
 */
export class Watch {
  readonly readers: Readers
  readonly #board: Board
  readonly #watched: Watched
  readonly #feeds: FeedTable
  readonly #journal: Journal
  readonly #reconnects = new Map<string, number>()
  /** Since when an origin has missed a connection that was open. */
  readonly #away = new Map<string, number>()
  /** When feeds retire. */
  readonly #retiring = new Map<string, Date>()
  readonly #startedAt = Date.now()
  readonly #rates = new Series()
  readonly #gaps = new Recent()
  readonly #conflicts = new Recent()
  readonly #meter = new LoadMeter()
  readonly #timer: NodeJS.Timeout
  #errors = 0
  #rate = 0
  #samples = 0
  #sampled = { accepted: 0, at: performance.now() }
  #wasOpen = false
  #behindSince: number | undefined
  #ended: { readonly why: string; readonly at: number } | undefined
  /** Milliseconds by which this machine's clock is behind the present. */
  #clockOffset = 0

  constructor(board: Board, watched: Watched) {
    this.#board = board
    this.#watched = watched
    this.#feeds = new FeedTable(board, watched.feeds)
    this.#journal = new Journal(board, Date.now)
    this.readers = new Readers(board, () => this.#refresh())
    this.#listen(watched.stream)
    if (watched.names.has('market-guard')) this.#listenToMarket(watched)
    this.#timer = setInterval(() => this.#sample(), SAMPLE_INTERVAL)
    this.#refresh()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#meter.stop()
  }

  /** The reports per second of a range. */
  rate(range: RangeName): RateDetails {
    return { range, rates: this.#rates.read(range, Date.now()) }
  }

  /** A feed in a range; undefined if there is no such feed. */
  feed(feed: string, range: RangeName): FeedDetails | undefined {
    return this.#feeds.details(feed, range, Date.now())
  }

  #listen(stream: Watched['stream']): void {
    const feeds = this.#feeds
    stream.on('report', report => {
      const now = Date.now()
      feeds.take(report, now, now + this.#clockOffset)
    })
    stream.on('gap', gap => {
      feeds.addGap(gap, Date.now())
      this.#gaps.add(feeds.nameOf(gap.feedID))
    })
    stream.on('conflict', ({ first, other }) => {
      feeds.addConflict(first, other, Date.now())
      const from = joinOrigins(first.origin, other.origin)
      this.#conflicts.add(`${feeds.nameOf(first.feedID)}, from ${from}`)
    })
    stream.on('connection-lost', ({ origin }) => {
      if (!this.#away.has(origin)) this.#away.set(origin, Date.now())
    })
    stream.on('connection-restored', ({ origin }) => {
      this.#reconnects.set(origin, (this.#reconnects.get(origin) ?? 0) + 1)
      const own = stream.getConnectionDetails().filter(each => each.origin === origin)
      if (own.every(({ state }) => state === 'connected')) this.#away.delete(origin)
    })
    stream.on('status', status => {
      if (status.type === 'connected') this.#wasOpen = true
      else if (status.type === 'behind') this.#behindSince ??= Date.now()
      else if (status.type === 'caught-up') this.#behindSince = undefined
      const state = states[status.type]
      if (state !== undefined && 'feedIDs' in status)
        feeds.setState(status.feedIDs, state, Date.now())
    })
    if (this.#watched.names.has('candles')) stream.on('candle', candle => feeds.addCandle(candle))
    if (this.#watched.names.has('retirement'))
      stream.on('retiring', ({ feedID, at }) => {
        this.#retiring.set(feedID, at)
        const day = at.toISOString().slice(0, 10)
        this.#journal.add('warning', 'retiring', `${feeds.nameOf(feedID)}: it retires on ${day}`)
      })
    tellEvents(stream, feeds.nameOf, ({ level, kind, text, error }) => {
      if (error !== undefined) this.#errors++
      // The journal shows feeds by name, also in the text of an error.
      if (!repeated.has(kind))
        this.#journal.add(level, kind, text.replace(/0x[0-9a-f]{64}/g, feeds.nameOf))
    })
    stream.closed.then(
      () => {
        this.#ended = { why: 'it was closed', at: Date.now() }
      },
      ({ message }: Error) => {
        this.#ended = { why: message, at: Date.now() }
        this.#journal.add('bad', 'ended', message)
      },
    )
  }

  /** Shows the verdicts of the market guard. */
  #listenToMarket({ stream, feeds }: Watched): void {
    const table = this.#feeds
    const all = feeds.map(({ feedID }) => feedID)
    table.endMarkets(all, marketReasons['no-report'].text, Date.now())
    stream.on('market', verdict => table.setMarket(verdict.feedID, verdict))
    // The guard forgets feeds that have left, and all at the end. It does not announce that.
    stream.on('status', status => {
      if (status.type === 'unsubscribed')
        table.endMarkets(status.feedIDs, 'the feed may not be read', Date.now())
    })
    const end = () => table.endMarkets(all, 'the stream has ended', Date.now())
    stream.closed.then(end, end)
  }

  /** Brings the board up to date. */
  #refresh(): void {
    const board = this.#board
    const { stream, ages } = this.#watched
    const metrics = stream.getMetrics()
    const origins = this.#originRows()
    this.#feeds.write()
    for (const row of origins) board.put('origins', `${row.name} ${row.host}`, row)
    const { accepted, deduplicated, outOfOrder, backfilled, malformed, gaps } = metrics
    board.put('totals', 0, {
      ...{ rate: this.#rate, accepted, deduplicated, outOfOrder, backfilled, malformed, gaps },
      conflicts: this.#conflicts.total,
      errors: this.#errors,
      reconnects: metrics.partialReconnects + metrics.fullReconnects,
    })
    board.put('latency', 0, ages.read(Date.now()))
    this.#writeStack()
    const condition = {
      ...{ states: this.#feeds.states(), origins },
      ...given({ stale: this.#feeds.group('stale'), refused: this.#feeds.group('refused') }),
      gaps: this.#gaps.read(),
      conflicts: this.#conflicts.read(),
      wasOpen: this.#wasOpen,
      retiring: [...this.#retiring.values()],
      ...given({ tradable: this.#feeds.tradable() }),
      ...given({ behindSince: this.#behindSince, ended: this.#ended }),
    }
    board.put('verdict', 0, verdictOf(condition))
  }

  /** The origins of the stream, each with the totals of all its connections. */
  #originRows(): readonly OriginRow[] {
    const { stream } = this.#watched
    const details = stream.getConnectionDetails()
    return Object.entries(stream.getMetrics().origins).map(([origin, metrics]): OriginRow => {
      const { originID, status, received, first, outOfOrder, roundTripMs } = metrics
      const own = details.filter(connection => connection.origin === origin)
      const open = own.filter(({ state }) => state === 'connected').length
      const host = own[0]?.host ?? new URL(origin).host
      const error = own.find(({ state }) => state !== 'connected')?.lastError
      const awaySince = this.#away.get(origin) ?? this.#startedAt
      // The last round trip of a lost connection says nothing of now.
      const trip = open === 0 ? undefined : roundTripMs
      const isWhole = isUp({ open, connections: own.length })
      if (isWhole) this.#away.delete(origin)
      return {
        ...{ name: originID ?? host, host, status, open },
        connections: own.length,
        ...given({ roundTripMs: trip && Math.round(trip * 10) / 10 }),
        ...given({ awaySince: isWhole ? undefined : awaySince }),
        ...{ received, first, outOfOrder },
        reconnects: this.#reconnects.get(origin) ?? 0,
        ...given({ reason: error && reasonOf(error).slice(0, 200) }),
      }
    })
  }

  #writeStack(): void {
    const { client, counts } = this.#watched
    // The monitor's own plugin is not counted, and not shown.
    const shown = client.stack.filter(({ name }) => counts.has(name))
    for (const [index, { name, hooks: all, brings }] of shown.entries()) {
      const hooks = all.filter(hook => hook !== 'setup')
      const { reports, calls } = counts.get(name) as PluginCounts
      this.#board.put('stack', index, { index, name, hooks, brings, ...given({ reports, calls }) })
    }
  }

  #sample(): void {
    const { accepted, clockOffsetMs } = this.#watched.stream.getMetrics()
    this.#clockOffset = clockOffsetMs
    const at = performance.now()
    const before = this.#sampled
    this.#sampled = { accepted, at }
    this.#rate = Math.round(((accepted - before.accepted) / (at - before.at)) * 10_000) / 10
    this.#rates.add(this.#rate, Date.now())
    const row = { at: Date.now(), rate: this.#rate, prices: this.#feeds.prices() }
    this.#board.put('samples', ++this.#samples, row)
    this.#board.remove('samples', this.#samples - SAMPLES)
    this.#board.put('load', 0, { ...this.#meter.read(), readers: this.readers.count })
  }
}

/** Counts all events, and the events that are recent enough for the verdict. */
class Recent {
  readonly #times: number[] = []
  #last = ''
  total = 0

  /** Adds an event. `text` says what it concerns. */
  add(text: string): void {
    this.total++
    this.#last = text
    this.#times.push(Date.now())
    // A higher count would not change the level of the verdict.
    if (this.#times.length > 1000) this.#times.shift()
  }

  read(): RecentEvents {
    const times = this.#times
    while (times.length > 0 && (times[0] as number) < Date.now() - RECENT) times.shift()
    return { count: times.length, since: times[0], last: this.#last }
  }
}

/** Milliseconds between two measures of the event loop's delay. Shorter delays are not seen. */
const RESOLUTION = 10

/** Measures the resources that this process uses. */
class LoadMeter {
  readonly #delay = monitorEventLoopDelay({ resolution: RESOLUTION })
  #cpu = process.cpuUsage()
  #since = performance.now()

  constructor() {
    this.#delay.enable()
  }

  /** The load since the last reading. */
  read(): Omit<Load, 'readers'> {
    const { user, system } = process.cpuUsage(this.#cpu)
    const elapsed = performance.now() - this.#since
    const load = {
      loopP99Ms: delayIn(this.#delay.percentile(99)),
      loopMaxMs: delayIn(this.#delay.max),
      cpu: Math.round(((user + system) / 1000 / elapsed) * 1000) / 1000,
      memoryBytes: process.memoryUsage.rss(),
    }
    this.#delay.reset()
    this.#cpu = process.cpuUsage()
    this.#since = performance.now()
    return load
  }

  stop(): void {
    this.#delay.disable()
  }
}

/**
 * Converts the nanoseconds of a measure to milliseconds of delay. Each measure includes the
 * resolution, which is subtracted.
 */
function delayIn(nanoseconds: number): number {
  return Number.isFinite(nanoseconds) ? Math.max(0, Math.round(nanoseconds / 1e6 - RESOLUTION)) : 0
}
