import type { ConnectionFacts, Feed, ReconnectingInfo, Status, Stream } from 'sluice/client'
import { isStreamsError } from 'sluice/core'
import type { Gap } from 'sluice/report'
import { given } from '../command.js'
import type { EventLevel } from '../monitor/messages.js'
import { inOneLine, inOptions } from '../one-line.js'
import { bold, green, red, yellow } from '../output/colours.js'
import { count, dateRange, dateTime, duration, feedName } from '../output/feeds.js'

/**
 * How many events of a stream a command prints: only the error that ends the stream, the important
 * events, or all.
 */
export type Verbosity = 'quiet' | 'normal' | 'verbose'

/** An event of a stream in words, for a line on a terminal or on the monitor's page. */
export interface StreamEvent {
  readonly level: EventLevel
  /** A word for the kind of event: `gap`, `lost`, … */
  readonly kind: string
  readonly text: string
  /** True if the client logs the event, too. */
  readonly isStatus?: boolean
  readonly error?: Error
}

/** The most feeds that a line names. */
const MOST_NAMES = 10

/**
 * Calls `tell` with each event of a stream in words, as it happens. `nameOf` returns the name of a
 * feed.
 */
export function tellEvents(
  stream: Stream,
  nameOf: (feedID: string) => string,
  tell: (event: StreamEvent) => void,
): void {
  stream.on('error', error => {
    const from = senderOf(error)
    const text = `${from === undefined ? '' : `${nameOrigin(from)}: `}${inOneLine(error.message)}`
    tell({ level: 'bad', kind: 'error', text, error })
  })
  stream.on('status', status => {
    const [level, kind, text] = describeStatus(status, nameOf) ?? []
    if (level !== undefined && kind !== undefined && text !== undefined)
      tell({ level, kind, text, isStatus: true })
  })
  stream.on('gap', ({ feedID, from, to, cause }) => {
    const range = `${dateRange(feedID, from, to)} (${duration(feedID, to - from + 1)})`
    tell({
      level: 'warning',
      kind: 'gap',
      text: `${nameOf(feedID)}: gap from ${range}: ${causes[cause]}`,
    })
  })
  stream.on('gap-filled', ({ report: { feedID, observationsTimestamp: time } }) =>
    tell({
      level: 'good',
      kind: 'gap filled',
      text: `${nameOf(feedID)}: the report of ${dateTime(feedID, time)} came after its gap`,
    }),
  )
  stream.on('conflict', ({ first, other }) => {
    const { feedID, observationsTimestamp: time } = first
    const what = `two different reports of ${dateTime(feedID, time)}`
    const from = joinOrigins(first.origin, other.origin)
    tell({ level: 'bad', kind: 'conflict', text: `${nameOf(feedID)}: ${what}, from ${from}` })
  })
}

const colours: Readonly<Record<EventLevel, (text: string) => string>> = {
  good: green,
  info: text => text,
  warning: yellow,
  bad: red,
}
/** The kinds of events that a command does not print. */
const minor: ReadonlySet<string> = new Set(['joined', 'left', 'subscribed', 'unsubscribed'])

/**
 * Prints the events of a stream. Returns a function that says whether an error has been printed.
 */
export function noteEvents(
  stream: Stream,
  feeds: readonly Feed[],
  verbosity: Verbosity,
  note: (line: string) => void,
): (thrown: unknown) => boolean {
  if (verbosity === 'quiet') return () => false
  const noted = new WeakSet<object>()
  const names = new Map(feeds.map(feed => [feed.feedID, feedName(feed)]))
  let isUnsaved = false
  tellEvents(
    stream,
    feedID => names.get(feedID) ?? feedID,
    function noteEvent({ level, kind, text, isStatus, error }) {
      if (error !== undefined) noted.add(error)
      if (minor.has(kind) || (isStatus && verbosity === 'verbose')) return
      // While cursors can't be saved, an attempt fails every second, so only the first failure is
      // printed.
      if (text.startsWith('cursors could not be saved')) {
        if (isUnsaved) return
        isUnsaved = true
      }
      note(colours[level](text))
    },
  )
  return thrown => noted.has(thrown as object)
}

const causes: Readonly<Record<Gap['cause'], string>> = {
  upstream: 'the service has no reports there',
  unavailable: 'the reports can’t be fetched',
  'backfill-limit': 'the reports are too old, or too many ranges are missing, to be fetched',
  overflow: 'the reports were not taken in time',
}

