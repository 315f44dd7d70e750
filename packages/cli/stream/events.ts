import type { ConnectionFacts, Feed, ReconnectingInfo, Status, Stream } from 'sluice/client'
import type { Gap } from 'sluice/report'
import { inOneLine } from '../errors.js'
import { green, red, yellow } from '../output/colours.js'
import { dateTime, duration, feedName, timeOfDay } from '../output/feeds.js'

/** How much is printed of what happens to a stream: errors that end it alone, what matters, or all. */
export type Verbosity = 'quiet' | 'normal' | 'verbose'

/** Says in a line each what happens to a stream, as it happens. Returns whether an error has been said. */
export function noteEvents(
  stream: Stream,
  feeds: readonly Feed[],
  verbosity: Verbosity,
  note: (line: string) => void,
): (thrown: unknown) => boolean {
  if (verbosity === 'quiet') return () => false
  const noted = new WeakSet<object>()
  const names = new Map(feeds.map(feed => [feed.feedID, feedName(feed)]))
  const nameOf = (feedID: string): string => names.get(feedID) ?? feedID
  let isUnsaved = false
  stream.on('error', error => {
    noted.add(error)
    // Each attempt to save them fails, once a second.
    if (error.message.startsWith('cursors could not be saved')) {
      if (isUnsaved) return
      isUnsaved = true
    }
    note(red(inOneLine(error.message)))
  })
  // The log of -v has these, too.
  if (verbosity === 'normal')
    stream.on('status', status => {
      const line = describeStatus(status, nameOf)
      if (line !== undefined) note(line)
    })
  stream.on('gap', gap => note(yellow(`${nameOf(gap.feedID)}: ${describeGap(gap)}`)))
  stream.on('gap-filled', ({ report: { feedID, observationsTimestamp: time } }) =>
    note(green(`${nameOf(feedID)}: the report of ${timeOfDay(feedID, time)} came after its gap`)),
  )
  stream.on('conflict', ({ first: { feedID, observationsTimestamp: time } }) =>
    note(red(`${nameOf(feedID)}: two different reports of ${timeOfDay(feedID, time)}`)),
  )
  return thrown => noted.has(thrown as object)
}

function describeGap({ feedID, from, to, cause }: Gap): string {
  return `gap from ${dateTime(feedID, from)} to ${timeOfDay(feedID, to)} (${duration(feedID, to - from + 1)}): ${causes[cause]}`
}

const causes: Readonly<Record<Gap['cause'], string>> = {
  upstream: 'the service has no reports there',
  unavailable: 'the reports can’t be fetched',
  'backfill-limit': 'the reports are too old, or too many ranges are missing, to be fetched',
  overflow: 'the reports were not taken in time',
}

/** A change of a connection or a feed in a line; undefined where it is not worth one. */
function describeStatus(status: Status, nameOf: (feedID: string) => string): string | undefined {
  const list = (feedIDs: readonly string[]): string => feedIDs.map(nameOf).join(', ')
  switch (status.type) {
    case 'connected':
      return green(`${originOf(status)} is connected`)
    case 'disconnected':
      return status.wasOpen
        ? yellow(`${originOf(status)} is lost: ${reasonOf(status.error)}`)
        : describeAway(originOf(status), status.error)
    case 'reconnecting':
      return describeAttempt(originOf(status), status)
    case 'degraded':
      return yellow(
        `${originOf(status)} rejects again: ${reasonOf(status.error)}; next attempt in ${seconds(status.delayMs)}`,
      )
    case 'failed':
      return red(`${originOf(status)} is given up`)
    case 'stale':
      return yellow(`no report for ${seconds(status.staleMs)}: ${list(status.feedIDs)}`)
    case 'fresh':
      return green(`reports again: ${list(status.feedIDs)}`)
    case 'backpressure':
      return yellow(`${status.queued} reports wait to be printed`)
    case 'behind':
      return yellow(
        `${status.waiting} reports wait ${status.cause === 'signers' ? 'for their signers' : 'to be verified'}, the oldest for ${seconds(status.oldestMs)}`,
      )
    case 'caught-up':
      return green('reports are verified in time again')
    default:
      return undefined
  }
}

/** Says that a host, or an origin, did not answer. */
export function describeAway(name: string, error: Error): string {
  return yellow(`${name} can’t be reached: ${reasonOf(error)}`)
}

/** Says when it is asked again. */
export function describeAttempt(
  name: string,
  { attempt, maxAttempts, delayMs }: Pick<ReconnectingInfo, 'attempt' | 'maxAttempts' | 'delayMs'>,
): string {
  return yellow(`${name}: attempt ${attempt} of ${count(maxAttempts)} in ${seconds(delayMs)}`)
}

/** The short id of an origin, or else its host. */
export function originOf({ originID, host }: Pick<ConnectionFacts, 'originID' | 'host'>): string {
  return originID === undefined ? host : `origin ${originID}`
}

/** The first line of an error, without the request, which may name every feed. */
function reasonOf({ message }: Error): string {
  return message.replace(/\n.*/s, '').replace(/GET \/api\/v1\/\S+:? /, '')
}

function count(attempts: number): string {
  return attempts === Number.POSITIVE_INFINITY ? 'any number' : String(attempts)
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
