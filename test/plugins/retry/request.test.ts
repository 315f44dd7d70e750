import { describe, expect, jest, test } from '@jest/globals'
import { APIError, retry } from '../../../index.js'
import { ok, requestCall, run, status } from '../../support/plugins/retry.js'

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
      'an answer of another type',
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
    // A tenth more at most, so that clients that were asked together don't come back together.
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

test.each([
  ['attempts', -1],
  ['attempts', 0.5],
  ['delay', Number.NaN],
  ['maxDelay', 1e12],
  ['healthyAfter', -1],
  ['refusedInterval', 0],
  ['refusedInterval', 1e12],
])('the option %s: %p is rejected by name', (option, value) => {
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
