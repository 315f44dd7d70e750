import { setTimeout as wait } from 'node:timers/promises'
import { type Finding, notChecked, ok } from '../../doctor/check.js'
import { shortID } from '../../output/feeds.js'
import { type CertifyCheck, defineCheck } from '../check.js'
import { type CertifyContext, feedIDsIn, MAX_FEEDS } from '../context.js'
import { deviation, noted, Tally } from '../finding.js'
import { memberOf, reportsIn } from '../probe.js'
import { readEnvelope, type SeenReport } from '../report-book.js'
import { StreamWatch } from '../stream-watch.js'

/** Looks at the list of feeds. */
export const feeds: CertifyCheck = defineCheck({
  name: 'feeds',
  title: 'The list of feeds',
  documented: 'GET /api/v1/feeds is answered {"feeds":[{"feedID"}]}',
  source: 'official SDKs',
  async run({ feedList }) {
    if (feedList === undefined) return [notChecked('there is no answer')]
    const ids = feedIDsIn(feedList)
    if (ids === undefined) return [deviation(`${feedList.form}: not a list of feed ids`)]
    const repeated = ids.length - new Set(ids).size
    if (repeated > 0) return [deviation(`${repeated} of ${ids.length} feeds are listed twice`)]
    return [ok(`${ids.length} feeds`, { feeds: ids.length })]
  },
})

/** Looks at the latest report of each feed. */
export const latest: CertifyCheck = defineCheck({
  name: 'latest',
  title: 'The latest report of a feed',
  documented:
    'GET /api/v1/reports/latest is answered 200 with {"report":{feedID, validFromTimestamp, observationsTimestamp, fullReport}} of the feed',
  source: 'REST API page',
  requests: MAX_FEEDS,
  async run(context) {
    const findings = (await context.latest()).map(({ feedID, answer, envelope }): Finding => {
      const name = shortID(feedID)
      const isListed = feedIDsIn(context.feedList ?? answer)?.includes(feedID)
      if (answer.status === 401 && !isListed) return noted(`${name}: 401, and it is not listed`)
      if (answer.status !== 200) return deviation(`${name}: ${answer.status}`)
      if (typeof envelope === 'string') return deviation(`${name}: ${envelope}`)
      return envelope.feedID === feedID
        ? ok(`${name}: observed ${envelope.observed}`)
        : deviation(`${name}: a report of ${shortID(envelope.feedID)}`)
    })
    return findings
  },
})

/** How many feeds are asked for a report at a time. */
const AT_TIME_FEEDS = 2

/** Looks at reports of a time, which are known to exist. */
export const atTime: CertifyCheck = defineCheck({
  name: 'at-time',
  title: 'The report at a time',
  documented:
    'GET /api/v1/reports?feedID&timestamp is answered with one report. Asked for the time of an observation, every reading (exact, containing, nearest) gives that report',
  source: 'REST API page, report timestamps page',
  requests: AT_TIME_FEEDS,
  async run(context) {
    const findings: Finding[] = []
    for (const { feedID, observed } of (await context.liveFeeds()).slice(0, AT_TIME_FEEDS)) {
      const name = shortID(feedID)
      const path = `/api/v1/reports?feedID=${feedID}&timestamp=${observed}`
      const { status, json } = await context.probe.ask(path)
      const envelope = readEnvelope(memberOf(json, 'report'))
      if (status !== 200) findings.push(deviation(`${name} at ${observed}: ${status}`))
      else if (typeof envelope === 'string') findings.push(deviation(`${name}: ${envelope}`))
      else {
        context.book.take(envelope, { isStreamed: false, isLive: false })
        const text = `${name} at ${observed}: a report observed at ${envelope.observed}`
        const isRight = envelope.feedID === feedID && envelope.observed === observed
        findings.push(isRight ? ok(text) : deviation(text))
      }
    }
    return findings.length > 0 ? findings : [notChecked('no feed had a report')]
  },
})

/** The size of the pages that are asked for. */
const PAGE = 5
/** How many feeds are asked for pages. */
const PAGE_FEEDS = 2

