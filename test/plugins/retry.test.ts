import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Handler, Reply, StreamScope } from '../../client/types.js'
import {
  APIError,
  AuthenticationError,
  type Call,
  DataStreamsError,
  retry,
  type Status,
  WebSocketError,
} from '../../index.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const scopeFacts = {
  log: {},
  feedIDs: [],
  verifier: undefined,
  defer: () => undefined,
  wait: () => undefined,
  fail: () => undefined,
}

function requestCall(signal = new AbortController().signal): Call {
  return {
    kind: 'request',
    operation: 'listFeeds',
    method: 'GET',
    url: 'https://api.example/x',
    headers: new Headers(),
    signal,
    scope: { ...scopeFacts, kind: 'request', signal },
  }
}

function streamCall(reconnect: { maxReconnectAttempts?: number; reconnectInterval?: number } = {}) {
  const controller = new AbortController()
  const { signal } = controller
  const statuses: Status[] = []
  const company = {
    open: 0,
    watchers: new Set<(status: Status) => void>(),
    become(open: number): void {
      company.open = open
      for (const watcher of company.watchers) watcher({} as Status)
    },
  }
  const scope: StreamScope = {
    ...scopeFacts,
    kind: 'stream',
    signal,
    uncovered: [],
    cursors: new Map(),
    fetchPage: async () => [],
    listFeeds: async () => [],
    receive: () => undefined,
    room: async () => undefined,
    hold: () => ({ leaks: false, release: () => undefined }),
    judge: undefined,
    appoint: () => undefined,
    gap: () => undefined,
    vacant: () => undefined,
    reconnect: { maxReconnectAttempts: 5, reconnectInterval: 1000, ...reconnect },
    urls: [],
    get activeConnections() {
      return company.open
    },
    count: () => undefined,
    watch(listener) {
      company.watchers.add(listener)
      return () => void company.watchers.delete(listener)
    },
    conflict: () => undefined,
    deny: () => undefined,
    beforeFailure: () => undefined,
    now: Date.now,
    status: status => void statuses.push(status),
    open: () => Promise.reject(new Error('unused')),
  }
  const url = 'wss://ws.example/x'
  const call: Call = {
    kind: 'stream',
    operation: 'stream',
    method: 'GET',
    url,
    headers: new Headers(),
    signal,
    scope,
  }
  return { call, controller, statuses, company }
}

/** Runs a call through retry; when each attempt was made, and what came of it in the end. */
function run(call: Call, outcomes: (Reply | Error)[], options: Parameters<typeof retry>[0] = {}) {
  const attempts: number[] = []
  const started = performance.now()
  const wire: Handler = async () => {
    attempts.push(Math.round(performance.now() - started))
    const outcome = outcomes[Math.min(attempts.length, outcomes.length) - 1] as Reply | Error
    if (outcome instanceof Error) throw outcome
    return outcome
  }
  const handler = retry({ random: () => 1, ...options }).call?.(wire) as Handler
  const result: { value?: unknown; error?: unknown } = {}
  const done = handler(call).then(
    value => void Object.assign(result, { value }),
    error => void Object.assign(result, { error }),
  )
  return { attempts, result, done }
}

const ok: Reply = { kind: 'request', status: 200, headers: new Headers(), body: new Uint8Array() }
const status = (statusCode: number, retryAfter?: number) =>
  new APIError('x', { statusCode, retryAfter })
const ended = (lasted: number): Reply => ({
  kind: 'stream',
  lasted,
  error: new WebSocketError('closed'),
})
const refused = new WebSocketError('x', { code: 'WS_DIAL' })

