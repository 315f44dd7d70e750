import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import type { StreamCall } from '../../client/contract/call.js'
import type { Handler } from '../../client/contract/plugin.js'
import type { PluginClient, StreamScope } from '../../client/contract/scope.js'
import { APIError, AuthenticationError, type Feed, feedAccess } from '../../index.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const [a, b] = [`0x0003${'aa'.repeat(30)}`, `0x0003${'bb'.repeat(30)}`] as const
const url = `wss://ws.example/api/v1/ws?feedIDs=${a},${b}`
const refusal = new AuthenticationError('no', { statusCode: 401 })

type ListFeeds = PluginClient['listFeeds']
type GetLatest = (feedID: string) => Promise<never>

const refuse: GetLatest = async () => {
  throw refusal
}

/** The wire rejects every call; `requests` are the times at which the list of feeds was requested, and `attempts` those of the calls. */
function world(
  listFeeds: ListFeeds,
  error: AuthenticationError = refusal,
  getLatestReport = refuse,
  feedIDs: readonly string[] = [a, b],
) {
  const requests: number[] = []
  const attempts: number[] = []
  const wire: Handler = async () => {
    attempts.push(performance.now())
    throw error
  }
  const handler = feedAccess().attempt?.(wire) as Handler

  /** A shard of a stream, of which the plugin needs this much. */
  function shard(ask: ListFeeds = listFeeds) {
    const controller = new AbortController()
    const { signal } = controller
    const scope = {
      log: {},
      feedIDs,
      client: {
        listFeeds(options: { signal: AbortSignal }) {
          requests.push(performance.now())
          return ask(options)
        },
        getLatestReport,
      },
    } as unknown as StreamScope
    const call: StreamCall = {
      kind: 'stream',
      operation: 'stream',
      purpose: 'user',
      method: 'GET',
      url,
      urls: [url],
      headers: new Headers(),
      connectTimeout: 5000,
      reconnect: { maxReconnectAttempts: 5, reconnectInterval: 1000 },
      signal,
      scope,
      open: () => Promise.reject(new Error('the wire of this call is `attempts`')),
    }
    const connect = () => handler(call).catch((thrown: AuthenticationError) => thrown)
    return { connect, end: () => controller.abort(new Error('over')) }
  }
  return { shard, requests, attempts }
}

const never: ListFeeds = () => new Promise(() => undefined)
const all = async (): Promise<Feed[]> => [{ feedID: a }, { feedID: b }]
const some = async (): Promise<Feed[]> => [{ feedID: a }]

test('the error names the feeds that may not be read, with the rejection as its cause', async () => {
  const { shard } = world(some)
  expect(await shard().connect()).toMatchObject({
    code: 'ENTITLEMENT',
    feedIDs: [b],
    statusCode: 401,
    cause: refusal,
    isRetryable: false,
  })
})

test('a list that never comes is waited for five seconds, and the rejection stands', async () => {
  const { shard } = world(never)
  const connecting = shard().connect()
  await jest.advanceTimersByTimeAsync(4999)
  expect(await Promise.race([connecting, 'waits'])).toBe('waits')
  await jest.advanceTimersByTimeAsync(2)
  expect(await connecting).toBe(refusal)
  expect(jest.getTimerCount()).toBe(0)
})

test('the list is requested for each rejection, since what may be read may have changed', async () => {
  const { shard, requests, attempts } = world(all)
  const { connect } = shard()
  for (let second = 1; second <= 5; second++) {
    expect(await connect()).toBe(refusal)
    expect(requests).toHaveLength(second)
    // All feeds may be read, so the call is tried again.
    expect(attempts).toHaveLength(2 * second)
    await jest.advanceTimersByTimeAsync(1000)
  }
})

test('a rejection after which the next attempt is corrected has no list requested', async () => {
  const corrected = new AuthenticationError('no', { isRetryable: true, isCorrected: true })
  const { shard, requests } = world(some, corrected)
  expect(await shard().connect()).toBe(corrected)
  expect(requests).toEqual([])
})

const many = Array.from({ length: 12 }, (_, index) => `0x0003${String(index).padStart(60, '0')}`)

test('questions that hang end after 15 seconds, five at a time, and the rejection stands', async () => {
  const asked: string[] = []
  const hang: GetLatest = feedID => {
    asked.push(feedID)
    return new Promise(() => undefined)
  }
  const { shard, attempts } = world(some, refusal, hang, many)
  const connecting = shard().connect()
  await jest.advanceTimersByTimeAsync(14_999)
  expect(await Promise.race([connecting, 'waits'])).toBe('waits')
  expect(asked).toEqual(many.slice(0, 5))
  await jest.advanceTimersByTimeAsync(2)
  expect(await connecting).toBe(refusal)
  expect(asked).toHaveLength(5)
  // Nobody knows whether the other feeds may be read, so the call is not tried again.
  expect(attempts).toHaveLength(1)
  expect(jest.getTimerCount()).toBe(0)
})

test('what is certain when the questions end is named, and the next questions begin with the others', async () => {
  const asked: string[] = []
  const slow: GetLatest = async feedID => {
    asked.push(feedID)
    await new Promise(resolve => setTimeout(resolve, 7000))
    throw feedID === many[7] ? refusal : new APIError('no report', { statusCode: 404 })
  }
  const { shard } = world(some, refusal, slow, many)
  const first = shard().connect()
  await jest.advanceTimersByTimeAsync(16_000)
  expect(await first).toMatchObject({ feedIDs: [many[7]] })
  expect(asked.splice(0)).toEqual(many)
  void shard().connect()
  await jest.advanceTimersByTimeAsync(1)
  // Those that were refused or did not answer in time are asked first.
  expect(asked).toEqual([many[7], many[10], many[11], many[0], many[1]])
  await jest.advanceTimersByTimeAsync(16_000)
})
