import type { StoredMsg } from '@nats-io/jetstream'
import { abortable, BoundedMap, createDeferred, withTimeout } from 'sluice/core'
import { feedResolution, LONGEST_RANGE } from 'sluice/report'
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

/** For whom the log is searched. */
export interface ScanContext {
  /** Once it has aborted, no further query is sent to the log. */
  readonly signal?: AbortSignal | undefined
  /** Delays each query to the log until it may be sent. @default no delay */
  readonly turn?: Turn | undefined
}

/** Runs a query for messages when its turn has come. */
export type Turn = <Answer extends readonly unknown[]>(
  query: () => Promise<Answer>,
) => Promise<Answer>

/**
 * How many milliseconds before the newest message the search for the newest report begins. Reports
 * may be published out of order.
 */
const NEWEST_MARGIN = 60_000
/**
 * How many messages the first query of a search asks for at least. A feed of one report per second
 * has fewer before a time that is looked for (`CLOCK_MARGIN`). Each further query asks for twice as
 * many.
 */
const MIN_BATCH = 16
/**
 * How many messages one query to the log asks for at most. A search reads them while others wait,
 * so they must be few.
 */
const MAX_BATCH = 64
/** How many messages of a feed count as its first ones. */
const HEAD_BATCH = 64
/** Milliseconds that a server that is behind the others has to catch up. */
const PATIENCE = 10_000
/** Milliseconds after which a server that is behind is asked again. */
const BEHIND_DELAY = 100

/** For how many pages the position of the next page is remembered. */
const MAX_PLACES = 10_000
/** Milliseconds for which the time of the log's first message is remembered. */
const BEGINNING_LIFETIME = 10_000
/** Milliseconds for which the first reports of a feed are remembered. */
const HEAD_LIFETIME = 60_000

/** Where a search begins, and what it looks for. */
interface Search {
  readonly feedID: string
  /** The earliest observation, in the unit of the feed. */
  readonly start: number
  readonly limit: number
  /** The latest observation that is looked for, in the unit of the feed. */
  readonly latest: number
}

/** The earliest time that the first messages of a feed contain. */
interface Head {
  readonly validFrom: number
  readonly readAt: number
}

/**
 * Searches a log for the reports of a time. Reports may be published out of order. So a search
 * reads on until no report is missing, or until a missing report would be later than
 * `maxPublishDelay`. It holds only the reports that it may return.
 */
export class ReportSearch {
  readonly #log: ReportLog
  readonly #maxPublishDelay: number
  /** For a feed and a time: the position in the log where the page begins. */
  readonly #places = new BoundedMap<string, number>(MAX_PLACES)
  /** Only feeds of the log have messages, so there are at most as many entries. */
  readonly #heads = new Map<string, Head>()
  readonly #readingHeads = new Map<string, Promise<Head | undefined>>()
  /** The time of the log's first message, in Unix milliseconds; NaN if it is unknown. */
  #beginning = Number.NaN
  #beginningReadAt = Number.NEGATIVE_INFINITY
  #readingBeginning: Promise<void> | undefined

  constructor(log: ReportLog, { maxPublishDelay }: ScanOptions) {
    this.#log = log
    this.#maxPublishDelay = maxPublishDelay
  }

  /**
   * Finds the reports of a feed from a time on, ascending, at most `limit`. It remembers where the
   * next page begins. So a caller that reads page after page reads each message once.
   */
  page(
    feedID: string,
    start: number,
    limit: number,
    context: ScanContext = {},
  ): Promise<readonly FrameFields[]> {
    return this.#find({ feedID, start, limit, latest: Number.POSITIVE_INFINITY }, context)
  }

  /** Finds the report of a feed that is valid at a time. */
  async at(
    feedID: string,
    time: number,
    context: ScanContext = {},
  ): Promise<FrameFields | undefined> {
    if (await this.#isBefore(feedID, time)) {
      const head = await this.#head(feedID, context)
      if (head !== undefined && time < head.validFrom) return undefined
    }
    const latest = time + (LONGEST_RANGE * 1000) / unitOf(feedID)
    const [report] = await this.#find({ feedID, start: time, limit: 1, latest }, context)
    return report !== undefined && report.validFromTimestamp <= time ? report : undefined
  }

