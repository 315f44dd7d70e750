import { describe, expect, jest, test } from '@jest/globals'
import { AuthenticationError, type Status, WebSocketError } from '../../../index.js'
import { ended, refused, run, streamCall } from '../../support/plugins/retry.js'

describe('a stream that was accepted and is then rejected', () => {
  const locked = new AuthenticationError('x', { statusCode: 401 })
  const degradedOf = (statuses: readonly Status[]) =>
    statuses.filter(({ type }) => type === 'degraded')

  test('is tried once more as usual, then rarely, and given up as usual', async () => {
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
  ])('is never tried earlier: %p', async (options, interval) => {
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

  test('once is not reported', async () => {
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

  test('is reported as degraded again after it was open in between', async () => {
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

  test('is tried rarely for ever while others carry it, whether it was open itself or not', async () => {
    for (const outcomes of [[locked], [ended(2000), locked]]) {
      const { call, siblings, controller, statuses } = streamCall({ maxReconnectAttempts: 2 })
      siblings.become(1)
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