/** Looks at pages, and whether the next page continues. */
export const page: CertifyCheck = defineCheck({
  name: 'page',
  title: 'A page of reports',
  documented:
    'GET /api/v1/reports/page is answered with at most limit reports in ascending order, from startTimestamp on; the next page begins at the last observationsTimestamp + 1',
  source: 'REST API page; the next page is in the official SDK for Go',
  requests: 3 * PAGE_FEEDS,
  async run(context) {
    const findings: Finding[] = []
    for (const seen of (await context.liveFeeds()).slice(0, PAGE_FEEDS)) {
      const name = shortID(seen.feedID)
      const span = seen.feedID[2] === '1' ? 10_000 : 10
      const start = Math.max(0, seen.observed - span)
      const first = await judgePage(context, `${name}, a page`, seen.feedID, start)
      findings.push(first.finding)
      const [, second] = first.times
      if (second === undefined) continue
      // These begin at a report, and behind one.
      const again = await judgePage(context, `${name}, from a report`, seen.feedID, second)
      const isExact = again.times[0] === second || again.finding.status === 'failed'
      findings.push(
        isExact
          ? again.finding
          : deviation(`${name}: the page from ${second} begins with ${again.times[0]}`),
      )
      const next = Math.max(...first.times) + 1
      findings.push((await judgePage(context, `${name}, the next page`, seen.feedID, next)).finding)
    }
    return findings.length > 0 ? findings : [notChecked('no feed had a report')]
  },
})

/** Asks for a page, and looks at its order, its start and its size. */
async function judgePage(
  context: CertifyContext,
  text: string,
  feedID: string,
  start: number,
): Promise<{ readonly finding: Finding; readonly times: readonly number[] }> {
  const reports = await askPage(context, feedID, start, PAGE)
  if (typeof reports === 'string') return { finding: deviation(`${text}: ${reports}`), times: [] }
  const times = reports.map(({ observed }) => observed)
  let finding = ok(`${text}: ${times.length} reports from ${start}`)
  if (times.length > PAGE) finding = deviation(`${text}: ${times.length} reports of ${PAGE}`)
  if ((times[0] ?? start) < start) finding = deviation(`${text}: begins before ${start}`)
  if (times.some((time, at) => at > 0 && time <= (times[at - 1] as number)))
    finding = deviation(`${text}: not in ascending order`)
  return { finding, times: [...times].sort((one, other) => one - other) }
}

/**
 * Asks for a page, remembers its reports, and compares their windows. Returns the reports whose
 * signed part could be read, or a text that says what is wrong.
 */
export async function askPage(
  { probe, book }: CertifyContext,
  feedID: string,
  start: number,
  limit: number,
): Promise<readonly SeenReport[] | string> {
  const query = `feedID=${feedID}&startTimestamp=${start}&limit=${limit}`
  const answer = await probe.ask(`/api/v1/reports/page?${query}`)
  if (answer.status !== 200) return String(answer.status)
  const envelopes = reportsIn(answer)?.map(report => readEnvelope(report))
  if (envelopes === undefined) return `${answer.form} without reports`
  const wrong = envelopes.find(each => typeof each === 'string')
  if (wrong !== undefined) return wrong
  const read = envelopes.filter(each => typeof each !== 'string')
  const stranger = read.find(each => each.feedID !== feedID)
  if (stranger !== undefined) return `a report of ${shortID(stranger.feedID)}`
  const seen = read.flatMap(each => book.take(each, { isStreamed: false, isLive: false }) ?? [])
  // A report that could not be read leaves a gap in the list, not in the service.
  book.compareWindows(seen, seen.length === read.length)
  return seen
}

/** How often a page and the latest report are compared. */
const COMPARISONS = 5
const WHOLE_PAGE = 500

/** Compares the latest report with the end of a page, several times during the watch. */
export const latestNewest: CertifyCheck = defineCheck({
  name: 'latest-newest',
  title: 'The latest report is the newest one',
  documented:
    'The latest report is the newest that is stored: it is never older than the end of a page that was fetched before it, nor than an earlier latest report',
  source: 'REST API page',
  requests: 2 * COMPARISONS,
  async run(context) {
    const tally = new Tally()
    const live = await context.liveFeeds()
    const newest = new Map(live.map(({ feedID, observed }) => [feedID, observed]))
    for (let round = 0; round < COMPARISONS && live.length > 0; round++) {
      if (context.stopped.aborted) break
      const { feedID } = live[round % live.length] as SeenReport
      const before = newest.get(feedID) ?? 0
      const found = await askPage(context, feedID, before, WHOLE_PAGE)
      const times = typeof found === 'string' ? [] : found.map(({ observed }) => observed)
      const { seen } = await context.askLatest(feedID)
      if (seen === undefined) continue
      const end = Math.max(before, ...times)
      tally.count(
        seen.observed < end
          ? `${shortID(feedID)}: the latest is of ${seen.observed}, another of ${end}`
          : undefined,
      )
      newest.set(feedID, Math.max(end, seen.observed))
      const { forMs } = context.subject
      const pause = Math.min(context.left, forMs / (COMPARISONS + 1))
      await wait(pause, undefined, { signal: context.stopped }).catch(() => undefined)
    }
    return [tally.finding('comparisons')]
  },
})

