// Reports as JSON. The witness is JSON.stringify with a replacer that writes bigints.
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import {
  createClient,
  type DecodedReport,
  decodeReport,
  decoders,
  defineDecoder,
  type Report,
  toJSON,
} from '../../index.js'
import { publishedReports } from '../support/report/published-reports.js'

const withBigints = (value: object): unknown =>
  JSON.parse(JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? `${each}` : each)))
const parsed = (value: object): Record<string, unknown> => JSON.parse(JSON.stringify(value))

let engine: DataEngine

beforeAll(async () => {
  engine = await startDataEngine({ intervalMs: 20 })
})
afterAll(() => engine.close())

const open = (config: object = {}) => {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  return createClient({ apiKey, userSecret, endpoint, wsEndpoint, ...config })
}

/** What the JSON of a report must be. */
function expected(report: Report<DecodedReport>): object {
  const { feedID, fullReport, origin, source, decoded } = report
  const { validFromTimestamp, observationsTimestamp } = report
  return {
    ...{ feedID, fullReport, validFromTimestamp, observationsTimestamp, origin, source },
    decoded: withBigints({ ...decoded }),
  }
}

describe('JSON.stringify takes a report of every version', () => {
  test('by REST, and what decodeReport gives', async () => {
    await using client = open({ rateLimit: { requests: 1000 } })
    const versions = new Set<string>()
    for (const feedID of engine.feeds) {
      const report = await client.getLatestReport(feedID)
      expect(parsed(report)).toEqual(expected(report))
      expect(parsed(report)).toEqual(parsed(report.toJSON()))
      const decoded = decodeReport(report.fullReport, feedID)
      expect(parsed(decoded)).toEqual(parsed(report).decoded)
      versions.add(decoded.version)
    }
    expect([...versions]).toHaveLength(13)
    const [feedID] = engine.feeds as [string]
    const page = await client.getReportsPage(feedID, 0, 2)
    expect(JSON.parse(JSON.stringify(page))).toEqual(page.map(expected))
  })

  test('by a stream', async () => {
    await using client = open()
    const stream = client.createStream(engine.feeds)
    const seen = new Set<string>()
    await stream.connect()
    for await (const report of stream) {
      expect(parsed(report)).toEqual(expected(report))
      seen.add(report.decoded.version)
      if (seen.size === 13) break
    }
    await stream.close()
  })
})

test('a report that cannot be decoded is written without its fields', async () => {
  const { apiKey, userSecret, endpoint, wsEndpoint, feeds } = engine
  const [feedID] = feeds as [string]
  const { hmacAuth } = await import('../../index.js')
  await using client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [decoders(), hmacAuth({ apiKey, userSecret })],
  })
  const report = await client.getLatestReport(feedID)
  expect(() => report.decoded).toThrow()
  expect(Object.keys(parsed(report))).toEqual([
    'feedID',
    'fullReport',
    'validFromTimestamp',
    'observationsTimestamp',
    'origin',
    'source',
  ])
})

describe('a decoded report is an object like any other', () => {
  const [{ feedID, fullReport }] = publishedReports as [(typeof publishedReports)[0]]
  const decoded = decodeReport(fullReport, feedID)
  const plain = Object.fromEntries(Object.entries(decoded))

  test('for those who compare, copy and list it', () => {
    expect(decoded).toEqual(plain)
    expect(plain).toEqual(decoded)
    expect(decoded).toStrictEqual(plain)
    expect({ ...decoded }).toStrictEqual(plain)
    expect(structuredClone(decoded)).toStrictEqual(plain)
    expect(decoded.constructor).toBe(Object)
    const listed: string[] = []
    for (const name in decoded) listed.push(name)
    expect(listed).toEqual(Object.keys(plain))
    expect(Reflect.ownKeys(decoded)).toEqual(Object.keys(plain))
  })

  test('but for its prototype, which strict comparisons of Node see', () => {
    expect(isDeepStrictEqual(decoded, plain)).toBe(false)
    expect(isDeepStrictEqual({ ...decoded }, plain)).toBe(true)
  })

  test('and toJSON writes its copies', () => {
    expect(() => JSON.stringify({ ...decoded })).toThrow(TypeError)
    const copies = [{ ...decoded }, structuredClone(decoded), decoded]
    for (const copy of copies) expect(toJSON(copy)).toStrictEqual(withBigints(plain))
  })
})

test('toJSON writes bigints wherever they are, and leaves everything else', () => {
  const date = new Date(0)
  const value = { a: 1n, b: [2n, { c: -3n }], d: null, e: undefined, f: 'x', g: 1.5, date }
  expect(toJSON(value)).toStrictEqual({
    ...{ a: '1', b: ['2', { c: '-3' }], d: null, e: undefined, f: 'x', g: 1.5 },
    date: date.toJSON(),
  })
  expect(toJSON(5n)).toBe('5')
  expect(toJSON(Object.fromEntries([['__proto__', 1n]]))).toEqual(
    Object.fromEntries([['__proto__', '1']]),
  )
})

test('a field may have the name constructor', () => {
  const decoder = defineDecoder({ version: 42, fields: { constructor: 'uint32' } })
  const id = `0x002a${'ab'.repeat(30)}`
  const view = new DataView(new ArrayBuffer(7 * 32))
  view.setUint32(6 * 32 + 28, 7)
  const data = decoder.decode({ feedID: id, view, length: 7 * 32 } as never)
  expect(data.constructor).toBe(7)
  expect(parsed(data).constructor).toBe(7)
})
