import type { Client, Feed, Stream } from 'sluice/client'
import type { DecodedReport } from 'sluice/plugins/decoders'
import type { Ages } from './ages.js'
import type { Board } from './board.js'
import type { PluginCounts } from './count-plugins.js'
import { createFeedTable } from './feed-table.js'
import { createJournal } from './journal.js'
import { measureLoad } from './load.js'
import { watchOrigins } from './origins.js'
import { noteEvents } from './stream-events.js'
import { verdictOf } from './verdict.js'

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
  const tally = noteEvents({ stream, feeds, journal, now })
  const meter = measureLoad()
  const sampler = createSampler(board, now)
  let rate = 0

  function refresh(): void {
    feeds.write()
    const rows = origins.read()
    for (const row of rows) board.put('origins', `${row.name} ${row.host}`, row)
    const { accepted, deduplicated, outOfOrder, backfilled, malformed, gaps, ...metrics } =
      stream.getMetrics()
    const { conflicts, errors } = tally
    const reconnects = metrics.partialReconnects + metrics.fullReconnects
    const totals = { accepted, deduplicated, outOfOrder, backfilled, malformed, gaps }
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
