import { expect, test } from '@jest/globals'
import { createCounters } from '../../../client/metrics.js'
import { Present } from '../../../client/present.js'
import { Feeds } from '../../../client/stream/feeds.js'
import { Intake, type Source } from '../../../client/stream/intake.js'
import { createOrigins } from '../../../client/stream/origins.js'
import { createDecoderTable } from '../../../report/decoder.js'
import type { Report } from '../../../report/report.js'
import { publishedReports } from '../../support/report/published-reports.js'

/** What an intake makes of messages that each come from two origins. */
function readAll(messages: readonly string[], isFast: boolean) {
  const table = createDecoderTable([])
  const origins = createOrigins()
  const counters = createCounters()
  const reports: Report[] = []
  const errors: Error[] = []
  const add = (error: Error) => void errors.push(error)
  const subscribed = new Feeds()
  subscribed.add(publishedReports.slice(1).map(({ feedID }) => feedID))
  const feeds = subscribed.states
  const parts = {
    table,
    log: {},
    now: () => 0,
    counters,
    feeds,
    present: new Present(
      () => 0,
      () => undefined,
    ),
    sink: (report: Report) => void reports.push(report),
    fail: add,
  }
  const intake = new Intake(parts, isFast)
  const sources = ['one', 'two'].map(
    (origin): Source => ({
      origin,
      traffic: origins.of(origin),
      feedIDs: [],
      place: { next: 0, lead: 0 },
      rejections: { add, drop: () => new Error('dropped') as never },
      junk: 0,
      lastReportAt: 0,
    }),
  )
  for (const message of messages)
    for (const source of sources) intake.receive(new TextEncoder().encode(message), source)
  const traffic = sources.map(source => source.traffic)
  return { reports, errors, counters, traffic, feeds: [...subscribed.states.values()] }
}

test('an intake without the fast path makes the same of all messages', () => {
  const messages = publishedReports.flatMap(({ feedID, fullReport }) => [
    JSON.stringify({ report: { feedID, fullReport } }),
    JSON.stringify({ report: { fullReport, feedID } }, null, 1),
    JSON.stringify({ report: { feedID, fullReport: fullReport.slice(0, -1) } }),
  ])
  const plain = readAll([...messages, 'junk'], false)
  expect(plain.reports).toHaveLength(4 * (publishedReports.length - 1))
  expect(plain.errors.length).toBeGreaterThan(0)
  expect(readAll([...messages, 'junk'], true)).toEqual(plain)
})