  async #find(search: Search, context: ScanContext): Promise<readonly FrameFields[]> {
    const { feedID, start, limit, latest } = search
    const unit = unitOf(feedID)
    const candidates = new Candidates(limit)
    let batch = Math.min(MAX_BATCH, MIN_BATCH + limit)
    const seq = this.#places.get(`${feedID}@${start}`)
    const since = new Date(Math.max(0, start * unit - CLOCK_MARGIN))
    const isBefore = seq === undefined && (await this.#isBefore(feedID, start))
    /** From this time on, a report that was not found counts as missing. */
    let expected = start
    let isFirst = true
    let from: Position = seq === undefined ? { start_time: since } : { seq }
    const isEnd = createEndCheck(this.#log, feedID, since)
    for (;;) {
      const messages = await readBatch(this.#log, feedID, from, batch, context)
      const reports = messages.flatMap(({ data, seq }) => {
        const report = readFrame(data, feedID)
        return report === undefined ? [] : [{ seq, report }]
      })
      if (isBefore && isFirst) {
        // The log no longer has what was before these messages. It is not looked for.
        expected = Math.max(start, reports[0]?.report.validFromTimestamp ?? start)
      }
      isFirst = false
      candidates.add(reports.filter(({ report }) => report.observationsTimestamp >= start))
      const { page, isFull } = candidates.page()
      const last = messages.at(-1)
      const next = last === undefined ? undefined : last.seq + 1
      const isPast = (time: number): boolean =>
        last !== undefined && last.time.getTime() > time * unit + this.#maxPublishDelay
      const missing = lastMissing(page, expected)
      const isEnough =
        isPast(latest) || (isFull && (missing === undefined || isPast(Math.min(missing, latest))))
      if (isEnough || (messages.length < batch && (await isEnd(next ?? position(from))))) {
        if (next !== undefined) this.#rememberPlace(feedID, page, candidates.firstAfter(page, next))
        return page
      }
      if (next !== undefined) from = { seq: next }
      batch = Math.min(MAX_BATCH, 2 * batch)
    }
  }

  #rememberPlace(feedID: string, page: readonly FrameFields[], rest: number): void {
    const last = page.at(-1)
    if (last === undefined) return
    this.#places.set(`${feedID}@${last.observationsTimestamp + 1}`, rest)
  }

  /** The head of a feed. Concurrent searches share one query. */
  async #head(feedID: string, context: ScanContext): Promise<Head | undefined> {
    const known = this.#heads.get(feedID)
    if (known !== undefined && performance.now() - known.readAt < HEAD_LIFETIME) return known
    const reading = this.#readingHeads.get(feedID) ?? this.#readHead(feedID, context)
    this.#readingHeads.set(feedID, reading)
    return reading.finally(() => this.#readingHeads.delete(feedID))
  }

  /**
   * Reads the first messages of a feed. Others may wait for them, so it goes on when one request is
   * aborted. The head of a feed with few messages is not remembered: earlier reports may follow.
   */
  async #readHead(feedID: string, { turn }: ScanContext): Promise<Head | undefined> {
    const from = { start_time: new Date(0) }
    const messages = await readBatch(this.#log, feedID, from, HEAD_BATCH, { turn })
    const times = messages.flatMap(({ data }) => readFrame(data, feedID)?.validFromTimestamp ?? [])
    if (messages.length < HEAD_BATCH || times.length === 0) return undefined
    const head = { validFrom: Math.min(...times), readAt: performance.now() }
    this.#heads.set(feedID, head)
    return head
  }

  /** True if a time of a feed is before the log's first message. */
  async #isBefore(feedID: string, time: number): Promise<boolean> {
    if (performance.now() - this.#beginningReadAt > BEGINNING_LIFETIME) {
      this.#readingBeginning ??= this.#readBeginning()
      await this.#readingBeginning
    }
    return time * unitOf(feedID) < this.#beginning
  }

  /** If the log does not answer, the beginning stays as it was: a search can do without it. */
  async #readBeginning(): Promise<void> {
    try {
      this.#beginning = Date.parse((await this.#log.info()).state.first_ts)
    } catch {
      // The search itself fails if the log can't be read.
    }
    this.#beginningReadAt = performance.now()
    this.#readingBeginning = undefined
  }
}

/** A message's report, and its number in the log. */
interface Found {
  readonly seq: number
  readonly report: FrameFields
}