/** Describes a change of a connection or of feeds; undefined if the change needs no line. */
function describeStatus(
  status: Status,
  nameOf: (feedID: string) => string,
): readonly [EventLevel, string, string] | undefined {
  const { type } = status
  // The service is not to blame for a store that has ended the stream.
  if ('error' in status && isStreamsError(status.error, 'SINK')) return undefined
  const names = (feedIDs: readonly string[]): string => {
    const more = feedIDs.length > MOST_NAMES ? ` and ${feedIDs.length - MOST_NAMES} more` : ''
    return `${feedIDs.slice(0, MOST_NAMES).map(nameOf).join(', ')}${more}`
  }
  switch (type) {
    case 'connected':
      return ['good', type, `${originOf(status)} is connected`]
    case 'disconnected':
      return status.wasOpen
        ? ['warning', 'lost', `${originOf(status)} is lost: ${reasonOf(status.error)}`]
        : ['warning', 'unreachable', awayText(originOf(status), status.error)]
    case 'reconnecting':
      return ['warning', 'attempt', attemptText(originOf(status), status)]
    case 'degraded': {
      const reason = reasonOf(status.error)
      const next = `next attempt in ${seconds(status.delayMs)}`
      return ['bad', type, `${originOf(status)} rejects again: ${reason}; ${next}`]
    }
    case 'failed':
      return ['bad', type, `${originOf(status)} is given up: ${reasonOf(status.error)}`]
    case 'joined':
    case 'left':
      return ['info', type, originOf(status)]
    case 'stale':
      return ['warning', type, `no report for ${seconds(status.staleMs)}: ${names(status.feedIDs)}`]
    case 'fresh':
      return ['good', type, `reports again: ${names(status.feedIDs)}`]
    case 'subscribed':
    case 'unsubscribed':
      return ['warning', type, names(status.feedIDs)]
    case 'backpressure':
      return ['warning', type, `${status.queued} reports wait for their handler`]
    case 'behind': {
      const what = status.cause === 'signers' ? 'for their signers' : 'to be verified'
      const oldest = `the oldest for ${seconds(status.oldestMs)}`
      return ['bad', type, `${status.waiting} reports wait ${what}, ${oldest}`]
    }
    case 'caught-up':
      return ['good', 'caught up', 'reports are verified in time again']
    default:
      return undefined
  }
}

function awayText(name: string, error: Error): string {
  return `${name} can’t be reached: ${reasonOf(error)}`
}

function attemptText(
  name: string,
  { attempt, maxAttempts, delayMs }: Pick<ReconnectingInfo, 'attempt' | 'maxAttempts' | 'delayMs'>,
): string {
  const most = maxAttempts === Number.POSITIVE_INFINITY ? 'any number' : maxAttempts
  return `${name}: attempt ${attempt} of ${most} in ${seconds(delayMs)}`
}

/** Says in two lines that a service did not answer, and when the command asks again. */
export function describeAway(
  name: string,
  error: Error,
  next: Parameters<typeof attemptText>[1],
): readonly string[] {
  return [yellow(awayText(name, error)), yellow(attemptText(name, next))]
}

/** The short id of an origin, or else its host. */
function originOf({ originID, host }: Pick<ConnectionFacts, 'originID' | 'host'>): string {
  return originID === undefined ? host : `origin ${originID}`
}

/**
 * Names an origin as `originOf` does, by its configured URL. The wire of a log has a name instead
 * of a URL.
 */
export function nameOrigin(origin: string): string {
  const { hash, host } = URL.canParse(origin) ? new URL(origin) : { hash: '', host: origin }
  return originOf({ ...given({ originID: hash.slice(1) || undefined }), host })
}

/** Names the origins of two reports. */
export function joinOrigins(one: string, other: string): string {
  return one === other ? nameOrigin(one) : `${nameOrigin(one)} and ${nameOrigin(other)}`
}

/** The origin whose message or report caused an error. */
function senderOf(error: Error): string | undefined {
  if (!isStreamsError(error)) return undefined
  return isStreamsError(error, 'VERIFICATION') ? error.report?.origin : error.origin
}

/** The first line of an error, without the request, which may name every feed. */
export function reasonOf({ message }: Error): string {
  return inOptions(message.replace(/\n.*/s, '').replace(/GET \/api\/v1\/\S+:? /, ''))
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

/**
 * The counts of a stream, in lines. There are no lines if the stream has failed before its first
 * report.
 */
export function describeTotals(
  stream: Pick<Stream, 'getMetrics'>,
  hasFailed: boolean,
): readonly string[] {
  const metrics = stream.getMetrics()
  if (hasFailed && metrics.accepted === 0) return []
  const { accepted, verified, verificationFailed, superseded } = metrics
  // A report is rejected if it is malformed, or fails its verification.
  const rejected = metrics.malformed + verificationFailed
  const line = [
    count(accepted, 'report'),
    ...(verified + verificationFailed > 0 ? [`${verified} verified`] : []),
    `duplicates ${metrics.deduplicated}`,
    `out of order ${metrics.outOfOrder}`,
    ...(superseded > 0 ? [`superseded ${superseded}`] : []),
    `fetched later ${metrics.backfilled}`,
    `gaps ${metrics.gaps}`,
    `dropped ${metrics.dropped}`,
    `rejected ${rejected}`,
    `reconnections ${metrics.partialReconnects + metrics.fullReconnects}`,
  ]
  const origins = Object.values(metrics.origins).filter(({ originID }) => originID !== undefined)
  return [
    bold(line.join(', ')),
    ...origins.map(({ originID, received, first, outOfOrder, roundTripMs }) => {
      const trip = roundTripMs === undefined ? '' : `, round trip ${Math.round(roundTripMs)} ms`
      return `origin ${originID}: received ${received}, first with ${first}, out of order with ${outOfOrder}${trip}`
    }),
  ]
}
