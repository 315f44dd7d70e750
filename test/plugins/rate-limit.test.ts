import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import fc from 'fast-check'
import { APIError, type Call } from '../../client/contract/call.js'
import type { Handler } from '../../client/contract/plugin.js'
import type { Status } from '../../client/contract/status.js'
import { type RateLimitOptions, rateLimit } from '../../index.js'
import { randomRuns } from '../support/random.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const page = 'https://api.example/api/v1/reports/page?feedID=0x1'
const wait = (ms: number) => jest.advanceTimersByTimeAsync(ms)

/** A stack of the one plugin over a wire that takes its time. */
function limit(options?: RateLimitOptions, delayOf: () => [number, number] = () => [5, 5]) {
  const sent: { url: string; at: number; counted: number }[] = []
  const wire = async (call: Call) => {
    const [there, back] = delayOf()
    const entry = { url: call.url, at: performance.now(), counted: performance.now() + there }
    sent.push(entry)
    await new Promise(resolve => setTimeout(resolve, there + back))
    return { kind: 'request' }
  }
  const handler = rateLimit(options).attempt?.(wire as never) as Handler
  const ask = (url = page, signal = new AbortController().signal, kind = 'request') =>
    handler({ kind, method: 'GET', url, signal, purpose: 'user' } as never)
  const fetchMissing = (url: string, signal = new AbortController().signal) =>
    handler({ kind: 'request', method: 'GET', url, signal, purpose: 'backfill' } as never)
  return { sent, ask, fetchMissing, handler }
}

/** The most requests that were counted in any second. */
function densest(times: readonly number[], ms = 1000): number {
  const sorted = [...times].sort((one, other) => one - other)
  return Math.max(
    ...sorted.map(start => sorted.filter(time => time >= start && time < start + ms).length),
  )
}

describe('rateLimit', () => {
  test('lets ten requests a second out, in the order they came', async () => {
    const { sent, ask } = limit()
    const done = Array.from({ length: 35 }, (_, index) => ask(`${page}&n=${index}`))
    await wait(1)
    expect(sent).toHaveLength(10)
    await wait(10_000)
    await Promise.all(done)
    expect(sent.map(({ url }) => url)).toEqual(done.map((_, index) => `${page}&n=${index}`))
    expect(densest(sent.map(({ counted }) => counted))).toBe(10)
    expect((sent.at(-1)?.at ?? 0) - (sent[0]?.at ?? 0)).toBeLessThan(3100)
  })

  test('every second slot is for missing reports, if their requests wait', async () => {
    const { sent, ask, fetchMissing } = limit()
    const users = Array.from({ length: 1000 }, (_, index) => ask(`${page}&n=${index}`))
    await wait(1)
    const missing = Array.from({ length: 12 }, (_, index) => fetchMissing(`${page}&m=${index}`))
    await wait(5000)
    await Promise.all(missing)
    const kinds = sent.slice(10).map(({ url }) => (url.includes('&m=') ? 'm' : 'u'))
    expect(kinds.slice(0, 24).join('')).toBe('mu'.repeat(12))
    expect(new Set(kinds.slice(24))).toEqual(new Set(['u']))
    // Each kind is sent in the order in which it came.
    expect(sent.flatMap(({ url }) => /&m=(\d+)/.exec(url)?.[1] ?? [])).toEqual(
      missing.map((_, index) => String(index)),
    )
    await wait(120_000)
    await Promise.all(users)
    expect(densest(sent.map(({ counted }) => counted))).toBe(10)
  })

  test('an aborted request for missing reports leaves its slot to the user, and the other way round', async () => {
    const { sent, ask, fetchMissing } = limit({ requests: 1 })
    void ask(`${page}&n=0`)
    const [missing, user] = [new AbortController(), new AbortController()]
    const given = [
      fetchMissing(`${page}&m=0`, missing.signal),
      ask(`${page}&n=1`, user.signal),
      fetchMissing(`${page}&m=1`),
      ask(`${page}&n=2`),
    ]
    const settled = Promise.allSettled(given)
    missing.abort(new Error('enough'))
    user.abort(new Error('enough'))
    await wait(5000)
    expect((await settled).map(({ status }) => status)).toEqual([
      'rejected',
      'rejected',
      'fulfilled',
      'fulfilled',
    ])
    expect(sent.map(({ url }) => url.slice(-1))).toEqual(['0', '1', '2'])
    expect(jest.getTimerCount()).toBe(0)
  })

  test('the service never counts eleven in a second, however long each is on its way', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 1500 }), fc.integer({ min: 0, max: 900 })), {
          minLength: 20,
          maxLength: 60,
        }),
        async delays => {
          let next = 0
          const { sent, ask } = limit(undefined, () => delays[next++] ?? [0, 0])
          const done = delays.map(() => ask())
          await wait(200_000)
          await Promise.all(done)
          expect(densest(sent.map(({ counted }) => counted))).toBeLessThanOrEqual(10)
        },
      ),
      randomRuns(5, 50),
    )
  })

  test('counts each endpoint for itself, whatever the query', async () => {
    const { sent, ask } = limit({ requests: 1 })
    void ask()
    void ask(`${page}&limit=5`)
    void ask('https://api.example/api/v1/feeds')
    await wait(1)
    expect(sent.map(({ url }) => url)).toEqual([page, 'https://api.example/api/v1/feeds'])
    await wait(1100)
    expect(sent).toHaveLength(3)
  })

  test('a request that fails counts, and the next goes out after it', async () => {
    const next = jest
      .fn<Handler>()
      .mockRejectedValueOnce(new Error('429'))
      .mockResolvedValue({ kind: 'request' } as never)
    const handler = rateLimit({ requests: 1, per: 100 }).attempt?.(next) as Handler
    const call = { kind: 'request', method: 'GET', url: page, signal: new AbortController().signal }
    const first = handler(call as never).catch((error: Error) => error.message)
    const second = handler(call as never)
    expect(await first).toBe('429')
    expect(next).toHaveBeenCalledTimes(1)
    await wait(101)
    await second
    expect(next).toHaveBeenCalledTimes(2)
  })

  test('a request without an answer does not delay the others for ever', async () => {
    const { sent, ask } = limit({ requests: 1 }, () => [60_000, 0])
    void ask()
    void ask()
    await wait(5000)
    expect(sent).toHaveLength(1)
    await wait(2000)
    expect(sent).toHaveLength(2)
  })

  test('an aborted request that waits rejects, and leaves its slot to the next', async () => {
    const { sent, ask } = limit({ requests: 1 })
    const controller = new AbortController()
    void ask()
    const waiting = ask(`${page}&n=1`, controller.signal).catch((error: Error) => error.message)
    void ask(`${page}&n=2`)
    controller.abort(new Error('enough'))
    expect(await waiting).toBe('enough')
    await wait(1100)
    expect(sent.map(({ url }) => url)).toEqual([page, `${page}&n=2`])
    await expect(ask(page, controller.signal)).rejects.toThrow('enough')
  })

  test('leaves no timer when no request waits', async () => {
    const { ask } = limit({ requests: 1 })
    const controller = new AbortController()
    void ask()
    const waiting = ask(page, controller.signal).catch(() => undefined)
    await wait(20)
    // That of the endpoint, and that of the request.
    expect(jest.getTimerCount()).toBe(2)
    controller.abort()
    await waiting
    expect(jest.getTimerCount()).toBe(0)
  })

  test('streams pass', async () => {
    const { sent, ask } = limit({ requests: 1 })
    for (let at = 0; at < 3; at++) void ask(page, new AbortController().signal, 'stream')
    await wait(1)
    expect(sent).toHaveLength(3)
  })

  test('clients that share it share no slots', async () => {
    const plugin = rateLimit({ requests: 1 })
    const next = jest.fn<Handler>(async () => ({ kind: 'request' }) as never)
    const call = { kind: 'request', method: 'GET', url: page, signal: new AbortController().signal }
    for (let at = 0; at < 2; at++) await plugin.attempt?.(next)(call as never)
    expect(next).toHaveBeenCalledTimes(2)
  })

  test.each([
    ['requests', 0],
    ['requests', 1.5],
    ['per', 0],
    ['per', Number.NaN],
  ])('rejects the option %s: %p by name', (option, value) => {
    expect(() => rateLimit({ [option]: value })).toThrow(new RegExp(option))
  })
})