describe('a request', () => {
  test('is tried 3 more times by default, the delay before try n being 1000 · 2^(n-1)', async () => {
    const { attempts, result, done } = run(requestCall(), [status(500)])
    await jest.runAllTimersAsync()
    await done
    expect(attempts).toEqual([0, 1000, 3000, 7000])
    expect(result.error).toMatchObject({ statusCode: 500 })
  })

  test('waits at most 10 s, and a random half less', async () => {
    const long = run(requestCall(), [status(500)], { attempts: 6 })
    await jest.runAllTimersAsync()
    await long.done
    expect(long.attempts).toEqual([0, 1000, 3000, 7000, 15_000, 25_000, 35_000])
    const half = run(requestCall(), [status(500)], { random: () => 0 })
    await jest.runAllTimersAsync()
    await half.done
    expect(half.attempts).toEqual([0, 500, 1500, 3500])
  })

  test.each([
    ['429', status(429), true],
    ['500', status(500), true],
    ['503', status(503), true],
    ['599', status(599), true],
    ['a network error', new APIError('x', { code: 'API_NETWORK' }), true],
    ['a timeout', new APIError('x', { code: 'API_TIMEOUT' }), true],
    ['400', status(400), false],
    ['404', status(404), false],
    ['408', status(408), false],
    ['a redirect', status(302), false],
    [
      'an answer that is not what was promised',
      new APIError('x', { code: 'API_RESPONSE', statusCode: 200 }),
      false,
    ],
    ['somebody else’s error', new TypeError('x'), false],
  ])('after %s: tried again is %p', async (_name, error, isRetried) => {
    const { attempts, result, done } = run(requestCall(), [error as Error, ok])
    await jest.runAllTimersAsync()
    await done
    expect(attempts).toHaveLength(isRetried ? 2 : 1)
    expect(isRetried ? result.value : result.error).toBe(isRetried ? ok : error)
  })

  test('waits as long as the service asks, up to maxRetryAfter', async () => {
    const asked = run(requestCall(), [status(429, 30_000), ok])
    await jest.runAllTimersAsync()
    await asked.done
    // A tenth more at most, so that those who were asked together don't come back together.
    expect(asked.attempts).toEqual([0, 33_000])
    const tooLong = run(requestCall(), [status(429, 61_000), ok])
    await jest.runAllTimersAsync()
    await tooLong.done
    expect(tooLong.attempts).toEqual([0])
    expect(tooLong.result.error).toMatchObject({ retryAfter: 61_000 })
  })

  test.each([0, 1])(
    'never waits less than its own delay, whatever Retry-After says: %d ms',
    async retryAfter => {
      const { attempts, done } = run(requestCall(), [status(503, retryAfter)])
      await jest.runAllTimersAsync()
      await done
      expect(attempts).toEqual([0, 1000, 3000, 7000])
    },
  )

  test('ends with the reason of its signal while it waits, and leaves no timer', async () => {
    const controller = new AbortController()
    const { attempts, result, done } = run(requestCall(controller.signal), [status(500)])
    await jest.advanceTimersByTimeAsync(1500)
    controller.abort('enough')
    await done
    expect(attempts).toEqual([0, 1000])
    expect(result.error).toBe('enough')
    expect(jest.getTimerCount()).toBe(0)
  })
})

