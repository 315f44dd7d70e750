import type { ConnectionFacts, Status, Stream } from 'sluice/client'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { timeOfDay } from '../output/feeds.js'
import type { FeedTable } from './feed-table.js'
import type { Journal } from './journal.js'
import type { FeedState } from './messages.js'
import { type Condition, RECENT } from './verdict.js'

interface Listening {
  readonly stream: Stream<DecodedReport>
  readonly feeds: FeedTable
  readonly journal: Journal
  now(): number
}

/** What has happened in a stream. */
export interface Tally {
  readonly conflicts: number
  readonly errors: number
  read(): Pick<Condition, 'wasOpen' | 'isBehind' | 'recentGaps' | 'recentConflicts' | 'ended'>
}

/** Counts what happens in a stream, and writes it into the journal. */
export function noteEvents({ stream, feeds, journal, now }: Listening): Tally {
  const recent = { gaps: [] as number[], conflicts: [] as number[] }
  const tally = {
    conflicts: 0,
    errors: 0,
    wasOpen: false,
    isBehind: false,
    ended: undefined as string | undefined,
  }

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
    else if (status.type === 'behind') tally.isBehind = true
    else if (status.type === 'caught-up') tally.isBehind = false
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
      isBehind: tally.isBehind,
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
  else if (type === 'backpressure')
    journal.add('warning', 'backpressure', `${status.queued} reports wait to be taken`)
  else if (type === 'behind')
    journal.add(
      'bad',
      'behind',
      `${status.waiting} reports wait to be verified, the oldest for ${status.oldestMs} ms`,
    )
  else if (type === 'caught-up') journal.add('good', 'caught up', 'reports are verified in time')
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
