// What came of a row: what the client has delivered, held against what the engine has published.
import { createHash } from 'node:crypto'

const digestOf = fullReport => createHash('md5').update(fullReport).digest('base64')
const keyOf = (feedID, time) => `${feedID}:${time}`

/** Reports that a client that has followed its feeds owes its user: those published since its first, however dated. */
export function owedReports({ engine, feeds, clients, since, followed, ignore }) {
  const ledger = engine.ledger()
  const mine = new Set(feeds)
  if (followed !== undefined)
    return ledger.slice(followed).filter(each => mine.has(each.feedID) && !ignore(each))
  const published = new Set(ledger.map(each => keyOf(each.feedID, each.observationsTimestamp)))
  const first = new Map()
  for (const { feedID, time } of clients[0]?.reports ?? [])
    if (!first.has(feedID) && published.has(keyOf(feedID, time))) first.set(feedID, time)
  const isFollowed = new Set()
  return ledger.filter(report => {
    const { feedID, observationsTimestamp: time, publishedAt } = report
    if (first.get(feedID) === time) isFollowed.add(feedID)
    if (!mine.has(feedID) || ignore(report)) return false
    return first.has(feedID) ? isFollowed.has(feedID) : publishedAt >= since
  })
}

/** The reports that have neither come nor been announced as missing. */
export function lostReports(world) {
  const { clients } = world
  const had = new Set(
    clients.flatMap(client => client.reports.map(({ feedID, time }) => keyOf(feedID, time))),
  )
  const gaps = clients.flatMap(client => client.of('gap').map(({ value }) => value))
  const isInGap = ({ feedID, observationsTimestamp: time }) =>
    gaps.some(gap => gap.feedID === feedID && gap.from <= time && time <= gap.to)
  return owedReports(world).filter(
    report => !had.has(keyOf(report.feedID, report.observationsTimestamp)) && !isInGap(report),
  )
}

/** Reports that were announced as missing, and came all the same. */
function countFalseGaps(clients) {
  const gaps = clients.flatMap(client => client.of('gap').map(({ value }) => value))
  return clients
    .flatMap(({ reports }) => reports)
    .filter(({ feedID, time }) =>
      gaps.some(gap => gap.feedID === feedID && gap.from <= time && time <= gap.to),
    ).length
}

function countDoubled(clients) {
  const seen = new Set()
  let doubled = 0
  for (const { reports } of clients)
    for (const { feedID, time } of reports) {
      const key = keyOf(feedID, time)
      if (seen.has(key)) doubled++
      seen.add(key)
    }
  return doubled
}

/** Reports that came after a newer one of their feed. */
export function countDisordered(clients) {
  let disordered = 0
  for (const { reports } of clients) {
    const newest = new Map()
    for (const { feedID, time } of reports) {
      if (time < (newest.get(feedID) ?? 0)) disordered++
      else newest.set(feedID, time)
    }
  }
  return disordered
}

/** Delivered reports that nobody has published so, or for others. */
function countForeign({ engine, clients, feeds }) {
  const digests = new Map()
  const mine = new Set(feeds)
  for (const report of engine.ledger()) {
    const { feedID, observationsTimestamp, fullReport } = report
    if (!mine.has(feedID)) continue
    const key = keyOf(feedID, observationsTimestamp)
    digests.set(key, [...(digests.get(key) ?? []), digestOf(fullReport)])
  }
  return clients
    .flatMap(({ reports }) => reports)
    .filter(({ feedID, time, digest }) => !digests.get(keyOf(feedID, time))?.includes(digest))
    .length
}

/** The most of these times that lie within one second, or within `ms`. */
export function densest(times, ms = 1000) {
  const sorted = [...times].sort((a, b) => a - b)
  let most = 0
  for (let end = 0, start = 0; end < sorted.length; end++) {
    while (sorted[end] - sorted[start] >= ms) start++
    most = Math.max(most, end - start + 1)
  }
  return most
}

