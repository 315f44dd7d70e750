import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import type {
  Call,
  ClientMetrics,
  PluginClient,
  RequestReply,
  StreamScope,
} from '../../client/index.js'
import {
  type Client,
  createClient,
  defaultPreset,
  defineDecoder,
  isStreamsError,
  type Plugin,
} from '../../index.js'
import { closeAfterEach, failOnUnhandled } from '../support/closing.js'
import { failureOf, until } from '../support/waiting.js'

/** In milliseconds. */
const feedID = `0x1003${'ab'.repeat(30)}`
const other = `0x1003${'cd'.repeat(30)}`

let engine: DataEngine
const closers = closeAfterEach()
failOnUnhandled()
beforeAll(async () => {
  engine = await startDataEngine({ feeds: [feedID, other], intervalMs: 0, history: 0 })
})
afterAll(() => engine.close())

/** What a plugin has seen of a client. */
interface Watched {
  readonly calls: Call[]
  readonly events: string[]
  readonly scopes: StreamScope[]
  client?: PluginClient
}

function watch(seen: Watched): Plugin<never> {
  return {
    name: 'watch',
    call: next => call => {
      seen.calls.push(call)
      return next(call)
    },
    report(next, scope) {
      seen.client = scope.client
      if (scope.kind === 'request') return next
      seen.scopes.push(scope)
      for (const name of ['gap', 'gap-filled', 'conflict', 'error', 'status', 'ending'] as const)
        scope.defer(
          scope.events.on(name, value => {
            const { type = '', cause = '' } = value as { type?: string; cause?: unknown }
            seen.events.push([name, type || (name === 'gap' && cause)].filter(Boolean).join(' '))
          }),
        )
      return next
    },
  }
}

function open(
  more: readonly Plugin[] = [],
  maxBackfill = 300_000,
): { client: Client; seen: Watched } {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const seen: Watched = { calls: [], events: [], scopes: [] }
  const preset = defaultPreset({
    apiKey,
    userSecret,
    retryDelay: 10,
    continuity: { maxBackfill },
  })
  const client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [watch(seen), ...more, ...preset],
  })
  closers.push(() => client.close())
  return { client, seen }
}

function metricsOf({ client }: Watched): ClientMetrics {
  if (client === undefined) throw new Error('no plugin was called')
  return client.metrics()
}

describe('a plugin watches a stream', () => {
  test('its gaps, errors and changes', async () => {
    const { client, seen } = open([], 0)
    const stream = client.createStream(feedID, { reconnectInterval: 20 })
    stream.on('report', () => undefined)
    stream.on('gap', () => {
      throw new Error('a handler of gap threw')
    })
    await stream.connect()
    expect(seen.events).toEqual(['status connecting', 'status connected'])

    engine.publish(feedID)
    engine.publish(feedID, {}, { streamed: false })
    engine.publish(feedID)
    await until(() => seen.events.includes('gap backfill-limit'))
    expect(seen.events).toContain('error')

    engine.send('no report')
    await until(() => metricsOf(seen).malformed === 1)
    const endRefusal = engine.fail({ status: 401, times: 100, method: 'GET' })
    closers.push(endRefusal)
    engine.disconnect(1001)
    await until(() => seen.events.includes('status degraded'))
  })

  test('errors of its handlers, once each', async () => {
    const { client, seen } = open()
    const errors: Error[] = []
    const stream = client.createStream(feedID)
    stream.on('status', () => {
      throw new Error('a handler of status threw')
    })
    stream.on('error', error => {
      errors.push(error)
      throw new Error('a handler of error threw')
    })
    await stream.connect()
    expect(errors).toHaveLength(2)
    expect(seen.events.filter(name => name === 'error')).toHaveLength(2)
  })

  test('all counts of the client, when its streams have ended, too', async () => {
    const { client, seen } = open()
    const streams = [client.createStream(feedID), client.createStream([feedID, other])]
    for (const stream of streams) {
      stream.on('report', () => undefined)
      await stream.connect()
    }
    for (let at = 0; at < 5; at++) engine.publish(feedID)
    engine.publish(other)
    await until(() => metricsOf(seen).accepted === 11)
    expect(metricsOf(seen).streams.map(({ accepted }) => accepted)).toEqual([5, 6])
    await streams[0]?.close()
    const { accepted, origins, streams: left } = metricsOf(seen)
    expect(left).toHaveLength(1)
    expect(accepted).toBe(11)
    expect(origins).toEqual({
      [engine.wsEndpoint]: {
        received: 11,
        first: 11,
        outOfOrder: 0,
        verified: 0,
        verificationFailed: 0,
      },
    })
    await streams[1]?.close()
    expect(metricsOf(seen)).toMatchObject({ accepted: 11, origins, streams: [] })
  })

  test('the reports that wait to be taken, and those that can not be decoded', async () => {
    const broken = defineDecoder({ version: 3, fields: { price: 'string' } })
    const { client, seen } = open([{ name: 'broken', decoders: [broken] }])
    const stream = client.createStream(feedID)
    await stream.connect()
    for (let at = 0; at < 3; at++) engine.publish(feedID)
    await until(() => stream.getMetrics().queued === 3)
    const report = await stream.read()
    expect(stream.getMetrics().queued).toBe(2)
    for (let at = 0; at < 2; at++) expect(() => report.decoded).toThrow('feed')
    expect(metricsOf(seen).undecoded).toBe(1)
  })
})

