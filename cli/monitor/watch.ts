import type { Client } from '../../client/client.js'
import type { Feed } from '../../client/rest.js'
import type { ConnectionFacts, Status } from '../../client/status.js'
import type { Stream } from '../../client/stream/stream-api.js'
import type { DecodedReport } from '../../presets/versions.js'
import { timeOfDay } from '../output/feeds.js'
import type { Ages } from './ages.js'
import type { Board } from './board.js'
import type { PluginCounts } from './count-plugins.js'
import { createFeedTable, type FeedTable } from './feed-table.js'
import { createJournal, type Journal } from './journal.js'
import { measureLoad } from './load.js'
import type { FeedState } from './messages.js'
import { watchOrigins } from './origins.js'
import { RECENT, verdictOf } from './verdict.js'

/** Milliseconds from one sample to the next, and how many are remembered. */
const SAMPLE_INTERVAL = 2000
const SAMPLES = 90

/** What is watched, and where it is written. */
export interface Watched {
  readonly board: Board
  readonly client: Pick<Client, 'stack'>
  readonly stream: Stream<DecodedReport>
  readonly counts: ReadonlyMap<string, PluginCounts>
  readonly ages: Ages
  readonly feeds: readonly Feed[]
  /** How many pages are open. */
  readers(): number
  readonly now?: () => number
}

/** A stream that is watched. */
export interface Watch {
  /** Writes the present on the board. */
  refresh(): void
  stop(): void
}

/** Watches a stream from before its start to its end. */
export function watchStream(watched: Watched): Watch {
  const { board, client, stream, counts, ages, readers, now = Date.now } = watched
  const feeds = createFeedTable(board, watched.feeds)
  const journal = createJournal(board, now)
  const origins = watchOrigins(stream)
  const tally = listen({ stream, feeds, journal, now })
  const meter = measureLoad()
  const sampler = createSampler(board, now)
  let rate = 0

  function refresh(): void {
    feeds.write()
    const rows = origins.read()
    for (const row of rows) board.put('origins', `${row.name} ${row.host}`, row)
    const { accepted, deduplicated, late, backfilled, rejected, gaps, ...metrics } =
      stream.getMetrics()
    const { conflicts, errors } = tally
    const reconnects = metrics.partialReconnects + metrics.fullReconnects
    const totals = { accepted, deduplicated, late, backfilled, rejected, gaps }
    board.put('totals', 0, { rate, ...totals, conflicts, errors, reconnects })
    board.put('latency', 0, ages.read(now()))
    writeStack()
    board.put('verdict', 0, verdictOf({ states: feeds.states(), origins: rows, ...tally.read() }))
  }

  function writeStack(): void {
    // The monitor's own plugin is not counted, and no part of the picture.
    const shown = client.stack.filter(({ name }) => counts.has(name))
    for (const [index, { name, hooks, brings }] of shown.entries()) {
      const { reports, calls } = counts.get(name) as PluginCounts
      board.put('stack', index, {
        index,
        name,
        hooks: hooks.filter(hook => hook !== 'setup'),
        brings,
        ...(reports && { reports }),
        ...(calls && { calls }),
      })
    }
  }

  function sample(): void {
    const { accepted } = stream.getMetrics()
    rate = sampler.add(accepted, feeds.prices())
    board.put('load', 0, { ...meter.read(), readers: readers() })
  }

  const timer = setInterval(sample, SAMPLE_INTERVAL)
  refresh()
  return {
    refresh,
    stop() {
      clearInterval(timer)
      meter.stop()
    },
  }
}

/** Makes what writes samples on the board, and removes the oldest. */
function createSampler(board: Board, now: () => number) {
  let before = { accepted: 0, at: performance.now() }
  let last = 0
  return {
    /** Returns the rate since the sample before. */
    add(accepted: number, prices: (number | null)[]): number {
      const at = performance.now()
      const rate = Math.round(((accepted - before.accepted) / (at - before.at)) * 10_000) / 10
      before = { accepted, at }
      board.put('samples', ++last, { at: now(), rate, prices })
      board.remove('samples', last - SAMPLES)
      return rate
    },
  }
}

interface Listening {
  readonly stream: Stream<DecodedReport>
  readonly feeds: FeedTable
  readonly journal: Journal
  now(): number
}

