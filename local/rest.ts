import { type Answer, jsonAnswer, Refusal } from './answer.js'
import { type Feed, isFeedID } from './feeds.js'
import type { Ledger, PublishedReport } from './ledger.js'

/** Answers an authorized GET. */
export type Endpoint = (query: URLSearchParams) => Answer

/** Looks up a feed for a reader. Throws a refusal when it doesn't exist or may not be read: which, it doesn't say. */
export type FindFeed = (feedID: string) => Feed

const defaultPage = 10
const longestPage = 10_000

function parameter(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name)
  if (values.length > 1) throw new Refusal(400, `parameter ${name} is given more than once`)
  return values[0]
}

function required(query: URLSearchParams, name: string): string {
  const value = parameter(query, name)
  if (value === undefined || value === '') throw new Refusal(400, `parameter ${name} is missing`)
  return value
}

function integer(text: string, name: string): number {
  const value = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) {
    throw new Refusal(400, `parameter ${name} is malformed: not a non-negative integer`)
  }
  return value
}

function feedID(text: string, name: string): string {
  if (!isFeedID(text))
    throw new Refusal(400, `parameter ${name} is malformed: a feed id is 0x and 64 hex digits`)
  return text.toLowerCase()
}

/** Reads the parameter `feedIDs`, a comma list, without repetitions. */
export function readFeedIDs(query: URLSearchParams): string[] {
  const ids = required(query, 'feedIDs').split(',')
  return [...new Set(ids.map(id => feedID(id, 'feedIDs')))]
}

/** Finds feeds by id in any case. */
export function createFindFeed(feeds: ReadonlyMap<string, Feed>): FindFeed {
  return function findFeed(id) {
    const feed = feeds.get(id)
    if (feed === undefined) throw new Refusal(401, 'unauthorized', `unknown feed ${id}`)
    if (!feed.entitled) throw new Refusal(401, 'unauthorized', `not entitled to feed ${id}`)
    return feed
  }
}

function envelope(report: PublishedReport): Record<string, unknown> {
  const { feedID, validFromTimestamp, observationsTimestamp, fullReport } = report
  return { feedID, validFromTimestamp, observationsTimestamp, fullReport }
}

function reportAnswer(report: PublishedReport | undefined, what: string): Answer {
  if (report === undefined) throw new Refusal(404, `no report ${what}`)
  return jsonAnswer({ report: envelope(report) })
}

/** The REST endpoints by path. */
export function createEndpoints(
  feeds: ReadonlyMap<string, Feed>,
  findFeed: FindFeed,
  ledger: Ledger,
): ReadonlyMap<string, Endpoint> {
  const oneFeed = (query: URLSearchParams): string =>
    findFeed(feedID(required(query, 'feedID'), 'feedID')).feedID
  const time = (query: URLSearchParams, name: string): number =>
    integer(required(query, name), name)

  function listFeeds(): Answer {
    const entitled = [...feeds.values()].filter(feed => feed.entitled)
    return jsonAnswer({ feeds: entitled.map(({ feedID }) => ({ feedID })) })
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
    const ids = readFeedIDs(query).map(id => findFeed(id).feedID)
    const reports = ids.map(id => ledger.at(id, at)).filter(report => report !== undefined)
    return jsonAnswer({ reports: reports.map(envelope) }, reports.length < ids.length ? 206 : 200)
  }

  function page(query: URLSearchParams): Answer {
    const start = time(query, 'startTimestamp')
    const limit = integer(parameter(query, 'limit') ?? String(defaultPage), 'limit')
    if (limit === 0) throw new Refusal(400, 'parameter limit is malformed: 0 is no page')
    const reports = ledger.page(oneFeed(query), start, Math.min(limit, longestPage))
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