describe('a stream', () => {
  test('is dialled 5 more times by default, then it is over', async () => {
    const { call, statuses } = streamCall()
    const { attempts, result, done } = run(call, [refused])
    await jest.runAllTimersAsync()
    await done
    expect(attempts).toEqual([0, 1000, 3000, 7000, 15_000, 25_000])
    expect(result.error).toMatchObject({ code: 'WS_GAVE_UP', cause: refused })
    expect(
      statuses.map(({ type, ...rest }) => [type, (rest as { attempt?: number }).attempt]),
    ).toEqual([1, 2, 3, 4, 5].map(attempt => ['reconnecting', attempt]))
  })

  test('waits no longer than maxRetryAfter, however long the service asks it to, and does not give up for it', async () => {
    const { call } = streamCall({ maxReconnectAttempts: 2 })
    const busy = new WebSocketError('x', {
      code: 'WS_REFUSED',
      statusCode: 429,
      retryAfter: 86_400_000,
    })
    const { attempts, done } = run(call, [busy])
    await jest.runAllTimersAsync()
    await done
    expect(attempts).toEqual([0, 60_000, 120_000])
  })

  test('with Infinity attempts is dialled through an outage of any length, and is back', async () => {
    const { call, controller } = streamCall({ maxReconnectAttempts: Number.POSITIVE_INFINITY })
    const started = performance.now()
    const attempts: number[] = []
    let isOpen = false
    const wire: Handler = async () => {
      const at = performance.now() - started
      attempts.push(at)
      if (at < 21_600_000) throw refused
      isOpen = true
      return new Promise<Reply>(() => undefined)
    }
    void retry({ random: () => 1 }).call?.(wire)(call)
    await jest.advanceTimersByTimeAsync(60_000)
    expect(attempts.length).toBe(9)
    await jest.advanceTimersByTimeAsync(21_600_000)
    expect(isOpen).toBe(true)
    expect(attempts.length).toBeLessThanOrEqual(21_600 / 10 + 5)
    controller.abort()
  })

  test('never waits longer than 10 s', async () => {
    const { call } = streamCall({ reconnectInterval: 10_000, maxReconnectAttempts: 3 })
    const { attempts, done } = run(call, [refused])
    await jest.runAllTimersAsync()
    await done
    expect(attempts).toEqual([0, 10_000, 20_000, 30_000])
  })

  test('counts anew only after a connection that lasted', async () => {
    const { call } = streamCall({ maxReconnectAttempts: 2 })
    const flapping = run(call, [ended(100)])
    await jest.runAllTimersAsync()
    await flapping.done
    expect(flapping.attempts).toHaveLength(3)
    const healthy = streamCall({ maxReconnectAttempts: 2 })
    const { attempts } = run(healthy.call, [
      refused,
      refused,
      ended(2000),
      refused,
      ended(60_000),
      refused,
      refused,
      refused,
    ])
    await jest.advanceTimersByTimeAsync(60_000)
    expect(attempts.length).toBe(7)
  })

  test('is not dialled again after a refusal that no waiting mends', async () => {
    const fatal = new WebSocketError('x', { code: 'WS_REFUSED', statusCode: 400 })
    const { call } = streamCall()
    const { attempts, result, done } = run(call, [fatal])
    await jest.runAllTimersAsync()
    await done
    expect(attempts).toHaveLength(1)
    expect(result.error).toBe(fatal)
  })

  test('that was closed ends without another dial', async () => {
    const { call, controller } = streamCall()
    const { attempts, done } = run(call, [refused])
    await jest.advanceTimersByTimeAsync(500)
    controller.abort(new Error('closed'))
    await done
    expect(attempts).toHaveLength(1)
    expect(jest.getTimerCount()).toBe(0)
  })
})

describe('a stream that was let in and is refused', () => {
  const locked = new AuthenticationError('x', { statusCode: 401 })
  const degradedOf = (statuses: readonly Status[]) =>
    statuses.filter(({ type }) => type === 'degraded')

  test('is dialled once more as always, then once in a while, and given up as always', async () => {
    const { call, statuses } = streamCall()
    const { attempts, result, done } = run(call, [ended(2000), locked])
    await jest.runAllTimersAsync()
    await done
    // A tenth more at most.
    expect(attempts).toEqual([0, 1000, 3000, 69_000, 135_000, 201_000])
    expect(result.error).toMatchObject({ code: 'WS_GAVE_UP', cause: locked })
    expect(degradedOf(statuses)).toEqual([
      {
        type: 'degraded',
        origin: 'wss://ws.example',
        host: 'ws.example',
        delayMs: 66_000,
        error: locked,
      },
    ])
    expect(statuses.map(({ type }) => type).slice(0, 4)).toEqual([
      'reconnecting',
      'reconnecting',
      'degraded',
      'reconnecting',
    ])
  })

  test.each([
    [{}, 60_000],
    [{ refusedInterval: 5000 }, 5000],
    [{ refusedInterval: 2_147_483_647 }, 2_147_483_647],
  ])('is never dialled sooner: %p', async (options, interval) => {
    for (const random of [0, 0.999]) {
      const { call, controller, statuses } = streamCall()
      const { attempts, done } = run(call, [ended(2000), locked], {
        random: () => random,
        ...options,
      })
      await jest.advanceTimersByTimeAsync(4000)
      expect(attempts).toHaveLength(3)
      const { delayMs } = degradedOf(statuses)[0] as { delayMs: number }
      expect(delayMs).toBeGreaterThanOrEqual(interval)
      expect(delayMs).toBeLessThanOrEqual(Math.min(1.1 * interval, 2_147_483_647))
      controller.abort()
      await done
    }
  })

  test('once is a blip: nothing is announced', async () => {
    const { call, statuses, controller } = streamCall()
    const outcomes = [
      ended(2000),
      locked,
      ended(2000),
      locked,
      ended(2000),
      refused,
      locked,
      refused,
    ]
    const { attempts, done } = run(call, outcomes)
    await jest.advanceTimersByTimeAsync(10_000)
    expect(attempts.length).toBeGreaterThan(5)
    expect(degradedOf(statuses)).toEqual([])
    controller.abort()
    await done
  })

  test('is announced as degraded again after it was open in between', async () => {
    const { call, statuses, controller } = streamCall()
    const outcomes = [ended(2000), locked, locked, locked, ended(2000), locked, locked]
    const { done } = run(call, outcomes, { refusedInterval: 10 })
    await jest.advanceTimersByTimeAsync(60_000)
    expect(degradedOf(statuses)).toHaveLength(2)
    controller.abort()
    await done
  })

  test('waits longer where the service asks for it', async () => {
    const { call, controller } = streamCall()
    const asked = new WebSocketError('x', {
      code: 'WS_REFUSED',
      statusCode: 403,
      retryAfter: 30_000,
    })
    const { attempts, done } = run(call, [ended(2000), asked], { refusedInterval: 10_000 })
    await jest.advanceTimersByTimeAsync(110_000)
    expect(attempts).toEqual([0, 1000, 34_000, 67_000, 100_000])
    controller.abort()
    await done
  })

  test('is dialled so for ever while others carry it, whether it was open itself or not', async () => {
    for (const outcomes of [[locked], [ended(2000), locked]]) {
      const { call, company, controller, statuses } = streamCall({ maxReconnectAttempts: 2 })
      company.open = 1
      const { attempts, done } = run(call, outcomes)
      await jest.advanceTimersByTimeAsync(3_600_000)
      expect(attempts.length).toBeGreaterThan(50)
      expect(attempts.length).toBeLessThanOrEqual(63)
      expect(attempts.filter(ms => ms > 0 && ms <= 60_000).length).toBeLessThanOrEqual(2)
      expect(degradedOf(statuses)).toHaveLength(1)
      controller.abort()
      await done
      expect(jest.getTimerCount()).toBe(0)
    }
  })
})

