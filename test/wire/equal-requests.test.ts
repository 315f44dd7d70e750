import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import {
  type Client,
  createClient,
  type DecodedReport,
  defaultPreset,
  type Plugin,
} from '../../index.js'

const feed = `0x0003${'ab'.repeat(30)}`
const other = `0x0003${'cd'.repeat(30)}`

let engine: DataEngine
let client: Client<DecodedReport>
/** The path of each request that was sent, and what lets the first ones go on. */
let sent: string[]
let open: () => void

beforeAll(async () => {
  engine = await startDataEngine({ feeds: [feed, other], intervalMs: 0, history: 3 })
})
afterAll(() => engine.close())
beforeEach(() => {
  sent = []
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  client = createClient({
    ...{ apiKey, userSecret, endpoint, wsEndpoint, retryAttempts: 0 },
    async fetch(url, options) {
      sent.push(String(url).slice(endpoint.length))
      await Promise.race([
        opened,
        new Promise((_, reject) =>
          options?.signal?.addEventListener('abort', () => reject(options.signal?.reason)),
        ),
      ])
      return fetch(url, options)
    },
  })
})

const isSent = async (count: number): Promise<void> => {
  while (sent.length < count) await new Promise(resolve => setTimeout(resolve, 1))
}

test('thirty equal requests are one, and each has a report of its own', async () => {
  const asked = Array.from({ length: 30 }, () => client.getLatestReport(feed))
  await isSent(1)
  open()
  const reports = await Promise.all(asked)
  expect(sent).toEqual([`/api/v1/reports/latest?feedID=${feed}`])
  expect(new Set(reports).size).toBe(30)
  for (const { decoded } of reports) expect(decoded.version).toBe('V3')
  // What is asked for later is requested again.
  await client.getLatestReport(feed)
  expect(sent).toHaveLength(2)
})

test('equal requests of every operation are one, and others are not', async () => {
  const { observationsTimestamp: at } = engine.ledger().at(-1) as { observationsTimestamp: number }
  const asked = [0, 1, 2].flatMap(() => [
    client.listFeeds(),
    client.getReportByTimestamp(feed, at),
    client.getReportsPage(feed, at - 1),
    client.getReportsPage(feed, at - 1, 2),
    client.getReportsBulk([feed, other], at),
    client.getLatestReport(other),
  ])
  await isSent(6)
  open()
  await Promise.all(asked)
  expect(sent).toHaveLength(6)
  const [page, again] = await Promise.all([asked[2], asked[8]])
  expect(page).toEqual(again)
  expect(page).not.toBe(again)
})

test('whoever aborts is alone in that, though the request was his', async () => {
  const first = new AbortController()
  const second = new AbortController()
  const given = client.getLatestReport(feed, { signal: first.signal })
  const leaving = client.getLatestReport(feed, { signal: second.signal })
  const staying = [client.getLatestReport(feed), client.getLatestReport(feed)]
  await isSent(1)
  second.abort(new Error('the second'))
  await expect(leaving).rejects.toThrow('the second')
  expect(sent).toHaveLength(1)
  first.abort(new Error('the first'))
  await expect(given).rejects.toThrow('the first')
  await isSent(2)
  open()
  for (const report of await Promise.all(staying)) expect(report.feedID).toBe(feed)
  expect(sent).toHaveLength(2)
})

test('a failure is that of all', async () => {
  engine.fail({ status: 404 })
  const asked = [client.getLatestReport(feed), client.getLatestReport(feed)]
  await isSent(1)
  open()
  for (const { status, reason } of (await Promise.allSettled(asked)) as PromiseRejectedResult[])
    expect([status, reason.statusCode]).toEqual(['rejected', 404])
  expect(sent).toHaveLength(1)
})

test('a closed client answers nobody', async () => {
  const asked = [client.getLatestReport(feed), client.getLatestReport(feed)]
  await isSent(1)
  await client.close()
  for (const { reason } of (await Promise.allSettled(asked)) as PromiseRejectedResult[])
    expect(reason.code).toBe('CLOSED')
  expect(sent).toHaveLength(1)
})

test('layers above the limit see each call, and what they add tells calls apart', async () => {
  const seen: string[] = []
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const users = ['a', 'b', 'a', 'b']
  const tenant: Plugin<never> = {
    name: 'tenant',
    call: next => call => {
      seen.push(call.operation)
      return next(call)
    },
    attempt: next => call => {
      call.headers.set('x-tenant', users[seen.length - 1] as string)
      call.headers.set('traceparent', `00-${seen.length}`)
      return next(call)
    },
  }
  const own = createClient({
    ...{ endpoint, wsEndpoint, plugins: [tenant, ...defaultPreset({ apiKey, userSecret })] },
    async fetch(url, options) {
      sent.push(new Headers(options?.headers).get('x-tenant') ?? '')
      await new Promise(resolve => setTimeout(resolve, 50))
      return fetch(url, options)
    },
  })
  await Promise.all(users.map(() => own.listFeeds()))
  expect(seen).toHaveLength(4)
  expect(sent.sort()).toEqual(['a', 'b'])
  await own.close()
})

test('a service that hangs lets no caller wait for the others', async () => {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const hanging = createClient({
    ...{ apiKey, userSecret, endpoint, wsEndpoint, timeout: 100, retryAttempts: 1, retryDelay: 10 },
    fetch(url, options) {
      sent.push(String(url))
      return new Promise((_, reject) =>
        options?.signal?.addEventListener('abort', () => reject(options.signal?.reason)),
      )
    },
  })
  const asked = Array.from({ length: 20 }, () => hanging.getLatestReport(feed))
  const outcomes = await Promise.allSettled(asked)
  for (const { reason } of outcomes as PromiseRejectedResult[])
    expect(reason.code).toBe('API_TIMEOUT')
  // One for each attempt, and one more where a retry came too late for another.
  expect(sent.length).toBeLessThan(6)
})

test('new credentials share no reply to the old ones', async () => {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  let held = true
  const renewed = createClient({
    ...{ endpoint, wsEndpoint, apiKey: 'old', userSecret: 'old-secret', retryDelay: 1 },
    renewCredentials: () => ({ apiKey, userSecret }),
    async fetch(url, options) {
      const isOld = new Headers(options?.headers).get('authorization') === 'old'
      if (!isOld || !String(url).endsWith('/feeds')) return fetch(url, options)
      while (held) await new Promise(resolve => setTimeout(resolve, 1))
      return Response.json({ feeds: [] })
    },
  })
  const first = renewed.listFeeds()
  await renewed.getLatestReport(feed)
  expect(await renewed.listFeeds()).toHaveLength(2)
  held = false
  expect(await first).toHaveLength(0)
  await renewed.close()
})
