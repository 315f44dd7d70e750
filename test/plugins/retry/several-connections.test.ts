import { describe, expect, jest, test } from '@jest/globals'
import type { Handler } from '../../../client/contract/plugin.js'
import { AuthenticationError, DataStreamsError, retry, WebSocketError } from '../../../index.js'
import { ended, refused, run, streamCall } from '../../support/plugins/retry.js'

describe('a stream of several connections', () => {
  test('is probed slowly, and never given up, while others carry it', async () => {
    const { call, siblings, controller } = streamCall()
    siblings.become(1)
    const { attempts, done } = run(call, [refused])
    await jest.advanceTimersByTimeAsync(600_000)
    expect(attempts.slice(0, 6)).toEqual([0, 1000, 3000, 7000, 15_000, 25_000])
    expect(attempts.length).toBeGreaterThan(20)
    expect(attempts.length).toBeLessThanOrEqual(60)
    controller.abort()
    await done
    expect(jest.getTimerCount()).toBe(0)
    expect(siblings.watchers).toBe(0)
  })

  test('is not probed before the Retry-After of the service', async () => {
    const busy = new WebSocketError('x', {
      code: 'WS_REFUSED',
      statusCode: 503,
      retryAfter: 45_000,
    })
    const { call, siblings, controller } = streamCall({ maxReconnectAttempts: 1 })
    siblings.become(1)
    const { attempts, done } = run(call, [busy], { random: () => 0 })
    await jest.advanceTimersByTimeAsync(200_000)
    expect(attempts).toEqual([0, 45_000, 90_000, 135_000, 180_000])
    controller.abort()
    await done
  })

  test('is probed even after an error that is not retryable, but not alone', async () => {
    const fatal = new DataStreamsError('x', { code: 'PLUGIN' })
    const { call, siblings } = streamCall()
    siblings.become(1)
    const { attempts, result, done } = run(call, [fatal])
    await jest.advanceTimersByTimeAsync(31_000)
    expect(attempts).toEqual([0, 30_000])
    siblings.become(0)
    await jest.advanceTimersByTimeAsync(0)
    await done
    expect(attempts).toHaveLength(3)
    expect(result.error).toBe(fatal)
  })

  test('is tried at once, with all its attempts, when the last of the others is lost', async () => {
    const { call, siblings, controller } = streamCall({ maxReconnectAttempts: 2 })
    siblings.become(1)
    const { attempts, result, done } = run(call, [refused])
    await jest.advanceTimersByTimeAsync(100_000)
    const before = attempts.length
    siblings.become(0)
    await jest.advanceTimersByTimeAsync(0)
    expect(attempts.length).toBe(before + 1)
    await jest.advanceTimersByTimeAsync(3000)
    await done
    expect(attempts.length).toBe(before + 3)
    expect(result.error).toMatchObject({ code: 'WS_GAVE_UP' })
    controller.abort()
  })

  const locked = new AuthenticationError('x', { statusCode: 401 })

  test('is tried at once when another has carried it and is lost, though it was alone when it began to wait', async () => {
    const { call, siblings, controller } = streamCall()
    const { attempts, done } = run(call, [ended(2000), locked])
    await jest.advanceTimersByTimeAsync(5000)
    siblings.become(1)
    await jest.advanceTimersByTimeAsync(5000)
    expect(attempts).toEqual([0, 1000, 3000])
    siblings.become(0)
    await jest.advanceTimersByTimeAsync(0)
    expect(attempts).toEqual([0, 1000, 3000, 10_000])
    controller.abort()
    await done
    expect(jest.getTimerCount()).toBe(0)
    expect(siblings.watchers).toBe(0)
  })

  test('is not tried at once for one that did not last, or for none at all', async () => {
    const { call, siblings, controller } = streamCall()
    const { attempts, done } = run(call, [ended(2000), locked])
    await jest.advanceTimersByTimeAsync(5000)
    siblings.become(0)
    siblings.become(1)
    await jest.advanceTimersByTimeAsync(1900)
    siblings.become(0)
    await jest.advanceTimersByTimeAsync(60_000)
    expect(attempts).toEqual([0, 1000, 3000])
    controller.abort()
    await done
  })

  test('is tried no earlier than the service has asked, and no later than that when it is needed', async () => {
    const asked = new AuthenticationError('x', { statusCode: 403, retryAfter: 20_000 })
    const { call, siblings, controller } = streamCall()
    siblings.become(1)
    const { attempts, done } = run(call, [asked])
    await jest.advanceTimersByTimeAsync(23_000)
    expect(attempts).toEqual([0, 22_000])
    siblings.become(0)
    await jest.advanceTimersByTimeAsync(20_500)
    expect(attempts).toHaveLength(2)
    await jest.advanceTimersByTimeAsync(1000)
    expect(attempts).toEqual([0, 22_000, 44_000])
    controller.abort()
    await done
  })

  test('is not given up for a rejection while none is open, if one has been', async () => {
    const { call, siblings, controller, statuses } = streamCall()
    const { attempts, result, done } = run(call, [refused, refused, locked])
    siblings.become(1)
    siblings.become(0)
    await jest.advanceTimersByTimeAsync(10_000)
    expect(attempts.length).toBeGreaterThan(3)
    expect(result.error).toBeUndefined()
    expect(statuses.map(({ type }) => type)).toContain('degraded')
    controller.abort()
    await done
  })

  test('knows that it was accepted before the connection was first tried', async () => {
    const { call, siblings, controller } = streamCall()
    const plugin = retry({ random: () => 1 })
    const connect = (wire: Handler) =>
      plugin
        .call?.(wire)(call)
        .catch(error => error as Error)
    void connect(() => new Promise(() => undefined))
    siblings.become(1)
    siblings.become(0)
    let attempts = 0
    void connect(async () => {
      attempts++
      throw locked
    })
    await jest.advanceTimersByTimeAsync(1000)
    expect(attempts).toBe(2)
    controller.abort()
    const other = run(streamCall().call, [locked])
    await other.done
    expect(other.result.error).toBe(locked)
  })
})