describe('a stream of several connections', () => {
  test('is probed slowly, and never given up, while others carry it', async () => {
    const { call, company, controller } = streamCall()
    company.open = 1
    const { attempts, done } = run(call, [refused])
    await jest.advanceTimersByTimeAsync(600_000)
    expect(attempts.slice(0, 6)).toEqual([0, 1000, 3000, 7000, 15_000, 25_000])
    expect(attempts.length).toBeGreaterThan(20)
    expect(attempts.length).toBeLessThanOrEqual(60)
    controller.abort()
    await done
    expect(jest.getTimerCount()).toBe(0)
    expect(company.watchers.size).toBe(0)
  })

  test('is not probed before the service wants it', async () => {
    const busy = new WebSocketError('x', {
      code: 'WS_REFUSED',
      statusCode: 503,
      retryAfter: 45_000,
    })
    const { call, company, controller } = streamCall({ maxReconnectAttempts: 1 })
    company.open = 1
    const { attempts, done } = run(call, [busy], { random: () => 0 })
    await jest.advanceTimersByTimeAsync(200_000)
    expect(attempts).toEqual([0, 45_000, 90_000, 135_000, 180_000])
    controller.abort()
    await done
  })

  test('is probed even after an error that no waiting mends, but not alone', async () => {
    const fatal = new DataStreamsError('x', { code: 'PLUGIN' })
    const { call, company } = streamCall()
    company.open = 1
    const { attempts, result, done } = run(call, [fatal])
    await jest.advanceTimersByTimeAsync(31_000)
    expect(attempts).toEqual([0, 30_000])
    company.become(0)
    await jest.advanceTimersByTimeAsync(0)
    await done
    expect(attempts).toHaveLength(3)
    expect(result.error).toBe(fatal)
  })

  test('is dialled at once, with all its attempts, when the last of the others is lost', async () => {
    const { call, company, controller } = streamCall({ maxReconnectAttempts: 2 })
    company.open = 1
    const { attempts, result, done } = run(call, [refused])
    await jest.advanceTimersByTimeAsync(100_000)
    const before = attempts.length
    company.become(0)
    await jest.advanceTimersByTimeAsync(0)
    expect(attempts.length).toBe(before + 1)
    await jest.advanceTimersByTimeAsync(3000)
    await done
    expect(attempts.length).toBe(before + 3)
    expect(result.error).toMatchObject({ code: 'WS_GAVE_UP' })
    controller.abort()
  })

  const locked = new AuthenticationError('x', { statusCode: 401 })

  test('is dialled at once when another has carried it and is lost, though it was alone when it began to wait', async () => {
    const { call, company, controller } = streamCall()
    const { attempts, done } = run(call, [ended(2000), locked])
    await jest.advanceTimersByTimeAsync(5000)
    company.become(1)
    await jest.advanceTimersByTimeAsync(5000)
    expect(attempts).toEqual([0, 1000, 3000])
    company.become(0)
    await jest.advanceTimersByTimeAsync(0)
    expect(attempts).toEqual([0, 1000, 3000, 10_000])
    controller.abort()
    await done
    expect(jest.getTimerCount()).toBe(0)
    expect(company.watchers.size).toBe(0)
  })

  test('is not dialled at once for one that did not last, or for none at all', async () => {
    const { call, company, controller } = streamCall()
    const { attempts, done } = run(call, [ended(2000), locked])
    await jest.advanceTimersByTimeAsync(5000)
    company.become(0)
    company.become(1)
    await jest.advanceTimersByTimeAsync(1900)
    company.become(0)
    await jest.advanceTimersByTimeAsync(60_000)
    expect(attempts).toEqual([0, 1000, 3000])
    controller.abort()
    await done
  })

  test('is dialled no sooner than the service has asked, and no later than that when it is needed', async () => {
    const asked = new AuthenticationError('x', { statusCode: 403, retryAfter: 20_000 })
    const { call, company, controller } = streamCall()
    company.open = 1
    const { attempts, done } = run(call, [asked])
    await jest.advanceTimersByTimeAsync(23_000)
    expect(attempts).toEqual([0, 22_000])
    company.become(0)
    await jest.advanceTimersByTimeAsync(20_500)
    expect(attempts).toHaveLength(2)
    await jest.advanceTimersByTimeAsync(1000)
    expect(attempts).toEqual([0, 22_000, 44_000])
    controller.abort()
    await done
  })

  test('is not given up for a refusal in a moment when none is open, if one has been', async () => {
    const { call, company, controller, statuses } = streamCall()
    const { attempts, result, done } = run(call, [refused, refused, locked])
    company.become(1)
    company.become(0)
    await jest.advanceTimersByTimeAsync(10_000)
    expect(attempts.length).toBeGreaterThan(3)
    expect(result.error).toBeUndefined()
    expect(statuses.map(({ type }) => type)).toContain('degraded')
    controller.abort()
    await done
  })

  test('knows that it was let in before the connection was first dialled', async () => {
    const { call, company, controller } = streamCall()
    const plugin = retry({ random: () => 1 })
    const connect = (wire: Handler) =>
      plugin
        .call?.(wire)(call)
        .catch(error => error as Error)
    void connect(() => new Promise(() => undefined))
    company.become(1)
    company.become(0)
    let dials = 0
    void connect(async () => {
      dials++
      throw locked
    })
    await jest.advanceTimersByTimeAsync(1000)
    expect(dials).toBe(2)
    controller.abort()
    const stranger = run(streamCall().call, [locked])
    await stranger.done
    expect(stranger.result.error).toBe(locked)
  })
})

test.each([
  ['attempts', -1],
  ['attempts', 0.5],
  ['delay', Number.NaN],
  ['maxDelay', 1e12],
  ['healthyAfter', -1],
  ['refusedInterval', 0],
  ['refusedInterval', 1e12],
])('the option %s: %p is refused by name', (option, value) => {
  expect(() => retry({ [option]: value })).toThrow(new RegExp(option))
})

test('one retry in two stacks keeps their counts apart', async () => {
  const plugin = retry({ random: () => 1, attempts: 1 })
  const counts = [0, 0]
  const handlers = counts.map((_, index) =>
    plugin.call?.(async () => {
      counts[index] = (counts[index] ?? 0) + 1
      throw status(500)
    }),
  )
  const both = Promise.allSettled(handlers.map(handler => handler?.(requestCall())))
  await jest.runAllTimersAsync()
  await both
  expect(counts).toEqual([2, 2])
})
