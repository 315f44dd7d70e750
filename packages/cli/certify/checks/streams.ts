import { networkReason } from 'sluice/internal'
import { type Finding, notChecked, ok } from '../../doctor/check.js'
import { type CertifyCheck, defineCheck } from '../check.js'
import { deviation, noted } from '../finding.js'
import { nameOf, ProbeConnection, StreamWatch, WATCH_UPGRADES } from '../stream-watch.js'

const source = 'WebSocket page'

/** Opens the streams that are watched. */
export const stream: CertifyCheck = defineCheck({
  name: 'stream',
  title: 'A stream of several feeds',
  documented: 'GET /api/v1/ws?feedIDs=… with the three headers is upgraded, and brings reports',
  source,
  requests: WATCH_UPGRADES,
  async run(context) {
    const { sights } = await StreamWatch.of(context)
    if (sights.some(({ opened }) => opened > 0)) {
      const reports = sights.reduce((sum, each) => sum + each.reports, 0)
      const text = `${context.feedIDs.length} feeds, ${reports} reports`
      return [reports > 0 ? ok(text, { reports }) : noted(`${text}: markets may be closed`)]
    }
    if (context.stopped.aborted) return [notChecked('stopped before a stream was open')]
    return [deviation(`none was opened: ${sights[0]?.failure ?? 'no reason is known'}`)]
  },
})

/** Looks at the form of messages. */
export const messages: CertifyCheck = defineCheck({
  name: 'stream-messages',
  title: 'Messages of a stream',
  documented: 'Each message is JSON: {"report":{feedID, fullReport}}, with the times or without',
  source,
  run: async context => [(await StreamWatch.of(context)).messages.finding('messages')],
})

/** Looks at whose reports a stream brings. */
export const streamFeeds: CertifyCheck = defineCheck({
  name: 'stream-feeds',
  title: 'A stream brings reports of the feeds in its URL',
  documented: 'The feeds of a stream are those of feedIDs, and no message changes them',
  source,
  run: async context => [(await StreamWatch.of(context)).feeds.finding('reports')],
})

/** Looks at the answers to pings. */
export const pongs: CertifyCheck = defineCheck({
  name: 'pong',
  title: 'A ping is answered',
  documented: 'Streams are kept alive by ping and pong',
  source: 'WebSocket page, RFC 6455',
  run: async context => [(await StreamWatch.of(context)).pongs.finding('pings')],
})

/** Looks at the answers to close frames. */
export const closes: CertifyCheck = defineCheck({
  name: 'close',
  title: 'A close is answered',
  documented: 'A close frame is answered with one',
  source: 'RFC 6455',
  run: async context => [(await StreamWatch.of(context)).closes.finding('closes')],
})

/** Looks at how connections ended, and in which order reports came. */
export const sessions: CertifyCheck = defineCheck({
  name: 'sessions',
  title: 'Sessions and order',
  documented: 'Not documented: how long a session lasts, its close codes, and the order of reports',
  source: 'nowhere',
  async run(context) {
    const { sights } = await StreamWatch.of(context)
    return sights.map(sight => {
      const { opened, failures, outOfOrder, losses } = sight
      const codes = [...losses].map(([code, times]) => `${times} times with ${code}`).join(', ')
      const text = `${nameOf(sight)}: opened ${opened} times, closed by the service ${codes || 'never'}, ${failures} failed attempts, ${outOfOrder} reports out of order`
      return noted(text, { opened, failures, outOfOrder })
    })
  },
})

/** Opens a stream at the path of newer clients. */
export const secondVersion: CertifyCheck = defineCheck({
  name: 'stream-v2',
  title: 'The stream at /api/v2/ws',
  documented: 'Not documented: the official SDK for Go, version 2, streams from there',
  source: 'official SDK for Go',
  requests: 1,
  async run(context) {
    const path = `/api/v2/ws?feedIDs=${context.feedIDs.join(',')}`
    const connection = await ProbeConnection.open(context, { path })
    if (connection.status === 101) await connection.close()
    return [noted(String(connection.status))]
  },
})

/** Looks at the list of origins. */
export const originList: CertifyCheck = defineCheck({
  name: 'origin-list',
  title: 'The list of origins',
  documented:
    'HEAD / on the host of the streams is answered with X-Cll-Available-Origins, which all answers have. Only mainnet has several origins',
  source: 'high availability page',
  requests: 1,
  async run(context) {
    const { status, header, ids } = await context.origins()
    if (header === null && context.subject.network !== 'mainnet')
      return [notChecked(`${status} without the header; only mainnet is said to have it`)]
    if (status !== 200) return [deviation(`${status}`)]
    if (ids.length === 0) return [deviation('the header names no origin')]
    const { withOrigins, answers } = context.probe
    const list = ok(`${ids.length} origins`, { origins: ids.length })
    const share = `${withOrigins} of ${answers} answers have the header`
    return [list, withOrigins === answers ? ok(share) : deviation(share)]
  },
})

/** The most origins that are tried, besides those that are watched. */
const TRIED = 4

/** Connects to each origin of the list. */
export const origins: CertifyCheck = defineCheck({
  name: 'origins',
  title: 'Each origin of the list can be connected to',
  documented: 'X-Cll-Origin with an id of the list selects the origin of a stream',
  source: 'high availability page',
  requests: TRIED,
  async run(context) {
    const { ids } = await context.origins()
    if (ids.length === 0) return [notChecked('there is no list')]
    const { sights } = await StreamWatch.of(context)
    const findings: Finding[] = sights.map(sight => {
      const { opened, failure, reports } = sight
      if (opened === 0) return deviation(`${nameOf(sight)}: ${failure ?? 'not opened'}`)
      const most = Math.max(...sights.map(other => other.reports))
      // In a short time, one may be a report of each feed behind.
      return reports > 0 || most <= context.feedIDs.length
        ? ok(`${nameOf(sight)}: ${reports} reports`, { reports })
        : deviation(`${nameOf(sight)}: no report, where another brought ${most}`)
    })
    for (const origin of ids.slice(sights.length, sights.length + TRIED)) {
      try {
        const connection = await ProbeConnection.open(context, { origin })
        const { status } = connection
        if (status === 101) await connection.close()
        findings.push(
          status === 101 ? ok(`origin ${origin}: open`) : deviation(`origin ${origin}: ${status}`),
        )
      } catch (thrown) {
        if (context.stopped.aborted) throw thrown
        findings.push(deviation(`origin ${origin}: ${networkReason(thrown)}`))
      }
    }
    return findings
  },
})

/** Closes one of two connections, and opens it again. */
export const reconnection: CertifyCheck = defineCheck({
  name: 'reconnection',
  title: 'One of two connections is closed and opened again',
  documented:
    'Up to two origins are connected at once; while one is away, the other brings the reports',
  source: 'high availability page',
  async run(context) {
    const { sights } = await StreamWatch.of(context)
    const [first, ...others] = sights
    if (first === undefined || others.length === 0) return [notChecked('there is one origin')]
    const after = first.reportsAfterReconnect
    if (after === undefined || first.opened < 2)
      return [notChecked('the time was over, or the connection was not opened again')]
    const text = `opened ${first.opened} times; ${after} reports since`
    if (after > 0) return [ok(text)]
    const elsewhere = Math.max(
      ...others.map(({ reportsAfterReconnect = 0 }) => reportsAfterReconnect),
    )
    return [
      elsewhere > context.feedIDs.length
        ? deviation(`${text}, and ${elsewhere} of another origin`)
        : notChecked(`${text}, and ${elsewhere} of another origin, which are too few`),
    ]
  },
})
