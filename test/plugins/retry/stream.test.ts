import { describe, expect, jest, test } from '@jest/globals'
import type { Reply } from '../../../client/contract/call.js'
import type { Handler } from '../../../client/contract/plugin.js'
import { retry, WebSocketError } from '../../../index.js'
import { ended, refused, run, streamCall } from '../../support/plugins/retry.js'

describe('a stream', () => {
  test('that ends while the code for reconnections is loaded sends no attempt', async () => {
    const { call, controller } = streamCall()
    const { attempts, done } = run(call, [refused])
    controller.abort(new Error('the stream was closed'))
    await jest.runAllTimersAsync()
    await done
    expect(attempts).toEqual([])
  })

  test('connects 5 more times by default, then it ends', async () => {
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

  test('with Infinity attempts connects through an outage of any length, and is back', async () => {
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

  test('does not connect again after a rejection that waiting does not change', async () => {
    const fatal = new WebSocketError('x', { code: 'WS_REFUSED', statusCode: 400 })
    const { call } = streamCall()
    const { attempts, result, done } = run(call, [fatal])
    await jest.runAllTimersAsync()
    await done
    expect(attempts).toHaveLength(1)
    expect(result.error).toBe(fatal)
  })

  test('that was closed ends without another attempt', async () => {
    const { call, controller } = streamCall()
    const { attempts, done } = run(call, [refused])
    await jest.advanceTimersByTimeAsync(500)
    controller.abort(new Error('closed'))
    await done
    expect(attempts).toHaveLength(1)
    expect(jest.getTimerCount()).toBe(0)
  })
})