/** Milliseconds from the publication of a report to its delivery, at most; of one that has not come, until now. */
export function latestDelivery(world) {
  const { clients, began } = world
  const now = Date.now()
  const cameAt = new Map()
  for (const { feedID, time, at } of clients.flatMap(({ reports }) => reports)) {
    const key = keyOf(feedID, time)
    if (!cameAt.has(key)) cameAt.set(key, at)
  }
  return owedReports(world)
    .filter(({ publishedAt }) => publishedAt >= began)
    .reduce((latest, { feedID, observationsTimestamp, publishedAt }) => {
      const at = cameAt.get(keyOf(feedID, observationsTimestamp)) ?? now
      return Math.max(latest, at - publishedAt)
    }, 0)
}

/** Ten seconds, within the accuracy of timers. */
const TEN_SECONDS = 9900

const isStream = ({ path }) => path.includes('/ws')

function countRequests({ engine, began }) {
  const requests = engine.requests().filter(request => !isStream(request))
  const endpoints = groupBy(requests)
  const pages = requests.filter(({ path, at }) => path.includes('/page') && at >= began)
  const feeds = new Map()
  for (const { path, at } of pages) {
    const feedID = new URLSearchParams(path.split('?')[1]).get('feedID')
    feeds.set(feedID, [...(feeds.get(feedID) ?? []), at])
  }
  return {
    requests: requests.length,
    pages: pages.length,
    pagesInTenSeconds: Math.max(0, ...[...feeds.values()].map(at => densest(at, TEN_SECONDS))),
    mostRequestsPerSecond: Math.max(
      0,
      ...[...endpoints.values()].map(each => densest(each.map(({ at }) => at))),
    ),
  }
}

function groupBy(requests) {
  const endpoints = new Map()
  for (const request of requests) {
    const endpoint = `${request.method} ${request.path.split('?')[0]}`
    endpoints.set(endpoint, [...(endpoints.get(endpoint) ?? []), request])
  }
  return endpoints
}

/** Times of a fault, in ms: to the first sign that it was noticed, to the first live report after it, and on to the last one missed. */
function measureTimes({ engine, clients, began, ended }) {
  if (began === undefined) return {}
  const noticed = clients
    .flatMap(client => client.of('connection', began).filter(({ value }) => !value.isConnected))
    .map(({ at }) => at)
  const detect = noticed.length === 0 ? undefined : Math.min(...noticed) - began
  if (ended === undefined) return { detect }
  const publishedAt = new Map(
    engine.ledger().map(each => [keyOf(each.feedID, each.observationsTimestamp), each.publishedAt]),
  )
  const delivered = clients.flatMap(({ reports }) =>
    reports.map(report => ({
      ...report,
      publishedAt: publishedAt.get(keyOf(report.feedID, report.time)),
    })),
  )
  const live = delivered.filter(each => each.publishedAt >= ended && each.at >= ended)
  if (live.length === 0) return { detect }
  const back = Math.min(...live.map(({ at }) => at))
  const missed = delivered.filter(each => each.publishedAt < back && each.at > back)
  return {
    detect,
    recover: back - ended,
    backfill: missed.length === 0 ? 0 : Math.max(...missed.map(({ at }) => at)) - back,
  }
}

/** All figures of a row. Times are in ms, memory in bytes. */
export function figuresOf(world) {
  const lost = lostReports(world).length
  const { backfill, ...times } = measureTimes(world)
  const { clients, began = 0 } = world
  const attempts = clients.flatMap(client => client.attempts)
  const after = attempts.filter(at => at >= began)
  const uncaught = clients.flatMap(client => client.of('uncaught'))
  return {
    owed: owedReports(world).length,
    delivered: clients.reduce((sum, { reports }) => sum + reports.length, 0),
    lost,
    gaps: clients.reduce((sum, client) => sum + client.of('gap').length, 0),
    conflicts: clients.reduce((sum, client) => sum + client.of('conflict').length, 0),
    doubled: countDoubled(clients),
    disordered: countDisordered(clients),
    foreign: countForeign(world),
    ...times,
    // What is lost is never complete.
    backfill: lost === 0 ? backfill : undefined,
    attempts: after.length,
    mostAttemptsPerSecond: densest(after),
    ...countRequests({ ...world, began }),
    errors: clients.reduce((sum, client) => sum + client.of('error').length, 0),
    secrets: clients
      .flatMap(({ events }) => events)
      .filter(({ value }) => value?.isSecret || value?.error?.isSecret).length,
    unhandled: uncaught.length,
    falseGaps: countFalseGaps(clients),
    ...world.measured,
  }
}