/** The reports that may be on a page: the earliest of those that were read. */
class Candidates {
  readonly #limit: number
  /** Sorted by time, without duplicates, at most one more than fits on the page. */
  #kept: readonly Found[] = []
  /** The smallest number of a message whose report was not kept. */
  #dropped = Number.POSITIVE_INFINITY

  constructor(limit: number) {
    this.#limit = limit
  }

  add(found: readonly Found[]): void {
    const copies = new Set<string>()
    const all = [...this.#kept, ...found]
      .filter(({ report: { fullReport } }) => !copies.has(fullReport) && copies.add(fullReport))
      .sort((one, other) => timeOf(one) - timeOf(other))
    this.#kept = all.slice(0, this.#limit + 1)
    for (const { seq } of all.slice(this.#limit + 1)) this.#dropped = Math.min(this.#dropped, seq)
  }

  /** The first `limit` reports. Reports with the same time stay on one page if they fit. */
  page(): { readonly page: readonly FrameFields[]; readonly isFull: boolean } {
    const [kept, limit] = [this.#kept, this.#limit]
    const next = kept[limit]
    const end = next === undefined ? limit : kept.findIndex(each => timeOf(each) === timeOf(next))
    const page = kept.slice(0, end === 0 ? limit : Math.min(end, limit))
    return { page: page.map(({ report }) => report), isFull: kept.length >= limit }
  }

  /**
   * The number of the first message that was read and whose report is later than the page. If there
   * is none, this is `next`.
   */
  firstAfter(page: readonly FrameFields[], next: number): number {
    const time = page.at(-1)?.observationsTimestamp ?? -1
    const later = this.#kept.filter(each => timeOf(each) > time).map(({ seq }) => seq)
    return Math.min(next, this.#dropped, ...later)
  }
}

function timeOf({ report }: Found): number {
  return report.observationsTimestamp
}

/** How many milliseconds the unit of a feed's timestamps has. */
function unitOf(feedID: string): number {
  return feedResolution(feedID) === 's' ? 1000 : 1
}

/**
 * The end of the last range that no report covers, from `start` on; undefined if each report
 * follows directly on the report before it.
 */
function lastMissing(page: readonly FrameFields[], start: number): number | undefined {
  let missing: number | undefined
  let expected = start
  for (const { validFromTimestamp: from, observationsTimestamp: to } of page) {
    if (from > expected) missing = from
    expected = Math.max(expected, to + 1)
  }
  return missing
}

/**
 * Finds the report of a feed with the newest observations. Returns undefined if the feed has no
 * report.
 */
export async function findLatest(
  log: ReportLog,
  feedID: string,
  context: ScanContext = {},
): Promise<FrameFields | undefined> {
  const newest = await log.newest(feedID)
  if (newest === null) return undefined
  const start = new Date(Math.max(0, newest.time.getTime() - NEWEST_MARGIN))
  const isEnd = createEndCheck(log, feedID, start)
  let from: Position = { start_time: start }
  let latest: FrameFields | undefined
  for (;;) {
    const messages = await readBatch(log, feedID, from, MAX_BATCH, context)
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
  { signal, turn = query => query() }: ScanContext,
): Promise<readonly StoredMsg[]> {
  const subject = subjectOf(log.prefix, feedID)
  return turn(async () => {
    signal?.throwIfAborted()
    const { info } = log.connection
    return info === undefined || HANGING.has(info.version)
      ? readEach(log, subject, from, batch, signal)
      : readAtOnce(log, subject, from, batch)
  })
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
  const late = (): Error => new Error(`nothing within ${TIMEOUT} ms`)
  return log.ask(({ manager }) => {
    const messages: StoredMsg[] = []
    const { promise, resolve, reject } = createDeferred<readonly StoredMsg[]>()
    // With a callback, the library ends its subscription itself.
    const callback = (done: { readonly err?: Error } | null, message: StoredMsg): void => {
      if (done === null) messages.push(message)
      else if (done.err === undefined || isNothing(done.err)) resolve(messages)
      else reject(done.err)
    }
    const query = { ...from, next_by_subj: subject, batch, callback }
    manager.direct.getBatch(log.stream, query as never).catch(reject)
    return withTimeout(TIMEOUT, late, signal => abortable(promise, signal))
  })
}

function isNothing(error: Error): boolean {
  return (error as { readonly code?: unknown }).code === 404
}