/** Asks for the reports of several feeds at a time at which each has one. */
export const bulk: CertifyCheck = defineCheck({
  name: 'bulk',
  title: 'The reports of several feeds at a time',
  documented:
    'GET /api/v1/reports/bulk is answered 200 with a report of each feed, and 206 if a feed has none at that time',
  source: 'REST API page',
  requests: 1,
  async run(context) {
    const live = await context.liveFeeds()
    if (live.length < 2) return [notChecked('fewer than two feeds of one unit had a report')]
    const at = Math.min(...live.map(({ observed }) => observed))
    const ids = live.map(({ feedID }) => feedID)
    const query = `feedIDs=${ids.join(',')}&timestamp=${at}`
    const answer = await context.probe.ask(`/api/v1/reports/bulk?${query}`)
    const envelopes = reportsIn(answer)?.map(report => readEnvelope(report))
    if (answer.status !== 200 && answer.status !== 206) return [deviation(String(answer.status))]
    if (envelopes === undefined) return [deviation(`${answer.form} without reports`)]
    const wrong = envelopes.find(each => typeof each === 'string')
    if (wrong !== undefined) return [deviation(wrong)]
    const read = envelopes.filter(each => typeof each !== 'string')
    for (const each of read) context.book.take(each, { isStreamed: false, isLive: false })
    const found = new Set(read.map(({ feedID }) => feedID))
    const strangers = [...found].filter(feedID => !ids.includes(feedID)).length
    const text = `${answer.status} with ${found.size} of ${ids.length} feeds`
    const isRight = strangers === 0 && (answer.status === 200) === (found.size === ids.length)
    return [isRight ? ok(text) : deviation(text)]
  },
})

/** Seconds from now on for which there is no report yet. */
const AHEAD = 3600

/** Asks for reports of a time that has not come. */
export const bulkPartial: CertifyCheck = defineCheck({
  name: 'bulk-partial',
  title: 'Several feeds at a time that has not come',
  documented: 'Bulk leaves out a feed whose data does not exist yet, and answers 206',
  source: 'REST API page',
  requests: 1,
  async run(context) {
    const ids = (await context.liveFeeds()).map(({ feedID }) => feedID)
    const [first] = ids
    if (first === undefined) return [notChecked('no feed had a report')]
    const ms = context.probe.now() + AHEAD * 1000
    const time = first[2] === '1' ? ms : Math.floor(ms / 1000)
    const query = `feedIDs=${ids.join(',')}&timestamp=${time}`
    const answer = await context.probe.ask(`/api/v1/reports/bulk?${query}`)
    const reports = reportsIn(answer)
    const text = `${answer.status} with ${reports === undefined ? 'no list' : `${reports.length} reports`}`
    return [answer.status === 206 && reports?.length === 0 ? ok(text) : deviation(text)]
  },
})

/** Asks for reports where there is none. */
export const noReport: CertifyCheck = defineCheck({
  name: 'no-report',
  title: 'A time without a report',
  documented: 'Not documented: how long reports are kept, and the answer where there is none',
  source: 'nowhere',
  requests: 2,
  async run(context) {
    const [feed] = await context.liveFeeds()
    if (feed === undefined) return [notChecked('no feed had a report')]
    const ahead = AHEAD * (feed.feedID[2] === '1' ? 1000 : 1)
    const findings: Finding[] = []
    for (const [name, time] of [
      ['the year 1970', 1],
      ['an hour from now', feed.observed + ahead],
    ] as const) {
      const path = `/api/v1/reports?feedID=${feed.feedID}&timestamp=${time}`
      const { status, form, json } = await context.probe.ask(path)
      const envelope = readEnvelope(memberOf(json, 'report'))
      const which = typeof envelope === 'string' ? form : `a report of ${envelope.observed}`
      findings.push(noted(`${name}: ${status} with ${which}`))
    }
    return findings
  },
})

