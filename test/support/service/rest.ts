/** The REST endpoints, over the reports that are stored. */
import { isMilliseconds, type Report } from './report.js'

export interface Answer {
  readonly status: number
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

/** The stored reports of each feed, ascending by observation time. */
export interface History {
  add(report: Report): void
  all(feedID: string): readonly Report[]
}

export function makeHistory(): History {
  const feeds = new Map<string, Report[]>()
  return {
    add(report) {
      const id = report.feedID.toLowerCase()
      const reports = feeds.get(id) ?? []
      feeds.set(id, reports)
      let at = reports.length
      while (at > 0 && (reports[at - 1] as Report).observed > report.observed) at--
      reports.splice(at, 0, report)
    },
    all: id => feeds.get(id.toLowerCase()) ?? [],
  }
}

export const failure = (status: number, message: string): Answer => ({
  status,
  body: JSON.stringify({ message }),
})

const DEFAULT_LIMIT = 10

/** Makes what a page contains of what it should contain, its start and its limit. */
export type PageChange = (
  reports: readonly Report[],
  start: number,
  limit: number,
) => readonly Report[]

export interface Resources {
  /** The feeds that may be read, in lower case. */
  readonly feeds: ReadonlySet<string>
  readonly history: History
  /** By the feed, in lower case. */
  readonly pageChanges: ReadonlyMap<string, PageChange>
  /** The most reports that a page contains, whatever was asked for. */
  readonly maxPage: number
}

export function answerRequest(method: string, url: URL, resources: Resources): Answer {
  if (method !== 'GET') return failure(405, 'method not allowed')
  const { feeds, history, pageChanges, maxPage } = resources
  const query = url.searchParams
  switch (url.pathname) {
    case '/api/v1/feeds':
      return ok({ feeds: [...feeds].map(feedID => ({ feedID })) })
    case '/api/v1/reports/latest':
      return withFeed(query, feeds, id => one(history.all(id).at(-1)))
    case '/api/v1/reports':
      return withFeed(query, feeds, id =>
        withNumber(query.get('timestamp'), 'timestamp', time => one(reportAt(history, id, time))),
      )
    case '/api/v1/reports/page':
      return withFeed(query, feeds, id =>
        withNumber(query.get('startTimestamp'), 'startTimestamp', start =>
          withNumber(query.get('limit') ?? String(DEFAULT_LIMIT), 'limit', given => {
            const limit = Math.min(given, maxPage)
            const reports = page(history.all(id), start, limit)
            const change = pageChanges.get(id.toLowerCase())
            return list(200, change === undefined ? reports : change(reports, start, limit))
          }),
        ),
      )
    case '/api/v1/reports/bulk':
      return withNumber(query.get('timestamp'), 'timestamp', time => {
        const ids = feedIDsOf(query)
        const refused = refusedFeeds(ids, feeds)
        if (refused !== undefined) return refused
        const found = ids
          .map(id => reportAt(history, id, time))
          .filter(report => report !== undefined)
        return list(found.length === ids.length ? 200 : 206, found)
      })
    case '/api/v1/discovery':
      return catalogue(query, feeds)
    default:
      return failure(404, 'no such path')
  }
}

/** The paths whose requests need no signature. */
export const isPublic = (path: string): boolean => path.split('?', 1)[0] === '/api/v1/discovery'

/** The catalogue of streams, which spells feedId in its own way. */
function catalogue(query: URLSearchParams, feeds: ReadonlySet<string>): Answer {
  for (const [name, value] of query)
    if (/_(after|before)$/.test(name) && !/^\d{4}-\d{2}-\d{2}$/.test(value))
      return { status: 400, body: JSON.stringify({ error: `${name} is no date` }) }
  const listed = [...feeds].map(feedId => ({
    feedId,
    name: feedId.slice(0, 10),
    schemaVersion: `V${Number.parseInt(feedId.slice(3, 6), 16)}`,
    networkType: 'testnet',
    status: 'live',
    createdAt: '2026-01-01T00:00:00.000000Z',
    expectedDecommissionAt: null,
    decommissionedAt: null,
  }))
  return { ...ok({ feeds: listed }), headers: { 'Cache-Control': 'public, max-age=300' } }
}

export const feedIDsOf = (query: URLSearchParams): string[] =>
  (query.get('feedIDs') ?? '').split(',').filter(id => id !== '')

/** The answer to feeds that are malformed, or that may not be read. */
export function refusedFeeds(
  ids: readonly string[],
  feeds: ReadonlySet<string>,
): Answer | undefined {
  if (ids.length === 0) return failure(400, 'no feed ID')
  if (!ids.every(id => /^0x[0-9a-fA-F]{64}$/.test(id))) return failure(400, 'malformed feed ID')
  if (!ids.every(id => feeds.has(id.toLowerCase()))) return failure(401, 'feed not allowed')
  return undefined
}

function withFeed(
  query: URLSearchParams,
  feeds: ReadonlySet<string>,
  answer: (id: string) => Answer,
): Answer {
  const id = query.get('feedID') ?? ''
  return refusedFeeds([id].filter(Boolean), feeds) ?? answer(id)
}

const withNumber = (
  text: string | null,
  name: string,
  answer: (value: number) => Answer,
): Answer =>
  text !== null && /^\d{1,15}$/.test(text)
    ? answer(Number(text))
    : failure(400, `${name} is missing or malformed`)

const ok = (value: unknown): Answer => ({ status: 200, body: JSON.stringify(value) })

const one = (report: Report | undefined): Answer =>
  report === undefined
    ? failure(404, 'no report')
    : { status: 200, body: `{"report":${report.json}}` }

const list = (status: number, reports: readonly Report[]): Answer => ({
  status,
  body: `{"reports":[${reports.map(report => report.json).join(',')}]}`,
})

/** The first of the ascending reports that was observed at a time or later, as an index. */
function indexFrom(reports: readonly Report[], time: number): number {
  let low = 0
  let high = reports.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((reports[middle] as Report).observed < time) low = middle + 1
    else high = middle
  }
  return low
}

function page(reports: readonly Report[], start: number, limit: number): readonly Report[] {
  const from = indexFrom(reports, start)
  return reports.slice(from, from + limit)
}

/** The report that is valid at a time. Millisecond feeds take seconds as well. */
function reportAt(history: History, id: string, time: number): Report | undefined {
  const inUnit = isMilliseconds(id) && time < 1e11 ? time * 1_000 : time
  const reports = history.all(id)
  const report = reports[indexFrom(reports, inUnit)]
  return report !== undefined && report.validFrom <= inUnit ? report : undefined
}
