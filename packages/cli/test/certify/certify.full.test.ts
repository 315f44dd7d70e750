import { expect, test } from '@jest/globals'
import { feedID } from '@sluice/test-support/service/service.js'
import { certify, mostRequests } from '../../certify/certify.js'
import { feeds, linesOf, PublishingService, subjectAt } from '../support/cli/certify.js'

const now = new AbortController().signal

test('keeps to the rate and to the number of requests that it has said', async () => {
  await using publishing = await PublishingService.start()
  const { service } = publishing
  // Connections that are lost again and again, and requests that fail, don't raise the number.
  publishing.often(() => {
    for (const origin of service.origins) origin.disconnect(1011)
  })
  service.fail({ on: 'rest', answer: 429, times: 1, path: '/api/v1/reports/latest' })
  const record = await certify(subjectAt(service, { rate: 40 }), now)
  expect(record.requests.sent).toBe(service.requests.length)
  expect(record.requests.sent).toBeLessThanOrEqual(mostRequests)
  const times = service.requests.map(({ at }) => at)
  // The service counts when a request arrives, a few milliseconds off.
  const most = Math.max(
    ...times.map((from, at) => times.filter((time, i) => i >= at && time < from + 1000).length),
  )
  expect(most).toBeLessThanOrEqual(44)
  expect(linesOf(record, 'deviation')).toEqual([])
  expect(linesOf(record, 'noted')).toContainEqual(
    expect.stringMatching(/^sessions: origin 001: .*closed by the service \d+ times with 1011/),
  )
})

test('a feed that the key may not read is left out, unless the service lists it', async () => {
  await using publishing = await PublishingService.start()
  const { service } = publishing
  const other = feedID(3, 55)
  const named = subjectAt(service, { feedIDs: [...feeds, other], forMs: 2000 })
  const record = await certify(named, now)
  expect(linesOf(record, 'deviation')).toEqual([])
  expect(record.feeds).toEqual(feeds)
  expect(linesOf(record, 'noted')).toContainEqual(expect.stringMatching(/^latest: .*401/))
  service.changeAnswers((request, answer) =>
    request.path === '/api/v1/feeds' && answer.status === 200
      ? {
          ...answer,
          body: JSON.stringify({ feeds: [...feeds, other].map(id => ({ feedID: id })) }),
        }
      : answer,
  )
  const listed = await certify(named, now)
  expect(linesOf(listed, 'deviation')).toEqual([expect.stringMatching(/^latest: .*: 401$/)])
})

test('a refusal that is no JSON is noted: its form is not documented', async () => {
  await using publishing = await PublishingService.start()
  const { service } = publishing
  service.changeAnswers((_request, answer) =>
    answer.status === 404 ? { ...answer, body: '<html>404</html>' } : answer,
  )
  const record = await certify(subjectAt(service), now)
  expect(linesOf(record, 'deviation')).toEqual([])
  expect(linesOf(record, 'noted')).toContain('error-bodies: no such path: 404 with HTML')
})