/** Looks at the catalogue of streams. */
export const discovery: CertifyCheck = defineCheck({
  name: 'discovery',
  title: 'The catalogue of streams',
  documented:
    'GET /api/v1/discovery is answered 200 with {"feeds":[{"feedId"}]} and Cache-Control; a date that is none is answered 400 with {"error"}',
  source: 'discovery endpoint page',
  requests: 2,
  async run({ probe, subject }) {
    const { status, json, headers } = await probe.ask('/api/v1/discovery?status=live')
    if (status === 404)
      return subject.network === undefined
        ? [notChecked('404: this service, which is not the public one, has no catalogue')]
        : [deviation('404')]
    const list = memberOf(json, 'feeds')
    const isList =
      Array.isArray(list) && list.every(each => typeof memberOf(each, 'feedId') === 'string')
    const text = `${status} with ${isList ? `${list.length} streams` : 'no list of streams'}`
    const cache = headers.get('cache-control') === null ? ', no Cache-Control' : ''
    const wrong = await probe.ask('/api/v1/discovery?created_after=yesterday')
    const isRefused = wrong.status === 400 && typeof memberOf(wrong.json, 'error') === 'string'
    const refusal = `a wrong date: ${wrong.status} with ${wrong.form}`
    return [
      status === 200 && isList && cache === '' ? ok(text) : deviation(`${text}${cache}`),
      isRefused ? ok(refusal) : deviation(refusal),
    ]
  },
})

/** The most pages of each feed that are compared with the streams. */
const MOST_PAGES = 4

/** Compares the reports of the streams with those that are stored. */
export const gaps: CertifyCheck = defineCheck({
  name: 'gaps',
  title: 'Streamed reports are stored, and stored reports are streamed',
  documented:
    'Reports that a stream has missed can be fetched over REST. That a stream misses none is not promised',
  source: 'architecture page, developer responsibilities page',
  requests: MAX_FEEDS * MOST_PAGES,
  async run(context) {
    await StreamWatch.of(context)
    const unstored = new Tally()
    let missed = 0
    for (const feedID of context.feedIDs) {
      const streamed = context.book.of(feedID).filter(({ isStreamed }) => isStreamed)
      const [first, last] = [streamed[0], streamed.at(-1)]
      if (first === undefined || last === undefined) continue
      const reached = await readRange(context, feedID, first.observed, last.observed)
      for (const each of context.book.of(feedID)) {
        if (each.observed < first.observed || each.observed > reached) continue
        if (!each.isStreamed) missed++
        else unstored.count(each.isStored ? undefined : `${shortID(feedID)}: ${each.observed}`)
      }
    }
    const found = unstored.finding('streamed reports')
    if (found.status === 'not checked') return [found]
    const text = `${missed} stored reports were not streamed`
    return [found, missed === 0 ? ok(text, { missed }) : noted(text, { missed })]
  },
})

/** Fetches pages of a range. Returns the time up to which it has them. */
async function readRange(
  context: CertifyContext,
  feedID: string,
  from: number,
  to: number,
): Promise<number> {
  let reached = from - 1
  for (let pages = 0; pages < MOST_PAGES && reached < to; pages++) {
    const found = await askPage(context, feedID, reached + 1, WHOLE_PAGE)
    if (typeof found === 'string') break
    // An empty page says that there is nothing more.
    if (found.length === 0) return to
    reached = Math.max(reached, ...found.map(({ observed }) => observed))
  }
  return Math.min(reached, to)
}

/** Milliseconds within which a report arrives, as documented, and the second that it may round. */
const ARRIVES = 3000

/** Measures how old reports are when they arrive, and how long requests take. */
export const latency: CertifyCheck = defineCheck({
  name: 'latency',
  title: 'Delays',
  documented: 'A report for a time normally arrives up to 1 or 2 s after it',
  source: 'report timestamps page',
  async run(context) {
    const { ages, pingTrips } = await StreamWatch.of(context)
    const findings: Finding[] = []
    if (ages.length === 0) findings.push(notChecked('no report was streamed'))
    else {
      const [p50, p99] = [quantile(ages, 0.5), quantile(ages, 0.99)]
      const text = `from observation to arrival: p50 ${p50} ms, p99 ${p99} ms, of ${ages.length} reports`
      const facts = { reports: ages.length, p50Ms: p50, p99Ms: p99 }
      findings.push(p50 <= ARRIVES ? ok(text, facts) : noted(text, facts))
    }
    for (const [path, trips] of [...context.probe.roundTrips, ['ping', pingTrips] as const]) {
      if (trips.length === 0) continue
      const [p50, p99] = [quantile(trips, 0.5), quantile(trips, 0.99)]
      const text = `${path}: p50 ${p50} ms, p99 ${p99} ms, of ${trips.length}`
      findings.push(noted(text, { path, requests: trips.length, p50Ms: p50, p99Ms: p99 }))
    }
    return findings
  },
})

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other)
  return Math.round(sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN)
}
