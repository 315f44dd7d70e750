import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { PluginClient } from '../../client/index.js'
import { type Client, createClient, hmacAuth, logging, type Plugin } from '../../index.js'
import {
  feedID,
  type PageChange,
  type Report,
  type Service,
  startService,
} from '../support/service/service.js'
import { failureOf } from '../support/waiting.js'

const feed = feedID(3)
const other = feedID(3, 2)
const START = 1_700_000_000
const { signal } = new AbortController()

let service: Service
let foreign: Report
beforeAll(async () => {
  service = await startService({ feeds: [feed, other], signatures: 'dummy' })
  for (let at = -1; at < 4; at++) service.store(feed, { observed: START + at })
  foreign = service.store(other, { observed: START + 2 })
})
const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  service.changePages(feed)
  for (const close of closers.splice(0)) await close()
})
afterAll(() => service.close())

/** A client, the same as a plugin has it, and what it warned of. */
async function open(): Promise<{ client: Client; inner: PluginClient; warnings: string[] }> {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const warnings: string[] = []
  const inner: PluginClient[] = []
  const look: Plugin<never> = {
    name: 'look',
    report(next, { client }) {
      inner.push(client)
      return next
    },
  }
  const plugins = [
    logging({ logger: { warn: (line: string) => void warnings.push(line) } }),
    look,
    hmacAuth({ apiKey, userSecret }),
  ]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  await client.createStream(feed).connect()
  return { client, inner: inner[0] as PluginClient, warnings }
}

const timesOf = (reports: readonly { readonly observationsTimestamp: number }[]): number[] =>
  reports.map(report => report.observationsTimestamp - START)

/** A report whose JSON is another. */
const withJSON = (report: Report | undefined, json: string): Report => ({
  ...(report as Report),
  json,
})

const older = (): Report => service.skip(feed, { observed: START - 5 })
const forged = (): Report =>
  service.skip(feed, {
    observed: START + 9,
    envelope: { observationsTimestamp: START + 8 },
  })

describe('a page that a plugin fetches', () => {
  test('is ascending, whatever its order, and no older than what was asked for', async () => {
    const { inner, warnings } = await open()
    service.changePages(feed, reports => [...reports].reverse())
    const page = await inner.fetchPage(feed, START, 100, signal)
    expect(timesOf(page)).toEqual([0, 1, 2, 3])
    expect(page.map(({ source }) => source)).toEqual(Array(4).fill('backfill'))
    expect(await inner.fetchPage(feed, START + 100, 100, signal)).toEqual([])
    expect(warnings).toEqual([])
  })

  test.each<[string, PageChange, number, RegExp]>([
    ['older than asked for', all => [older(), ...all], 1, /a report at 1699999995 is older than/],
    ['of another feed', all => [...all, foreign], 1, /it is of feed 0x0003\w+, which was not/],
    ['repeated', all => [...all, ...all.slice(1, 3)], 2, /it has two reports at 1700000001$/],
    ['no object', all => [withJSON(all[0], '7'), ...all], 1, /report must be an object/],
    ['without bytes', all => [...all, withJSON(all[0], '{}')], 1, /report\.feedID must be/],
    ['contradicts itself', all => [forged(), ...all], 1, /envelope’s observationsTimestamp is/],
    ['of two kinds', all => [foreign, ...all, older()], 2, /it is of feed 0x0003/],
  ])('loses a report that is bad, and no other: %s', async (_name, change, count, rule) => {
    const { inner, warnings } = await open()
    service.changePages(feed, change)
    expect(timesOf(await inner.fetchPage(feed, START, 4, signal))).toEqual([0, 1, 2, 3])
    const line = `${count} of ${4 + count} reports on a page of feed ${feed} are left out, the first because: `
    expect(warnings).toEqual([expect.stringContaining(line)])
    expect(warnings[0]).toMatch(rule)
  })

  test.each<[string, PageChange, RegExp]>([
    ['older', () => [older()], /is older than the page/],
    ['of another feed', () => [foreign, foreign], /which was not requested/],
    ['unreadable', all => all.map(each => withJSON(each, '[]')), /report must be|report\.feedID/],
    ['forged', () => [forged()], /envelope’s observationsTimestamp is/],
  ])(
    'is an error where no report is good, for it is not empty: %s',
    async (_name, change, rule) => {
      const { inner, warnings } = await open()
      service.changePages(feed, change)
      expect((await failureOf(inner.fetchPage(feed, START, 4, signal))).message).toMatch(rule)
      expect(warnings).toEqual([])
    },
  )

  test('has the first reports where there are more than were asked for, and is strict no more', async () => {
    const { inner, client, warnings } = await open()
    service.changePages(feed, () =>
      [2, 0, 1].map(at => service.skip(feed, { observed: START + at })),
    )
    expect(timesOf(await inner.fetchPage(feed, START, 2, signal))).toEqual([0, 1])
    const page = await client.getReportsPage(feed, START, 2)
    expect(timesOf(page)).toEqual([0, 1])
    expect(page.nextStartTime).toBe(START + 2)
    expect(warnings).toEqual(
      Array(2).fill(expect.stringContaining('has 3 reports, 2 at most were requested')),
    )
  })

  test('is asked for with ten reports where the service refuses more', async () => {
    const { inner, client } = await open()
    let isStrict = true
    service.changeAnswers((request, answer) =>
      isStrict && /limit=(\d{3}|[2-9]\d|1[1-9])\b/.test(request.path)
        ? { status: 400, body: '{"message":"limit must be at most 10"}' }
        : answer,
    )
    const page = await inner.fetchPage(feed, START, 100, signal)
    expect(timesOf(page)).toEqual([0, 1, 2, 3])
    expect(page.limit).toBe(10)
    const before = service.requests.length
    await inner.fetchPage(feed, START, 100, signal)
    expect(service.requests.length - before).toBe(1)
    let found = 0
    for await (const _ of client.getReportsBetween(feed, START, START + 60)) found++
    expect(found).toBe(4)
    // A limit of the user's own is the user's own.
    expect(await failureOf(client.getReportsPage(feed, START, 50))).toMatchObject({
      statusCode: 400,
    })
    isStrict = false
  })

  test.each<[string, PageChange]>([
    ['older', all => [older(), ...all]],
    ['of another feed', all => [...all, foreign]],
    ['forged', all => [...all, forged()]],
  ])('is strict where the user fetches it: %s', async (_name, change) => {
    const { client } = await open()
    service.changePages(feed, change)
    const { code } = await failureOf(client.getReportsPage(feed, START, 10))
    expect(code).toMatch(/^(API_RESPONSE|DECODING)$/)
  })
})
