import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { closeAfterEach } from '@sluice/test-support/closing.js'
import {
  feedID,
  type Report,
  type Service,
  startService,
} from '@sluice/test-support/service/service.js'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import { createClient } from 'sluice'
import type { Client, Plugin, PluginClient } from 'sluice/client'
import { hmacAuth } from 'sluice/plugins/hmac-auth'
import type { Gap } from 'sluice/report'
import { runHere } from './support/cli.js'

const [one, two, three, foreign] = [1, 2, 3, 4].map(n => feedID(3, n)) as [
  string,
  string,
  string,
  string,
]
const feeds = [one, two, three]
const AT = 1_700_000_000
const BULK = '/api/v1/reports/bulk'
const PAGE = '/api/v1/reports/page'

let service: Service
beforeEach(async () => {
  service = await startService({ feeds, signatures: 'dummy' })
})
afterEach(() => service.close())
const closers = closeAfterEach()

const keysOf = ({ apiKey, userSecret, endpoint, wsEndpoint }: Service) => ({
  apiKey,
  userSecret,
  endpoint,
  wsEndpoint,
})

function open(): Client {
  const client = createClient({ ...keysOf(service), retryDelay: 10 })
  closers.push(() => client.close())
  return client
}

const at = (id: string, observed: number = AT, price?: bigint): Report =>
  service.skip(id, { observed, validFrom: observed, ...(price ? { fields: { price } } : {}) })

/** Answers the next request of a path with these reports. */
function answer(path: string, status: number, ...reports: readonly (Report | string)[]): void {
  const list = reports.map(report => (typeof report === 'string' ? report : report.json))
  service.fail({ on: 'rest', path, answer: status, times: 1, body: `{"reports":[${list}]}` })
}

const unreadable = (id: string): string =>
  JSON.stringify({ ...JSON.parse(at(id).json), fullReport: '0x00' })

describe('a bulk answer', () => {
  test('of status 206 is delivered, and names the feeds without a report', async () => {
    service.store(one, { observed: AT, validFrom: AT })
    const bulk = await open().getReportsBulk(feeds, AT)
    expect(service.requestsTo(BULK)[0]?.status).toBe(206)
    expect(bulk.map(report => report.feedID)).toEqual([one])
    expect(bulk.missing).toEqual([two, three])
    expect(bulk.errors).toEqual([])
  })

  test.each<[string, () => (Report | string)[], RegExp]>([
    ['unreadable', () => [unreadable(two)], /fullReport/],
    ['without anything', () => ['null'], /report must be an object/],
    ['of another feed', () => [at(foreign)], /which was not requested/],
    [
      'one of two that differ',
      () => [at(two), at(two, AT, 5n)],
      /it has two reports of feed 0x0003\w+$/,
    ],
  ])('with a report that is %s costs that one alone, and says so', async (_name, bad, rule) => {
    answer(BULK, 206, at(three), ...bad(), at(one))
    const bulk = await open().getReportsBulk(feeds, AT)
    expect(bulk.map(report => report.feedID)).toEqual([one, three])
    expect(bulk.missing).toEqual([two])
    expect(bulk.errors.map(({ message }) => message)).toEqual([expect.stringMatching(rule)])
    expect(bulk.errors[0]).toMatchObject({
      name: expect.stringMatching(/^(API|ReportDecoding)Error$/),
    })
  })

  test('with the same report twice is one report', async () => {
    const same = at(one)
    answer(BULK, 200, same, same, at(two), at(three))
    const bulk = await open().getReportsBulk(feeds, AT)
    expect(bulk.map(report => report.feedID)).toEqual(feeds)
    expect(bulk.errors).toEqual([])
  })

  test('without a good report is an error, unless it is empty', async () => {
    answer(BULK, 206, unreadable(one), at(foreign))
    expect(await failureOf(open().getReportsBulk(feeds, AT))).toMatchObject({ code: 'DECODING' })
    const bulk = await open().getReportsBulk(feeds, AT)
    expect([[...bulk], bulk.missing]).toEqual([[], feeds])
  })

  test('is printed by the command, which says what is missing and ends with 1', async () => {
    answer(BULK, 206, at(one), unreadable(two))
    const { apiKey, userSecret, endpoint, wsEndpoint } = service
    const env = { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint }
    const { code, out, err } = await runHere(['bulk', ...feeds, '--json', '--at', '1h'], { env })
    expect(code).toBe(1)
    expect(
      out
        .split('\n')
        .slice(0, -1)
        .map(line => JSON.parse(line).feedID),
    ).toEqual([one])
    expect(err).toMatch(
      /^sluice: .*fullReport.*\nsluice: 0x0003.* has no report at 20.*Z\nsluice: 0x0003.* has no report at 20.*Z\n$/,
    )
  })
})

test('a list of feeds loses an entry without an id alone', async () => {
  const body = `{"feeds":[{"feedID":"${one}"},{"feedID":"x"},null,{"feedID":"${two}"}]}`
  service.fail({ on: 'rest', path: '/api/v1/feeds', answer: 200, body })
  expect(await open().listFeeds()).toEqual([{ feedID: one }, { feedID: two }])
})

describe('a page of missing reports that is partial (206)', () => {
  test('is given to plugins with what it has, and marked', async () => {
    const inner: PluginClient[] = []
    const look: Plugin<never> = {
      name: 'look',
      report(next, { client }) {
        inner.push(client)
        return next
      },
    }
    const { apiKey, userSecret, endpoint, wsEndpoint } = service
    const plugins = [look, hmacAuth({ apiKey, userSecret })]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    const stream = client.createStream(one)
    // A stream makes its stages when it connects.
    await stream.connect()
    answer(PAGE, 206, at(one))
    const { signal } = new AbortController()
    const page = await inner[0]?.fetchPage(one, AT, 100, signal)
    expect(page).toMatchObject({ length: 1, isPartial: true })
    expect(await inner[0]?.fetchPage(one, AT, 100, signal)).toEqual([])
    await client.close()
  })

  test('has its reports delivered at once, and the others are asked for again', async () => {
    const stream = open().createStream(one)
    const times: number[] = []
    const gaps: Gap[] = []
    stream.on('report', report => void times.push(report.observationsTimestamp))
    stream.on('gap', gap => void gaps.push(gap))
    await stream.connect()
    const start = Math.floor(Date.now() / 1000) - 60
    const send = (observed: number): Report =>
      service.publish(one, { observed, validFrom: observed - 9 })
    const store = (observed: number): Report =>
      service.store(one, { observed, validFrom: observed - 9 })
    for (const time of [start, start + 10]) send(time)
    const stored = [20, 30, 40].map(ms => store(start + ms))
    answer(PAGE, 206, stored[1] as Report)
    send(start + 50)
    await until(() => times.length === 4)
    expect(times).toEqual([0, 10, 50, 30].map(second => start + second))
    expect(service.requestsTo(PAGE).map(({ status }) => status)).toEqual([206])
    await until(() => times.length === 6)
    expect(times.slice(4)).toEqual([start + 20, start + 40])
    expect(gaps).toEqual([])
  })
})
