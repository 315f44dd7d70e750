import type { StoredMsg } from '@nats-io/jetstream'
import { createDeferred } from 'sluice/core'
import { feedResolution } from 'sluice/report'
import { streamError } from './errors.js'
import { type FrameFields, readFrame } from './frame.js'
import { CLOCK_MARGIN, type ReportLog } from './log.js'
import { subjectOf } from './subjects.js'

/** How a log is searched for reports of a time. */
export interface ScanOptions {
  /**
   * How many milliseconds after its observation a report may be published. The search looks for
   * missing reports up to this delay.
   */
  readonly maxPublishDelay: number
}

/**
 * How many milliseconds before the newest message the search for the newest report begins. Reports
 * may be published out of order.
 */
const NEWEST_MARGIN = 60_000
/** How many messages one request to the log asks for at least. */
const MIN_BATCH = 64
/** How many messages one request to the log asks for at most. */
const MAX_BATCH = 1024
/** Milliseconds that a server that is behind the others has to catch up. */
const PATIENCE = 10_000
/** Milliseconds after which a server that is behind is asked again. */
const BEHIND_DELAY = 100

/** For how many pages the position of the next page is remembered. */
const MAX_PLACES = 10_000

/** Finds pages of reports. */
export type FindPage = (
  feedID: string,
  start: number,
  limit: number,
  signal?: AbortSignal,
) => Promise<readonly FrameFields[]>

/** A message's report, and its number in the log. */
interface Found {
  readonly seq: number
  readonly report: FrameFields
}

/**
 * Creates a function that finds the reports of a feed from a time on, ascending, at most `limit`.
 * Reports may be published out of order. So it reads on until no report is missing on the page, or
 * until a missing report would be later than `maxPublishDelay`. It remembers where the next page
 * begins. So a caller that reads page after page reads each message once.
 */
export function createPages(log: ReportLog, { maxPublishDelay }: ScanOptions): FindPage {
  /** For a feed and a time: the position in the log where the page begins. */
  const places = new Map<string, number>()

  function remember(feedID: string, page: readonly FrameFields[], rest: number): void {
    const last = page.at(-1)
    if (last === undefined) return
    const [oldest] = places.keys()
    if (places.size >= MAX_PLACES && oldest !== undefined) places.delete(oldest)
    places.set(`${feedID}@${last.observationsTimestamp + 1}`, rest)
  }

  return async function findPage(feedID, start, limit, signal) {
    const unit = feedResolution(feedID) === 's' ? 1000 : 1
    const found: Found[] = []
    const batch = Math.min(MAX_BATCH, Math.max(MIN_BATCH, limit + MIN_BATCH / 4))
    const seq = places.get(`${feedID}@${start}`)
    const since = new Date(Math.max(0, start * unit - CLOCK_MARGIN))
    let from: Position = seq === undefined ? { start_time: since } : { seq }
    const isEnd = createEndCheck(log, feedID, since)
    for (;;) {
      const messages = await readBatch(log, feedID, from, batch, signal)
      for (const { data, seq } of messages) {
        const report = readFrame(data, feedID)
        if (report !== undefined && report.observationsTimestamp >= start)
          found.push({ seq, report })
      }
      const last = messages.at(-1)
      const { page, isFull } = sortPage(found, limit)
      const end = page.at(-1)
      const next = last === undefined ? undefined : last.seq + 1
      const isPast =
        last !== undefined &&
        last.time.getTime() > (end?.observationsTimestamp ?? 0) * unit + maxPublishDelay
      const isEnough = isFull && (isPast || isWhole(page, start))
      if (isEnough || (messages.length < batch && (await isEnd(next ?? position(from))))) {
        if (next !== undefined) remember(feedID, page, firstAfter(found, end, next))
        return page
      }
      if (next !== undefined) from = { seq: next }
    }
  }
}

/**
 * The number of the first message that was read and whose report is later than the page. If there
 * is none, this is `next`.
 */
function firstAfter(found: readonly Found[], end: FrameFields | undefined, next: number): number {
  const time = end?.observationsTimestamp ?? -1
  return found.reduce(
    (first, { seq, report }) => (report.observationsTimestamp > time && seq < first ? seq : first),
    next,
  )
}

/**
 * Finds the report of a feed with the newest observations. Returns undefined if the feed has no
 * report.
 */
export async function findLatest(
  log: ReportLog,
  feedID: string,
  signal?: AbortSignal,
): Promise<FrameFields | undefined> {
  const newest = await log.newest(feedID)
  if (newest === null) return undefined
  const start = new Date(Math.max(0, newest.time.getTime() - NEWEST_MARGIN))
  const isEnd = createEndCheck(log, feedID, start)
  let from: Position = { start_time: start }
  let latest: FrameFields | undefined
  for (;;) {
    const messages = await readBatch(log, feedID, from, MAX_BATCH, signal)
    for (const { data } of messages) {
      const report = readFrame(data, feedID)
      const time = latest?.observationsTimestamp ?? -1
      if (report !== undefined && report.observationsTimestamp > time) latest = report
    }
    const last = messages.at(-1)
    if (last !== undefined) from = { seq: last.seq + 1 }
    if (messages.length < MAX_BATCH && (await isEnd(position(from)))) return latest
  }
}