describe('a plugin tells who makes a call', () => {
  test('the user, a page of missing reports, and requests of plugins', async () => {
    const asking: Plugin<never> = {
      name: 'asking',
      report(next, scope) {
        if (scope.kind === 'request' && scope.feedIDs.length > 0)
          scope.waitUntil(scope.client.listFeeds(), undefined as never)
        return next
      },
    }
    const { client, seen } = open([asking])
    const stream = client.createStream(feedID)
    stream.on('report', () => undefined)
    await stream.connect()
    engine.publish(feedID)
    engine.publish(feedID, {}, { streamed: false })
    engine.publish(feedID)
    await until(() => metricsOf(seen).backfilled === 1)
    await client.getLatestReport(feedID)
    const calls = seen.calls.map(({ operation, purpose }) => `${operation} ${purpose}`)
    expect(calls).toEqual([
      'stream user',
      'getReportsPage backfill',
      'getLatestReport user',
      'listFeeds plugin',
    ])
    const [, page, latest, list] = seen.calls
    expect(page).toMatchObject({ parent: { kind: 'stream' } })
    expect(page?.kind === 'request' && page.parent).toBe(seen.scopes[0])
    expect(latest).toMatchObject({ parent: undefined })
    expect(list?.kind === 'request' && list.parent).toBe(latest?.scope)
  })

  test('so a cache answers the user alone, and missing reports are asked for again', async () => {
    const replies = new Map<string, RequestReply>()
    const cache: Plugin<never> = {
      name: 'cache',
      call: next =>
        async function answerFromCache(call) {
          if (call.kind !== 'request' || call.purpose !== 'user') return next(call)
          const known = replies.get(call.url)
          if (known !== undefined) return known
          const reply = await next(call)
          if (reply.kind === 'request') replies.set(call.url, reply)
          return reply
        },
    }
    const { client, seen } = open([cache])
    const stream = client.createStream(feedID)
    stream.on('report', () => undefined)
    await stream.connect()
    const { observationsTimestamp: time } = engine.publish(feedID)
    // What the user has asked for before the service stored it is cached as an empty page.
    await client.getReportsPage(feedID, time + 1, 100)
    engine.publish(feedID, {}, { streamed: false, storedAfterMs: 600 })
    engine.publish(feedID)
    await until(() => metricsOf(seen).backfilled === 1)
    expect(await client.getReportsPage(feedID, time + 1, 100)).toHaveLength(0)
    const pages = seen.calls.filter(({ purpose }) => purpose === 'backfill')
    expect(pages.length).toBeGreaterThan(1)
    expect(new Set(pages.map(({ url }) => url)).size).toBe(1)
  })
})

test('a stream that ends by itself says so to its plugins', async () => {
  const { client, seen } = open()
  engine.entitle(feedID, false)
  const error = await failureOf(client.createStream(feedID).connect())
  engine.entitle(feedID, true)
  expect(isStreamsError(error, 'ENTITLEMENT')).toBe(true)
  expect(seen.events).toContain('ending')
})
