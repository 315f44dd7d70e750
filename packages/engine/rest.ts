import { type Answer, HTTPError, jsonAnswer } from 'sluice/internal'
import { isFeedID } from 'sluice/report'
import type { Access } from './access.js'
import type { Ledger, PublishedReport } from './ledger.js'

/** Answers an authorized GET. */
export type Endpoint = (query: URLSearchParams) => Answer

const defaultPage = 10
const maxPage = 10_000

function parameter(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name)
  if (values.length > 1) throw new HTTPError(400, `parameter ${name} is given more than once`)
  return values[0]
}

function required(query: URLSearchParams, name: string): string {
  const value = parameter(query, name)
  if (value === undefined || value === '') throw new HTTPError(400, `parameter ${name} is missing`)
  return value
}

function integer(text: string, name: string): number {
  const value = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value))
    throw new HTTPError(400, `parameter ${name} is malformed: not a non-negative integer`)
  return value
}

function feedID(text: string, name: string): string {
  if (!isFeedID(text))
    throw new HTTPError(400, `parameter ${name} is malformed: a feed id is 0x and 64 hex digits`)
  return text.toLowerCase()
}

/** Reads the parameter `feedIDs`, a comma list, without repetitions. */
export function readFeedIDs(query: URLSearchParams): string[] {
  const ids = required(query, 'feedIDs').split(',')
  return [...new Set(ids.map(id => feedID(id, 'feedIDs')))]
}

function envelope(report: PublishedReport): Record<string, unknown> {
  const { feedID, validFromTimestamp, observationsTimestamp, fullReport } = report
  return { feedID, validFromTimestamp, observationsTimestamp, fullReport }
}

function reportAnswer(report: PublishedReport | undefined, when: string): Answer {
  if (report === undefined) throw new HTTPError(404, `no report ${when}`)
  return jsonAnswer({ report: envelope(report) })
}

/** The REST endpoints by path. */
export function createEndpoints(access: Access, ledger: Ledger): ReadonlyMap<string, Endpoint> {
  const oneFeed = (query: URLSearchParams): string =>
    access.findFeed(feedID(required(query, 'feedID'), 'feedID')).feedID
  const time = (query: URLSearchParams, name: string): number =>
    integer(required(query, name), name)

  function listFeeds(): Answer {
    return jsonAnswer({ feeds: access.entitled().map(feedID => ({ feedID })) })
  }

  function latest(query: URLSearchParams): Answer {
    return reportAnswer(ledger.latest(oneFeed(query)), 'yet')
  }

  function byTimestamp(query: URLSearchParams): Answer {
    const at = time(query, 'timestamp')
    return reportAnswer(ledger.at(oneFeed(query), at), `at ${at}`)
  }

  function bulk(query: URLSearchParams): Answer {
    const at = time(query, 'timestamp')
    const ids = readFeedIDs(query).map(id => access.findFeed(id).feedID)
    const reports = ids.map(id => ledger.at(id, at)).filter(report => report !== undefined)
    return jsonAnswer({ reports: reports.map(envelope) }, reports.length < ids.length ? 206 : 200)
  }

  function page(query: URLSearchParams): Answer {
    const start = time(query, 'startTimestamp')
    const limit = integer(parameter(query, 'limit') ?? String(defaultPage), 'limit')
    if (limit === 0) throw new HTTPError(400, 'parameter limit is malformed: 0 is no page')
    const reports = ledger.page(oneFeed(query), start, Math.min(limit, maxPage))
    return jsonAnswer({ reports: reports.map(envelope) })
  }

  return new Map<string, Endpoint>([
    ['/api/v1/feeds', listFeeds],
    ['/api/v1/reports/latest', latest],
    ['/api/v1/reports', byTimestamp],
    ['/api/v1/reports/bulk', bulk],
    ['/api/v1/reports/page', page],
  ])
}