/** Counts what happens in a stream, and writes it into the journal. */
function listen({ stream, feeds, journal, now }: Listening) {
  const recent = { gaps: [] as number[], conflicts: [] as number[] }
  const tally = { conflicts: 0, errors: 0, wasOpen: false, ended: undefined as string | undefined }

  function note(times: number[]): void {
    times.push(now())
    if (times.length > 1000) times.shift()
  }

  function countRecent(times: number[]): number {
    while (times.length > 0 && (times[0] as number) < now() - RECENT) times.shift()
    return times.length
  }

  stream.on('report', report => feeds.take(report, now()))
  stream.on('gap', ({ feedID, from, to, cause }) => {
    feeds.countGap(feedID)
    note(recent.gaps)
    journal.add('bad', 'gap', `${feeds.nameOf(feedID)}: ${timesOf(feedID, from, to)} (${cause})`)
  })
  stream.on('gap-filled', ({ gap, report }) =>
    journal.add(
      'good',
      'gap filled',
      `${feeds.nameOf(gap.feedID)}: ${timesOf(gap.feedID, report.observationsTimestamp)} came after all`,
    ),
  )
  stream.on('conflict', ({ first }) => {
    tally.conflicts++
    note(recent.conflicts)
    const { feedID, observationsTimestamp } = first
    journal.add(
      'bad',
      'conflict',
      `${feeds.nameOf(feedID)}: two values of ${timesOf(feedID, observationsTimestamp)}; the first was delivered`,
    )
  })
  stream.on('error', error => {
    tally.errors++
    journal.add('warning', 'error', withNames(error.message, feeds))
  })
  stream.on('status', status => {
    if (status.type === 'connected') tally.wasOpen = true
    noteStatus(status, feeds, journal)
  })
  stream.closed.then(
    () => {
      tally.ended = 'it was closed'
    },
    (error: Error) => {
      tally.ended = error.message
      journal.add('bad', 'ended', error.message)
    },
  )
  return {
    get conflicts() {
      return tally.conflicts
    },
    get errors() {
      return tally.errors
    },
    read: () => ({
      wasOpen: tally.wasOpen,
      recentGaps: countRecent(recent.gaps),
      recentConflicts: countRecent(recent.conflicts),
      ...(tally.ended === undefined ? {} : { ended: tally.ended }),
    }),
  }
}

/** A text with names in the place of feed ids. */
const withNames = (text: string, feeds: FeedTable): string =>
  text.replace(/0x[0-9a-f]{64}/g, feeds.nameOf)

const states: Readonly<Record<string, FeedState>> = {
  stale: 'stale',
  fresh: 'live',
  subscribed: 'waiting',
  unsubscribed: 'refused',
}

function noteStatus(status: Status, feeds: FeedTable, journal: Journal): void {
  const { type } = status
  if ('feedIDs' in status) {
    const names = status.feedIDs.slice(0, 3).map(feeds.nameOf).join(', ')
    const more = status.feedIDs.length > 3 ? ` and ${status.feedIDs.length - 3} more` : ''
    feeds.setState(status.feedIDs, states[type] as FeedState)
    journal.add(type === 'fresh' ? 'good' : 'warning', type, `${names}${more}`)
    return
  }
  if (type === 'connected') journal.add('good', 'connected', `origin ${nameOf(status)}`)
  else if (type === 'disconnected' && status.wasOpen)
    journal.add('bad', 'lost', `origin ${nameOf(status)}: ${status.error.message}`)
  else if (type === 'degraded' || type === 'failed')
    journal.add('bad', type, `origin ${nameOf(status)}: ${status.error.message}`)
  else if (type === 'joined' || type === 'left')
    journal.add('info', type, `origin ${nameOf(status)}`)
  else if (type === 'slow')
    journal.add('warning', 'slow', `${status.queued} reports wait to be taken`)
}

/** Prefers the short id to the host. */
function nameOf({ originID, host }: ConnectionFacts): string {
  return originID ?? host
}

/** Times of a feed as times of day, by UTC: one, or the first and the last. */
function timesOf(feedID: string, from: number, to = from): string {
  const last = to === from ? '' : ` to ${timeOfDay(feedID, to)}`
  return `${timeOfDay(feedID, from)}${last} UTC`
}