/**
 * Sorts reports by time, drops duplicates, and takes the first `limit`. Reports with the same time
 * stay on one page if they fit.
 */
function sortPage(
  found: readonly Found[],
  limit: number,
): { readonly page: readonly FrameFields[]; readonly isFull: boolean } {
  const copies = new Set<string>()
  const all = found
    .map(({ report }) => report)
    .filter(({ fullReport }) => !copies.has(fullReport) && copies.add(fullReport))
    .sort((one, other) => one.observationsTimestamp - other.observationsTimestamp)
  const next = all[limit]
  if (next === undefined) return { page: all, isFull: all.length === limit }
  const end = all.findIndex(each => each.observationsTimestamp === next.observationsTimestamp)
  return { page: all.slice(0, end === 0 ? limit : Math.min(end, limit)), isFull: true }
}

/**
 * True if the first report is valid at `start`, and each report follows directly on the report
 * before it.
 */
function isWhole(page: readonly FrameFields[], start: number): boolean {
  let expected = start
  for (const { validFromTimestamp: from, observationsTimestamp: to } of page) {
    if (from > expected) return false
    expected = Math.max(expected, to + 1)
  }
  return true
}

/**
 * Checks that the log ends where a batch ended. After a restart, the server that answered may be
 * behind the others. If there is more to read, it gives that server time and returns false.
 */
function createEndCheck(
  log: ReportLog,
  feedID: string,
  since: Date,
): (next: number | undefined) => Promise<boolean> {
  const end = performance.now() + PATIENCE
  let newest: StoredMsg | null | undefined
  return async function isEnd(next) {
    if (newest === undefined) newest = await log.newest(feedID)
    if (newest === null) return true
    if (next === undefined ? newest.time < since : newest.seq < next) return true
    if (performance.now() > end)
      throw streamError(log.stream, new Error('a server is behind the others'))
    await new Promise(resolve => setTimeout(resolve, BEHIND_DELAY))
    return false
  }
}

function position(from: Position): number | undefined {
  return 'seq' in from ? from.seq : undefined
}

/** The position in the log from which messages are read. */
type Position = { readonly start_time: Date } | { readonly seq: number }

/** Milliseconds that the log may take for one batch. */
const TIMEOUT = 10_000
/**
 * Server versions with a defect: if such a server reads a batch while it stores a message, it never
 * answers again.
 */
const HANGING = new Set(['2.12.0', '2.12.1'])

/**
 * Reads the feed's messages from a position on, at most `batch`. Any server with a copy of the
 * stream may answer, even if it is behind the others. So fewer messages don't prove that the log
 * has no more. Once the signal has aborted, no further request is sent to the log.
 */
async function readBatch(
  log: ReportLog,
  feedID: string,
  from: Position,
  batch: number,
  signal?: AbortSignal,
): Promise<readonly StoredMsg[]> {
  signal?.throwIfAborted()
  const subject = subjectOf(log.prefix, feedID)
  const { info } = log.connection
  return info === undefined || HANGING.has(info.version)
    ? readEach(log, subject, from, batch, signal)
    : readAtOnce(log, subject, from, batch)
}

async function readEach(
  log: ReportLog,
  subject: string,
  from: Position,
  batch: number,
  signal: AbortSignal | undefined,
): Promise<readonly StoredMsg[]> {
  const messages: StoredMsg[] = []
  let at = from
  while (messages.length < batch) {
    signal?.throwIfAborted()
    const query = { ...at, next_by_subj: subject } as never
    const message = await log.ask(({ manager }) => manager.direct.getMessage(log.stream, query))
    if (message === null) break
    messages.push(message)
    at = { seq: message.seq + 1 }
  }
  return messages
}

function readAtOnce(
  log: ReportLog,
  subject: string,
  from: Position,
  batch: number,
): Promise<readonly StoredMsg[]> {
  return log.ask(({ manager }) => {
    const messages: StoredMsg[] = []
    const { promise, resolve, reject } = createDeferred<readonly StoredMsg[]>()
    const timer = setTimeout(() => reject(new Error(`nothing within ${TIMEOUT} ms`)), TIMEOUT)
    // With a callback, the library ends its subscription itself.
    const callback = (done: { readonly err?: Error } | null, message: StoredMsg): void => {
      if (done === null) messages.push(message)
      else if (done.err === undefined || isNothing(done.err)) resolve(messages)
      else reject(done.err)
    }
    const query = { ...from, next_by_subj: subject, batch, callback }
    manager.direct.getBatch(log.stream, query as never).catch(reject)
    return promise.finally(() => clearTimeout(timer))
  })
}

function isNothing(error: Error): boolean {
  return (error as { readonly code?: unknown }).code === 404
}