test('equal requests share a reply until a second after it was asked for', async () => {
  const { sent, handler } = limit({}, () => [3000, 0])
  const scope = { log: {}, client: { find: () => undefined } }
  const facts = { operation: 'getLatestReport', method: 'GET', purpose: 'user', url: page, scope }
  const ask = () => {
    const { signal } = new AbortController()
    return handler({ ...facts, kind: 'request', headers: new Headers(), signal } as never)
  }
  const asked = [ask(), ask()]
  await wait(999)
  asked.push(ask())
  expect(sent).toHaveLength(1)
  await wait(2)
  asked.push(ask())
  await wait(10_000)
  expect(await Promise.all(asked)).toHaveLength(4)
  expect(sent).toHaveLength(2)
})

describe('an answer that asks to wait', () => {
  /** A wire that answers 429 to the first requests. */
  function throttled(waits: readonly number[]) {
    const left = [...waits]
    const sent: number[] = []
    const statuses: Status[] = []
    const wire = async () => {
      sent.push(performance.now())
      const retryAfter = left.shift()
      if (retryAfter !== undefined) throw new APIError('too many', { statusCode: 429, retryAfter })
      return { kind: 'request' }
    }
    const handler = rateLimit().attempt?.(wire as never) as Handler
    const parent = {
      kind: 'stream',
      events: { emit: (_event: string, status: Status) => void statuses.push(status) },
    }
    const ask = (url = page) => {
      const { signal } = new AbortController()
      const scope = { log: {}, client: { find: () => undefined } }
      const headers = new Headers()
      const facts = { operation: 'getReportsPage', method: 'GET', headers, scope, parent }
      return handler({ ...facts, kind: 'request', url, signal } as never)
    }
    return { sent, statuses, ask }
  }

  test('closes its endpoint for as long, however many ask, and is a status', async () => {
    const { sent, statuses, ask } = throttled([90_000])
    await expect(ask()).rejects.toMatchObject({ statusCode: 429, retryAfter: 90_000 })
    await wait(30_000)
    for (let count = 0; count < 60; count++)
      await expect(ask(`${page}&n=${count}`)).rejects.toMatchObject({
        statusCode: 429,
        retryAfter: 60_000,
        isRetryable: true,
      })
    expect(sent).toHaveLength(1)
    expect(statuses).toEqual([{ type: 'throttled', path: '/api/v1/reports/page', delayMs: 90_000 }])
    await wait(60_000)
    await ask()
    expect(sent).toHaveLength(2)
  })

  test('leaves other endpoints open', async () => {
    const { sent, ask } = throttled([90_000])
    await expect(ask()).rejects.toThrow('too many')
    await ask('https://api.example/api/v1/reports/latest?feedID=0x1')
    expect(sent).toHaveLength(2)
  })

  test('holds for an hour at most', async () => {
    const { sent, ask } = throttled([86_400_000])
    await expect(ask()).rejects.toMatchObject({ retryAfter: 86_400_000 })
    await wait(3_600_001)
    await ask()
    expect(sent).toHaveLength(2)
  })
})
