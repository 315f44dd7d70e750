import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { getTwap } from '../../client/beta.js'
import { createClient, generateAuthHeaders } from '../../index.js'
import { type Operation, operations } from '../support/openapi.js'
import { root } from '../support/sources.js'

const FIRST = 1_700_000_000
const eth = `0x0003${'3c'.repeat(30)}`
const btc = `0x0003${'4d'.repeat(30)}`
const silent = `0x0003${'5e'.repeat(30)}`

let engine: DataEngine
beforeAll(async () => {
  engine = await startDataEngine({
    feeds: [eth, btc, silent, { feedID: `0x0003${'6f'.repeat(30)}`, entitled: false }],
    intervalMs: 0,
    history: 0,
  })
  for (let at = 0; at < 5; at++)
    for (const feedID of [eth, btc])
      engine.publish(feedID, { validFromTimestamp: FIRST + at, observationsTimestamp: FIRST + at })
})
afterAll(() => engine.close())

/** Values that each operation accepts. */
const good: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  listFeeds: {},
  getLatestReport: { feedID: eth },
  getReportByTimestamp: { feedID: eth, timestamp: String(FIRST + 2) },
  getReportsPage: { feedID: eth, startTimestamp: String(FIRST), limit: '2' },
  getReportsBulk: { feedIDs: `${eth},${btc}`, timestamp: String(FIRST + 2) },
  discover: {},
  getTwap: {},
}
const twapBody = JSON.stringify({ feedId: eth, windowSeconds: 3, endTs: FIRST + 3 })
const malformed: Readonly<Record<string, string>> = {
  feedID: '0x03',
  feedIDs: `${eth},0x03`,
  timestamp: 'yesterday',
  startTimestamp: '-1',
  limit: '0',
  hidden: 'maybe',
}

interface Sent {
  readonly query?: Readonly<Record<string, string>>
  readonly body?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a request as no client of ours does. */
async function send(operation: Operation, sent: Sent = {}): Promise<number> {
  const query = new URLSearchParams({ ...(sent.query ?? good[operation.id]) })
  const search = String(query).replaceAll('%2C', ',')
  const url = `${engine.endpoint}${operation.path}${search === '' ? '' : `?${search}`}`
  const body = operation.method === 'POST' ? (sent.body ?? twapBody) : undefined
  const { apiKey, userSecret } = engine
  const headers = {
    ...generateAuthHeaders(apiKey, userSecret, operation.method, url, body),
    ...sent.headers,
  }
  const answer = await fetch(url, {
    method: operation.method,
    headers: Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== '')),
    ...(body !== undefined && { body }),
  })
  const text = await answer.text()
  const type = answer.headers.get('content-type') ?? ''
  const wrong = operation.refuse(answer.status, type, JSON.parse(text))
  expect([operation.id, answer.status, wrong]).toEqual([operation.id, answer.status, undefined])
  return answer.status
}

test('the document is an OpenAPI document of version 3.1', () => {
  const validator = 'node_modules/@seriousme/openapi-schema-validator/bin/validate-api-cli.js'
  const out = execFileSync(process.execPath, [join(root, validator), 'docs/openapi.yaml'], {
    cwd: root,
    encoding: 'utf8',
  })
  expect(JSON.parse(out)).toEqual({ valid: true })
})

test('the tests have values for each operation', () => {
  expect([...operations.keys()].sort()).toEqual(Object.keys(good).sort())
  for (const { id, parameters } of operations.values())
    for (const { name, accepts } of parameters)
      if (good[id]?.[name] !== undefined)
        expect([name, accepts(good[id][name])]).toEqual([name, true])
  for (const { parameters } of operations.values())
    for (const { name, accepts } of parameters)
      if (malformed[name] !== undefined)
        expect([name, accepts(malformed[name])]).toEqual([name, false])
})

