import { asError } from 'sluice/core'
import { HTTPError } from 'sluice/internal'
import { feedResolution, parseFeedID, parseFeedIDs } from 'sluice/report'
import { envelopeOf, type FrameFields } from './frame.js'
import { mapSome, type ReportLog } from './log.js'
import { findLatest, ReportSearch, type ScanContext, type ScanOptions, type Turn } from './scan.js'
import { feedsOfShare, type Share } from './subjects.js'

/** The log that REST requests are answered from, and how it is searched. */
export interface LogRestParts extends ScanOptions {
  readonly log: ReportLog
  /** If set, only the feeds of this share are listed. */
  readonly share: Share | undefined
}

/**
 * A fetch whose requests are answered from the log. `turn` delays each of a request's queries to
 * the log until it may be sent.
 */
export type LogFetch = (...given: [...Parameters<typeof fetch>, turn?: Turn]) => Promise<Response>

interface Parts extends LogRestParts {
  readonly search: ReportSearch
  readonly context: ScanContext
}

/** How many reports a page has if the request names no limit. */
export const DEFAULT_PAGE = 10
const MAX_PAGE = 10_000
/** How many feeds of a bulk request are searched at a time. */
const AT_A_TIME = 16

/** The largest time of a feed in seconds: its reports have 32 bits for it. */
const MAX_SECONDS = 0xffff_ffff
/**
 * Numbers that are times in seconds, from 2001 on. As milliseconds they would be times of 1970 to
 * 1973, when there were no reports.
 */
const SECONDS = { from: 1e9, to: 1e11 } as const
/** The largest time that has a date, in milliseconds. */
const MAX_MILLISECONDS = 8.64e15

/** Throws HTTPError if a time is not in the unit of its feed. */
export function checkTime(field: string, feedID: string, time: number): void {
  const isWhole = Number.isInteger(time) && time >= 0
  if (feedResolution(feedID) === 's') {
    if (!isWhole || time > MAX_SECONDS)
      throw new HTTPError(400, `${field} must be in seconds for feed ${feedID}, not ${time}`)
  } else if (!isWhole || time > MAX_MILLISECONDS || (time >= SECONDS.from && time < SECONDS.to))
    throw new HTTPError(400, `${field} must be in milliseconds for feed ${feedID}, not ${time}`)
}

/**
 * Creates a fetch that answers the service's REST requests from the log, and sends nothing
 * elsewhere. It settles only when its queries to the log have ended, even if its signal aborts.
 */
export function createLogFetch(given: LogRestParts): LogFetch {
  const search = new ReportSearch(given.log, given)
  return async function fetchFromLog(input, init, turn) {
    const { pathname, searchParams } = new URL(String(input))
    const signal = init?.signal ?? undefined
    signal?.throwIfAborted()
    const at = pathname.indexOf('/api/')
    const path = at === -1 ? '/' : pathname.slice(at)
    try {
      const body = await answer({ ...given, search, context: { signal, turn } }, path, searchParams)
      if (body === undefined)
        return failure(404, 'the log has no such report', given.log.dateHeader())
      const headers = { ...JSON_TYPE, ...given.log.dateHeader() }
      return new Response(body.text, { status: body.isPartial ? 206 : 200, headers })
    } catch (thrown) {
      signal?.throwIfAborted()
      if (thrown instanceof HTTPError) return failure(thrown.status, thrown.message)
      return failure(503, asError(thrown).message)
    }
  }
}

const JSON_TYPE = { 'content-type': 'application/json' }

function failure(status: number, message: string, date: Record<string, string> = {}): Response {
  return new Response(JSON.stringify({ message }), { status, headers: { ...JSON_TYPE, ...date } })
}

interface Body {
  readonly text: string
  readonly isPartial?: boolean
}

async function answer(
  parts: Parts,
  path: string,
  query: URLSearchParams,
): Promise<Body | undefined> {
  const { log, search, context } = parts
  const feedID = (): string => parseFeedID(query.get('feedID'))
  switch (path) {
    case '/api/v1/feeds':
      return listFeeds(parts)
    case '/api/v1/reports/latest':
      return oneReport(await findLatest(log, feedID(), context))
    case '/api/v1/reports':
      return oneReport(await search.at(feedID(), timeOf(query, 'timestamp', [feedID()]), context))
    case '/api/v1/reports/page': {
      const limit = Math.min(MAX_PAGE, Number(query.get('limit') ?? DEFAULT_PAGE))
      const start = timeOf(query, 'startTimestamp', [feedID()])
      return reportList(await search.page(feedID(), start, limit, context))
    }
    case '/api/v1/reports/bulk': {
      const feedIDs = parseFeedIDs(query.get('feedIDs'))
      const time = timeOf(query, 'timestamp', feedIDs)
      const found = await mapSome(feedIDs, AT_A_TIME, feedID => search.at(feedID, time, context))
      const reports = found.filter(report => report !== undefined)
      return { ...reportList(reports), isPartial: reports.length < feedIDs.length }
    }
    case '/':
      // Clients request this path to get the log's time, which `info` updates.
      await log.info()
      return undefined
    default:
      return undefined
  }
}

async function listFeeds({ log, share }: LogRestParts): Promise<Body> {
  const feedIDs = await log.feeds()
  const listed = share === undefined ? feedIDs : feedsOfShare(feedIDs, share)
  return { text: JSON.stringify({ feeds: listed.map(feedID => ({ feedID })) }) }
}

function timeOf(query: URLSearchParams, field: string, feedIDs: readonly string[]): number {
  const time = Number(query.get(field))
  for (const feedID of feedIDs) checkTime(field, feedID, time)
  return time
}

function oneReport(report: FrameFields | undefined): Body | undefined {
  return report && { text: `{"report":${envelopeOf(report)}}` }
}

function reportList(reports: readonly FrameFields[]): Body {
  return { text: `{"reports":[${reports.map(envelopeOf).join(',')}]}` }
}