describe('the engine', () => {
  test.each([...operations.values()].map(each => [each.id, each] as const))(
    'answers %s as documented',
    async (_, operation) => {
      expect(await send(operation)).toBe(200)
      for (const { name, required } of operation.parameters) {
        const { [name]: _left, ...without } = good[operation.id] as Record<string, string>
        expect(await send(operation, { query: without })).toBe(required ? 400 : 200)
        const value =
          malformed[name] ??
          (name.endsWith('_after') || name.endsWith('_before') ? '2026-13-40' : undefined)
        if (value !== undefined)
          expect(await send(operation, { query: { ...good[operation.id], [name]: value } })).toBe(
            400,
          )
      }
      const signature = 'X-Authorization-Signature-SHA256'
      expect(await send(operation, { headers: { [signature]: '0'.repeat(64) } })).toBe(401)
      expect(await send(operation, { headers: { Authorization: 'another' } })).toBe(401)
      expect(await send(operation, { headers: { 'X-Authorization-Timestamp': '1' } })).toBe(401)
      // The catalogue is for everybody, so it is not documented how it refuses half of the headers.
      const isPublic = operation.id === 'discover'
      expect(await send(operation, { headers: { [signature]: '' } })).toBe(isPublic ? 401 : 400)
      if (operation.acceptsBody !== undefined) {
        expect(operation.acceptsBody(JSON.parse(twapBody))).toBe(true)
        for (const body of ['{', '{}', JSON.stringify({ feedId: eth, windowSeconds: 'x' })])
          expect(await send(operation, { body })).toBe(400)
      }
      for (const status of operation.statuses.filter(each => each >= 429)) {
        engine.fail({ status, path: operation.path, ...(status === 429 && { retryAfter: 1 }) })
        expect(await send(operation)).toBe(status)
      }
    },
  )

  test('has no report, or not of each feed', async () => {
    const of = (id: string): Operation => operations.get(id) as Operation
    expect(await send(of('getLatestReport'), { query: { feedID: silent } })).toBe(404)
    const timestamp = String(FIRST + 2)
    expect(await send(of('getReportByTimestamp'), { query: { feedID: silent, timestamp } })).toBe(
      404,
    )
    const query = { feedIDs: `${eth},${silent}`, timestamp }
    expect(await send(of('getReportsBulk'), { query })).toBe(206)
  })
})

describe('the client', () => {
  test('sends each operation, with parameters that are documented, and reads each error', async () => {
    const sent: { readonly method: string; readonly url: URL; readonly body: string | null }[] = []
    let status = 200
    const client = createClient({
      endpoint: engine.endpoint,
      wsEndpoint: engine.wsEndpoint,
      plugins: [],
      async fetch(input: unknown, init?: RequestInit) {
        const url = new URL(String(input))
        sent.push({ method: init?.method ?? 'GET', url, body: (init?.body as string) ?? null })
        return new Response(JSON.stringify({ message: 'as asked' }), {
          status,
          headers: { 'content-type': 'application/json' },
        })
      },
    })
    const day = '2027-01-31'
    const texts = ['one', 'two']
    const calls: Readonly<Record<string, () => Promise<unknown>>> = {
      listFeeds: () => client.listFeeds(),
      getLatestReport: () => client.getLatestReport(eth),
      getReportByTimestamp: () => client.getReportByTimestamp(eth, FIRST),
      getReportsPage: () => client.getReportsPage(eth, FIRST, 5),
      getReportsBulk: () => client.getReportsBulk([eth, btc], FIRST),
      discover: () =>
        client.discover({
          baseAsset: texts,
          quoteAsset: texts,
          assetClass: texts,
          feedType: texts,
          attributeType: texts,
          status: 'live',
          networkType: 'mainnet',
          hidden: true,
          createdAfter: day,
          createdBefore: new Date(`${day}T12:00:00Z`),
          expectedDecommissionAfter: day,
          expectedDecommissionBefore: day,
          decommissionedAfter: day,
          decommissionedBefore: day,
        }),
      getTwap: () => getTwap(client, eth, { window: 30, end: FIRST }),
    }
    expect(Object.keys(calls).sort()).toEqual([...operations.keys()].sort())
    for (const [id, operation] of operations) {
      for (const each of operation.statuses.filter(each => each >= 400)) {
        status = each
        sent.length = 0
        const code = each === 401 ? 'AUTHENTICATION' : 'API_STATUS'
        const isRetryable = each === 429 || each >= 500
        await expect(calls[id]?.()).rejects.toMatchObject({ code, statusCode: each, isRetryable })
        const [{ method, url, body }] = sent as [(typeof sent)[number]]
        expect([method, url.pathname]).toEqual([operation.method, operation.path])
        const names = operation.parameters.map(({ name }) => name)
        expect([...url.searchParams.keys()].sort()).toEqual([...names].sort())
        for (const { name, accepts } of operation.parameters)
          expect([name, accepts(url.searchParams.get(name) as string)]).toEqual([name, true])
        if (operation.acceptsBody !== undefined)
          expect(operation.acceptsBody(JSON.parse(body as string))).toBe(true)
      }
    }
    await client.close()
  })
})
